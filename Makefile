# Each target builds .venv when it is missing or out of date, and only then.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BACKENDS ?= tensorflow jax torch
JOBS ?= 2
READY := $(VENV)/.ready

export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: demo test test-slow lint clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip -c constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[all]"
	touch $(READY)

demo: $(READY)
	$(BIN)/python examples/demo.py --output demo

test: $(READY)
	@set -e; for backend in $(BACKENDS); do \
		echo "== tests on $$backend"; \
		KERAS_BACKEND=$$backend $(BIN)/python -m pytest -n $(JOBS) --dist worksteal; \
	done

test-slow: $(READY)
	@set -e; for backend in $(BACKENDS); do \
		echo "== slow tests on $$backend"; \
		KERAS_BACKEND=$$backend $(BIN)/python -m pytest -m slow; \
	done

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

clean:
	rm -rf $(VENV) demo .pytest_cache .ruff_cache .hypothesis
