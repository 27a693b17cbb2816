#!/usr/bin/env bash
# Runs the slow tests on each backend of BACKENDS: each folder of tests by
# processes of its own, which give back what compiled programs hold. PYTHON and
# TESTS may name others. It says how long a backend took, and what failed.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
failed=
started=$SECONDS
for backend in ${BACKENDS:-tensorflow jax torch}; do
    begun=$SECONDS
    for tests in ${TESTS:-tests/*/ tests/test_*.py}; do
        case $tests in tests/helpers/ | tests/__pycache__/) continue ;; esac
        echo "== $tests on $backend"
        KERAS_BACKEND=$backend "$python" -m pytest -m slow -rs \
            -n "${JOBS:-2}" --dist worksteal "$tests"
        # 5: none of its tests is slow on this backend.
        case $? in 0 | 5) ;; *) failed="$failed $backend:$tests" ;; esac
    done
    echo "== slow tests on $backend took $(((SECONDS - begun) / 60)) min"
done
echo "== all slow tests took $(((SECONDS - started) / 60)) min"
if [ -n "$failed" ]; then
    echo "test-slow failed:$failed"
    exit 1
fi
