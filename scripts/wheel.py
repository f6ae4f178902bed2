#!/usr/bin/env python3
"""Packs a program as a Python package that installs it as a command: `wheel.py PROGRAM VERSION PLATFORM FOLDER`.

The format is the binary distribution of the Python packaging specifications: a zip file whose `.data/scripts` an installer puts
on the path, with a RECORD of what is in it.
"""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM_MODE = 0o100755
FILE_MODE = 0o100644
# A file in a zip has no time before this; a fixed one makes equal programs equal packages.
TIME = (1980, 1, 1, 0, 0, 0)


def metadata(version):
    """The METADATA file: what the package is, and its README."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    fields = (
        "Metadata-Version: 2.1",
        "Name: hobt",
        f"Version: {version}",
        "Summary: A single-binary SQL database that speaks T-SQL and accounts for every millisecond of a query",
        "License: Apache-2.0",
        "Requires-Python: >=3.8",
        "Description-Content-Type: text/markdown",
    )
    return "\n".join(fields) + "\n\n" + readme


def wheel_file(platform):
    """The WHEEL file."""
    return f"Wheel-Version: 1.0\nGenerator: hobt\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n"


def main():
    program, version, platform, folder = sys.argv[1:]
    info = f"hobt-{version}.dist-info"
    files = [
        (f"hobt-{version}.data/scripts/hobt", PROGRAM_MODE, Path(program).read_bytes()),
        (f"{info}/METADATA", FILE_MODE, metadata(version).encode()),
        (f"{info}/WHEEL", FILE_MODE, wheel_file(platform).encode()),
    ]
    record = []
    path = Path(folder) / f"hobt-{version}-py3-none-{platform}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:

        def add(name, mode, content):
            entry = zipfile.ZipInfo(name, TIME)
            entry.external_attr = mode << 16
            package.writestr(entry, content, zipfile.ZIP_DEFLATED)

        for name, mode, content in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
            add(name, mode, content)
        record.append(f"{info}/RECORD,,\n")
        add(f"{info}/RECORD", FILE_MODE, "".join(record).encode())
    print(path)


if __name__ == "__main__":
    main()
