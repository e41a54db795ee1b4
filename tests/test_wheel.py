"""The wheel: everything is inside, and what it installs works where there is no checkout."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = "--clients 2 --partition iid --public 60 --client-models mlp --server-model mlp --width 4 --epochs 1"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("build", reason="needs the package build")
    setuptools = pytest.importorskip("setuptools", reason="needs the package setuptools")
    if int(setuptools.__version__.split(".")[0]) < 77:
        pytest.skip("needs setuptools 77 or later, which knows licence expressions")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"  # a copy: building leaves folders behind
    shutil.copytree(ROOT / "fedol", source / "fedol", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (found,) = folder.glob("*.whl")
    return found


def test_package_data_and_licence_are_inside(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    data = [p for p in (ROOT / "fedol").rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")]
    assert len(data) >= 6  # paper.json, and the page's templates, scripts and style
    for path in data:
        assert str(path.relative_to(ROOT)) in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests", "benchmarks", "examples")) for name in names)


def test_the_installed_program_works_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    target, work = tmp_path / "installed", tmp_path / "elsewhere"
    work.mkdir()
    # Its dependencies are those of this environment; only the package itself is installed anew.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    done = subprocess.run([*pip, str(wheel)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    environment = {**os.environ, "PYTHONPATH": str(target), "PYTHONSAFEPATH": "1"}
    program = [sys.executable, str(target / "bin" / "fedol")]
    command = [*program, "run", *OPTIONS.split(), "--device", "cpu", "--iterations", "1", "--out", "run", "--json"]
    run = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["provenance"]["commit"] is None  # indeed not the checkout's
    assert (work / "run" / "report.html").stat().st_size > 20_000
    where = [sys.executable, "-c", "import fedol.bench.summary as p; print(p.__file__); assert p.rounds"]
    asked = subprocess.run(where, cwd=work, env=environment, capture_output=True, text=True)
    assert asked.stdout.startswith(str(target)), asked.stderr
