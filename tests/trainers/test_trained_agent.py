"""The agent of a run plays as the run measured itself, at its end and at its start, also through evaluation."""

import contextlib
import io
import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

import gymnasium as gym
import pytest

from agent_envs.base.errors import UsageError
from agent_envs.cli import app as cli
from agent_envs.core.registry import full_id
from agent_envs.evaluation.runs.evaluate import evaluate, make_agent
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.rollout.episode_runner import EpisodeWalk
from agent_envs.rollout.policy import Reply
from agent_envs.wrappers import Memory, TurnLimit, VerbalFeedback
from tests import ROOT
from tests.trainers.test_training_run import SMALL, run
from trainers import trained_agent
from trainers.command_line import SETTINGS_FILE, load_preset, parse, preset_names
from trainers.environments import environment_spec
from trainers.evaluation import measure_all
from trainers.grpo import GRPOSettings
from trainers.trained_agent import NAME, TrainedAgent, differences, evaluation_command, how_to_evaluate, with_memory
from trainers.veg import VEGSettings

ARGUMENTS = json.loads(SMALL[SMALL.index("--env.arguments") + 1])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out, told = tmp_path_factory.mktemp("trained") / "run", io.StringIO()
    with contextlib.redirect_stderr(told):
        result = run(out, "--optim.learning-rate", "0.01", steps=2)
    return out, result, told.getvalue().splitlines()[-1]


def rounded(summary):
    """Return it as another batch may give it: means of logprobs and entropies differ by the order of a sum."""
    return summary | {name: round(summary[name], 6) for name in ("completions/entropy", "completions/right_logprob")}


@pytest.mark.parametrize(("start", "side"), [(False, "after"), (True, "before")])
def test_it_plays_as_the_run_was_measured(trained, start, side):
    out, result, _ = trained
    agent = TrainedAgent(str(out), start=start)
    again = measure_all(agent, (("", environment_spec("Order", ARGUMENTS)),), "test", 8, "0/test").summary()
    assert rounded(again) == rounded(result[side]) and result["before"] != result["after"]
    assert agent.name == ("run at its start" if start else "run")


def test_a_model_alone_plays_by_its_name(trained):
    out, result, _ = trained
    drawn = json.loads((out / SETTINGS_FILE).read_text(encoding="utf-8"))["sampling"]
    limits = {name: drawn[name] for name in ("max_new_tokens", "max_context", "batch")}
    agent = make_agent(f"hf:{out / 'model'}", temperature=drawn["eval_temperature"], **limits)
    again = measure_all(agent, (("", environment_spec("Order", ARGUMENTS)),), "test", 8, "0/test").summary()
    assert rounded(again) == rounded(result["after"])
    assert agent.name == f"hf:{out / 'model'}"
    with pytest.raises(UsageError, match="agent 'hf:/no/model' cannot be made: .*is no folder with a model"):
        make_agent("hf:/no/model")


def test_evaluation_knows_it_by_name(trained, tmp_path):
    suite = adhoc_suite(Choice("Order", ARGUMENTS, "test", limit=4, turn_limits=(1, 2)))
    result = evaluate(suite, Settings(NAME, {"folder": str(trained[0])}, 4, smoke=True), folder=tmp_path / "eval")
    assert result.complete and len(open_run(tmp_path / "eval").numbers()) == 8
    assert {row.turns for row in open_run(tmp_path / "eval").numbers() if row.entry.endswith("turns=1")} <= {1, 2}


def test_the_end_of_a_run_prints_the_command_that_plays_it(trained, tmp_path, monkeypatch, capsys):
    out, _, last = trained
    words = shlex.split(last.removeprefix("evaluate it: "))
    assert words[:7] == ["agent-envs", "eval", "Order", "--arg", "size=2", "--arg", "max_generations=3"]
    assert words[-4:] == ["--agent", NAME, "--agent-arg", f"folder={out}"]
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", [*words, "-n", "4", "--out", str(tmp_path / "eval"), "--json"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    shown = capsys.readouterr()
    assert end.value.code == 0 and json.loads(shown.out)["agent"] == NAME and "note:" not in shown.err
    (entry,) = open_run(tmp_path / "eval").suite.entries
    assert (entry.env_id, entry.arguments, entry.split) == (full_id("Order"), ARGUMENTS, "test")
    monkeypatch.setattr(sys, "argv", ["trained_agent", str(out)])
    trained_agent.main()
    assert capsys.readouterr().out.strip() == shlex.join(words)


