#!/usr/bin/env bash
# Runs all tests, slow ones included, on each backend of BACKENDS: each folder
# by processes of its own, which give back what compiled programs hold. PYTHON
# and TESTS may name others. It says how long a backend took, and what failed.
# The first backend runs the tests that depend on none, and tests/mutants.py.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
backends=${BACKENDS:-torch tensorflow jax}
case " $backends " in *" torch "*) once=torch ;; *) once=${backends%% *} ;; esac
failed=
started=$SECONDS
for backend in $backends; do
    begun=$SECONDS
    chosen="not once"
    if [ "$backend" = "$once" ]; then chosen=""; fi
    for tests in ${TESTS:-tests/*/ tests/test_*.py}; do
        case $tests in tests/helpers/ | tests/__pycache__/) continue ;; esac
        echo "== $tests on $backend"
        KERAS_BACKEND=$backend "$python" -m pytest -m "$chosen" -rs \
            --timeout 3600 --hypothesis-profile full \
            -n "${JOBS:-2}" --dist worksteal "$tests"
        # 5: none of its tests is for this backend.
        case $? in 0 | 5) ;; *) failed="$failed $backend:$tests" ;; esac
    done
    echo "== all tests on $backend took $(((SECONDS - begun) / 60)) min"
done
if [ -z "${TESTS:-}" ] && [ "$once" = torch ]; then
    "$python" tests/mutants.py || failed="$failed tests/mutants.py"
fi
echo "== test-full took $(((SECONDS - started) / 60)) min"
if [ -n "$failed" ]; then
    echo "test-full failed:$failed"
    exit 1
fi
