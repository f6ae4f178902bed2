#!/usr/bin/env python3
"""Runs docs/getting-started.md, command by command, and compares what each prints with what the document shows below it.

What is run, in order, all of it in one fresh temporary folder:
- a ```sql block whose first line is `-- NAME.sql` is written to that file; one without such a line is a problem;
- in a ```console block a line `$ COMMAND` is a command of bash, up to the first line that does not end in `\\`, with the program given
  by --hobt as `hobt`. Lines `1> TEXT` are what is typed into it: they are its input. The other lines, up to the next
  command, are its output, that of the error stream too. A command must end with exit code 0.
Blocks of any other kind are not run.

How output is compared, line by line:
- a line `…` matches any lines, also none; `…` at the end of a line matches the rest of it;
- the temporary folder is `…`: `…/my-data`;
- of numbers, those with a unit (ms, s, MB, %, MB/s …) match any other number, and so do versions (1.2.3) and times of day;
  in what `hobt why` and `hobt lab` print, every number does;
- widths do not count: runs of spaces, of `-` and of the characters that draw tables are one, and spaces at the end are none.

    scripts/check_getting_started.py --hobt PATH
"""

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from workspace import ROOT, finish

DOCUMENT = ROOT / "docs" / "getting-started.md"
ELLIPSIS = "…"
SECONDS = 60
NUMBER = r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?"
UNIT = r"(?:ns|µs|ms|s|min|bytes|KB|MB|GB|KiB|MiB|GiB|%)(?:/s)?"
FILE_NAME = re.compile(r"-- ([\w-]+\.sql)")
TYPED = re.compile(r"\d+> ?(.*)")
FIGURES_ONLY = re.compile(r"hobt (?:why|lab)\b")


class Command:
    """A command of the document: its first line, its text, what is typed into it and what it is to print."""

    def __init__(self, line, text):
        self.line = line
        self.text = text
        self.typed = []
        self.expected = []


class File:
    """A script of the document."""

    def __init__(self, line, name, text):
        self.line = line
        self.name = name
        self.text = text


def blocks(text):
    """The fenced blocks: number of the first line inside, language, lines."""
    language, start, lines = None, 0, []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("```"):
            lines.append(line)
        elif language is None:
            language, start, lines = line[3:].strip(), number + 1, []
        else:
            yield start, language, lines
            language = None


def commands(start, lines):
    """The commands of a console block."""
    found, continues = [], False
    for number, line in enumerate(lines, start):
        if continues:
            found[-1].text += "\n" + line
        elif line.startswith("$ "):
            found.append(Command(number, line[2:]))
        elif not found:
            raise ValueError(f"line {number}: output before the first command")
        elif typed := TYPED.fullmatch(line):
            found[-1].typed.append(typed.group(1))
        else:
            found[-1].expected.append(line)
        continues = (continues or line.startswith("$ ")) and line.endswith("\\")
    return found


def steps(text):
    """What the document tells to do, in order."""
    for start, language, lines in blocks(text):
        if language == "console":
            yield from commands(start, lines)
        elif language == "sql":
            name = FILE_NAME.fullmatch(lines[0]) if lines else None
            if not name:
                raise ValueError(f"line {start}: the first line of a sql block names its file: -- NAME.sql")
            yield File(start, name.group(1), "\n".join(lines) + "\n")


def normalised(line, is_figures_only):
    """A line without what differs from run to run."""
    line = re.sub(r"\b\d+(?:\.\d+){2,}\b|\b\d\d:\d\d(?::\d\d)?\b", "#", line)
    line = re.sub(NUMBER if is_figures_only else rf"{NUMBER}(?=\s?{UNIT}(?!\w))", "#", line)
    line = re.sub(r"-{2,}", "-", line)
    line = re.sub(r"([─═])[─═]+", r"\1", line)
    return re.sub(r"\s+", " ", line).rstrip()


def matches_line(expected, actual):
    """Whether one line is as expected."""
    if expected.endswith(ELLIPSIS) and expected != ELLIPSIS:
        return actual.startswith(expected.removesuffix(ELLIPSIS).rstrip())
    return expected == actual


def matches(expected, actual):
    """Whether the lines are as expected. `…` takes the fewest lines that let the rest match."""
    if not expected:
        return not actual
    if expected[0] == ELLIPSIS:
        return any(matches(expected[1:], actual[skipped:]) for skipped in range(len(actual) + 1))
    return bool(actual) and matches_line(expected[0], actual[0]) and matches(expected[1:], actual[1:])


def without_empty_ends(lines):
    """The lines without empty ones at the beginning and the end."""
    return "\n".join(lines).strip("\n").splitlines()


def run(command, folder, environment):
    """Runs a command; gives what is wrong with what it printed, or None."""
    typed = "".join(line + "\n" for line in command.typed)
    try:
        result = subprocess.run(
            ["bash", "-c", command.text], cwd=folder, env=environment, input=typed, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"not done after {SECONDS} s"
    printed = result.stdout.replace(str(folder), ELLIPSIS).splitlines()
    if result.returncode != 0:
        return "\n".join([f"exit code {result.returncode}", *printed])
    is_figures_only = bool(FIGURES_ONLY.match(command.text))
    expected, actual = (
        without_empty_ends([normalised(line, is_figures_only) for line in lines]) for lines in (command.expected, printed)
    )
    if matches(expected, actual):
        return None
    # Lines that match by their beginning are no difference.
    shown = [next((line for line in actual if matches_line(wanted, line)), wanted) for wanted in expected]
    return "\n".join(difflib.unified_diff(shown, actual, "the document", "the program", lineterm=""))


def problems_of(text, hobt):
    """What is wrong with the document. Steps after a failed one run too."""
    with tempfile.TemporaryDirectory(prefix="hobt-getting-started-") as name:
        folder = Path(name).resolve()
        programs, work = folder / "bin", folder / "work"
        programs.mkdir()
        work.mkdir()
        (programs / "hobt").symlink_to(hobt)
        environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "HOME": name, "LC_ALL": "C.UTF-8"}
        for step in steps(text):
            if isinstance(step, File):
                (work / step.name).write_text(step.text, encoding="utf-8")
            elif problem := run(step, work, environment):
                yield f"{DOCUMENT.relative_to(ROOT)}:{step.line}: {step.text}\n{problem}"


def main():
    parser = argparse.ArgumentParser(description="runs docs/getting-started.md and compares what its commands print")
    parser.add_argument("--hobt", required=True, help="the built program")
    arguments = parser.parse_args()
    hobt = Path(arguments.hobt).resolve()
    if not hobt.is_file():
        sys.exit(f"getting started: there is no program {hobt}; build it first")
    text = DOCUMENT.read_text(encoding="utf-8")
    try:
        problems = list(problems_of(text, hobt))
        count = sum(isinstance(step, Command) for step in steps(text))
    except ValueError as error:
        sys.exit(f"getting started: {error}")
    if not count:
        problems.append("the document has no command")
    finish("getting started", problems, f"{count} commands")


if __name__ == "__main__":
    main()
