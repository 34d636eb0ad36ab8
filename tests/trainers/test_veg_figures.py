"""The VEG benchmark computes comparisons, curves and the cost of feedback from finished runs only."""

import json
from dataclasses import replace

import gymnasium as gym
import pytest

from agent_envs import run_episode
from agent_envs.base.messages import Message
from agent_envs.core.trajectory import Header, Trajectory, Turn
from agent_envs.rollout.episode_runner import EpisodeResult
from agent_envs.rollout.policy import CompanionPolicy
from agent_envs.rollout.run_many import run_many
from agent_envs.wrappers import VerbalFeedback
from agent_envs.wrappers.feedback_prompts import read_templates
from benchmarks import veg_chart, veg_learn
from benchmarks.veg_episodes import Follower, hint_of, look_up, measured_plan, obey_hint, script_as_agent
from benchmarks.veg_failures import end_of, ends
from benchmarks.veg_price import CHARACTERS, PricedFeedback
from trainers.command_line import load_preset, write_settings
from trainers.veg import VEGSettings

CURVES = {name: [[1.0, 0.5], [2.0, 0.75]] for name in ("eval/success", "eval_bare/success", "entropy")}


def row(seed, after, with_feedback, without):
    sides = {"after": after, "after_with_feedback": with_feedback, "after_without": without}
    return {"seed": seed, **{name: {"success": value} for name, value in sides.items()}, "curves": CURVES}


def test_each_as_it_was_trained_is_the_first_comparison():
    """GRPO is measured as trained without feedback, VEG with it: not the same column."""
    grpo, veg = [row(0, 0.8, 0.6, 0.8), row(1, 0.6, 0.3, 0.6)], [row(0, 0.7, 0.7, 0.5), row(1, 0.7, 0.7, 0.4)]
    told = veg_learn.compare_by_seed(grpo, veg)
    assert list(told) == ["as_trained", "both_with_feedback", "both_without"]
    assert [part["by_seed"] for part in told.values()] == [
        {"0": -0.1, "1": 0.1},
        {"0": 0.1, "1": 0.4},
        {"0": -0.3, "1": -0.2},
    ]
    assert told["as_trained"]["what"].startswith("each as it was trained")
    assert len({part["what"] for part in told.values()}) == 3


def test_only_seeds_that_both_have_are_compared():
    told = veg_learn.compare_by_seed(
        [row(0, 0.5, 0.5, 0.5), row(1, 0.9, 0.9, 0.9)], [row(2, 0.4, 0.4, 0.4), row(0, 0.75, 0.5, 0.5)]
    )
    assert told["as_trained"]["by_seed"] == {"0": 0.25} and told["as_trained"]["interval"] is None
    assert veg_learn.compare_by_seed([row(0, 0.5, 0.5, 0.5)], [row(1, 0.5, 0.5, 0.5)]) == {}


def test_the_comparisons_are_printed_with_what_they_are(tmp_path):
    found = {"sparse-grpo": [row(0, 0.5, 0.25, 0.5)], "sparse-veg": [row(0, 0.75, 0.75, 0.0)]}
    tables = veg_learn.tables_of(found, tmp_path)
    script = {"what": "the script alone.", "success": 0.9, "interval": [0.8, 0.95], "out_of_turns": 0.125}
    lines = veg_learn.summary(tables, {"sparse": script}).splitlines()
    assert lines[0].startswith("ahead of GRPO, as_trained (each as it was trained: ")
    assert lines[1] == "  sparse-veg    +25.0, no interval (seed 0)"
    assert lines[3:6:2] == [
        "  sparse-veg    +50.0, no interval (seed 0)",
        "  sparse-veg    -50.0, no interval (seed 0)",
    ]
    assert lines[7:] == [
        "  sparse-grpo    25.0 %,  50.0 %",
        "  sparse-veg     75.0 %,   0.0 %",
        "the script alone.",
        "  sparse         90.0 % [80.0, 95.0], 12.5 % out of turns",
    ]
    assert "ahead_of_grpo" not in tables["sparse-grpo"]
    assert tables["sparse-veg"]["success"]["after_without"]["mean"] == 0.0