def test_another_environment_than_the_runs_is_told_once(trained, capsys):
    out, _, last = trained
    agent = TrainedAgent(str(out))
    capsys.readouterr()  # how loading went
    for same in (ARGUMENTS, ARGUMENTS | {"reward": "success"}):
        agent.warn_if_environment_differs(TurnLimit(gym.make(full_id("Order"), **same), turns=2))
    assert capsys.readouterr().err == ""
    agent.warn_if_environment_differs(gym.make(full_id("Order"), size=3))
    (told,) = capsys.readouterr().err.splitlines()
    assert told == (
        "note: run was trained in another environment: size=2, not 3; max_generations=3, not 40; its own: "
        + last.removeprefix("evaluate it: ")
    )
    agent.warn_if_environment_differs(gym.make(full_id("Order"), size=4))
    assert capsys.readouterr().err == ""


def test_evaluation_lets_it_meet_what_it_plays(trained, tmp_path, capsys):
    suite = adhoc_suite(Choice("Order", {"size": 3}, "test", limit=1, turn_limits=(1, 2)))
    settings = Settings(NAME, {"folder": str(trained[0])}, 4, smoke=True)
    evaluate(suite, settings, folder=tmp_path / "eval")
    assert capsys.readouterr().err.count("note: run was trained in another environment: size=2, not 3; ") == 1


def test_environments_of_a_runs_tests_are_its_own():
    env = {"id": "SearchQA", "arguments": '{"top_k": 1}', "test_arguments": '{"retriever": "random"}',
           "tests": '{"more": {"max_searches": 2, "split": "dev", "wrappers": []}}'}  # fmt: skip
    for own in ({}, {"retriever": "random"}, {"max_searches": 2}, {"reward": "f1"}):
        assert differences(env, gym.make(full_id("SearchQA"), **{"top_k": 1, **own})) == ""
    assert differences(env, gym.make(full_id("SearchQA"))) == "top_k=1, not 3"
    assert differences(env, gym.make(full_id("Order"))) == "SearchQA, not Order-v0"
    world = gym.make(
        full_id("SearchQA"), top_k=1, world={"hops": [2], "passages": 60, "vocabulary": "closed", "short": True}
    )
    assert differences(env, world).startswith('world=null, not {"hops": [2]') and len(differences(env, world)) < 90


def words_of(text, folder):
    """Return the words of the one command in a text that plays a folder's agent."""
    (found,) = [part for part in text.split("agent-envs eval ")[1:] if f"folder={folder}" in part]
    return shlex.split(found[: found.index(f"folder={folder}")] + f"folder={folder}")


@pytest.mark.parametrize(
    ("page", "preset", "folder", "limits"),
    [
        ("docs/training.md", "tiny-legal", "runs/legal", "10"),
        ("trainers/presets/grpo/legal-qwen3-14b-lora.toml", "legal-qwen3-14b-lora", "RUN", "0,1,2,3,4,6,8,10"),
    ],
)
def test_documented_commands_are_those_of_their_presets(page, preset, folder, limits):
    words = words_of((ROOT / page).read_text().replace("\n#", " "), folder)
    wanted = words_of(evaluation_command(asdict(load_preset(GRPOSettings, "grpo", preset)), Path(folder)), folder)
    place = words.index("--turn-limits")
    assert words[place + 1] == limits and words[:place] == wanted[:place]
    assert words[place + 2 :] == wanted[wanted.index("--concurrency") :]


@pytest.mark.parametrize("turns", [0, 1, 2, 9])
@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize("name", ["Order", "BabyAI"])  # the second says how many messages of its reset stand
def test_what_an_agent_remembers_is_what_memory_shows(name, feedback, turns):
    memory, bare = Memory(gym.make(full_id(name)), turns=turns), gym.make(full_id(name))
    stacks = [VerbalFeedback(env, feedback="scripted:good") if feedback else env for env in (memory, bare)]
    walks = [EpisodeWalk(env, seed=3) for env in stacks]
    for step in range(5):
        shown, whole = (walk.request() for walk in walks)
        assert whole.context == "append" and shown.context == "replace"
        assert with_memory(whole, memory).messages == shown.messages and with_memory(shown, memory) is shown
        for walk in walks:
            walk.take(Reply(f"I think. Action: no such thing {step}"))
    assert [row["role"] for row in shown.messages].count("assistant") == min(turns, 4)


def test_a_run_under_memory_plays_so_in_evaluation_too(tmp_path):
    out, arguments = tmp_path / "run", json.dumps(ARGUMENTS | {"max_generations": 4})
    result = run(out, "--env.arguments", arguments, "--env.wrappers", '[{"Memory": {"turns": 0}}]', steps=1)
    agent = make_agent(f"trained:{out}")
    spec = environment_spec("Order", json.loads(arguments))
    again = measure_all(agent, (("", spec),), "test", 8, "0/test").summary()
    assert rounded(again) == rounded(result["after"])
    assert "# without" not in agent.command
    forgets_nothing = make_agent(f"hf:{out / 'model'}", temperature=1, max_new_tokens=12, batch=16)
    assert measure_all(forgets_nothing, (("", spec),), "test", 8, "0/test").summary() != result["after"]


