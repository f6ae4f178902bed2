#!/usr/bin/env bash
# Runs the fuzz targets, each for a time, on a stable toolchain: fuzz.sh [MINUTES [TARGET]], by default 1 minute for all.
# An input that fails is written into the target's corpus (the folders __fuzz__ beside the tests), where `cargo test` and CI
# try it from then on. A line for each target says how many inputs it had. How inputs are made: crates/testing/src/fuzz.rs.
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${1:-1}
wanted=${2:-}
# package | cargo's choice of the test binary | the target
targets=(
    "hobt-page|--test it|page"
    "hobt-page|--test it|changes"
    "hobt-log|--lib|block"
    "hobt-log|--lib|file_header"
    "hobt-catalog|--lib|rows"
    "hobt-catalog|--lib|statistics"
    "hobt-tsql|--test it|parser"
)
export BOLERO_RANDOM_TEST_TIME_MS=$((minutes * 60000))
# As many as there is time for: 2^63 - 1.
export BOLERO_RANDOM_ITERATIONS=9223372036854775807

failed=0
ran=0
for entry in "${targets[@]}"; do
    IFS='|' read -r package binary target <<<"$entry"
    if [[ -n "$wanted" && "$wanted" != "$target" ]]; then
        continue
    fi
    ran=$((ran + 1))
    # shellcheck disable=SC2086
    cargo test --locked --quiet --profile sim -p "$package" $binary -- --exact "fuzz::$target" --nocapture || failed=1
done
if [[ "$ran" == 0 ]]; then
    echo "no target is named $wanted" >&2
    exit 2
fi
exit "$failed"
