"""Rules of branching, and the trees that grow by them: scripted entropies and episodes, no model."""

import math
import random
from dataclasses import replace
from functools import cache, partial

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import ToolResult
from agent_envs.core.trajectory import TrajectoryTree, Turn
from benchmarks.arpo_bound import ScriptedLockstep, call_savings, exponent, plan_of, script_of_calls
from trainers.arpo_parts import AFTERWARDS, ONLINE, BranchingSettings, BranchNode, chance_of, grow

V = 50
RULES = (*ONLINE, *AFTERWARDS, "callable:tests.trainers.test_branching:half")


def half(node):
    return 0.5


def too_much(node):
    return 2.0


def wild(seed):
    """Return a script of episodes of any length, with calls and turns without one, entropies and rewards by chance."""
    return partial(drawn, seed)


@cache
def drawn(seed, origin, turn):
    draw = random.Random(f"{seed}:{origin}:{turn}")
    ends = turn > 6 or draw.random() < 0.25
    results = (ToolResult("1", draw.choice(["search", "python"]), ""),) if draw.random() < 0.8 else ()
    entropies = tuple(draw.uniform(0, 3) for _ in range(draw.randint(1, 6)))
    reward = draw.random()
    return Turn(0, "", f"{origin}:{turn}", None, (), results, reward, terminated=ends, entropies=entropies)


def trees_of(settings, seed=0, tasks=1, leaves=8, fails=lambda origin, turn: False):
    lanes = ScriptedLockstep(wild(seed), fails)
    return grow(plan_of(tasks, leaves, str(seed)), lanes, settings, V), lanes


@pytest.mark.parametrize("rule", RULES)
def test_a_hundred_random_trees_of_each_rule_keep_their_budget(rule):
    """Eleven rules, a hundred trees each."""
    draw, forked = random.Random(rule), 0
    for seed in range(100):
        leaves = draw.randint(2, 16)
        settings = BranchingSettings(
            rule, roots=draw.randint(1, leaves), beam=draw.randint(2, 4), tau=draw.uniform(-1, 1), tokens=3, probes=2
        )
        (tree,), lanes = trees_of(settings, seed, leaves=leaves)
        found = tree.leaves()
        assert len(found) == leaves and tree.left == 0
        assert sum(weight for _, weight in found) == pytest.approx(len(tree.roots))
        keys = {row.trajectory.header.episode_key for row, _ in found}
        assert len(keys) == len(tree.roots) <= leaves
        merged = TrajectoryTree(found[0][0].trajectory.header, ())
        for row, _ in found:
            merged.add(replace(row.trajectory, header=replace(row.trajectory.header, episode_key="x")))
        assert len(list(merged.paths())) == leaves  # a shared turn is bit-identical, or `add` refuses
        assert rule == "value" or lanes.turns == len(merged.nodes)  # and nothing was stepped twice
        assert all(row["forks"] <= min(settings.beam - 1, row["left"]) for row in tree.decisions)
        later = [row["left"] for row in tree.decisions][1:]
        assert all(row["left"] - row["forks"] >= left for row, left in zip(tree.decisions, later, strict=False))
        assert len({row["node"] for row in tree.decisions}) == len(tree.decisions)
        forks = sum(row["forks"] for row in tree.decisions)
        assert forks == leaves - len(tree.roots) and (rule != "off" or forks == 0)
        assert len(tree.roots) == leaves or len(tree.roots) >= settings.roots
        forked += forks
        again, _ = trees_of(settings, seed, leaves=leaves)
        assert again[0].decisions == tree.decisions and again[0].leaves() == found
    assert forked > 100 or rule == "off"


def test_what_a_task_decides_depends_on_no_other_task():
    settings = BranchingSettings("released", roots=4, tokens=3)
    several, _ = trees_of(settings, tasks=5)
    lanes = ScriptedLockstep(wild(0))
    alone = grow(plan_of(5, 8, "0")[16:24], lanes, settings, V)[0]
    assert alone.decisions == several[2].decisions and alone.leaves() == several[2].leaves()


def test_forks_vary_the_turn_before_which_they_begin():
    (tree,), _ = trees_of(BranchingSettings("early", roots=4, tokens=3), seed=3)
    for path in tree.paths:
        for turn, forks in path.forks.items():
            for fork in forks:
                own, trunk = fork.lane.walk.turns, path.lane.walk.turns
                assert own[: turn - 1] == trunk[: turn - 1] and own[turn - 1].action != trunk[turn - 1].action
                assert fork.since == turn and trunk[turn - 2].results


