"""Where a server listens and by which certificates, checked before a client comes."""

from __future__ import annotations

import contextlib
import socket
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509

from fedol.errors import InputError


@dataclass(frozen=True)
class Address:
    """Where to listen, and by which certificates; without one only on this machine, and in the open."""

    host: str
    port: int
    cert: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None

    @classmethod
    def parse(cls, listen: str, cert: Path | None, key: Path | None, client_ca: Path | None, insecure: bool) -> Address:
        """From the command line, with everything about it that can be wrong before a client comes."""
        host, colon, port = listen.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65_536):
            raise InputError(f"'{listen}' is not HOST:PORT to listen at; write for instance 0.0.0.0:8443.")
        if insecure:
            if cert or key or client_ca:
                raise InputError("--insecure means no certificates; leave it out, or --cert, --key and --client-ca.")
            if not loopback(host):
                raise InputError(f"--insecure is for this machine alone, and '{host}' is not: give --cert and --key.")
        elif not (cert and key):
            raise InputError("Clients send over TLS: give --cert and --key (or, to try it on 127.0.0.1, --insecure).")
        return cls(host, int(port), cert, key, client_ca)

    def context(self) -> ssl.SSLContext | None:
        """How TLS is spoken here."""
        if self.cert is None or self.key is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _check_certificate(self.cert)
        try:
            context.load_cert_chain(self.cert, self.key, password=_no_password(self.key))
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise InputError(
                    f"{self.key} is not the key of {self.cert}; give the two that belong together."
                ) from None
            raise InputError(f"{self.key} is not a private key that can be read ({error.reason or error}).") from None
        except OSError as error:
            raise InputError(f"The key {self.key} cannot be read ({error.strerror}).") from None
        if self.client_ca:
            try:
                context.load_verify_locations(self.client_ca)
            except (ssl.SSLError, OSError) as error:
                raise InputError(f"{self.client_ca} holds no certificates that can be read ({error}).") from None
            context.verify_mode = ssl.CERT_OPTIONAL  # who has none may have a token, or only look
        return context

    def bind(self) -> socket.socket:
        """The socket; taken here, so that one that is in use is a sentence and no thread that dies."""
        try:
            family, *_, where = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            return socket.create_server(where[:2], family=family, backlog=512)
        except OSError as error:
            raise InputError(
                f"Nothing can listen at {self.host}:{self.port} ({error.strerror or error}); choose another --listen."
            ) from None


def loopback(host: str) -> bool:
    """Whether a host is this machine, as only itself reaches it."""
    with contextlib.suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def _check_certificate(path: Path) -> None:
    try:
        ends = x509.load_pem_x509_certificates(path.read_bytes())[0].not_valid_after_utc
    except OSError as error:
        raise InputError(f"The certificate {path} cannot be read ({error.strerror}).") from None
    except (ValueError, IndexError):
        raise InputError(f"{path} is not a certificate in PEM.") from None
    if ends < datetime.now(UTC):
        raise InputError(f"The certificate {path} expired on {ends:%Y-%m-%d}, and no client would trust it; renew it.")


def _no_password(key: Path) -> Any:
    def refuse() -> str:
        raise InputError(f"The key {key} asks for a password, which a server cannot type; give it without one.")

    return refuse
