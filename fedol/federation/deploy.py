"""A folder with all that a Flower federation over TLS needs; ``templates`` has the texts.

Certificates and keys are made here: an authority of your own, the server's certificate, each client's OpenSSH key.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path
from string import Template
from typing import Any

from fedol.errors import FedolError, InputError
from fedol.files import private_folder, write_atomically
from fedol.settings import ServerSettings

SERVER = {
    "superlink.sh": "superlink.sh",
    "connection.sh": "connection.sh",
    "register.sh": "register.sh",
    "run.sh": "run.sh",
    "app.toml": "app/pyproject.toml",
    "nginx.conf": "nginx.conf",
    "superlink.service": "fedol-superlink.service",
    "serve.service": "fedol-serve.service",
}
CLIENT = {
    "supernode.sh": "supernode.sh",
    "supernode.service": "fedol-supernode.service",
    "policy.toml": "policy.toml",
}
THIS_MACHINE = ("localhost", "127.0.0.1")  # a server that only nodes of its own machine reach


class Filled(Template):
    """Templates of shell scripts are full of ``$``: ours are ``@NAME@``."""

    delimiter = "@"
    pattern = r"(?P<escaped>(?!))|@(?P<named>[A-Z_]+)@|(?P<braced>(?!))|(?P<invalid>(?!))"  # type: ignore[assignment]


def new_deployment(folder: Path, clients: int, host: str, port: int) -> list[str]:
    """Write it, and return the clients' names."""
    if folder.exists() and any(folder.iterdir()):
        raise FedolError(f"{folder} is not empty; its keys may be in use, so choose another folder.")
    if not 1 <= clients <= 1000:
        raise InputError(f"A deployment has 1 to 1000 clients, not {clients}.")
    names = [f"client-{number}" for number in range(1, clients + 1)]
    hosts = list(dict.fromkeys([host, "localhost", "127.0.0.1", "superlink"]))  # the last: in Compose
    behind = behind_proxy(port)
    control = port if host in THIS_MACHINE else behind  # where all nodes are here, nothing needs to be in front
    ports = {"PORT": str(port), "BEHIND": str(behind), "CONTROL": str(control)}
    values = {"HOST": host, **ports, "COUNT": str(clients), "NAMES": " ".join(names), "SETTINGS": _settings()}
    authority = Authority.new("FedOL federation")
    key, certificate = authority.server(hosts)
    for place in ("", "authority", "server", *names):
        private_folder(folder / place)
        _write(folder / place / ".gitignore", "gitignore", values)
    write_key(folder / "authority" / "ca.key", authority.key)
    write_key(folder / "server" / "server.key", key)
    write_certificate(folder / "server" / "server.crt", certificate)
    for place in ("authority", "server", *names):
        write_certificate(folder / place / "ca.crt", authority.certificate)
    for template, target in SERVER.items():
        _write(folder / "server" / target, template, values)
    for number, name in enumerate(names):
        write_client_key(folder / name / "client.key", folder / "server" / "keys" / f"{name}.pub")
        for template, target in CLIENT.items():
            _write(folder / name / target, template, {**values, "NAME": name, "LOCAL_PORT": str(9200 + number)})
    services = "".join(_text("service.yaml", {**values, "NAME": name}) for name in names)
    _write(folder / "compose.yaml", "compose.yaml", {**values, "SERVICES": services})
    _write(folder / "Dockerfile", "Dockerfile", values)
    _write(folder / "README.md", "README.md", values)
    return names


def behind_proxy(port: int) -> int:
    """Where the SuperLink listens, on its own machine only, when a proxy has the port that nodes know."""
    return port + 10_000 if port + 10_000 <= 65_535 else port - 10_000


def _settings() -> str:
    """Every setting of a server with its default, as TOML: Flower takes no other by ``--run-config``."""
    known = [item for item in fields(ServerSettings) if "help" in item.metadata]
    return "\n".join(f"{item.name.replace('_', '-')} = {json.dumps(item.default)}" for item in known)


def _text(template: str, values: dict[str, str]) -> str:
    text = (files("fedol.federation") / "templates" / template).read_text(encoding="utf-8")
    return Filled(text).substitute(values)


def _write(path: Path, template: str, values: dict[str, str]) -> None:
    write_atomically(path, _text(template, values).encode())
    if path.suffix == ".sh":
        path.chmod(0o755)


YEARS = (
    timedelta(days=3650),
    timedelta(days=825),
)  # of the authority, and of the server: longer ones some clients refuse
HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")  # it goes into certificates, scripts and settings


def _cryptography() -> Any:
    try:
        from cryptography import x509
    except ImportError:
        raise FedolError("Certificates need the package cryptography: pip install 'fedol[flower]'.") from None
    return x509


@dataclass(frozen=True)
class Authority:
    """A certificate authority: whoever has its key can pass for the server."""

    key: Any
    certificate: Any

    @classmethod
    def new(cls, name: str) -> Authority:
        """A fresh one."""
        x509 = _cryptography()
        key, subject = _new_key(), _name(name)
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = _builder(subject, subject, key.public_key(), YEARS[0])
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        return cls(key, _signed(builder.add_extension(usage, critical=True), key))

    def server(self, hosts: list[str]) -> tuple[Any, Any]:
        """Key and certificate of a server that is reached under these names and addresses."""
        x509 = _cryptography()
        key = _new_key()
        builder = _builder(_name(hosts[0]), self.certificate.subject, key.public_key(), YEARS[1])
        builder = builder.add_extension(x509.SubjectAlternativeName([_san(host) for host in hosts]), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        usage = x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH])
        return key, _signed(builder.add_extension(usage, critical=False), self.key)


def write_key(path: Path, key: Any) -> None:
    """A private key in PEM, readable by its owner alone."""
    from cryptography.hazmat.primitives import serialization as s

    _secret(path, key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()))


def write_certificate(path: Path, certificate: Any) -> None:
    """A certificate in PEM."""
    from cryptography.hazmat.primitives import serialization as s

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(certificate.public_bytes(s.Encoding.PEM))


def write_client_key(private: Path, public: Path) -> None:
    """A client's key as ``ssh-keygen -t ecdsa -b 384`` makes it: what Flower authenticates nodes by."""
    _cryptography()
    from cryptography.hazmat.primitives import serialization as s

    key = _new_key()
    _secret(private, key.private_bytes(s.Encoding.PEM, s.PrivateFormat.OpenSSH, s.NoEncryption()))
    public.parent.mkdir(parents=True, exist_ok=True)
    public.write_bytes(key.public_key().public_bytes(s.Encoding.OpenSSH, s.PublicFormat.OpenSSH) + b"\n")


def _secret(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP384R1())


def _name(name: str) -> Any:
    x509 = _cryptography()
    return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name[:64])])


def _san(host: str) -> Any:
    x509 = _cryptography()
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    if not HOST_NAME.fullmatch(host):
        raise InputError(f"'{host}' is not a host name or address.")
    return x509.DNSName(host)


def _builder(subject: Any, issuer: Any, public: Any, lasts: timedelta) -> Any:
    x509, now = _cryptography(), datetime.now(UTC)
    builder = x509.CertificateBuilder(issuer, subject, public, x509.random_serial_number())
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    return builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + lasts)


def _signed(builder: Any, key: Any) -> Any:
    from cryptography.hazmat.primitives import hashes

    # Since Python 3.13 a default TLS context refuses certificates that do not say whose key signed them (RFC 5280).
    signer = _cryptography().AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    return builder.add_extension(signer, critical=False).sign(key, hashes.SHA384())
