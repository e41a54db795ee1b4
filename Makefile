# Two commands do everything on a fresh machine: `make run` and `make test`.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

.PHONY: run test test-slow lint setup clean

run: $(VENV)/.ready
	$(BIN)/fedol run --out runs/quick

test: lint
	$(BIN)/pytest

test-slow: $(VENV)/.ready
	$(BIN)/pytest -m slow

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup: $(VENV)/.ready

# torch comes first: its pinned build decides what everything else resolves against.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) runs
