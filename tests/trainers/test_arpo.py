"""ARPO's runs: trees of real rollouts, GRPO where nothing forks, kills, wrappers, limits on calls."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from agent_envs.base.errors import UsageError
from agent_envs.base.jsonl_log import read_journal
from agent_envs.core.trajectory import TrajectoryTree
from agent_envs.rollout.lockstep import Lockstep
from tests.trainers.forked import killed_and_resumed, two_ranks
from tests.trainers.players import SEARCH, player
from tests.trainers.test_training_run import SMALL, curve
from trainers import arpo, grpo
from trainers.arpo import ARPOSettings
from trainers.arpo_parts import BranchingSettings, grow
from trainers.command_line import parse, read_settings
from trainers.engine_policy import EnginePolicy
from trainers.evaluation import Evaluator
from trainers.run import open_run
from trainers.sampling import group_of, plan_groups
from trainers.training.optimise import Processes

TREES = [*SMALL, "--branching.roots", "2", "--branching.tokens", "3", "--branching.after", "turn"]


def run(out, *words, steps=2, module=arpo, kind=ARPOSettings):
    program = module.__name__.rpartition(".")[2]
    common = TREES if module is arpo else SMALL
    settings, folder = parse(kind, [*common, "--steps", str(steps), *words, "--out", str(out)], program=program)
    with open_run(settings, folder) as opened:
        return module.train(settings, opened)


def decisions(out):
    return [row for row in read_journal(out / arpo.DECISIONS.format(0)) if "node" in row]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("arpo") / "run"
    return out, run(out, steps=4)


@pytest.mark.parametrize("rule", ["released", "top"])
def test_leaves_share_turns_and_tokens_to_the_bit_and_draw_their_own_behind(rule):
    policy, _, chat, spec = player("SearchQA", {**SEARCH, "max_generations": 4})
    plan = plan_groups(spec, "train", [0, 1], 8, "k")
    settings = BranchingSettings(rule, roots=3, tokens=4, after="turn")
    with Lockstep(policy) as lockstep:
        trees = grow(plan, lockstep, settings, len(chat.tokenizer))
    for tree in trees:
        leaves = tree.leaves()
        group = replace(group_of([row for row, _ in leaves], policy), weights=tuple(share for _, share in leaves))
        assert len(leaves) == 8 and group.drift == 0 and sum(group.weights) == pytest.approx(len(tree.roots))
        assert len(group.tree.nodes) == len(tree.turns) < sum(len(row.trajectory.turns) for row, _ in leaves)
        merged = TrajectoryTree(leaves[0][0].trajectory.header, leaves[0][0].trajectory.prompt)
        for row, _ in leaves:
            merged.add(row.trajectory)
        said = {tuple(turn.token_ids for turn in row.trajectory.turns) for row, _ in leaves}
        assert len(said) == 8  # nobody draws what its trunk drew
        for path in tree.paths:
            for forks in path.forks.values():
                assert all(fork.lane.walk.header.branch for fork in forks)


def test_without_forks_it_is_grpo_to_the_bit(whole, tmp_path):
    ours = run(tmp_path / "arpo", "--branching.rule", "off")
    theirs = run(tmp_path / "grpo", module=grpo, kind=grpo.GRPOSettings)
    weights = [load_file(tmp_path / name / "model" / "model.safetensors") for name in ("arpo", "grpo")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert ours["after"] == theirs["after"] and ours["env_steps"] == theirs["env_steps"]


def test_a_run_tells_what_branching_did(whole):
    out, result = whole
    rows, logged = curve(out), decisions(out)
    assert all(row["branching/leaves"] == 4 and row["branching/missing"] == 0 for row in rows)
    assert any(row["branching/roots"] < 4 for row in rows) and all(row["drift"] == 0 for row in rows)
    assert {row["step"] for row in logged} == {0, 1, 2, 3}
    assert all(
        {"node", "entropy", "baseline", "delta", "chance", "drawn", "left", "forks"} <= set(row) for row in logged
    )
    assert rows[-1]["tool_calls"] == sum(result["tool_calls"].values())
    assert 0 < rows[0]["tokens/distinct_share"] < 1
    made = [sum(value for name, value in row.items() if name.startswith("tools/distinct_")) for row in rows]
    alone = [4 * row["tools/call_frequency"] for row in rows]  # of the four leaves of a tree
    trees = (
        ARPOSettings.tasks_per_step
        if "--tasks-per-step" not in SMALL
        else int(SMALL[SMALL.index("--tasks-per-step") + 1])
    )
    assert sum(made) * trees == pytest.approx(sum(result["tool_calls"].values()))  # shared calls once
    for row, own, whole_calls in zip(rows, made, alone, strict=True):
        assert row["tools/saved"] == pytest.approx(1 - own / whole_calls if whole_calls else 0.0)
    assert any(row["tools/saved"] > 0 for row in rows)
    steps = [row["env_steps"] for row in rows]
    played = [now - before for now, before in zip(steps, [0, *steps[:-1]], strict=True)]
    assert all(count <= trees * 4 * row["turns"] for count, row in zip(played, rows, strict=True))
    assert sum(played) < sum(trees * 4 * row["turns"] for row in rows)  # and shared turns


@pytest.mark.heavy
def test_a_killed_run_goes_on_to_the_same_curve_and_decisions(whole, tmp_path):
    out, result = whole
    place = tmp_path / "killed"
    killed_and_resumed("trainers.arpo", [*TREES, "--steps", "4"], place, "step-00000002")
    assert curve(place) == curve(out)
    found = json.loads((place / "result.json").read_text())
    assert {**found, "cpu_seconds": 0} == {**result, "cpu_seconds": 0}
    again = {row["node"]: row for row in decisions(place)}
    assert again == {row["node"]: row for row in decisions(out)}


def test_evaluations_never_branch(tmp_path, monkeypatch):
    forks, measuring = [], []
    honest, measure = EnginePolicy.fork, Evaluator._measure

    def fork(self, *names):
        forks.append(bool(measuring))
        return honest(self, *names)

    def measured(self, *args):
        measuring.append(1)
        try:
            return measure(self, *args)
        finally:
            measuring.pop()

    monkeypatch.setattr(EnginePolicy, "fork", fork)
    monkeypatch.setattr(Evaluator, "_measure", measured)
    result = run(tmp_path / "run", steps=2)
    assert forks and not any(forks) and result["after"]["tasks"] == 8


@pytest.mark.parametrize(
    ("wrapper", "seed"), [({"Memory": {"turns": 1}}, "0"), ({"VerbalFeedback": {"feedback": "scripted:good"}}, "3")]
)
def test_it_trains_under_memory_and_under_feedback(tmp_path, wrapper, seed):
    """With a seed that earns something within its few episodes."""
    words = ("--env.wrappers", json.dumps([wrapper]), "--sampling.batch", "4", "--seed", seed)
    run(tmp_path / "run", *words, steps=1)
    (row,) = curve(tmp_path / "run")
    assert row["branching/leaves"] == 4 and row["branching/nodes"] > 0 and row["grad_norm"] > 0 and row["drift"] == 0


@pytest.mark.parametrize(
    "words",
    [
        ["--shared", "hard", "--weighted"],
        ["--beta", "0.01", "--kl-in", "reward", "--kl", "k1", "--scale", "batch_std", "--weighted"],
        [
            "--correction",
            "token_truncate",
            "--drop-flat-groups",
            "--branching.rule",
            "value",
            "--branching.probes",
            "2",
        ],
    ],
)
def test_every_way_to_give_credit_takes_a_step(tmp_path, words):
    result = run(tmp_path / "run", *words, steps=1)
    assert result["steps"] == 1 and result["after"]["tasks"] == 8


def test_success_counts_leaves_by_their_weights(whole):
    policy, _, _, spec = player("SearchQA", {**SEARCH, "max_generations": 4})
    settings = BranchingSettings("early", roots=1, after="turn", tokens=4)
    with Lockstep(policy) as lockstep:
        (tree,) = grow(plan_groups(spec, "train", [0], 4, "k"), lockstep, settings, 500)
    leaves = tree.leaves()
    group = replace(group_of([row for row, _ in leaves], policy), weights=tuple(share for _, share in leaves))
    results = [replace(row, trajectory=replace(row.trajectory, success=not n)) for n, row in enumerate(group.results)]
    told = arpo.tree_stats([tree], [replace(group, results=tuple(results))])
    assert told["success"] == pytest.approx(group.weights[0] / len(tree.roots)) and told["success"] != 0.25


def test_the_papers_rule_gets_its_tau_from_the_start_and_keeps_it(tmp_path):
    out = tmp_path / "run"
    run(out, "--branching.rule", "paper", steps=1)
    tau = read_settings(ARPOSettings, out).branching.tau
    given = run(tmp_path / "given", "--branching.rule", "paper", "--branching.tau", str(tau), steps=1)
    probed = json.loads((out / "result.json").read_text())
    assert given["sampled_tokens"] == probed["sampled_tokens"]  # the probe is no training
    assert tau is not None and all(row["chance"] == float(row["delta"] > tau) for row in decisions(out))
    with pytest.raises(UsageError, match="group_size"):
        ARPOSettings(group_size=4, branching=BranchingSettings(roots=5))
    with pytest.raises(UsageError, match="credit=turn"):
        ARPOSettings(credit="turn")


@pytest.mark.parametrize("module, kind", [(arpo, ARPOSettings), (grpo, grpo.GRPOSettings)])
def test_a_limit_on_tool_calls_ends_a_run(tmp_path, module, kind):
    words = ("--env.arguments", '{"size": 2, "max_generations": 3}', "--most-tool-calls", "1")
    result = run(tmp_path / "run", *words, steps=3, module=module, kind=kind)
    assert sum(result["tool_calls"].values()) >= 1 and result["steps"] < 3


def test_tau_is_the_median(tmp_path, monkeypatch):
    found = iter([[0.0, 1.0, 10.0]])
    monkeypatch.setattr(arpo, "deltas", lambda turns, branching, vocabulary: next(found, []))
    run(tmp_path / "run", "--branching.rule", "paper", steps=1)
    assert read_settings(ARPOSettings, tmp_path / "run").branching.tau == 1.0


def test_soft_hard_and_weighted_credit_train_other_weights(tmp_path):
    ways = {"soft": (), "hard": ("--shared", "hard"), "weighted": ("--weighted",)}
    for name, words in ways.items():
        run(tmp_path / name, "--seed", "1", *words, steps=1)
    weights = [load_file(tmp_path / name / "model" / "model.safetensors") for name in ways]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert any(not torch.equal(weights[one][name], weights[other][name]) for name in weights[one]), (one, other)


def test_success_and_reward_weigh_leaves():
    def leaf(reward):
        terms = {"answer": 2 * reward, "format": 4 * reward, "db": reward if reward == 0.5 else None, "idle": None}
        trajectory = SimpleNamespace(total_reward=reward, turns=())
        return SimpleNamespace(success=reward == 1.0, trajectory=trajectory, terms=terms)

    group = SimpleNamespace(results=(leaf(1.0), leaf(0.5), leaf(0.0)), weights=(0.25, 0.25, 0.5))
    tree = SimpleNamespace(decisions=[], turns=(), roots=[1], paths=[1, 2, 3], probe_calls=0)
    told = arpo.tree_stats([tree], [group])
    assert (float(told["success"]), float(told["reward"])) == (0.25, 0.375)
    assert (float(told["rewards/answer/mean"]), float(told["rewards/format/mean"])) == (0.75, 1.5)
    assert float(told["rewards/db/mean"]) == 0.5 and "rewards/idle/mean" not in told


def test_a_std_of_a_whole_step_is_refused_in_several_processes():
    both = Processes(SimpleNamespace(num_processes=2, device=None))
    both.check_shares(4, "group_std", "leave_one_out")
    for standards in (("batch_std", ""), ("group_std", "batch")):
        with pytest.raises(UsageError, match="the std of a whole step: they work in one process"):
            both.check_shares(4, *standards)
    both = Processes(SimpleNamespace(num_processes=1, device=None))
    both.check_shares(4, "batch_std", "batch")


def test_two_processes_grow_the_trees_that_one_grows(whole, tmp_path):
    """Each grows half of them and logs its own decisions; numbers by tool, weights of leaves and rewards are those of one."""
    place = tmp_path / "two"
    assert two_ranks("trainers.arpo", *TREES, "--steps", "1", "--out", place) == [0, 0]
    alone, (together,) = curve(whole[0])[0], curve(place)
    names = [name for name in alone if name.startswith(("branching/", "tools/", "rewards/"))]
    assert {"branching/forked", "tools/saved"} <= set(names)
    names += ["reward", "success", "env_steps", "tool_calls", "grad_norm", "frac_reward_zero_std"]
    for name in names:
        assert together[name] == pytest.approx(alone[name], rel=1e-3, abs=1e-6), name
    files = [place / arpo.DECISIONS.format(rank) for rank in (0, 1)]
    own = [[row for row in read_journal(file) if "node" in row] for file in files]
    assert all(own)
    one = {row["node"]: row["forks"] for row in decisions(whole[0]) if row["step"] == 0}
    assert {row["node"]: row["forks"] for rows in own for row in rows} == one
    assert sum(map(len, own)) == len(one)  # and no tree in both
