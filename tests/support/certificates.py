"""An authority of the tests' own, and certificates by it: good ones, expired ones, of another."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fedol.federation.deploy import Authority, write_certificate, write_key


def issue(folder: Path, name: str, by: Authority, *hosts: str, days: int = 30) -> tuple[Path, Path]:
    """Certificate and key: of a server where hosts are given, else of a client of this name."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    usage = x509.oid.ExtendedKeyUsageOID.SERVER_AUTH if hosts else x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)]))
        .issuer_name(by.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=60))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.certificate.public_key()), critical=False)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    write_certificate(folder / f"{name}.crt", builder.sign(by.key, hashes.SHA256()))
    write_key(folder / f"{name}.pem", key)
    return folder / f"{name}.crt", folder / f"{name}.pem"


def _host(host: str) -> Any:
    from ipaddress import ip_address

    from cryptography import x509

    return x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
