"""A real browser, and a run worth looking at."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
