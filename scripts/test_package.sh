#!/usr/bin/env bash
# Installs what scripts/package.sh has built, each in an empty folder with nothing else on the path than the system's own programs,
# and runs the demo there. Fails if a checksum is wrong or if the first result takes more than 30 seconds from the file.
#
#   scripts/test_package.sh [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
packages=$(realpath "${1:-target/package}")
python=$(command -v python3)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
limit=30

(cd "$packages" && sha256sum --check --strict SHA256SUMS)

# Runs a command as a user would who has nothing: no Rust, no other home, no other environment.
alone() {
    env -i HOME="$root/home" PATH=/usr/bin:/bin LANG=C.UTF-8 "$@"
}

# The seconds from the file to the demo's report.
try() {
    local kind=$1 began program
    mkdir -p "$root/$kind" "$root/home"
    began=$SECONDS
    cd "$root/$kind"
    case $kind in
        tarball)
            tar --extract --gzip --file "$packages"/hobt-*.tar.gz
            program=$(echo "$PWD"/hobt-*/hobt)
            ;;
        wheel)
            "$python" -m venv --without-pip environment
            "$python" -m pip --disable-pip-version-check --quiet --python environment/bin/python install --no-index \
                "$packages"/hobt-*.whl
            program=$PWD/environment/bin/hobt
            ;;
    esac
    alone "$program" --version
    alone "$program" demo --rows 400000 --repeat 1 --out "$PWD" >demo.txt
    test -s hobt-demo.html
    test -s hobt-demo.json
    local took=$((SECONDS - began))
    echo "$kind: $took s from the file to the demo's report"
    if [[ $took -gt $limit ]]; then
        echo "$kind: more than $limit s" >&2
        exit 1
    fi
}

try tarball
try wheel
