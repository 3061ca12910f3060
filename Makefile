# Each target installs what it needs into .venv and nothing anywhere else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Dependency groups need pip 25.1; what is older upgrades itself first.
PIP_INSTALL := -m pip install --disable-pip-version-check --no-compile -qq
PIP := $(BIN)/python $(PIP_INSTALL) -c constraints.txt
PIP_ITSELF := 'pip>=25.1'
SOURCES := pyproject.toml constraints.txt

# Hundreds of tests start a Python of their own: each would compile torch and us again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo mutants test test-slow test-all formal coq coqchk test-tl3 check lines lint types docs docs-serve bench clean

demo: $(VENV)/.run  ## Analyse a bundled model and show the result
	$(BIN)/tsc-interp analyze --checkpoint generalization-errors

# `loadgroup` keeps tests that share an expensive page or laboratory in one process.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadgroup

test: $(VENV)/.dev  ## The quick tier: every oracle and every contract
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/.dev  ## The slow tier: more browser, clusters, the sdist, every published figure
	$(PYTEST) -m slow --ignore=tests/formal

test-all: test test-slow formal  ## Both tiers, and Coq

# AXIOMS=few computes on Coq's own integers, several times slower, and assumes nothing of machine
# integers. A module is a file and its library: `make coqchk MODEL=walkthrough`.
formal: $(VENV)/.dev coq  ## The theorems about the bundled models, checked by Coq
	TSC_REQUIRE_COQ=1 TSC_AXIOMS=$(AXIOMS) $(PYTEST) -m slow --durations=0 tests/formal

MODEL ?= generalization-errors
coqchk: $(VENV)/.dev coq  ## A second, smaller kernel on one model's theorem and all behind it
	$(BIN)/tsc-interp theorem $(MODEL) --out build/theorem
	cd build/theorem && coqchk -silent -o -Q Tsc Tsc -Q Model Model Model.Theorem

coq:
	@command -v coqc >/dev/null && [ -d "$$(coqc -where)/user-contrib/Interval" ] || \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends coq libcoq-interval; }

test-tl3: .venv-tl3/.ready  ## Imports and probes against TransformerLens 3.9
	.venv-tl3/bin/python -m pytest tests/model/test_importing.py tests/model/test_import_forgeries.py tests/model/test_import_frames.py tests/model/test_hooks.py tests/probes/test_patching_transformer_lens.py tests/probes/test_patterns.py tests/probes/test_circuits_weights.py tests/probes/test_ablation_rows.py tests/probes/test_any_model.py tests/report/test_outside.py tests/report/test_imported.py tests/falsification

check: lines lint types test docs  ## Everything that must hold before a change lands

lines:  ## Lines of Python in each room, and their caps
	@$(PYTHON) -m tests.lines

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

docs: $(VENV)/.dev  ## The documentation, offline, into site/
	$(BIN)/python -m docs.build
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	$(BIN)/python -m docs.build.check_site

docs-serve: $(VENV)/.dev
	$(BIN)/python -m docs.build
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

mutants: $(VENV)/.dev  ## Would the tests notice? One small change at a time in the trusted core
	$(BIN)/python -m tests.mutation

bench: $(VENV)/.dev  ## Baseline and trainer, in one go
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .venv-tl3 site docs/generated docs/pages/generated docs/_cache build *.egg-info

$(VENV)/.run: $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (a few minutes the first time)"
	$(BIN)/python $(PIP_INSTALL) $(PIP_ITSELF)
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	$(PIP) -e '.[sweeps,cluster,labs]' --group dev --group docs
	@touch $@

.venv-tl3/.ready: $(SOURCES) constraints-tl3.txt
	$(PYTHON) -m venv .venv-tl3
	.venv-tl3/bin/python $(PIP_INSTALL) $(PIP_ITSELF)
	.venv-tl3/bin/python $(PIP_INSTALL) -c constraints-tl3.txt -e . pytest hypothesis
	@touch $@