def test_curves_of_seeds_are_averaged_where_all_of_them_are():
    one, other = [[0.0, 0.0], [10.0, 1.0]], [[5.0, 0.5], [20.0, 0.5]]
    mean = veg_chart.mean_of([one, other], points=3)
    assert mean == [(5.0, 0.5), (7.5, 0.625), (10.0, 0.75)]
    assert veg_chart.mean_of([]) == []
    assert veg_chart.smooth([[float(x), float(x)] for x in range(10)]) == [(float(x), float(x)) for x in range(10)]


def test_a_run_without_wrappers_has_one_curve_for_both_panels():
    bare = {"curves": {"eval/success": [[1.0, 0.5]], "eval_bare/success": []}}
    within = {"curves": {"eval/success": [[1.0, 0.5]], "eval_bare/success": [[1.0, 0.25]]}}
    assert veg_chart.curve_of(bare, "eval_bare/success") == [[1.0, 0.5]]
    assert veg_chart.curve_of(within, "eval_bare/success") == [[1.0, 0.25]]


@pytest.mark.parametrize("group", ["searchqa", "sparse"])
def test_every_experiment_has_its_accuracy_and_entropy_drawn(tmp_path, group):
    known = [experiment.name for experiment in veg_learn.EXPERIMENTS if experiment.group == group]
    picture = veg_chart.PICTURES[group]
    assert {name for _, names in picture.rows for name in names} == set(known) <= set(veg_chart.STYLES)
    assert [metric for metric, *_ in veg_chart.PANELS] == ["eval/success", "eval_bare/success", "entropy"]
    for names in (known, known[-1:]):
        veg_chart.draw({name: [row(0, 0, 0, 0)] * 2 for name in names}, tmp_path / "veg.png", picture, 0.5)
        assert (tmp_path / "veg.png").read_bytes().startswith(b"\x89PNG")
    assert "taught to heed feedback" in veg_chart.PICTURES["sparse"].title


def test_a_line_a_seed_and_one_for_their_mean():
    from matplotlib.figure import Figure

    axis = Figure().subplots()
    veg_chart.draw_line(
        axis, [[[0.0, 0.25], [10.0, 0.75]], [[0.0, 0.5], [10.0, 0.25]], []], 100, veg_chart.STYLES["veg"]
    )
    thin, other, mean = axis.lines
    assert list(thin.get_xdata()) == [0.0, 10.0] and list(other.get_ydata()) == [50.0, 25.0]
    assert (mean.get_ydata()[0], mean.get_ydata()[-1]) == (37.5, 50.0) and mean.get_label().endswith("(2 seeds)")
    assert mean.get_linewidth() > 2 * thin.get_linewidth()


