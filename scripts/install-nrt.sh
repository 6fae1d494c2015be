#!/usr/bin/env bash
# Builds libnrt.so.1 and puts it where programs look for it:
#
#   scripts/install-nrt.sh PREFIX [PROFILE]
#
# PREFIX/lib has libnrt.so.1, the link libnrt.so for `-lnrt`, and what pkg-config and CMake read;
# PREFIX/include the headers. PROFILE is a profile of cargo, `release` unless told.
set -euo pipefail
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: scripts/install-nrt.sh PREFIX [PROFILE]" >&2
    exit 2
fi
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
profile=${2:-release}
cd "$(dirname "$0")/.."

cargo build -p neuron-nrt --locked --profile "$profile"
case $profile in dev | test) folder=debug ;; *) folder=$profile ;; esac
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

mkdir -p "$prefix/lib/pkgconfig" "$prefix/lib/cmake/neuron-mem-nrt" "$prefix/include"
install -m 755 "${CARGO_TARGET_DIR:-target}/$folder/libnrt.so" "$prefix/lib/libnrt.so.1"
ln -sfn libnrt.so.1 "$prefix/lib/libnrt.so"
cp -R include/neuron_mem include/nrt "$prefix/include/"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" examples/c/neuron-mem-nrt.pc.in \
    >"$prefix/lib/pkgconfig/neuron-mem-nrt.pc"
cp examples/c/neuron-mem-nrt-config.cmake "$prefix/lib/cmake/neuron-mem-nrt/"
