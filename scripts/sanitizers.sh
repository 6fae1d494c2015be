#!/usr/bin/env bash
# Runs the tests that touch memory shared with engines under AddressSanitizer, then
# ThreadSanitizer. Works with a stable toolchain. The standard library is not
# instrumented, so ThreadSanitizer is told which of its internals to leave out.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(rustc -vV | sed -n 's/^host: //p')
crates=(-p neuron-softdev -p neuron-driver -p neuron-ndl -p neuron-dmem -p neuron-wire -p neuron-serve)
suppressions=$(mktemp)
trap 'rm -f "$suppressions"' EXIT
# The standard library synchronises with atomics and fences that an uninstrumented
# build does not show.
printf 'race:std::\nrace:alloc::sync::Arc\nrace:core::sync\nrace:test::\n' >"$suppressions"

for sanitizer in address thread; do
    echo "== $sanitizer"
    RUSTC_BOOTSTRAP=1 \
        RUSTFLAGS="-Zsanitizer=$sanitizer -Cunsafe-allow-abi-mismatch=sanitizer" \
        TSAN_OPTIONS="suppressions=$suppressions" \
        PROPTEST_CASES="${PROPTEST_CASES:-8}" \
        cargo test --target "$target" --target-dir "target/$sanitizer" "${crates[@]}" --lib --tests "$@"
done
