#!/usr/bin/env bash
# Runs the tests with the oldest versions that pyproject.toml allows, on each
# Python of PYTHONS that is installed; a path will do. torch is the one of
# constraints.txt: older ones are not tested.
set -euo pipefail
cd "$(dirname "$0")/.."
root=.venv/oldest
test -x "$root/uv/bin/uv" || {
    python3 -m venv "$root/uv"
    "$root/uv/bin/python" -m pip install --quiet uv -c constraints.txt
}
uv=$root/uv/bin/uv
# The oldest wheels that a Python has: one package is published as source.
wheels="--only-binary :all: --no-binary rouge-score"
failed=
for python in ${PYTHONS:-python3.11 python3.12 python3.13}; do
    if ! "$python" -c "" 2>/dev/null; then
        echo "== $python is not installed, and is skipped"
        continue
    fi
    folder=$root/$python
    test -x "$folder/bin/python" || "$python" -m venv "$folder"
    "$uv" pip compile --quiet --resolution lowest-direct \
        --python "$folder/bin/python" --output-file "$folder/versions.txt" \
        $wheels \
        --extra tensorflow --extra jax --extra compare --extra test \
        pyproject.toml
    "$uv" pip install --quiet --python "$folder/bin/python" \
        $wheels -r "$folder/versions.txt" "$(grep ^torch== constraints.txt)"
    "$uv" pip install --quiet --python "$folder/bin/python" --no-deps -e .
    # Builds of torch with CUDA bring Triton: a process that has imported
    # TensorFlow 2.20 and imports it crashes.
    "$uv" pip uninstall --quiet --python "$folder/bin/python" triton
    for backend in ${BACKENDS:-tensorflow jax torch}; do
        echo "== the oldest versions on $python, $backend"
        chosen="not slow"
        test "$backend" = torch || chosen="each_backend and not once and not slow"
        # Old packages warn; tests that run pytest inherit the option.
        PYTEST_ADDOPTS="-W default" \
            KERAS_BACKEND=$backend "$folder/bin/python" -m pytest -m "$chosen" \
            -n "${JOBS:-2}" --dist worksteal ${TESTS:-} \
            || failed="$failed $python/$backend"
    done
done
if [ -n "$failed" ]; then
    echo "test-oldest failed on:$failed"
    exit 1
fi
