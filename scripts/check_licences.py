#!/usr/bin/env python3
"""Checks licences and sources of all dependencies against deny.toml.

Stands in for `cargo deny check licenses sources` where cargo-deny is not installed: the same allow list, SPDX
expressions with AND, OR, WITH and brackets (an old `A/B` means OR), and crates from crates.io or this workspace alone.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from workspace import ROOT, cargo_metadata, finish

CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
TOKEN = re.compile(r"\(|\)|[A-Za-z0-9.+-]+|/")


def allowed_licences():
    """The list `allow` of the section [licenses] of deny.toml."""
    text = re.sub(r"#[^\n]*", "", (ROOT / "deny.toml").read_text(encoding="utf-8"))
    section = re.search(r"^\[licenses\]$(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    allow = section and re.search(r"^allow\s*=\s*\[(.*?)\]", section.group(1), re.MULTILINE | re.DOTALL)
    if not allow:
        sys.exit("deny.toml has no list `allow` under [licenses]")
    return set(re.findall(r'"([^"]+)"', allow.group(1)))


def targets():
    """The platforms of the section [graph] of deny.toml."""
    found = re.search(r"^targets\s*=\s*\[(.*?)\]", (ROOT / "deny.toml").read_text(encoding="utf-8"), re.M | re.S)
    return re.findall(r'"([^"]+)"', found.group(1)) if found else []


class Expression:
    """A reader of SPDX expressions: AND binds before OR, WITH belongs to the licence before it."""

    def __init__(self, text, allowed):
        self.tokens = TOKEN.findall(text)
        self.allowed = allowed

    def peek(self):
        return self.tokens[0] if self.tokens else None

    def any_of(self):
        holds = self.all_of()
        while self.peek() in ("OR", "/"):
            self.tokens.pop(0)
            right = self.all_of()
            holds = holds or right
        return holds

    def all_of(self):
        holds = self.one()
        while self.peek() == "AND":
            self.tokens.pop(0)
            right = self.one()
            holds = holds and right
        return holds

    def one(self):
        if not self.tokens:
            raise ValueError("it ends too early")
        token = self.tokens.pop(0)
        if token == "(":
            holds = self.any_of()
            if self.peek() != ")":
                raise ValueError("a bracket is not closed")
            self.tokens.pop(0)
            return holds
        if self.peek() == "WITH":
            self.tokens.pop(0)
            if not self.tokens:
                raise ValueError("WITH names no exception")
            token = f"{token} WITH {self.tokens.pop(0)}"
        return token in self.allowed

    def holds(self):
        """Whether the allowed licences satisfy the expression; ValueError when it cannot be read."""
        result = self.any_of()
        if self.tokens:
            raise ValueError(f"nothing is expected at {self.tokens[0]}")
        return result


def packages_of_all_targets():
    """Every package that a build for one of the targets uses."""
    packages = {}
    for target in targets() or [None]:
        arguments = ["--filter-platform", target] if target else []
        metadata = cargo_metadata(*arguments)
        used = {node["id"] for node in metadata["resolve"]["nodes"]}
        packages.update((package["id"], package) for package in metadata["packages"] if package["id"] in used)
    return packages.values()


def main():
    allowed = allowed_licences()
    problems = []
    packages = packages_of_all_targets()
    for package in packages:
        name = f"{package['name']} {package['version']}"
        if package["source"] not in (None, CRATES_IO):
            problems.append(f"{name} comes from {package['source']}, not from crates.io")
        licence = package["license"]
        if not licence:
            problems.append(f"{name} states no licence (licence file: {package['license_file']})")
            continue
        try:
            if not Expression(licence, allowed).holds():
                problems.append(f"{name} is under {licence}, which deny.toml does not allow")
        except ValueError as error:
            problems.append(f"{name}: the licence expression {licence!r} cannot be read: {error}")
    finish("licences", problems, f"{len(packages)} packages")


if __name__ == "__main__":
    main()
