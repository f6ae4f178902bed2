#!/usr/bin/env python3
"""Checks the rules that keep the workspace's crates apart (ARCHITECTURE.md), and their files together.

1. A crate depends only on crates that come before it in ORDER.
2. Only the crates of DATAFUSION name DataFusion, and crates of APART do not know each other.
3. `unsafe` is allowed only in the crates of UNSAFE; every other crate inherits the workspace's lints.
4. Every source file is a target's or a module: what no `mod` names is neither built nor run, and nobody is told.
5. Lines of comments have at most 120 characters, drawings apart: the formatter leaves them as they are.
6. Inside a crate imports run one way: at most CIRCLE_MAX files import each other in a circle (a module and its parts, a
   trait and what implements it), or as many as CIRCLES allows with a reason.
7. Numbers of errors stand in the table of errors alone (TABLE): what raises or compares an error names an entry.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from imports import Crate, shown
from workspace import ROOT, cargo_metadata, finish

ORDER = (
    "base testing types instruments disk page log backup buffer txn access catalog engine tsql functions files showplan udf table operators "
    "binder planner interpreter views session lab sim interleave hobt cli"
).split()
# The first for tests alone: an allocator that counts is unsafe to implement. The last for one function, which gives the
# program a `getrandom` of its own.
UNSAFE = {"testing", "instruments", "disk", "buffer", "interleave"}
# A file of another crate: it proves what Arrow would check for each value.
UNSAFE_FILES = {"crates/functions/src/ascii/views.rs"}
DATAFUSION = {"udf", "table", "operators", "binder", "planner"}
# Pairs that are built side by side: the first does not depend on the second.
APART = {("binder", "operators")}

ALLOWS_UNSAFE = re.compile(r"#!?\[\s*(?:cfg_attr\([^)]*,\s*)?(?:allow|warn|expect)\s*\([^\])]*\bunsafe_code\b")
CARGO_ALLOWS_UNSAFE = re.compile(r'^\s*unsafe_code\s*=\s*(?:"(?:allow|warn)"|\{[^}]*"(?:allow|warn)")', re.MULTILINE)
INHERITS_LINTS = re.compile(r"^\[lints\]\s*\n\s*workspace\s*=\s*true", re.MULTILINE)
LINE_MAX = 120
CIRCLE_MAX = 4
A_TABLE = "a table names what stands in files of their own, and these take its types"
# The files of a crate's largest circle, and why they are left.
CIRCLES = {
    "functions": (20, A_TABLE),
    "views": (23, A_TABLE),
    "disk": (7, "a disk makes files, and each kind of file knows its disk"),
    "page": (5, "a module and its parts"),
    "types": (5, "a histogram, its builder and its bytes"),
    "interleave": (6, "the script drives the sessions, whose history the judge reads"),
    "engine": (5, "a database and what it keeps of its changes"),
    "table": (15, "a table's estimates read the statement's notes, and a statement lists its tables"),
    "binder": (9, "the binder's methods stand by subject, and it holds what they make"),
}
TABLE = Path("crates/base/src/errors.rs")
NUMBER = r"-?\d[\d_]*\b"
# `SqlError::raised(208,`, `SqlError { number: 208,`, `error.number == 208`, `match error.number { 208 =>`, `Entry { … }`.
BARE_NUMBER = re.compile(
    rf"\bSqlError::raised\(\s*{NUMBER}|\b(?:SqlError|Message)\s*\{{[^{{}}]*\bnumber:\s*(?!0\b){NUMBER}|\bEntry\s*\{{[^{{}}]*\bnumber:"
    rf"|\berror\.number\s*[=!]=\s*{NUMBER}|\bmatches!\(\s*[\w.]*\berror\.number,\s*{NUMBER}"
    rf"|\bmatch [\w.]*\berror\.number \{{\s*{NUMBER}")
FENCE = re.compile(r"\s*//[/!]? *```")
NAMES_DATAFUSION = re.compile(r"\bdatafusion(?:_\w+)?\s*::")


def short(package_name):
    """`hobt-page` is `page`; the top crate is `hobt` itself."""
    return package_name.removeprefix("hobt-")


def without_comments(source):
    """Rust source without line comments, so that prose may name what code may not."""
    return re.sub(r"//[^\n]*", "", source)


def dependency_problems(packages):
    """Rules 1 and 2 as the manifests show them."""
    members = {package["name"] for package in packages}
    for package in packages:
        name = short(package["name"])
        if name not in ORDER:
            yield f"crate {package['name']} has no place in the order; add it to ORDER in scripts/check_order.py"
            continue
        for dependency in package["dependencies"]:
            target = dependency["name"]
            if target.split("-")[0] == "datafusion" and name not in DATAFUSION:
                yield f"crate {name} depends on {target}; only {', '.join(sorted(DATAFUSION))} may"
            # A crate may use itself in its own tests.
            if target not in members or target == package["name"]:
                continue
            if short(target) in ORDER and ORDER.index(short(target)) > ORDER.index(name):
                yield f"crate {name} depends on {short(target)}, which comes after it in the order"
            if (name, short(target)) in APART:
                yield f"crate {name} depends on {short(target)}; the two are built side by side"


def source_problems(packages):
    """Rules 2 and 3 as the sources show them."""
    for package in packages:
        name = short(package["name"])
        folder = Path(package["manifest_path"]).parent
        manifest = (folder / "Cargo.toml").read_text(encoding="utf-8")
        if name not in UNSAFE:
            if not INHERITS_LINTS.search(manifest):
                yield f"crate {name} does not inherit the workspace's lints: its Cargo.toml needs [lints] workspace = true"
            if CARGO_ALLOWS_UNSAFE.search(manifest):
                yield f"crate {name} allows unsafe_code in Cargo.toml; only {', '.join(sorted(UNSAFE))} may"
        for path in sorted(folder.rglob("*.rs")):
            source = without_comments(path.read_text(encoding="utf-8"))
            shown = path.relative_to(ROOT)
            if name not in UNSAFE and str(shown) not in UNSAFE_FILES and ALLOWS_UNSAFE.search(source):
                yield f"{shown} allows unsafe_code; only {', '.join(sorted(UNSAFE))} may"
            if name not in DATAFUSION and NAMES_DATAFUSION.search(source):
                yield f"{shown} names DataFusion; only {', '.join(sorted(DATAFUSION))} may"


def module_problems(packages):
    """Rule 4."""
    for package in packages:
        roots = {Path(target["src_path"]) for target in package["targets"]}
        for path in sorted(Path(package["manifest_path"]).parent.rglob("*.rs")):
            if path in roots:
                continue
            place = path.parent if path.stem == "mod" else path
            parents = {place.parent / "mod.rs", place.parent.with_suffix(".rs")}
            parents |= {root for root in roots if root.parent == place.parent}
            names = re.compile(rf"\bmod\s+{place.stem}\s*;")
            if not any(parent.exists() and names.search(without_comments(parent.read_text(encoding="utf-8")))
                       for parent in parents):
                yield f"{path.relative_to(ROOT)} is no module of its crate: nothing says mod {place.stem}"


def comment_problems(packages):
    """Rule 5."""
    for package in packages:
        for path in sorted(Path(package["manifest_path"]).parent.rglob("*.rs")):
            is_drawing = False
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if not line.lstrip().startswith("//"):
                    is_drawing = False
                elif FENCE.match(line):
                    is_drawing = not is_drawing
                elif len(line) > LINE_MAX and not is_drawing:
                    yield f"{path.relative_to(ROOT)}:{number}: a comment of more than {LINE_MAX} characters"


def circle_problems(packages):
    """Rule 6."""
    for package in packages:
        name = short(package["name"])
        limit, _reason = CIRCLES.get(name, (CIRCLE_MAX, ""))
        sizes = [0]
        for circle in Crate(Path(package["manifest_path"]).parent / "src").circles():
            sizes.append(len(circle))
            if len(circle) > limit:
                files = ", ".join(sorted(map(shown, circle)))
                yield f"crate {name}: {len(circle)} files import each other, {limit} are allowed: {files}"
        if name in CIRCLES and max(sizes) < limit:
            yield f"crate {name}: its largest circle has {max(sizes)} files now; CIRCLES still allows {limit}"


def number_problems(packages):
    """Rule 7. Tests may say which numbers they expect."""
    for package in packages:
        for path in sorted((Path(package["manifest_path"]).parent / "src").rglob("*.rs")):
            shown = path.relative_to(ROOT)
            source = without_comments(path.read_text(encoding="utf-8")).split("#[cfg(test)]\nmod tests {")[0]
            if shown == TABLE or "tests" in path.parts or path.name == "tests.rs":
                continue
            for found in BARE_NUMBER.finditer(source):
                line = source.count("\n", 0, found.start()) + 1
                yield f"{shown}:{line}: an error's number outside the table {TABLE}: {found.group().split()[-1]}"


def main():
    packages = cargo_metadata("--no-deps")["packages"]
    problems = [*dependency_problems(packages), *source_problems(packages), *module_problems(packages),
                *comment_problems(packages), *circle_problems(packages), *number_problems(packages)]
    lints = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    if not re.search(r'^unsafe_code\s*=\s*"(?:deny|forbid)"', lints, re.MULTILINE):
        problems.append('Cargo.toml does not say unsafe_code = "deny" under [workspace.lints.rust]')
    finish("dependency order", problems, f"{len(packages)} crates")


if __name__ == "__main__":
    main()