def test_a_fault_costs_its_own_leaf_and_no_other():
    lost = total = 0
    for seed in range(50):
        fails = random.Random(f"fails {seed}")
        chosen = {(f"{seed}/0/{root}", fails.randint(1, 3)) for root in range(2)}
        (tree,), _ = trees_of(
            BranchingSettings("random", roots=4, tokens=3), seed, fails=lambda *at, chosen=chosen: at in chosen
        )
        faults = sum(bool(path.lane.fault) for path in tree.paths)
        assert len(tree.leaves()) == 8 - faults and tree.left == 0
        lost, total = lost + faults, total + 8
    assert 20 < lost < total


@pytest.mark.parametrize("rule", ["released", "random", "paper", "callable:tests.trainers.test_branching:half"])
def test_forks_come_as_often_as_the_formula_says(rule):
    settings = BranchingSettings(rule, roots=8, chance=0.4, tau=0.2, tokens=3)
    rows = [row for seed in range(100) for row in trees_of(settings, seed, leaves=64)[0][0].decisions if row["left"]]
    chances = [row["chance"] for row in rows]
    expected, spread = sum(chances), math.sqrt(sum(chance * (1 - chance) for chance in chances))
    assert len(rows) > 1000 and abs(sum(row["forks"] for row in rows) - expected) <= 3 * spread
    if rule == "released":
        assert len(set(chances)) > 300 and all(
            row["chance"] == pytest.approx(min(1, max(0, 0.4 + 0.2 * row["delta"])), abs=1e-5) for row in rows
        )


def node(delta, number=1):
    return BranchNode("o", 3, number, "search", 1.0 + delta, 1.0, 4)


def test_the_released_rule_is_a_clipped_line_and_the_papers_a_step():
    chances = [chance_of(node(delta), BranchingSettings("released")) for delta in (0, 0.5, -0.5, 2.5, -3)]
    assert chances == pytest.approx([0.5, 0.6, 0.4, 1.0, 0.0])
    paper = BranchingSettings("paper", alpha=0.1, beta=2.0, tau=0.5)
    assert [chance_of(node(delta), paper) for delta in (0.19, 0.21)] == [0.0, 1.0]
    with pytest.raises(UsageError, match="the paper gives none"):
        chance_of(node(0), BranchingSettings("paper"))
    assert [chance_of(node(0, number), BranchingSettings("early")) for number in (1, 2)] == [1.0, 0.0]


def test_entropies_are_a_sum_as_released_and_a_mean_for_the_papers_rule():
    """Half a nat a token over twenty: 0.84 in the release's units at V = 151,936, 0.042 from 0 to 1."""
    turn, size = Turn(1, "", "", None, (), entropies=(9.0, *(0.5,) * 30), sampled=(False, *(True,) * 30)), 151_936
    assert BranchingSettings().summary(turn, size) == pytest.approx(0.838, abs=1e-3)
    assert BranchingSettings("paper").summary(turn, size) == pytest.approx(0.0419, abs=1e-4)
    assert BranchingSettings().summary(replace(turn, sampled=(False,) * 31), size) is None


def test_the_window_before_the_tool_knows_nothing_at_the_first_call():
    """The release reads the turn that ended in the call: at the first one it is its own baseline, and dH is 0."""
    settings = BranchingSettings("random", roots=4, tokens=3, window="pre_tool")
    rows = [row for seed in range(20) for row in trees_of(settings, seed)[0][0].decisions]
    first = [row["delta"] for row in rows if row["node"].endswith(":2")]
    assert len(first) > 20 and not any(first)
    assert any(row["delta"] for row in rows if not row["node"].endswith(":2"))


def test_hindsight_forks_at_the_last_result_at_the_highest_entropies_or_where_rewards_differ():
    for seed in range(30):
        (late,), _ = trees_of(BranchingSettings("late", roots=4, tokens=3), seed)
        for path in late.roots[:4]:
            nodes = [n + 2 for n, turn in enumerate(path.lane.walk.turns[:-1]) if turn.results]
            assert set(path.forks) <= set(nodes[-1:])
        (top,), _ = trees_of(BranchingSettings("top", roots=7, tokens=3), seed)
        forked = [row["delta"] for row in top.decisions if row["forks"]]
        assert not forked or min(forked) == max(row["delta"] for row in top.decisions)
        (value,), lanes = trees_of(BranchingSettings("value", roots=7, tokens=3, probes=4), seed)
        if value.decisions:
            best = max(value.decisions, key=lambda row: row["score"])
            assert best["forks"] == 1 and value.probe_calls > 0 and lanes.turns > 20


def crafted(origin, turn):
    """Four turns, each but the last with a call, equally unsure; from the third on the policy's tokens are less likely."""
    logprob = (-0.1, -0.1, -2.1, -1.9)[turn - 1]
    results = (ToolResult("1", "search", ""),) if turn < 4 else ()
    scores = {"logprobs": (-9.0, logprob), "entropies": (9.0, 1.0), "sampled": (False, True)}
    return Turn(0, "", f"{origin}:{turn}", None, (), results, 1.0, terminated=turn == 4, **scores)


