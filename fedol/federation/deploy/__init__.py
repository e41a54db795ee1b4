"""A folder with all that a Flower federation over TLS needs; ``templates`` has the texts."""

from __future__ import annotations

import json
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from string import Template

from fedol.errors import FedolError, InputError
from fedol.federation.deploy.certificates import Authority, write_certificate, write_client_key, write_key
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
}
CLIENT = {"supernode.sh": "supernode.sh", "supernode.service": "fedol-supernode.service"}
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
    text = (files("fedol.federation.deploy") / "templates" / template).read_text(encoding="utf-8")
    return Filled(text).substitute(values)


def _write(path: Path, template: str, values: dict[str, str]) -> None:
    write_atomically(path, _text(template, values).encode())
    if path.suffix == ".sh":
        path.chmod(0o755)
