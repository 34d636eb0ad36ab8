"""Builds the environment of `make demo` and `make test`; says what it takes, how far it is, and what to do where it fails.

    python3 .ci/install.py FOLDER --torch torch==2.13.0 [--torch-index URL]

The standard library alone is used: nothing is installed yet. What was installed before a kill is not installed again.
"""

from __future__ import annotations  # an older Python is told that it is too old

import argparse
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

OLDEST, NEEDED_GB = (3, 11), 4
SIZE = "2.4 GB with torch's build for CPUs (TORCH_INDEX, README), 6.1 GB with the one for GPUs that PyPI has for Linux"
INDEX = "name an index with PIP_INDEX_URL=URL (torch's with TORCH_INDEX=URL)"
TORCH = "name another with TORCH=torch==X, or the index of your machine with TORCH_INDEX=URL (README, Install)"
FIXES = (  # what pip says, and what to do; the first that fits
    (
        r"No space left on device",
        f"the disk is full: the environment takes {SIZE}, and pip's downloads half as much again",
    ),
    (
        r"Retry\(total=0|Max retries|NewConnectionError|ConnectionError|ProxyError|SSLError|Could not fetch URL|timed out",
        f"the index of packages cannot be reached: check the network, or {INDEX}",
    ),
)


def main() -> int:
    """Build it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--torch", required=True, help="what pip installs first, by name")
    parser.add_argument("--torch-index", default="", help="the index that torch comes from")
    options = parser.parse_args()
    if sys.version_info < OLDEST:
        return failed(f"this is Python {sys.version.split()[0]}, and 3.11 is the oldest: make PYTHON=python3.12")
    begins = not any(options.folder.glob("lib/*/site-packages/torch"))  # what goes on needs less
    there = next(folder for folder in options.folder.absolute().parents if folder.exists())
    if begins and shutil.disk_usage(there).free < NEEDED_GB * 2**30:
        return failed(f"less than {NEEDED_GB} GB are free here: the environment takes {SIZE}")
    print(
        f"Installing into {options.folder}, once, in 2 to 10 minutes: {SIZE}.\n"
        "Stopped or failed, the same command goes on from here.",
        flush=True,
    )
    python = options.folder / "bin" / "python"
    index = ["--index-url", options.torch_index] if options.torch_index else []
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
    begun = time.monotonic()
    if subprocess.run([sys.executable, "-m", "venv", str(options.folder)], check=False).returncode:
        return failed("this Python cannot make a virtual environment: on Debian, apt-get install python3-venv")
    steps = (
        (options.torch, [*index, options.torch], f"{options.torch} does not fit this Python and machine: {TORCH}"),
        ("everything else", ["-e", ".[dev]"], "what pip says stands above"),
    )
    for what, words, otherwise in steps:
        print(f"{time.monotonic() - begun:4.0f} s  {what}", flush=True)
        if fix := fix_of([*pip, *words], begun, otherwise):
            return failed(fix)
    print(f"{time.monotonic() - begun:4.0f} s  compiling, on all cores", flush=True)
    # pip compiles on one core. Some packages hold files that are no Python 3: no error of ours.
    compiling = [str(python), "-m", "compileall", "-qq", "-j", "0", str(options.folder / "lib")]
    subprocess.run(compiling, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    print(f"{time.monotonic() - begun:4.0f} s  installed", flush=True)
    return 0


def fix_of(command: list[str], begun: float, otherwise: str) -> str:
    """Run pip and show how far it is; return what to do about its failure, `otherwise` unless it is known, or nothing."""
    lines, packages = [], 0
    state = {"now": "pip begins"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as pip:
        ended = threading.Event()
        threading.Thread(target=show_signs_of_life, args=(state, begun, ended), daemon=True).start()
        for line in pip.stdout or ():
            lines.append(line.rstrip())
            packages += line.startswith("Collecting ")
            big = re.match(r"\s*Downloading (\S+).*\(([0-9.]+ [MG]B)\)", line)
            state["now"] = (
                line.strip()[:150] if big or line.startswith("Installing") else f"{packages} packages looked up"
            )
            if big or line.startswith(("Installing collected", "WARNING: Retrying", "ERROR")):
                print(f"{time.monotonic() - begun:4.0f} s  {line.strip()[:150]}", flush=True)
        ended.set()
    if pip.returncode == 0:
        return ""
    print("\n".join(lines)[-2_000:], file=sys.stderr, flush=True)
    # What stands behind the last sign of progress; any retry but the last may have worked.
    progress = re.compile(r"\s*(Collecting|Downloading|Using cached|Installing) ")
    ahead = max((place for place, line in enumerate(lines) if progress.match(line)), default=0)
    text = "\n".join(line for line in lines[ahead:] if not re.search(r"Retry\(total=[1-9]", line))
    for pattern, fix in FIXES:
        if re.search(pattern, text):
            return fix
    return otherwise


def show_signs_of_life(state: dict[str, str], begun: float, ended: threading.Event) -> None:
    """Say every five seconds what pip does; one download is silent for minutes."""
    while not ended.wait(5):
        print(f"{time.monotonic() - begun:4.0f} s  {state['now']}", flush=True)


def failed(fix: str) -> int:
    """Say in one line what to do."""
    print(f"make: the environment was not installed: {fix}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
