#!/usr/bin/env bash
# Builds what a user installs without a compiler, into a folder (default: target/package):
#   hobt-VERSION-ARCH-linux-gnu.tar.gz   the stripped program, README, LICENSE and the documents
#   hobt-VERSION-py3-none-TAG.whl        a Python package that carries the program: pipx install FILE, uvx --from FILE hobt
#   SHA256SUMS                           of both
# The code is for any x86-64: what newer processors have is chosen when it runs. The oldest C library that it works with is read
# from the program and is a part of the wheel's name.
#
#   scripts/package.sh [FOLDER]
#   scripts/test_package.sh [FOLDER]     installs each in an empty folder and runs the demo
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-target/package}

cargo build --release --locked -p hobt-cli
target_dir=$(cargo metadata --locked --no-deps --format-version 1 |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
version=$(cargo metadata --locked --no-deps --format-version 1 |
    python3 -c 'import json, sys; print(next(p["version"] for p in json.load(sys.stdin)["packages"] if p["name"] == "hobt-cli"))')
arch=$(uname -m)

rm -rf "$out"
mkdir -p "$out"
name=hobt-$version-$arch-linux-gnu
folder=$out/$name
mkdir "$folder"
strip -o "$folder/hobt" "$target_dir/release/hobt"
cp README.md LICENSE CHANGELOG.md ARCHITECTURE.md CONTRIBUTING.md "$folder/"
cp -r docs "$folder/"

# `GLIBC_2.34` is 2_34, the newest of those that the program asks for.
glibc=$(readelf --version-info --wide "$folder/hobt" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1 | sed 's/GLIBC_//; s/\./_/')
python3 scripts/wheel.py "$folder/hobt" "$version" "manylinux_${glibc}_$arch" "$out"
tar --create --gzip --owner=0 --group=0 --sort=name --file "$out/$name.tar.gz" --directory "$out" "$name"
rm -rf "$folder"
(cd "$out" && sha256sum -- *.tar.gz *.whl >SHA256SUMS)
ls -l "$out"
