#!/usr/bin/env bash
# Runs the tests that depend most on Keras and KerasHub with their nightly
# builds, in an environment of its own, on each backend of BACKENDS. TESTS may
# name others.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=.venv/nightly
test -x $folder/bin/python || ${PYTHON:-python3} -m venv $folder
pip="$folder/bin/python -m pip"
$pip install --quiet -c constraints.txt \
    -e ".[tensorflow,jax,torch,compare,test]"
# A nightly build writes the same folder as the release. So the release goes
# first, and no dependency may bring it back.
$pip uninstall --quiet --yes \
    keras keras-nightly keras-hub keras-hub-nightly
$pip install --quiet --pre --no-deps keras-nightly keras-hub-nightly
$pip list 2>/dev/null | grep -i ^keras
failed=
for backend in ${BACKENDS:-tensorflow jax torch}; do
    echo "== Keras' nightly build on $backend"
    chosen="not slow"
    test "$backend" = torch || chosen="each_backend and not once and not slow"
    KERAS_BACKEND=$backend $folder/bin/python -m pytest -W default \
        -m "$chosen" \
        -n "${JOBS:-2}" --dist worksteal ${TESTS:-tests/design \
        tests/synthesizers tests/mixers tests/models tests/_backend} \
        || failed="$failed $backend"
done
if [ -n "$failed" ]; then
    echo "test-nightly failed on:$failed"
    exit 1
fi
