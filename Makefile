# Each target builds .venv, or for `docs` .venv-docs, when it is missing or out of
# date, and only then.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DOCS := .venv-docs
BACKENDS ?= tensorflow jax torch
JOBS ?= 2
READY := $(VENV)/.ready

export TF_CPP_MIN_LOG_LEVEL ?= 3
TESTING := test test-slow coverage
# Two processes test at a time: on a thread each they do not wait for each other.
$(TESTING): export OMP_NUM_THREADS ?= 1
$(TESTING): export TF_NUM_INTRAOP_THREADS ?= 1
# What JAX has compiled once, no other process and no later run compiles again.
$(TESTING): export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/$(VENV)/jax
$(TESTING): export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0
$(TESTING): export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES ?= -1
# pytest keeps what it makes of the assertions, for each process and each run.
$(TESTING): export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-slow test-oldest test-nightly coverage tutorials lint docs release clean

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

# All backends run, whichever fails; then it says how long it took, and which
# did. The second argument is what runs pytest.
define on_each_backend
@failed=; start=$$(date +%s); for backend in $(BACKENDS); do \
	echo "== $@ on $$backend"; \
	KERAS_BACKEND=$$backend $(BIN)/python $(2) -m pytest $(1) \
		|| failed="$$failed $$backend"; \
done; \
seconds=$$(($$(date +%s) - start)); \
echo "== $@ took $$((seconds / 60)) min $$((seconds % 60)) s"; \
if [ -n "$$failed" ]; then echo "$@ failed on:$$failed"; exit 1; fi
endef

test: $(READY)
	$(call on_each_backend,-n $(JOBS) --dist worksteal)

test-slow: $(VENV)/.extra-parity $(VENV)/.extra-release $(VENV)/.extra-ray $(VENV)/.extra-export
	BACKENDS="$(BACKENDS)" JOBS=$(JOBS) tests/slow.sh

# Lines and branches that the tests of any backend reach, in processes too.
coverage: export COVERAGE_FILE := $(CURDIR)/$(VENV)/coverage/data
coverage: $(READY)
	rm -rf $(VENV)/coverage
	mkdir $(VENV)/coverage
	$(call on_each_backend,-n $(JOBS) --dist worksteal,-m coverage run)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

# Notebooks, and pages with what they print and draw.
tutorials: $(READY)
	$(BIN)/python docs/tutorials/build.py --execute

# Tutorials show what models made of texts: their prose is in scripts.
PROSE := README.md CONTRIBUTING.md CHANGELOG.md $(filter-out docs/tutorials/%,$(wildcard docs/*.md docs/*/*.md))

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/proselint --config .proselintrc.json check $(PROSE)

# The site, in site/. A warning is an error, a dead link or anchor is a warning.
# Sources are read, not imported: no backend is installed.
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

release: $(VENV)/.extra-release
	rm -rf dist
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

clean:
	rm -rf $(VENV) $(DOCS) demo.png dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
