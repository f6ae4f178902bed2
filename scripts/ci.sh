#!/usr/bin/env bash
# Exactly what CI runs, cheap checks first; the tests come last, so that their verdict is the last line.
# One profile (dev) throughout, so that the dependencies are built once, but for the simulator, which needs few of them and
# reaches ten times as many seeds when it is optimised; among the other tests it runs a few. HOBT_SEEDS, when set, reaches the
# tests.
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
    printf '\n== %s\n' "$*"
}

step "dependency order"
python3 scripts/check_order.py

step "formatting"
cargo fmt --all --check

step "licences"
if cargo deny --version >/dev/null 2>&1; then
    cargo deny check licenses bans sources
else
    echo "cargo-deny is not installed: licences and sources are checked by scripts/check_licences.py"
    python3 scripts/check_licences.py
fi

step "clippy"
cargo clippy --locked --workspace --all-targets -- -D warnings

step "rustdoc"
RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps

step "build of the tests and of the program"
cargo test --locked --workspace --no-run
cargo test --locked --profile sim -p hobt-sim --no-run

step "what cargo run runs"
cargo metadata --locked --no-deps --format-version 1 | python3 -c '
import json, sys
metadata = json.load(sys.stdin)
members = [package for package in metadata["packages"] if package["id"] in metadata["workspace_default_members"]]
programs = [target["name"] for package in members for target in package["targets"] if "bin" in target["kind"]]
sys.exit(None if programs == ["hobt"] else f"the README says cargo run, which would have to choose among {programs}")'

step "the program as users build it: without what the simulators switch on in --workspace"
cargo build --locked -p hobt-cli

step "documents"
target_dir=$(cargo metadata --locked --no-deps --format-version 1 |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
python3 scripts/check_docs.py --hobt "$target_dir/debug/hobt"
python3 scripts/check_getting_started.py --hobt "$target_dir/debug/hobt"

# Runs the program that was just built, and the example export_rate, which the build of the tests has made beside it.
step "bench/peers on a few rows, beside DuckDB, which comes from a package registry"
peers_venv="$target_dir/peers-venv"
python3 -m venv "$peers_venv" || { echo "python3 cannot make a virtual environment: install its venv module" >&2; exit 1; }
"$peers_venv/bin/python" -m pip install --quiet --disable-pip-version-check --timeout 30 --retries 2 'duckdb>=2,<3' || {
    echo "pip could not install duckdb, which bench/peers needs: does pip reach a package registry (\`pip config list\`, PIP_INDEX_URL)?" >&2
    exit 1
}
suites="scans star tpch operators exports loads hashes random"
# Inserts are compared with PostgreSQL, which a new machine does not have.
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && suites="$suites inserts"
for suite in $suites; do
    "$peers_venv/bin/python" bench/peers --self-test --only "$suite" --hobt "$target_dir/debug/hobt"
done

step "model checks of locks, a few schedules (HOBT_MODEL: how many)"
HOBT_MODEL="${HOBT_MODEL:-500}" cargo test --locked -p hobt-instruments -p hobt-txn --features hobt-instruments/model,hobt-txn/model --test model

step "the simulator"
cargo test --locked --profile sim -p hobt-sim

step "scripts, with every statement on the direct path that can go there"
HOBT_TRACE_FLAGS=30002 cargo test --locked --workspace --test it slt::

step "tests"
HOBT_SIM_SECONDS=10 cargo test --workspace
