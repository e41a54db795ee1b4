"""A real browser, and a run worth looking at."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import fedol

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --force-prefers-reduced-motion"
)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium; the tests that need it skip where the system has none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="browser tests need the package selenium")
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            pytest.skip(f"browser tests need the program {program} (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose labels change, differ and are sometimes wrong."""
    out = tmp_path_factory.mktemp("looked at") / "run"
    settings: dict[str, Any] = {
        "clients": 4,
        "partition": "dirichlet:0.3",
        "public": 100,
        "epochs": 6,
        "iterations": 3,
        "rho": 0.4,
    }
    return fedol.run(out=out, device="cpu", server_model="cnn", rho_step=0.2, **settings).out


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory, looked_at: Path) -> Path:
    """A federation by files: what the simulated clients sent, a constant answer, a copy, and a file that is none."""
    from fedol.data import load, split
    from fedol.federation.coordinator import Coordinator
    from fedol.federation.settings import ServerConfig
    from fedol.federation.taskfolder import TaskFolder
    from fedol.knowledge import Knowledge

    folder = tmp_path_factory.mktemp("served")
    data = split(load("digits"), 100, 0)
    task = fedol.Task.of(data.public, data.classes, name="digits <b>shared</b>")
    names = ("alice", "bob", "carol", "dave", "eve", "trent")
    files = []
    honest = [Knowledge.load(path).probabilities() for path in sorted((looked_at / "clients").glob("*.fedol"))]
    constant = torch.eye(10)[3].expand(100, 10)
    for name, probs in zip(names, [*honest, constant, honest[0]], strict=True):
        files.append(folder / f"{name}.fedol")
        Knowledge.from_probabilities(probs, task, name).save(files[-1])
    files.append(folder / "mallory.fedol")
    shutil.copy(looked_at / "summary.json", files[-1])
    settings = ServerConfig(task.id, "mlp", iterations=2, epochs=2, batch_size=32, device="cpu")
    coordinator = Coordinator(TaskFolder.create(folder / "task", task, data.public), settings, folder / "run")
    coordinator.collect(files)
    coordinator.run(test=data.test)
    return folder / "run"