def test_likelihood_forks_where_that_of_the_policys_own_tokens_changes():
    """Means before and after: -0.1 and -4.1/3 at turn 2, -0.1 and -2 at 3, -2.3/3 and -1.9 at 4. Two of three are forked."""
    (tree,) = grow(plan_of(1, 3), ScriptedLockstep(crafted), BranchingSettings("likelihood", roots=1, tokens=3), V)
    scores = {int(row["node"].rpartition(":")[2]): row["score"] for row in tree.decisions}
    changes = {2: 4.1 / 3 - 0.1, 3: 1.9, 4: 1.9 - 2.3 / 3}
    assert scores == pytest.approx({turn: change / math.log(V) for turn, change in changes.items()}, abs=1e-5)
    assert [int(row["node"].rpartition(":")[2]) for row in tree.decisions if row["forks"]] == [3, 2]


def test_rules_that_nobody_knows_are_refused():
    for wrong, message in (("often", "one of off"), ("callable:nowhere:f", "callable:MODULE"), ("callable:", "MODULE")):
        with pytest.raises(UsageError, match=message):
            BranchingSettings(wrong)
    with pytest.raises(UsageError, match="from 0 to 1"):
        chance_of(node(0), BranchingSettings("callable:tests.trainers.test_branching:too_much"))
    for wrong in ({"beam": 1}, {"roots": 0}, {"chance": 1.5}, {"tau": math.nan}, {"tokens": 0}):
        with pytest.raises(UsageError, match="branching"):
            BranchingSettings(**wrong)


def test_nodes_may_be_all_turns_where_there_are_no_tools():
    script = script_of_calls(3)
    lanes = ScriptedLockstep(lambda origin, turn: replace(script(origin, turn), results=()))
    plan = plan_of(1, 4)
    (tree,) = grow(plan, lanes, BranchingSettings("early", roots=2), V)
    assert len(tree.roots) == 4 and not tree.decisions
    (tree,) = grow(plan, lanes, BranchingSettings("early", roots=2, after="turn"), V)
    assert len(tree.roots) == 2 and len(tree.decisions) >= 2


def test_the_simulated_savings_lie_under_the_bound():
    """With 16 leaves from 8 roots half of the calls at most, and only if every fork comes after the last call."""
    assert call_savings(1, 1.0, tasks=5) == 0.5 and call_savings(2, 1.0, tasks=5) == 0.25
    found = [call_savings(calls, 0.5, tasks=150) for calls in (1, 2, 3, 6)]
    assert found == pytest.approx([0.25, 0.35, 0.26, 0.13], abs=0.03) and max(found) <= 0.5
    assert exponent(0.5, sizes=(4, 8), tasks=20) == pytest.approx(2.1, abs=0.3)


def grown_eagerly(leaves, roots, beam, calls=3):
    """Return the one tree of a task whose every node forks as often as it may."""
    settings = BranchingSettings("random", roots=roots, beam=beam, chance=1.0)
    (tree,) = grow(plan_of(1, leaves), ScriptedLockstep(script_of_calls(calls)), settings, V)
    return tree


@pytest.mark.parametrize("beam", [2, 3, 4])
def test_as_many_paths_as_the_beam_leave_a_node_while_there_is_budget(beam):
    tree = grown_eagerly(leaves=20, roots=2, beam=beam, calls=1)
    assert [row["forks"] for row in tree.decisions[:2]] == [beam - 1] * 2
    assert all(len(path.forks[2]) == beam - 1 for path in tree.roots[:2])
    branches = [path.lane.walk.header.branch for path in tree.roots[0].forks[2]]
    assert branches == [f"t2b{number}" for number in range(1, beam)]
    tight = grown_eagerly(leaves=beam, roots=2, beam=beam, calls=1)
    assert [row["forks"] for row in tight.decisions] == ([beam - 2, 0] if beam > 2 else [])


def test_decisions_come_by_rounds_and_in_a_round_by_the_names_of_paths():
    """A fork takes its first turn a round after its trunk; in the third round the first root's takes the last budget."""
    tree = grown_eagerly(leaves=8, roots=2, beam=2)
    told = [(row["node"], row["left"], row["forks"]) for row in tree.decisions]
    assert told == [
        ("s/0/0:2", 6, 1), ("s/0/1:2", 5, 1),
        ("s/0/0:3", 4, 1), ("s/0/1:3", 3, 1),
        ("s/0/0:4", 2, 1), ("s/0/0/t2b1:3", 1, 1), ("s/0/1:4", 0, 0), ("s/0/1/t2b1:3", 0, 0),
    ]  # fmt: skip
