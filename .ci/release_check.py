"""Checks all of a release that can be checked before it is published: archives, installs, licences, workflows, versions.

    python .ci/release_check.py [--release X.Y.Z] [--python 3.11 --python 3.12]

It runs in the venv of the dependency group `tools` (`make release-check`), and leaves the archives in dist/. Each step prints
one line; the first that fails ends it with its output and exit code 1.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT, TOOLS = Path(__file__).resolve().parents[1], Path(sys.executable).parent
PYTHONS = ("3.11", "3.12", "3.13")
# Each is an extra's own id, or a part of the package that an old release of a dependency would break first.
CHECKED = ("SearchQA", "Sort", "Tau2Telecom", "LegalSearch", "BabyAI", "Crafter")
LICENCES = (  # parts of names, without regard to case
    "MIT", "BSD", "Apache", "ISC License", "Python Software Foundation", "PSF", "MPL", "Mozilla Public License", "Unlicense",
    "LGPL", "Lesser General Public License", "HPND", "CC0", "zlib", "0BSD", "Public Domain", "CNRI-Python",
)  # fmt: skip


def main() -> int:
    """Run the steps; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", default="", help="the version that is to be released; without it any will do")
    parser.add_argument("--python", action="append", help=f"try these instead of those of {PYTHONS} that are here")
    options = parser.parse_args()
    steps = [(check_versions, (options.release,)), (build, ()), (check_workflows, ())]
    pythons = [name for name in options.python or PYTHONS if options.python or has_python(name)]
    steps += [(try_wheel, (name, which)) for name in pythons for which in ("lowest-direct", "highest")]
    for step, arguments in (*steps, (check_licences, (pythons[-1],))):
        try:
            print(f"ok    {step(*arguments)}", flush=True)
        except (subprocess.CalledProcessError, ValueError, OSError, StopIteration) as error:
            output = f"\n{error.stdout}{error.stderr}" if isinstance(error, subprocess.CalledProcessError) else ""
            print(f"FAILED {step.__name__} {' '.join(arguments)}: {error}{output}", file=sys.stderr)
            return 1
    missing = sorted(set(PYTHONS) - set(pythons))
    print(f"not tried, as they are not here: Python {', '.join(missing)}" if missing else "all Pythons were tried")
    return 0


def run(*command: object, cwd: Path = ROOT) -> str:
    """Return what a command printed; raises CalledProcessError with it where it fails."""
    return subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=True).stdout


def has_python(name: str) -> bool:
    """Return whether this machine has that Python."""
    return not subprocess.run([TOOLS / "uv", "python", "find", name], capture_output=True, check=False).returncode


def check_versions(release: str) -> str:
    """Hold pyproject's version against those of CITATION.cff and CHANGELOG, and against the one to be released."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    places = {
        "agent_envs/base/version.py": r'^VERSION = "(\S+)"',
        "CITATION.cff": r"^version: (\S+)",
        "CHANGELOG.md": r"^## \[?([^\s\]]+)",
    }
    for name, pattern in places.items():
        match = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
        there = match.group(1) if match else "none"
        if there != version and not (name == "CHANGELOG.md" and ".dev" in version and there == "Unreleased"):
            raise ValueError(f"{name} has version {there}, and pyproject.toml {version}")
    if release and release != version:
        raise ValueError(f"the release is {release}, and pyproject.toml has version {version}")
    return f"version {version} everywhere"


def build() -> str:
    """Build the source archive, the wheel from it, and check both as PyPI does."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", ROOT / "dist", ROOT)
    archives = sorted((ROOT / "dist").iterdir())
    run(TOOLS / "twine", "check", "--strict", *archives)
    return "built and checked: " + ", ".join(f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in archives)


def check_workflows() -> str:
    """Hold workflows, forms of issues and CITATION.cff against their schemas, and look for what is unsafe in workflows."""
    workflows = [*ROOT.glob(".github/workflows/*.yml"), *ROOT.glob("leaderboard/workflows/*.yml")]
    schemas = {
        "vendor.github-workflows": workflows,
        "vendor.github-issue-forms": [p for p in ROOT.glob(".github/ISSUE_TEMPLATE/*.yml") if p.stem != "config"],
        "vendor.citation-file-format": [ROOT / "CITATION.cff"],
    }
    for schema, files in schemas.items():
        run(TOOLS / "check-jsonschema", "--builtin-schema", schema, *files)
    run(TOOLS / "zizmor", "--offline", "--no-progress", *workflows)
    return f"{len(workflows)} workflows, {len(schemas['vendor.github-issue-forms'])} forms and CITATION.cff"


def try_wheel(python: str, resolution: str) -> str:
    """Install the wheel in a clean venv, with the oldest or newest of each dependency; check ids and evaluate an agent."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        binaries = install(home, python, "--resolution", resolution)
        run(binaries / "agent-envs", "check", *CHECKED, "-n", "2", "--hostile", "50", cwd=home)
        ran = run(binaries / "agent-envs", "eval", "SearchQA", "--agent", "solver", "-n", "8", "--json", cwd=home)
        if json.loads(ran)["success"] != 1.0:
            raise ValueError(f"the solver does not solve SearchQA: {ran}")
        packages = json.loads(run(TOOLS / "uv", "pip", "list", "--format", "json", "--python", binaries / "python"))
    numpy = next(row["version"] for row in packages if row["name"] == "numpy")
    which = {"highest": "newest"}.get(resolution, "oldest")
    return f"Python {python}, the {which} of each dependency (numpy {numpy}, {len(packages)} packages)"


def install(home: Path, python: str, *options: str) -> Path:
    """Install the wheel with extra `envs` in a new venv; return the folder of its commands."""
    wheel = next((ROOT / "dist").glob("*.whl"))
    run(TOOLS / "uv", "venv", "--quiet", "--python", python, home / "venv")
    interpreter = home / "venv" / "bin" / "python"
    into = (TOOLS / "uv", "pip", "install", "--quiet", "--python", interpreter)
    run(*into, *options, "-r", "pyproject.toml", "--extra", "envs")  # of a wheel alone uv takes no oldest dependencies
    run(*into, "--no-deps", wheel)
    return interpreter.parent


def check_licences(python: str) -> str:
    """Hold the licences of what the wheel installs, and of data sets, against those that we know to allow it."""
    with tempfile.TemporaryDirectory() as folder:
        binaries = install(Path(folder), python)
        options = ("--from", "mixed", "--partial-match", "--allow-only", ";".join(LICENCES))
        rows = run(TOOLS / "pip-licenses", "--python", binaries / "python", *options, "--format", "json")
        data = json.loads(run(binaries / "agent-envs", "data", "list", "--json", cwd=Path(folder)))
    if nameless := [row["name"] for row in data if not row["licence"]]:
        raise ValueError(f"data sets without a licence: {', '.join(nameless)}")
    return f"licences of {len(json.loads(rows))} packages and {len(data)} data sets"


if __name__ == "__main__":
    sys.exit(main())
