"""The verb `doctor` tells what is installed here, what is missing and brings it, and what a system or a server cannot do."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated

import typer

from agent_envs.base.errors import AgentEnvsError, UsageError, install_line
from agent_envs.base.terminal import print_result, print_table
from agent_envs.cli.options import Json

# One requirement of the package: its name, and where they are said the one system that it is for and the extra.
_REQUIREMENT = re.compile(
    r"""([\w.-]+)[^;]*(?:;(?: \(?sys_platform == ["'](\w+)["']\)? and)? extra == ["']([a-z0-9-]+)["'])?""", re.ASCII
)
GATHERING = ("envs", "all", "dev")  # extras of what others bring
GPU = ("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
Row = tuple[str, str, bool | None, str]  # part, name, whether it is there (None: nothing has to be), what is to be said
Server = Annotated[str, typer.Option(help="URL of a server of chat completions: test it, and nothing else.")]
Model = Annotated[str, typer.Option(help="With --server: the model to test (default: the first that it lists).")]


def doctor(server: Server = "", model: Model = "", as_json: Json = False) -> None:
    """List installed and missing parts, with the pip command for each: extras, data, keys (never values), sandboxes, GPU.

    Exit code 1 if a package is missing that everything needs. Versions are told and not judged (`pip check` does that),
    nothing is downloaded, and no service is asked but that of --server, in a few calls of one token.
    """
    if model and not server:
        raise UsageError("doctor: --model is a model of --server URL")
    if server:
        rows = list(_server(server, model))
    else:
        rows = [*_packages(), *_extras(), *_data(), *_keys(), *_sandboxes(), _gpu()]
    heads = ("part", "name", "ok", "what")
    cells = [[part, name, {True: "yes", False: "NO", None: ""}[ok], detail] for part, name, ok, detail in rows]
    table = [dict(zip(heads, row, strict=True)) for row in rows]
    print_result(table, as_json, lambda: print_table(server or "This installation", list(heads), cells))
    if not rows[0][2]:
        raise typer.Exit(1)


def _requirements() -> dict[str, dict[str, str]]:
    """Return {extra, "" for none: {package: the one system it is for, or ""}}; {"": {}} where we are not installed."""
    requirements: dict[str, dict[str, str]] = {"": {}}
    lines = (
        requires("agent-envs") if _version("agent-envs") else None
    ) or ()  # a folder that was never installed has none
    for match in filter(None, map(_REQUIREMENT.fullmatch, lines)):
        requirements.setdefault(match[3] or "", {})[match[1]] = match[2] or ""
    return requirements


def _version(package: str) -> str:
    """Return the version of an installed package; empty where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _packages() -> Iterator[Row]:
    """Yield the rows of needed packages, this package and Python."""
    from agent_envs import __version__

    needed = {package: _version(package) for package in _requirements()[""]}
    versions = ", ".join(f"{package} {version or 'MISSING'}" for package, version in needed.items())
    yield (
        "packages",
        "all",
        bool(versions) and all(needed.values()),
        versions or "agent-envs is not installed: pip install -e .",
    )
    yield "packages", "agent-envs", True, f"{__version__} in {Path(__file__).parents[1]}"
    yield "packages", "Python", True, f"{platform.python_version()} ({sys.executable}) on {platform.platform()}"


def _extras() -> Iterator[Row]:
    """Yield a row an extra: the ids that need it, and what of it is not there. Not those that gather others."""
    from agent_envs.core.registry import TABLE

    for extra, packages in _requirements().items():
        if extra in ("", *GATHERING):
            continue
        ids = ", ".join(row.name for row in TABLE if row.extra == extra)
        lacking = [package for package in packages if not _version(package)]
        detail = ", ".join(f"{package} {_version(package)}" for package in packages)
        if lacking:
            detail = f"{', '.join(lacking)} missing: {install_line(extra)}"
        if other := [system for system in packages.values() if system not in ("", sys.platform)]:
            detail = f"cannot be had here: it is for {other[0]} only"
        yield "extras", extra, not (lacking or other), f"{ids and f'for {ids}: '}{detail}"


def _data() -> Iterator[Row]:
    """Yield the rows of the data folder, the cache and the data sets that are here."""
    from agent_envs.base.caches import cache_dir
    from agent_envs.datasets.listing import data_rows

    folder = os.environ.get("AGENT_ENVS_DATA", "")
    there = Path(folder).is_dir() if folder else None
    yield "data", "AGENT_ENVS_DATA", there, (folder or "not set") + (", which is no folder" if there is False else "")
    yield "data", "cache", None, f"{cache_dir()}{'' if cache_dir().is_dir() else ', not there yet'}"
    here = ", ".join(row["name"] for row in data_rows() if row["here"] != "no")
    yield (
        "data",
        "data sets",
        None,
        f"{here or 'none'}; agent-envs data list tells of all, and no id's defaults need any",
    )


def _keys() -> Iterator[Row]:
    """Yield the environment variables of keys, set or not; no value comes into a row."""
    from agent_envs.tools.web.providers import PROVIDERS

    engines = (engine.variable for engine in PROVIDERS.values() if engine.variable)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", *engines):
        yield "keys", name, None, "set" if os.environ.get(name, "").strip() else "not set"


def _sandboxes() -> Iterator[Row]:
    """Yield a row a sandbox: whether it prints one and one, or why it cannot be opened; close all of them at the end."""
    from agent_envs.tools.sandbox import SandboxSpec, close_sandboxes, open_sandbox

    for backend in ("monty", "bwrap"):
        try:
            ran = open_sandbox(SandboxSpec(backend)).run("print(1 + 1)")
            yield "sandboxes", backend, ran.stdout == "2\n", f"a program that prints 2 ended with {ran.status}"
        except AgentEnvsError as error:
            yield "sandboxes", backend, False, str(error)
    close_sandboxes()


def _gpu() -> Row:
    """Return the row of the GPU; without nvidia-smi it is no failure, as nothing needs one."""
    if shutil.which(GPU[0]) is None:
        return "GPU", "NVIDIA", None, "no nvidia-smi; environments and evaluation need none"
    try:
        ran = subprocess.run(GPU, capture_output=True, text=True, errors="replace", timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return "GPU", "NVIDIA", False, f"nvidia-smi failed: {str(error)[:200]}"
    return "GPU", "NVIDIA", True, "; ".join(ran.stdout.strip()[:1_000].splitlines())


def _server(url: str, name: str) -> Iterator[Row]:
    """Yield what a server lists, and what it does with a short prompt, with tools and with the beginning of a reply."""
    from agent_envs.services.chat.openai import OpenAIChat
    from agent_envs.services.chat.server import prompt_tokens, shows_tools, takes_prefill

    names = OpenAIChat(name, url).greet().models
    if not (name := name or next(iter(names), "")):
        raise UsageError(f"doctor: {url} lists no models: name one with --model")
    chat = OpenAIChat(name, url)
    context, counts = chat.greet().context, prompt_tokens(chat) is not None
    tools, prefill = shows_tools(chat), takes_prefill(chat)
    unknown = "not known, as replies count no tokens"
    yield "server", "model", True, f"{name}, of {', '.join(names) or 'no list'}"
    yield "server", "context", None, "not told" if context is None else f"{context:,} tokens"
    yield "server", "usage", counts, f"replies count {'their' if counts else 'no'} tokens"
    lost = "do not reach the prompt: eval sends them as text (tools=text)"
    words = {True: "reach the prompt", False: lost, None: unknown}
    yield "server", "tools", tools, words[tools]
    lost = "is not gone on from: eval asks for it in words"
    words = {True: "can be given (prefill=native)", False: lost, None: unknown}
    yield "server", "beginning of a reply", prefill, words[prefill]
