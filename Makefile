# Two commands do everything on a fresh machine: `make run` and `make test`.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

.PHONY: run test test-slow lint docs tables setup clean

run: $(VENV)/.installed
	$(BIN)/fedol run --out runs/quick
	$(BIN)/fedol run --method union --beside runs/quick --out runs/union

# Two processes for two cores; more threads of torch would stand in each other's way.
test: lint docs
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

test-slow: $(VENV)/.ready
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# A page that is in no menu, a link that leads nowhere or a name without its docstring is an error; with --quiet it is none.
docs: $(VENV)/.ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Reports, tables and figures of the documents, from the published records; a test checks that this changes nothing.
tables: $(VENV)/.ready
	for file in results/*/cells.jsonl; do $(BIN)/fedol bench report $$(dirname $$file) --json > /dev/null || exit 1; done
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/pooling_figure.py docs/img/pooling.svg

setup: $(VENV)/.ready

# torch comes first: its pinned build decides what everything else resolves against.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[images,plot]'
	touch $@

# What only the tests need is not small, and someone who runs the quick job does not wait for it.
$(VENV)/.ready: $(VENV)/.installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) runs site
