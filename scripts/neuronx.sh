#!/usr/bin/env bash
# Runs the own tests of the crate `neuronx`, as published, against our libnrt.so.1 and our headers: on
# the software device in the process, then under `neuron-mem run`, on a server's. It needs a package registry, a C compiler, and libclang for its bindings, which
# is installed where that can be done. It is no part of the workspace: nothing else needs libclang.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.1.0
checksum=910049ad2ca192ed2f2ba133e78def6fb880d44074e331e0b3a778a0c7a538f7
# The tests that prove something. The others return without doing anything where there is no
# `neuronx-cc` (spec/nrt-abi.md 6.1).
tests=(version_and_instance single_runtime tensor_roundtrip)

has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] || compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' | grep -v libclang-cpp >/dev/null ||
        ldconfig -p 2>/dev/null | grep -q 'libclang[.-][0-9.]*so'
}
if ! has_libclang; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "neuronx.sh: neuronx needs libclang for its bindings: install it (Debian: libclang-dev), or set LIBCLANG_PATH" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends libclang-dev >/dev/null
fi

root=$PWD
target=$root/target/neuronx
# The profile of tests, whose builds `cargo test` uses again.
scripts/install.sh "$target/neuron" test

# Outside of the workspace, which would take it for a member.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/fetch/src"
: >"$scratch/fetch/src/lib.rs"
cat >"$scratch/fetch/Cargo.toml" <<TOML
[package]
name = "fetch"
version = "0.0.0"
edition = "2021"
[dependencies]
neuronx = "=$version"
TOML
manifest=$(cd "$scratch/fetch" && cargo metadata --quiet --format-version 1 |
    grep -o "\"manifest_path\":\"[^\"]*/neuronx-$version/Cargo.toml\"" | head -n 1 | cut -d '"' -f 4)
if ! grep -q "$checksum" "$scratch/fetch/Cargo.lock"; then
    echo "neuronx.sh: the registry's neuronx $version is not the one that is known" >&2
    exit 1
fi
cp -R "$(dirname "$manifest")" "$scratch/neuronx"

# `cargo test -p neuronx` from outside would run none of them: its own manifest it has to be. Device
# tensors in host memory are only given out on trn1 and inf2.
log=$scratch/log
tested() { # WHERE COMMAND...: runs the tests and looks for those that count.
    local where=$1
    shift
    (cd "$scratch/neuronx" && NEURON_DIR=$target/neuron CARGO_TARGET_DIR=$target/target "$@" cargo test --locked) 2>&1 |
        tee "$log"
    for name in "${tests[@]}"; do
        if ! grep -q "^test $name \.\.\. ok$" "$log"; then
            echo "neuronx.sh: $name did not pass $where" >&2
            exit 1
        fi
    done
    echo "neuronx $version: ${tests[*]} passed $where against $target/neuron/lib/libnrt.so.1"
}
tested "in the process" env NEURON_MEM_BACKEND=software NEURON_MEM_INSTANCE=trn1.2xlarge
tested "on a server" env -u NEURON_MEM_BACKEND "$target/neuron/bin/neuron-mem" run --instance trn1.2xlarge --
