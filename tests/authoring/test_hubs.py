"""`agent-envs export` writes what a hub installs; on the real packages it is installed and played by test-integrations."""

import importlib
import json
import os
import subprocess
import sys
import tomllib

import gymnasium as gym
import pytest

from agent_envs.authoring import write_for_hub
from agent_envs.base.errors import UsageError
from tests import ROOT
from tests.toy import ID

STUBS = ROOT / "tests" / "integrations" / "upstream"


def played(folder, code):
    """Return what a program prints that finds the exported package, and the stubs of the hubs' own."""
    path = os.pathsep.join([str(folder), str(STUBS), str(ROOT)])
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


def test_a_package_of_verifiers_holds_the_id_and_its_arguments(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-m", "agent_envs", "export", "searchqa", "--hub", "verifiers", "--out", str(tmp_path / "out"),
         "--arg", "max_generations=4"], cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.splitlines()[-1] == f"read {tmp_path / 'out' / 'README.md'}"
    project = tomllib.loads((tmp_path / "out" / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == "agent-envs-searchqa"
    assert [part.partition(">")[0] for part in project["dependencies"]] == ["verifiers", "agent-envs[verifiers]"]
    code = (
        "import json, agent_envs_searchqa as made; env = made.load_environment(n=2, split='test')\n"
        "print(json.dumps([[task.data.row for task in env.taskset.load()], type(env).__name__, made.__all__]))"
    )
    rows, kind, names = json.loads(played(tmp_path / "out", code))
    assert [row["env_kwargs"] for row in rows] == [{"max_generations": 4}] * 2 and rows[0]["split"] == "test"
    assert kind == "TurnEnv" and names == ["Taskset", "TurnEnv", "load_environment"]


def test_a_folder_of_openenv_serves_the_id_and_has_a_client(tmp_path):
    write_for_hub("openenv", "LegalSearch", tmp_path / "agent_envs_legalsearch", {"protocol": "json"})
    folder = tmp_path / "agent_envs_legalsearch"
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["dependencies"][1].startswith("agent-envs[openenv,legal]>=")
    assert project["scripts"] == {"server": "agent_envs_legalsearch.server.app:main"}
    assert "name: agent_envs_legalsearch\n" in (folder / "openenv.yaml").read_text("utf-8")
    code = (
        "import json; from agent_envs_legalsearch.server.app import app; from agent_envs_legalsearch import Client, Turn\n"
        "with app.opened() as socket:\n"
        "    socket.send_json({'type': 'reset', 'data': {'seed': 0}}); seen = socket.receive_json()['data']\n"
        "result = Client()._parse_result(seen); assert Client()._step_payload(Turn(text='a')) == {'text': 'a'}\n"
        "print(json.dumps([result.done, result.observation.info['tools'][0]['function']['name']]))"
    )
    assert json.loads(played(tmp_path, code)) == [False, "keyword_search"]


def test_what_is_not_ours_is_named_by_its_module(tmp_path):
    importlib.import_module("tests.toy")
    write_for_hub("openenv", f"tests.toy:{ID}", tmp_path, {})
    assert f"create_app('tests.toy:{ID}', **{{}})" in (tmp_path / "server" / "app.py").read_text("utf-8")


def test_refusals_write_nothing(tmp_path):
    (tmp_path / "openenv.yaml").write_text("mine", encoding="utf-8")
    for hub, arguments, message in (
        ("openenv", {}, "openenv.yaml is there already, and nothing is overwritten"),
        ("gym", {}, "export: hub='gym'; give one of verifiers, openenv"),
        ("verifiers", {"nothing": 1}, "unexpected keyword argument 'nothing'"),
    ):
        with pytest.raises(UsageError, match=message):
            write_for_hub(hub, "SearchQA", tmp_path, arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["openenv.yaml"]


@pytest.mark.parametrize(
    "name", ["NoVersion", "2048-v0", "class-v0", "json-v0", "Ünï-v0", "_x-v0", "x_-v0", "verifiers-v0", "agent_envs-v0"]
)
def test_a_package_that_cannot_be_imported_is_refused(tmp_path, name):
    gym.register(name, entry_point="agent_envs.envs.search_qa.env:SearchQA")
    try:
        if name == "NoVersion":
            assert all(str(tmp_path) in line for line in write_for_hub("verifiers", name, tmp_path, {}))
        else:
            with pytest.raises(UsageError, match="which cannot be imported"):
                write_for_hub("verifiers", name, tmp_path, {})
            assert not list(tmp_path.iterdir())
    finally:
        del gym.registry[name]


def test_what_is_no_environment_of_turns_is_refused(tmp_path):
    with pytest.raises(UsageError, match="TurnEnv"):
        write_for_hub("openenv", "CartPole-v1", tmp_path, {})


def test_a_place_that_cannot_be_written_is_refused_before_the_first_file(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("mine", encoding="utf-8")
    for name, at in (("a", "README.md"), ("b", "server"), ("c", "server/app.py")):
        (tmp_path / name / at).parent.mkdir(parents=True)
        (tmp_path / name / at).symlink_to(mine if name == "b" else tmp_path / "nowhere")
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(UsageError, match=f"{at} is there already"):
            write_for_hub("openenv", "SearchQA", tmp_path / name, {})
        assert sorted(tmp_path.rglob("*")) == before
    for out in (mine, mine / "below", tmp_path / ("a" * 300), tmp_path / "nul\0"):
        with pytest.raises(UsageError, match="is there already|cannot be written"):
            write_for_hub("openenv", "SearchQA", out, {})
