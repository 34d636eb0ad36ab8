"""`agent-envs doctor`: what is there, what is missing and what brings it; never the value of a key."""

import importlib.metadata
import os
import sys

import pytest

from agent_envs.cli import doctor as module
from agent_envs.core.registry import TABLE
from agent_envs.tools.sandbox.mounts import bwrap_version
from tests.cli.conftest import strict
from tests.needs import require
from tests.servers import FaultServer
from tests.services.chat.local import LocalServer

require("[sandbox]")  # it asks the sandbox monty for its version

EXTRAS = importlib.metadata.metadata("agent-envs").get_all("Provides-Extra")


@pytest.fixture
def told(run, monkeypatch, tmp_path):
    """A function that returns (exit code, rows by part and name)."""
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("AGENT_ENVS_DATA", raising=False)

    def rows():
        code, out, _ = run("doctor", "--json")
        return code, {(row["part"], row["name"]): row for row in strict(out)}

    return rows


def test_it_names_every_extra_and_the_ids_that_need_it(told, run):
    code, rows = told()
    gather = {"envs", "all", "dev"}
    assert code == 0 and {name for part, name in rows if part == "extras"} == set(EXTRAS) - gather
    for row in TABLE:
        assert not row.extra or row.name in rows["extras", row.extra]["what"]
    assert rows["sandboxes", "monty"]["ok"] is True
    assert all(
        rows["keys", name] for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "SERPER_API_KEY", "BRAVE_API_KEY")
    )
    assert "LegalSearch" in run("doctor")[1]


def test_what_is_missing_is_named_with_what_brings_it(told, monkeypatch):
    def version(package):
        if package in ("minigrid", "httpx", "faiss-cpu"):
            raise importlib.metadata.PackageNotFoundError(package)
        return "1.0"

    monkeypatch.setattr(module, "version", version)
    code, rows = told()
    assert rows["extras", "babyai"]["what"] == 'for BabyAI: minigrid missing: pip install "agent-envs[babyai]"'
    first = "pip install torch, from the index of your machine (CPU or GPU); then pip install"
    assert rows["extras", "dense"]["what"] == f'faiss-cpu missing: {first} "agent-envs[dense]"'
    assert rows["extras", "babyai"]["ok"] is False and rows["extras", "crafter"]["ok"] is True
    assert code == 1 and rows["packages", "all"]["ok"] is False and "httpx MISSING" in rows["packages", "all"]["what"]


def test_a_folder_that_was_never_installed_is_told(told, monkeypatch):
    def version(package):
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(module, "version", version)
    code, rows = told()
    assert code == 1 and "not installed" in rows["packages", "all"]["what"]


def test_keys_are_told_by_name_only(run, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("BRAVE_API_KEY", "  ")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    for more in ((), ("--json",)):
        _, out, err = run("doctor", *more)
        assert "OPENAI_API_KEY" in out and "secret" not in out + err
    rows = {row["name"]: row["what"] for row in strict(out)}
    assert (rows["OPENAI_API_KEY"], rows["BRAVE_API_KEY"], rows["ANTHROPIC_API_KEY"]) == ("set", "not set", "not set")


def test_what_another_system_cannot_have(told, monkeypatch):
    bwrap_version.cache_clear()
    monkeypatch.setattr(sys, "platform", "darwin")
    _, rows = told()
    assert rows["extras", "train-gpu"]["what"] == "cannot be had here: it is for linux only"
    assert rows["sandboxes", "bwrap"]["ok"] is False and "needs Linux" in rows["sandboxes", "bwrap"]["what"]


def test_a_data_folder_that_is_none(told, monkeypatch, tmp_path):
    assert told()[1]["data", "AGENT_ENVS_DATA"]["ok"] is None
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path / "nothing"))
    row = told()[1]["data", "AGENT_ENVS_DATA"]
    assert row["ok"] is False and row["what"].endswith("nothing, which is no folder")


@pytest.mark.parametrize(
    ("script", "ok", "what"),
    [
        ("echo 'Card, 81920 MiB, 570.1'", True, "Card, 81920 MiB, 570.1"),
        ("echo no driver; exit 9", False, "nvidia-smi failed"),
    ],
)
def test_the_gpu_is_what_nvidia_smi_says(told, monkeypatch, tmp_path, script, ok, what):
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    row = told()[1]["GPU", "NVIDIA"]
    assert row["ok"] is ok and row["what"].startswith(what)


@pytest.mark.parametrize("able", [True, False])
def test_a_server_is_told_by_what_it_does(run, able):
    server = LocalServer(
        models=("m", "n"), shows_tools=able, continues=able, listing={"max_model_len": 4096} if able else {}
    )
    with FaultServer(server) as http:
        code, out, _ = run("doctor", "--server", http.url, "--model", "n", "--json")
    rows = {row["name"]: (row["ok"], row["what"]) for row in strict(out)}
    assert code == 0 and rows["model"] == (True, "n, of m, n") and {body["max_tokens"] for body in server.bodies} == {1}
    assert rows["context"][1] == ("4,096 tokens" if able else "not told")
    assert rows["usage"] == (True, "replies count their tokens")
    assert (rows["tools"][0], rows["beginning of a reply"][0]) == (able, able)
    assert ("tools=text" in rows["tools"][1]) is not able


def test_a_server_that_counts_nothing_leaves_the_rest_open(run):
    with FaultServer(LocalServer(counts=False)) as http:
        code, out, _ = run("doctor", "--server", http.url)
    assert code == 0 and "replies count no tokens" in out and out.count("not known, as replies count no tokens") == 2


def test_a_server_that_is_not_there_or_has_not_the_model_is_one_line(run):
    code, _, err = run("doctor", "--server", "http://127.0.0.1:9")
    assert code == 2 and "does the server run" in err
    with FaultServer(LocalServer(models=("a",))) as http:
        code, _, err = run("doctor", "--server", http.url, "--model", "b")
    assert code == 2 and "the server has no such model; it has a" in err
    with FaultServer(LocalServer(models=())) as http:
        assert "lists no models: name one with --model" in run("doctor", "--server", http.url)[2]
    assert "--model is a model of --server" in run("doctor", "--model", "b")[2]