@pytest.mark.parametrize(("program", "kind"), [("grpo", GRPOSettings), ("veg", VEGSettings)])
def test_every_preset_has_a_command(program, kind):
    for name in preset_names(program):
        words = shlex.split(evaluation_command(asdict(load_preset(kind, program, name)), Path("runs/x")), comments=True)
        assert ("--feedback" in words) == (program == "veg") and words[2] and words[-1] == "folder=runs/x"


def command_of(tmp_path, *words):
    settings, _ = parse(VEGSettings, [*words, "--out", str(tmp_path / "run")], program="veg")
    commands = {evaluation_command(asdict(made), Path("runs/x")) for made in (settings, settings.with_feedback())}
    (command,) = commands  # as its folder keeps them, and as it ran
    return shlex.split(command.partition("  # ")[0]), command.partition("  # ")[2]


def test_feedback_and_wrappers_are_options_of_the_command(tmp_path):
    stack = '[{"Memory": {"turns": 1}}, {"ForcedAnswer": {"free_turns": 4}}]'
    model = (
        "--test-feedback",
        "openai:m@http://127.0.0.1:1",
        "--feedback-options",
        '{"temperature": 0.5, "api_key_env": "K"}',
    )
    words, rest = command_of(tmp_path, "--env.wrappers", stack, "--feedback", "none", "--epsilon", "0.25", *model)
    given = ["--split", "test", "--turn-limits", "4", "--feedback", "none,openai:m@http://127.0.0.1:1", "--epsilon", "0.25",
             "--feedback-arg", "temperature=0.5", "--feedback-arg", "api_key_env=K", "--concurrency", "64"]  # fmt: skip
    assert words[:3] == ["agent-envs", "eval", "SearchQA"] and words[3 : 3 + len(given)] == given
    assert rest == "without a limit (--max-cost USD), and openai:m@http://127.0.0.1:1 is asked at every turn"
    _, rest = command_of(tmp_path / "b", "--env.wrappers", '[{"Memory": {"keep": "actions"}}]', "--feedback", "none")
    assert rest == "without Memory"


def test_a_turn_limit_is_an_option_where_no_answer_is_forced(tmp_path):
    stack = ("--env.wrappers", '[{"TurnLimit": {"turns": 4}}]')
    words, rest = command_of(tmp_path, "--env.id", "BabaIsAI", *stack)
    assert words[words.index("--turn-limits") + 1] == "4" and rest == ""
    words, rest = command_of(tmp_path / "b", "--env.id", "SearchQA", *stack)
    assert "--turn-limits" not in words and rest == "without TurnLimit"


def test_texts_that_read_as_json_stay_texts(tmp_path):
    settings = asdict(GRPOSettings())
    settings["env"]["arguments"] = '{"kind": "3", "name": "plain", "list": [1], "none": null}'
    words = shlex.split(evaluation_command(settings, Path("7")))
    assert words[3:11:2] == ["--arg"] * 4 and words[4:12:2] == ['kind="3"', "name=plain", "list=[1]", "none=null"]
    assert words[-1] == 'folder="7"'


def test_expanded_actions_have_no_command(tmp_path):
    (tmp_path / "model").mkdir()
    assert how_to_evaluate(GRPOSettings(), tmp_path).startswith("evaluate it: agent-envs eval SearchQA --split test ")
    (tmp_path / "model" / "expanded_head.json").write_text("{}")
    assert how_to_evaluate(GRPOSettings(), tmp_path) == ""


def test_what_is_no_run_is_one_line(tmp_path, monkeypatch, capsys):
    for words, message in (([], "name the folder of a run"), ([str(tmp_path)], f"{tmp_path} holds no run: ")):
        monkeypatch.setattr(sys, "argv", ["trained_agent", *words])
        with pytest.raises(SystemExit) as end:
            trained_agent.main()
        told = capsys.readouterr().err
        assert end.value.code == 2 and message in told and len(told.splitlines()) == 1


def test_what_is_no_finished_run_is_one_line(trained, tmp_path):
    with pytest.raises(UsageError, match="holds no finished run"):
        make_agent(NAME, folder=str(tmp_path))
    with pytest.raises(UsageError, match="has no weights of its start"):
        (tmp_path / "model").symlink_to(trained[0] / "model")
        (tmp_path / "settings.json").write_text((trained[0] / "settings.json").read_text())
        TrainedAgent(str(tmp_path), start=True)
