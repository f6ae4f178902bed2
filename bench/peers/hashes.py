"""A column of ints through hobt's xxHash3, and the same values through a plain loop over the crate that it stands on.

Both run in `hobt lab run hash`, in one process, in turn: there is nothing else to install.
"""

import json
import subprocess

from engines import EngineError


def run(options, folder):
    """The comparison in `folder`; the report's entries."""
    report = folder / "hash.json"
    command = [
        str(options.hobt), "lab", "run", "hash", "--case", "int_xxhash3", "--rows", str(options.hash_rows),
        "--repeat", str(options.hash_repeat), "--data", str(folder / "hobt-hash"), "--json", str(report),
    ]
    print(f"hashes: {options.hash_rows:,} ints, {options.hash_repeat} times", flush=True)
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=options.timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"{' '.join(command)} took more than {options.timeout} s") from error
    if result.returncode != 0:
        raise EngineError(f"{' '.join(command)} failed:\n{result.stdout.decode(errors='replace')}")
    found = json.loads(report.read_text())
    settings = found["settings"]
    cases = {case["name"]: case["ns_per_value"] for case in found["cases"]}
    print(f"hash         xxHash3 over the loop: ratio {settings['hash_ratio']:.3f} "
          f"({settings['hash_ratio_with_batches_and_call']:.3f} with batches and the call)")
    return {
        "hash_ratio": settings["hash_ratio"],
        "hash_with_batches_and_call": settings["hash_ratio_with_batches_and_call"],
        "hash_ns_per_value": cases,
        "hash_settings": {"rows": options.hash_rows, "repeat": options.hash_repeat},
    }
