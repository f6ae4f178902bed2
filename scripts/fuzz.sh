#!/usr/bin/env bash
# Runs the fuzz targets, each for a time, on a stable toolchain: fuzz.sh [MINUTES [TARGET]], by default 1 minute for all.
# TARGET is a name, or the beginning of several.
# An input that fails is written into the target's corpus (the folders __fuzz__ beside the tests), where `cargo test` and CI
# try it from then on. A line for each target says how many inputs it had. How inputs are made: crates/testing/src/fuzz.rs.
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${1:-1}
wanted=${2:-}
# What has a corpus is a target of the crate that the corpus lies in.
mapfile -t packages < <(find crates -path '*/__fuzz__/*/corpus' -path "*/__fuzz__/$wanted*" | cut -d / -f 2 | sort -u)
if [[ ${#packages[@]} == 0 ]]; then
    echo "no target is named $wanted" >&2
    exit 2
fi
export BOLERO_RANDOM_TEST_TIME_MS=$((minutes * 60000))
# As many as there is time for: 2^63 - 1.
export BOLERO_RANDOM_ITERATIONS=9223372036854775807

cargo test --locked --quiet --profile sim --no-fail-fast "${packages[@]/#/--package=hobt-}" -- \
    "fuzz::$wanted" --skip the_corpora --nocapture --test-threads 1
