"""`make test-integrations`: each adapter on the real package, pinned, in a venv of its own, with the wheel of this checkout.

    python -m tests.integrations.real [NAME...] [--venvs DIR]

Of each it compares the stubs with the package, plays the parity test and runs the page's scripts; of TRL it also trains the toy
on three seeds; of verifiers and OpenEnv `agent-envs check` plays a sound environment and broken ones (`checked`), and what
`agent-envs export` writes for a hub is installed and played. It prints a line each and ends with 1 where one failed. With
--venvs what is installed there is used again.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT

PAGE = ROOT / "docs" / "integrations.md"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
# What is exported: the page's commands. OpenEnv's own validation may ask for nothing but the lock file, which needs an index.
PARITY = "tests/integrations/test_parity.py"
HUBS = {name: ("SearchQA", "--arg", "max_generations=4") for name in ("verifiers", "openenv")}
VALIDATED = """import pathlib, sys
from openenv.cli._validation import validate_multi_mode_deployment
print(validate_multi_mode_deployment(pathlib.Path(sys.argv[1]))[1])"""
SEEDS, RISE = (0, 1, 2), 0.2  # the toy's mean reward has to rise by this much


@dataclass(frozen=True)
class Real:
    """What is installed, which hosts of the parity test it serves, and the stubs that are compared with it."""

    pins: tuple[str, ...]
    hosts: str = ""
    stubs: str = ""
    without: tuple[str, ...] = ()  # installed without what they ask for


VERL = ("ray==2.60.0", "tensordict==0.10.0", "hydra-core==1.3.8", "transformers==5.10.*", "codetiming", "torchdata", "datasets",
        "fastapi", "uvicorn", "prometheus_client", "msgspec", "pyzmq", "cachetools", "dill", "pylatexenc")  # fmt: skip
PACKAGES = {
    "trl": Real(("trl==1.16.0", "datasets==5.2.0", "openenv==0.10.0"), "trl_tools,trl_turns", "trl"),
    "skyrl": Real(("skyrl-gym==0.4.0",), "skyrl", "skyrl_gym"),
    "openenv": Real(("openenv==0.10.0",), "openenv", "openenv"),
    "verifiers": Real(("verifiers[openenv]==0.4.0", "uv"), "verifiers", "verifiers"),
    "verl": Real(VERL, "verl", "verl", ("verl==0.9.1",)),  # its trainer needs a GPU: its base class alone is run
    "gem": Real(("gem-llm==0.1.0", "requests"), "gem", "gem"),
    "inspect": Real(("inspect-ai==0.3.285",), "inspect_ai", "inspect_ai"),
    "sb3": Real(("sb3-contrib==2.9.2",)),
}


def scripts() -> dict[str, str]:
    """Return the page's scripts by trainer: blocks that begin with ```python NAME."""
    return dict(re.findall(r"```python (\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S))


def run(*command, cwd, **variables) -> str:
    """Run a command, and return what it printed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    ran = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    if ran.returncode:
        raise RuntimeError(f"{' '.join(map(str, command[:6]))}: {ran.stdout[-1500:]}\n{ran.stderr[-1500:]}")
    return ran.stdout


def installed(name: str, folder: Path, wheel: Path) -> Path:
    """Return the Python of a venv with the package and the wheel; what this Python has is found there, too."""
    venv = folder / name
    python = venv / "bin" / "python"
    pip = (*PIP, "--python", python, "install", "--quiet")
    if not (venv / "ready").exists():
        run(sys.executable, "-m", "venv", "--without-pip", venv, cwd=folder)
        beside = "\n".join(path for path in sys.path if path.endswith("site-packages"))
        next(venv.glob("lib/python*/site-packages")).joinpath("beside.pth").write_text(beside, encoding="utf-8")
        for options, packages in ((("--no-deps",), PACKAGES[name].without), ((), PACKAGES[name].pins)):
            if packages:
                run(*pip, *options, *packages, cwd=folder)
        (venv / "ready").touch()
    run(*pip, "--no-deps", "--force-reinstall", wheel, cwd=folder)
    return python


def examined(name: str, python: Path, work: Path) -> str:
    """Run all that there is of one package, and return what it came to."""
    package, told = PACKAGES[name], []
    path = os.pathsep.join([str(python.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = {"PATH": path, "PYTHONPATH": str(work), "TRL_EXPERIMENTAL_SILENCE": "1"}
    where = run(python, "-c", "import agent_envs; print(agent_envs.__file__)", cwd=work, **variables)
    assert str(python.parent.parent) in where, f"not the wheel: {where}"
    if package.stubs:
        names = json.loads(run(python, "-m", "tests.integrations.signatures", package.stubs, cwd=work, **variables))[
            "names"
        ]
        told.append(f"{names} names as in the stub")
    if package.hosts:
        test = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-profile", "thorough", PARITY)
        told.append(run(*test, cwd=work, AGENT_ENVS_HOSTS=package.hosts, **variables).strip().splitlines()[-1])
    if name in HUBS:
        told.append(run(python, "-m", "tests.integrations.checked", name, cwd=work, **variables).strip())
        told.append(_exported(name, python, work, variables))
    for title, script in scripts().items():
        if title.partition("_")[0] == name:
            (work / f"script_{title}.py").write_text(script, encoding="utf-8")
            run(python, f"script_{title}.py", cwd=work, MODEL=tiny(name, python, work, variables), **variables)
            told.append(f"script {title}")
    if name == "trl":
        told += [_risen(python, seed, work, variables) for seed in SEEDS]
    return ", ".join(told)


def _exported(name: str, python: Path, work: Path, variables: dict) -> str:
    """Install what is exported to a hub, for the page's script to play."""
    folder = work / f"hub_{name}"
    run(python, "-m", "agent_envs", "export", *HUBS[name], "--hub", name, "--out", folder, cwd=work, **variables)
    run(*PIP, "--python", python, "install", "--quiet", "--force-reinstall", "--no-deps", folder, cwd=work)
    if name == "openenv":
        told = run(python, "-c", VALIDATED, folder, cwd=work, **variables).strip()
        assert told == "[\"Missing uv.lock - run 'uv lock' to generate it\"]", told
        return "exported folder installed"
    played = run(python, "-m", "tests.integrations.vf_eval", "agent-envs-searchqa", cwd=work, **variables).strip()
    return f"exported package installed, {played}"


def tiny(name: str, python: Path, work: Path, variables: dict) -> str:
    """Return a model made from nothing for scripts that train one, and the default for others."""
    folder = work / "tiny"
    if name == "trl" and not folder.exists():
        run(python, "-m", "tests.integrations.rising", "save", folder, cwd=work, **variables)
    return str(folder) if name == "trl" else ""


def _risen(python: Path, seed: int, work: Path, variables: dict) -> str:
    printed = run(python, "-m", "tests.integrations.rising", seed, cwd=work, **variables).splitlines()[-1]
    record = json.loads(printed)
    assert record["last"] - record["first"] >= RISE, printed
    return f"reward {record['first']:.2f} -> {record['last']:.2f} (seed {seed})"


def main() -> int:
    """Examine the packages that were named, or all, one after the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", choices=[*PACKAGES, []], default=[])
    parser.add_argument("--venvs", type=Path)
    chosen = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        work, folder = Path(temporary) / "work", (chosen.venvs or Path(temporary) / "venvs").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        work.mkdir()
        shutil.copytree(
            ROOT / "tests", work / "tests", ignore=shutil.ignore_patterns("__pycache__", "golden", "stored")
        )
        run(sys.executable, "-m", "build", "--wheel", "--outdir", temporary, ROOT, cwd=temporary)
        for name in chosen.names or PACKAGES:
            start = time.monotonic()
            try:
                result = f"passed: {examined(name, installed(name, folder, next(Path(temporary).glob('*.whl'))), work)}"
            except (RuntimeError, AssertionError, subprocess.TimeoutExpired) as error:
                result, failed = f"FAILED: {error}", failed + 1
            print(f"{name:10} {' '.join((*PACKAGES[name].without, *PACKAGES[name].pins))[:60]:60} "
                  f"{time.monotonic() - start:5.0f} s  {result}", flush=True)  # fmt: skip
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
