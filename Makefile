# make demo: set up and run the main job.  make test: set up and pass the tests.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# torch first and alone: asked for as a range, pip would fetch a newer build with CUDA.
TORCH := torch==2.13.0

.PHONY: demo test check slow mutants bench clean

demo: $(VENV)/.core
	$(BIN)/longreach run quick

test: $(VENV)/.dev
	$(BIN)/pytest

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

slow: $(VENV)/.dev
	$(BIN)/pytest -m slow

mutants: $(VENV)/.dev
	$(BIN)/python tests/mutants.py

bench: $(VENV)/.dev
	for file in benchmarks/*.py; do $(BIN)/python $$file; done

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "longreach needs Python 3.11 or newer; try: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check '$(TORCH)'
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV)
