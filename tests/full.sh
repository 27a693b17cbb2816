#!/usr/bin/env bash
# Runs all tests, slow ones included, on each backend of BACKENDS: each folder
# by processes of its own, which give back what compiled programs hold. PYTHON
# and TESTS may name others. It says how long a backend took, and what failed.
# Tests that depend on no backend, and tests/mutants.py, run on PyTorch.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
failed=
started=$SECONDS
for backend in ${BACKENDS:-tensorflow jax torch}; do
    begun=$SECONDS
    chosen="not once"
    if [ "$backend" = torch ]; then chosen=; fi
    for tests in ${TESTS:-tests/*/ tests/test_*.py tests/mutants.py}; do
        echo "== $tests on $backend"
        case $tests in
        tests/helpers/ | tests/__pycache__/) continue ;;
        tests/mutants.py)
            test "$backend" = torch || continue
            "$python" "$tests"
            ;;
        *)
            KERAS_BACKEND=$backend "$python" -m pytest -m "$chosen" -rs \
                --timeout 3600 --hypothesis-profile full \
                -n "${JOBS:-2}" --dist worksteal "$tests"
            ;;
        esac
        # 5: none of its tests is for this backend.
        case $? in 0 | 5) ;; *) failed="$failed $backend:$tests" ;; esac
    done
    echo "== all tests on $backend took $(((SECONDS - begun) / 60)) min"
done
echo "== test-full took $(((SECONDS - started) / 60)) min"
if [ -n "$failed" ]; then
    echo "test-full failed:$failed"
    exit 1
fi
