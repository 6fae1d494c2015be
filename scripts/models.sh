#!/usr/bin/env bash
# Explores the interleavings of the driver's and the allocator's threads with a model checker in place of the
# standard library's locks (`tests/models`). A failure prints its schedule, which
# `SHUTTLE_RANDOM_SEED` and shuttle's `replay` bring back; `MODELS_SCALE=20 scripts/models.sh`
# explores twenty times as many. Arguments go to the test binary: a name runs one model.
set -euo pipefail
cd "$(dirname "$0")/.."

RUSTFLAGS="${RUSTFLAGS:-} --cfg shuttle" CARGO_INCREMENTAL=0 \
    cargo test --profile models --target-dir target/shuttle -p neuron-models --test models --locked -- "$@"
