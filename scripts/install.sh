#!/usr/bin/env bash
# Builds neuron-mem, the library that `neuron-mem run` loads, and libnrt.so.1, and puts them where they find each
# other:
#
#   scripts/install.sh PREFIX [PROFILE]
#
# PREFIX/bin has neuron-mem, PREFIX/lib the libraries, PREFIX/include the headers. PROFILE is a profile of cargo,
# `release` unless told.
set -euo pipefail
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: scripts/install.sh PREFIX [PROFILE]" >&2
    exit 2
fi
mkdir -p "$1/bin" "$1/lib"
prefix=$(cd "$1" && pwd)
profile=${2:-release}
cd "$(dirname "$0")/.."

cargo build -p neuron-mem -p neuron-preload --locked --profile "$profile"
case $profile in dev | test) folder=debug ;; *) folder=$profile ;; esac
install -m 755 "${CARGO_TARGET_DIR:-target}/$folder/neuron-mem" "$prefix/bin/"
install -m 755 "${CARGO_TARGET_DIR:-target}/$folder/libneuron_preload.so" "$prefix/lib/"
scripts/install-nrt.sh "$prefix" "$profile"
