#!/usr/bin/env python3
"""Checks that README.md, ARCHITECTURE.md, CONTRIBUTING.md, CHANGELOG.md and docs/**/*.md name only what is there.

Looked at is what stands in backticks, in code blocks and in links:
- a path: it begins with an entry of the root folder (`crates/page/src`), or has a suffix of the source tree
  (`heap/scan.rs`); it must exist below the root, below the document's folder, or as the end of some file's path;
- a crate `hobt-NAME`: it must be a member of the workspace;
- a command `hobt …`: its subcommands and flags must be in the program's own `--help` (given by --hobt; without it
  the commands are skipped, and said to be);
- a relative link: its target must exist.
What holds a placeholder (`…`, `<`, `*`, `{`, `$`, capitals alone such as DIR) is left alone.

    scripts/check_docs.py [--hobt PATH]
"""

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from workspace import ROOT, cargo_metadata, finish, tracked_files

SOURCE_SUFFIXES = (".rs", ".py", ".sh", ".md")
PLACEHOLDER = re.compile(r"[…<>*{}$|?]|\.\.\.")
FENCE = re.compile(r"^\s*(```|~~~)")
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(r"^\.?[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*/?$")
CRATE = re.compile(r"^hobt-[a-z]+$")
COMMAND = re.compile(r"^(?:\$ )?(?:(?:\./)?(?:target/(?:release|debug)/)?hobt|cargo run\b(?!.* -p hobt-).*?\s--)\s+(.*)$")


def documents():
    """The documents that are checked, those that exist."""
    names = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in names if path.is_file()]


def mentions(text):
    """Pairs of line number and what is written as code in that line; a line of a code block counts whole."""
    in_block = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            in_block = not in_block
        elif in_block:
            yield number, line.strip(), True
        else:
            for span in SPAN.findall(line):
                yield number, span.strip(), False


class Tree:
    """The files of the repository."""

    def __init__(self):
        self.files = tracked_files()
        self.top = {name.split("/")[0] for name in self.files}

    def is_path(self, text):
        """Whether `text` reads as a path of this repository."""
        if not PATH.match(text) or PLACEHOLDER.search(text):
            return False
        first = text.removeprefix("./").split("/")[0]
        if "/" in text.rstrip("/") or text.endswith("/"):
            return first in self.top or text.endswith(SOURCE_SUFFIXES)
        return text.endswith(SOURCE_SUFFIXES) or (first in self.top and "." in first)

    def has(self, text, document):
        """Whether the path is there: from the root, from the document, or as the end of a file's path."""
        text = text.removeprefix("./").rstrip("/")
        if (ROOT / text).exists() or (document.parent / text).exists():
            return True
        return any(name.endswith("/" + text) or f"/{text}/" in f"/{name}" for name in self.files)


class Program:
    """What the program says of its own commands, by --help."""

    def __init__(self, path):
        self.path = path
        self.pages = {}

    def help(self, words):
        """The help text of a command; None when the program does not know it."""
        if words not in self.pages:
            result = subprocess.run(
                [self.path, *words, "--help"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                timeout=60,
            )
            self.pages[words] = result.stdout if result.returncode == 0 else None
        return self.pages[words]

    def subcommands(self, words):
        """The names under `Commands:` of a help text."""
        section = re.search(r"^Commands:\n((?:\s+.*\n?)+)", self.help(words) or "", re.MULTILINE)
        return set(re.findall(r"^ {2}([a-z][a-z0-9-]*)\b", section.group(1), re.MULTILINE)) if section else set()

    def problems(self, line):
        """What is wrong with the words after `hobt` in a document."""
        try:
            tokens = shlex.split(line, comments=True)
        except ValueError:
            # A quotation mark without its pair: the document shows part of a command.
            tokens = line.split()
        # Only the first command of a pipe or a list is ours.
        end = next((i for i, token in enumerate(tokens) if token in ("|", ">", "<", "&&", ";", "2>&1")), len(tokens))
        words = ()
        descending = True
        for token in tokens[:end]:
            if token.startswith("-") and len(token) > 1 and not re.match(r"^-\d", token):
                flag = token.split("=")[0].rstrip("]).,;")
                if PLACEHOLDER.search(flag) or flag == "--":
                    continue
                text = self.help(words) or ""
                if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text):
                    yield f"`{' '.join(['hobt', *words])}` has no flag {flag}"
                continue
            known = self.subcommands(words) if descending else set()
            if not known:
                descending = False
            elif token in known:
                words = (*words, token)
            elif re.match(r"^[a-z][a-z0-9-]*$", token):
                yield f"`{' '.join(['hobt', *words])}` has no command {token}"
                return
            else:
                descending = False


def link_problem(target, document):
    """What is wrong with a link's target, or None."""
    if re.match(r"^[a-z][a-z0-9+.-]*:", target) or target.startswith("#"):
        return None
    path = target.split("#")[0]
    return None if (document.parent / path).exists() else f"the link to {target} leads nowhere"


def problems_of(document, tree, crates, program):
    """Problems of one document, each with its place."""
    text = document.read_text(encoding="utf-8")
    place = document.relative_to(ROOT)
    for number, code, in_block in mentions(text):
        found = []
        command = COMMAND.match(code)
        if command:
            found = list(program.problems(command.group(1))) if program else []
        elif CRATE.match(code):
            found = [] if code in crates else [f"there is no crate {code}"]
        elif not in_block:
            # `path:12` and `path::item` name a place in a file.
            path = re.split(r"::|:\d", code)[0]
            if tree.is_path(path) and not tree.has(path, document):
                found = [f"there is no {path}"]
        for problem in found:
            yield f"{place}:{number}: {problem}"
    for number, line in enumerate(text.splitlines(), 1):
        for target in LINK.findall(SPAN.sub("", line)):
            problem = link_problem(target, document)
            if problem:
                yield f"{place}:{number}: {problem}"


def main():
    parser = argparse.ArgumentParser(description="checks that the documents name only what is there")
    parser.add_argument("--hobt", help="the built program; without it commands are not checked")
    arguments = parser.parse_args()
    if arguments.hobt and not Path(arguments.hobt).is_file():
        sys.exit(f"documents: there is no program {arguments.hobt}; build it, or leave --hobt out")
    program = Program(arguments.hobt) if arguments.hobt else None
    if not program:
        print("documents: SKIPPED the commands, because --hobt names no program")
    crates = {package["name"] for package in cargo_metadata("--no-deps")["packages"]}
    tree = Tree()
    checked = documents()
    problems = [problem for document in checked for problem in problems_of(document, tree, crates, program)]
    finish("documents", problems, f"{len(checked)} documents")


if __name__ == "__main__":
    main()
