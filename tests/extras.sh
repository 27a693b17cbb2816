#!/usr/bin/env bash
# Installs the wheel of dist/ with each extra alone, in an empty environment of
# each Python of PYTHONS that is installed, and runs README's examples outside
# of the checkout: the first one, and the second where KerasHub is installed.
# An extra without a backend gets JAX. It prints the size of each environment.
# EXTRAS may name some, and VERSIONS what pip is to keep to.
set -uo pipefail
cd "$(dirname "$0")/.."
wheel=$(ls "$PWD"/dist/*.whl) || exit 1
versions=${VERSIONS--c $PWD/constraints.txt}
extras=${EXTRAS:-$(sed -n '/^\[project.optional-dep/,/^$/s/ = .*//p' pyproject.toml)}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/examples"
cp -r examples/english_tags "$folder/examples"
# The text of README's code blocks, up to the last that runs here.
blocks='/^```python$/,/^```$/{//!p}'
sed -n "$blocks" README.md >"$folder/both.py"
sed '/^models = /,$d' "$folder/both.py" >"$folder/first.py"
cd "$folder"
failed=
for python in ${PYTHONS:-python3.11 python3.12 python3.13}; do
    if ! "$python" -c "" 2>/dev/null; then
        echo "== $python is not installed, and is skipped"
        continue
    fi
    for extra in $extras; do
        backend=jax
        case $extra in tensorflow | torch) backend=$extra ;; esac
        rm -rf venv
        "$python" -m venv venv
        venv/bin/python -m pip install --quiet $versions \
            "$wheel[$backend,$extra]" >install.txt 2>&1
        example=first.py
        test -e venv/lib/python*/site-packages/keras_hub && example=both.py
        result=passed
        KERAS_BACKEND=$backend TF_CPP_MIN_LOG_LEVEL=3 \
            venv/bin/python $example >output.txt 2>&1 || result=FAILED
        echo "== $extra on $(basename "$python"): $result," \
            "$(du -sm venv | cut -f1) MB"
        if [ $result = FAILED ]; then
            cat install.txt output.txt
            failed="$failed $python:$extra"
        fi
    done
done
if [ -n "$failed" ]; then
    echo "test-extras failed:$failed"
    exit 1
fi
