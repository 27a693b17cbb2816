# Each target builds .venv when it is missing or out of date, and only then.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BACKENDS ?= tensorflow jax torch
JOBS ?= 2
READY := $(VENV)/.ready
# Packages that others published, to compare with.
PARITY := $(VENV)/.parity

export TF_CPP_MIN_LOG_LEVEL ?= 3
# Two processes test at a time: on a thread each they do not wait for each other.
test test-slow: export OMP_NUM_THREADS ?= 1
test test-slow: export TF_NUM_INTRAOP_THREADS ?= 1
# What JAX has compiled once, no other process and no later run compiles again.
test test-slow: export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/$(VENV)/jax
test test-slow: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0
test test-slow: export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES ?= -1

.PHONY: demo test test-slow lint clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip -c constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[all]"
	touch $(READY)

$(PARITY): $(READY)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[parity]"
	touch $(PARITY)

demo: $(READY)
	$(BIN)/python examples/demo.py --output demo

# All backends run, whichever fails; then it says which did.
define on_each_backend
@failed=; for backend in $(BACKENDS); do \
	echo "== $@ on $$backend"; \
	KERAS_BACKEND=$$backend $(BIN)/python -m pytest $(1) \
		|| failed="$$failed $$backend"; \
done; \
if [ -n "$$failed" ]; then echo "$@ failed on:$$failed"; exit 1; fi
endef

test: $(READY)
	$(call on_each_backend,-n $(JOBS) --dist worksteal)

test-slow: $(PARITY)
	$(call on_each_backend,-m slow)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) demo .mypy_cache .pytest_cache .ruff_cache .hypothesis
