"""What the checks of this folder ask of the workspace: its root, its metadata, its files."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def cargo_metadata(*arguments):
    """`cargo metadata` as an object; ends the program with cargo's own message when it fails."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", *arguments]
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{result.stderr}")
    return json.loads(result.stdout)


def tracked_files():
    """The paths, relative to the root, of the files that git tracks or would track."""
    result = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
    )
    if result.returncode == 0:
        names = result.stdout.splitlines()
        return [name for name in names if (ROOT / name).exists()]
    # An unpacked archive has no git: take what is there, without what builds leave.
    skipped = {"target", ".git", "__pycache__"}
    found = (path for path in ROOT.rglob("*") if path.is_file())
    relative = (path.relative_to(ROOT) for path in found)
    return [str(path) for path in relative if not skipped.intersection(path.parts)]


def finish(check, problems, summary):
    """Prints the problems and ends the program with 1, or prints the summary when there are none."""
    for problem in problems:
        print(f"{check}: {problem}", file=sys.stderr)
    if problems:
        sys.exit(f"{check}: {len(problems)} problem(s)")
    print(f"{check}: ok, {summary}")
