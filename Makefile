# Each target builds .venv, or for `docs` .venv-docs and for `lint` .venv-lint,
# when it is missing or out of date, and only then.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DOCS := .venv-docs
LINT := .venv-lint
BACKENDS ?= tensorflow jax torch
JOBS ?= 2
READY := $(VENV)/.ready

KNOWN := $(filter tensorflow jax torch,$(BACKENDS))
ifneq ($(or $(KNOWN),none),$(strip $(BACKENDS)))
$(error BACKENDS must be some of tensorflow, jax and torch. Received: $(BACKENDS))
endif

# Tests of the command, data, examples, docs, processes and the repository itself.
TOOLS := $(addprefix tests/,benchmarks compare datasets docs examples faults processes repository)
CORE := tests $(TOOLS:%=--ignore=%)

export TF_CPP_MIN_LOG_LEVEL ?= 3
TESTING := test test-tools test-full coverage
# Two processes test at a time: on a thread each they do not wait for each other.
$(TESTING): export OMP_NUM_THREADS ?= 1
$(TESTING): export TF_NUM_INTRAOP_THREADS ?= 1
# What JAX has compiled once, no other process and no later run compiles again.
$(TESTING): export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/$(VENV)/jax
$(TESTING): export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0
$(TESTING): export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES ?= -1
# pytest keeps what it makes of the assertions, for each process and each run.
$(TESTING): export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-tools test-full test-oldest test-nightly test-extras coverage tutorials lint docs release clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip -c constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[all]"
	touch $(READY)

# A further extra of pyproject.toml.
$(VENV)/.extra-%: $(READY)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[$*]"
	touch $@

demo: $(READY)
	KERAS_BACKEND=$${KERAS_BACKEND:-jax} $(BIN)/python examples/demo.py

# PyTorch, the fastest to test on, runs all tests that are not slow; the others
# those of promises that a backend could break. All backends run, whichever
# fails, unless pytest refuses its arguments (4); then it says how long it took,
# and which failed. The argument is what runs pytest.
define test_core
@failed=; start=$$(date +%s); for backend in $(BACKENDS); do \
	echo "== $@ on $$backend"; \
	chosen="each_backend and not once and not slow"; \
	if [ $$backend = torch ]; then chosen="not slow"; fi; \
	KERAS_BACKEND=$$backend $(BIN)/python $(1) -m pytest \
		-n $(JOBS) --dist worksteal -m "$$chosen" $(CORE); \
	case $$? in 0) ;; 4) exit 4 ;; *) failed="$$failed $$backend" ;; esac; \
done; \
seconds=$$(($$(date +%s) - start)); \
echo "== $@ took $$((seconds / 60)) min $$((seconds % 60)) s"; \
if [ -n "$$failed" ]; then echo "$@ failed on:$$failed"; exit 1; fi
endef

test: $(READY)
	$(call test_core)

test-tools: $(READY)
	KERAS_BACKEND=torch $(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(TOOLS)

# Everything on everything. TESTS may name folders or files.
test-full: $(VENV)/.extra-parity $(VENV)/.extra-release $(VENV)/.extra-ray $(VENV)/.extra-export
	BACKENDS="$(BACKENDS)" JOBS=$(JOBS) TESTS="$(TESTS)" tests/full.sh

# Lines and branches that the tests of any backend reach, in processes too.
coverage: export COVERAGE_FILE := $(CURDIR)/$(VENV)/coverage/data
coverage: $(READY)
	rm -rf $(VENV)/coverage
	mkdir $(VENV)/coverage
	$(call test_core,-m coverage run)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

# What notebooks print and draw.
tutorials: $(READY)
	$(BIN)/python docs/notebooks.py --execute

PROSE := README.md CONTRIBUTING.md CHANGELOG.md $(wildcard docs/*.md docs/*/*.md)

# Sources are read, not imported: no backend is installed.
$(LINT)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(LINT)
	$(LINT)/bin/python -m pip install --quiet --upgrade pip -c constraints.txt
	$(LINT)/bin/python -m pip install --quiet -c constraints.txt --group lint
	touch $@

lint: $(LINT)/.ready
	$(LINT)/bin/ruff check .
	$(LINT)/bin/ruff format --check .
	$(LINT)/bin/mypy
	$(LINT)/bin/lint-imports
	$(LINT)/bin/proselint --config .proselintrc.json check $(PROSE)
	$(LINT)/bin/python docs/wording.py keras_synth docs README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md

# The site, in site/. A warning is an error, a dead link or anchor is a warning.
$(DOCS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --upgrade pip -c constraints.txt
	$(DOCS)/bin/python -m pip install --quiet -c constraints.txt --group docs
	touch $@

docs: export NO_MKDOCS_2_WARNING ?= 1
docs: $(DOCS)/.ready
	$(DOCS)/bin/mkdocs build --strict

test-oldest:
	tests/oldest.sh

test-nightly:
	tests/nightly.sh

test-extras:
	tests/extras.sh

release: $(VENV)/.extra-release
	rm -rf dist
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	@sed -n '/^## Releasing/,$$p' CONTRIBUTING.md

clean:
	rm -rf $(VENV) $(DOCS) $(LINT) demo.png dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