def test_priced_feedback_is_the_scripts_and_counts_what_a_chat_model_would_be_sent():
    given = {"feedback": "scripted:good", "epsilon": 0.5}
    plain = VerbalFeedback(gym.make("agent_envs/SearchQA-v0"), **given)
    priced = PricedFeedback(gym.make("agent_envs/SearchQA-v0"), **given)
    one, other = (run_episode(env, CompanionPolicy("heuristic"), seed=0, task=3) for env in (plain, priced))
    assert one.trajectory == other.trajectory and len(one.trajectory.turns) > 1
    said_then = [m for m in priced.state.talk if m.author == "feedback"]
    assert other.usage["feedback_calls"] == len(said_then) == len(one.trajectory.turns)
    texts = [m.content.removeprefix("Feedback: ") for m in said_then]
    assert other.usage["feedback_output"] == sum(-(-len(text) // CHARACTERS) for text in texts)
    least = min(len(text) for text in read_templates("").texts.values()) // CHARACTERS * len(texts)
    assert other.usage["feedback_input"] > least and "feedback_input" not in one.usage


def test_the_prompt_of_a_call_is_that_of_the_moment():
    env = PricedFeedback(gym.make("agent_envs/SearchQA-v0"), feedback="scripted:good", epsilon=0.0)
    env.reset(seed=0, options={"task": 3})
    prompt = read_templates("").messages("exploit", env.unwrapped.episode.prompt, (), "")
    assert env.usage["feedback_input"] == -(-sum(len(message["content"]) for message in prompt) // CHARACTERS)


def test_a_follower_does_what_the_last_hint_says():
    shown = {
        "role": "user",
        "content": '<information>Doc 1(Title: "Norstad") Norstad lies in the region called Morrick.</information>',
    }
    hint = "One fact is missing: In which region does Norstad lie? Look up Norstad with other words."
    assert look_up(hint, []) == "<search>In which region does Norstad lie?</search>"
    assert look_up("Nothing is known of Ana Vilks yet. Look up Ana Vilks.", []) == "<search>Ana Vilks</search>"
    last = "The documents tell the last fact: In which region does Norstad lie? Answer now with that alone."
    assert look_up(last, [shown]) == "<answer>Morrick</answer>" and look_up(last, []) == "<answer>unknown</answer>"
    assert obey_hint("It is not known who that is. Say: What is your e-mail?", []) == "What is your e-mail?"
    assert obey_hint('Nothing may be done before. Call find(name="A. B").', []) == 'find(name="A. B")'
    assert hint_of([shown, {"role": "user", "content": "Feedback: Call x()."}]) == "Call x()."


def test_the_script_alone_is_played_on_the_tasks_of_the_run(tmp_path):
    settings = load_preset(VEGSettings, "veg", "tiny-sparse")
    settings = replace(settings, evaluation=replace(settings.evaluation, test_tasks=24))
    write_settings(settings, tmp_path)
    told = script_as_agent(tmp_path)
    assert told["tasks"] == 24 and told["success"] > 0.8 and 2.5 < told["turns"] < 3.5 and told["out_of_turns"] < 0.2
    rows = [("VerbalFeedback", {"feedback": "scripted:good", "epsilon": 0.0})]
    keys = [item.key for item in measured_plan(settings, rows, 24, "test")]
    assert len(set(keys)) == 24 and keys[0].startswith("0/test/0.")
    wrong = [
        result.success
        for _, result in run_many(measured_plan(settings, rows, 24, "test"), Follower(lambda *_: "<answer>x</answer>"))
    ]
    assert not any(wrong)


def test_an_end_is_told_by_what_the_environment_showed():
    shown = (Message("user", "Doc A", "tool"), Message("user", "Gold", "feedback"))
    turn = Turn(1, "", "<answer>B</answer>", None, shown)
    head = Header("agent_envs/SearchQA-v0", "", "t", "test", "", 0, "k")
    result = EpisodeResult(Trajectory(head, (), (turn,)), "terminated")
    assert end_of(result, ("Gold",)) == "never shown" and end_of(result, ("Doc A",)) == "shown, not answered"
    won = replace(result, trajectory=replace(result.trajectory, success=True))
    assert ends([result, won], [("Gold",), ("Gold",)]) == {"never shown": 0.5, "solved": 0.5}


def test_experiments_begin_with_grpo_in_each_group():
    assert veg_learn.FIRST == {"searchqa": "grpo", "sparse": "sparse-grpo"}
    assert all("none" in veg_learn.BY_NAME[name].options for name in veg_learn.FIRST.values())


def test_finished_runs_alone_are_taken(tmp_path, monkeypatch, capsys):
    rate = {"success": 0.5, "interval": [0.4, 0.6]}
    sides = dict.fromkeys(("before", "after", "after_with_feedback", "after_without"), rate)
    run = tmp_path / "sparse-veg-1"
    run.mkdir()
    (tmp_path / "sparse-veg-0").mkdir()  # begun, not ended
    told = {"seed": 1, **sides, "steps": 1, "env_steps": 9, "sampled_tokens": 5, "cpu_seconds": 1.0}
    (run / "result.json").write_text(json.dumps(told))
    (run / "settings.json").write_text(json.dumps({"tasks_per_step": 2, "group_size": 4}))
    from trainers.settings import LogSettings
    from trainers.training.metrics import Metrics

    metrics = Metrics(run, LogSettings(), total_steps=1)
    metrics.log(1, {"env_steps": 9.0, "entropy": 0.25, "num_tokens": 7.0, "feedback/messages": 2.5})
    metrics.close()
    monkeypatch.setattr("sys.argv", ["veg_learn", "--runs", str(tmp_path), "--finished", "--seeds", "0", "1"])
    veg_learn.main()
    assert capsys.readouterr().out.startswith(
        "sparse-veg    seed 1: before, without feedback  50.0 % [40.0, 60.0]; after"
    )
    kept = veg_learn.figures_of(run, told)
    assert kept["curves"]["entropy"] == [[9.0, 0.25]] and kept["cost"]["feedback_calls"] == 20
    assert not list((tmp_path / "sparse-veg-0").iterdir())
