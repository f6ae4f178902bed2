#!/usr/bin/env bash
# Runs the tests of byte layouts and of types under Miri, which finds undefined behaviour that a run of the machine does not
# show: miri.sh [FILTER]. With FILTER all tests whose names contain it; without it those that take no hours: Miri is hundreds
# of times slower, so tests that try thousands of random pages or rows are left out.
set -euo pipefail
cd "$(dirname "$0")/.."

slow=(fuzz:: model:: random:: codec:: index:: flips:: relayout:: every_flipped_bit statistics:: keys_compare)

miri=()
for toolchain in "" +nightly; do
    if cargo ${toolchain:+"$toolchain"} miri --version >/dev/null 2>&1; then
        miri=(cargo ${toolchain:+"$toolchain"} miri)
        break
    fi
done
if [[ ${#miri[@]} == 0 ]]; then
    echo "SKIPPED: Miri is not installed (rustup +nightly component add miri)"
    exit 0
fi

arguments=("$@")
if [[ $# == 0 ]]; then
    for name in "${slow[@]}"; do
        arguments+=(--skip "$name")
    done
fi
# Tests read the corpora, which Miri's isolation forbids.
MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}" "${miri[@]}" test --locked -p hobt-page -p hobt-types --lib --tests -- "${arguments[@]}"
