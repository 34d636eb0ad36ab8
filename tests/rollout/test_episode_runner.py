"""One episode, its record, its replay, and solving."""

import json
from dataclasses import replace

import gymnasium as gym
import pytest

from agent_envs import (
    EnvFault,
    Message,
    ReplayMismatch,
    Reply,
    Unsolvable,
    UsageError,
    fork,
    replay,
    run_episode,
    snapshot,
    solve,
)
from agent_envs.base.protocol import Say
from agent_envs.base.serialization import canonical_json
from agent_envs.core.trajectory import Trajectory
from agent_envs.rollout.episode_runner import turn_seed
from agent_envs.rollout.policy import CompanionPolicy
from agent_envs.wrappers import ForcedAnswer, Memory, TurnLimit
from tests.rows import each_row
from tests.toy import ID, Guess

SCRIPT = ["<compare>50</compare>", "nothing \ud800", "<luck>x</luck>", "<answer>3</answer>"]


class Scripted:
    """Speaks from a list and keeps the requests."""

    batch = 1

    def __init__(self, lines=SCRIPT, can_prefill=True):
        self.name, self.lines, self.can_prefill, self.requests = "scripted", lines, can_prefill, []

    def act(self, requests):
        self.requests += requests
        line = self.lines[requests[0].turn - 1]
        return [Reply(line, (1, 2), (-0.5, -0.25), (0.1, 0.2), {"input": 10, "output": 2})]


def test_the_record_is_what_the_environment_did():
    env = gym.make(ID)
    result = run_episode(env, Scripted(), seed=3, task=4, split="dev", episode_key="k")
    by_hand = gym.make(ID)
    by_hand.reset(seed=3, options={"task": 4, "split": "dev", "episode_key": "k"})
    rewards = [by_hand.step(line)[1] for line in SCRIPT]
    wanted = by_hand.unwrapped.trajectory
    sampled = {"token_ids": (1, 2), "logprobs": (-0.5, -0.25), "entropies": (0.1, 0.2)}
    assert result.trajectory == replace(wanted, turns=tuple(replace(turn, **sampled) for turn in wanted.turns))
    assert [turn.reward for turn in result.trajectory.turns] == rewards
    assert (result.status, result.success, result.fault) == ("terminated", wanted.success, "")
    assert result.usage == {"input": 40, "output": 8}
    assert [message.author for turn in wanted.turns for message in turn.observation] == [
        "tool", "environment", "tool", "environment"
    ]  # fmt: skip


def test_the_policy_is_shown_the_growing_conversation():
    policy = Scripted()
    run_episode(gym.make(ID), policy, seed=3, episode_key="k")
    roles = [[row["role"] for row in request.messages] for request in policy.requests]
    assert roles == [["system", "user", *["assistant", "user"] * turn] for turn in range(4)]
    assert policy.requests[2].messages[4] == {"role": "assistant", "content": "nothing ?"}
    first = policy.requests[0]
    assert (first.episode_key, first.turn, first.prefill) == ("k", 1, "") and "</answer>" in first.stop
    assert [request.turn for request in policy.requests] == [1, 2, 3, 4]


def test_sampling_seeds_depend_on_key_and_turn_alone():
    policies = [Scripted(), Scripted(), Scripted()]
    for policy, key, seed in zip(policies, ("a", "a", "b"), (1, 2, 1), strict=True):
        run_episode(gym.make(ID), policy, seed=seed, episode_key=key)
    one, two, three = ([request.seed for request in policy.requests] for policy in policies)
    assert one == two != three and len(set(one)) == 4
    assert one[0] == turn_seed("a", 1) and all(0 <= seed < 2**31 for seed in one)


def test_a_policy_may_spoil_its_requests():
    class Spoiler(Scripted):
        def act(self, requests):
            reply = super().act(requests)
            self.kept.append([dict(row) for row in requests[0].messages])
            for row in requests[0].messages:
                row["content"] = "spoiled"
            requests[0].messages.clear()
            return reply

    policy = Spoiler()
    policy.kept = []
    result = run_episode(gym.make(ID), policy, seed=3)
    assert "spoiled" not in str(policy.kept) and "spoiled" not in str(result.trajectory)


def test_a_policy_without_prefill_gets_an_instruction_line():
    able, unable = Scripted(["x", "5"]), Scripted(["x", "5"], can_prefill=False)
    results = [run_episode(ForcedAnswer(gym.make(ID), free_turns=1), policy, seed=0) for policy in (able, unable)]
    assert [request.prefill for request in able.requests] == ["", "<answer>"]
    assert [request.prefill for request in unable.requests] == ["", ""]
    line = "\n\nBegin your reply with <answer>"
    assert unable.requests[1].messages[-1]["content"] == able.requests[1].messages[-1]["content"] + line
    assert unable.requests[0].messages == able.requests[0].messages
    assert results[0].trajectory == results[1].trajectory


def test_a_truncated_episode_is_marked_so():
    result = run_episode(TurnLimit(gym.make(ID), turns=2), Scripted(), seed=0)
    assert result.status == "truncated" and not result.success
    assert [turn.truncated for turn in result.trajectory.turns] == [False, True]


def test_a_success_is_marked_so():
    result = run_episode(gym.make(ID), CompanionPolicy("solver"), seed=0)
    assert result.success and result.trajectory.success and result.trajectory.total_reward == 1.0
    assert run_episode(gym.make(ID), CompanionPolicy("heuristic"), seed=0).success


def test_the_random_agent_is_random_by_the_episode_key():
    def actions(key):
        turns = run_episode(gym.make(ID), CompanionPolicy("random"), task=0, episode_key=key).trajectory.turns
        return [turn.action for turn in turns]

    assert actions("a") == actions("a") and len({tuple(actions(str(key))) for key in range(6)}) > 3


def test_a_missing_companion_is_refused_by_name():
    class Lonely(Guess):
        pass

    assert run_episode(Lonely(), CompanionPolicy("solver"), seed=0).success

    class Stranger(gym.Env):
        pass

    with pytest.raises(UsageError, match="TurnEnv"):
        run_episode(Stranger(), CompanionPolicy("solver"))


def test_a_fault_of_the_policy_propagates():
    class Faulty(Scripted):
        def act(self, requests):
            raise EnvFault("down")

    with pytest.raises(EnvFault):
        run_episode(gym.make(ID), Faulty(), seed=0)


WRAPS = [
    lambda env: env,
    lambda env: TurnLimit(env, turns=2),
    lambda env: ForcedAnswer(env, free_turns=1),
    lambda env: Memory(TurnLimit(env, turns=3), turns=1),
]


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("seed", [None, 0, 5])
def test_a_stored_episode_replays(wrap, seed):
    played = run_episode(wrap(gym.make(ID)), Scripted(), seed=seed, task=2, episode_key="k").trajectory
    stored = Trajectory.from_json(json.loads(canonical_json(played.to_json())))
    again = replay(wrap(gym.make(ID)), stored)
    bare = tuple(replace(turn, token_ids=(), logprobs=(), entropies=()) for turn in stored.turns)
    assert replace(again, task=None) == replace(stored, turns=bare)


def spoil(trajectory, index, **changes):
    turns = list(trajectory.turns)
    turns[index] = replace(turns[index], **changes)
    return replace(trajectory, turns=tuple(turns))


RIGHT = Message("user", "Right.", "environment")


@each_row(
    ("index", "field", "changes"),
    [
        (0, "parsed|observation", {"action": "<compare>51</compare>"}),
        (1, "parsed", {"action": "<luck>1</luck>"}),
        (0, "parsed", {"parsed": Say("x")}),
        (0, "observation", {"observation": (RIGHT,)}),
        (0, "observation", {"observation": ()}),
        (2, "results", {"results": ()}),
        (0, "reward", {"reward": 1.0}),
        (3, "reward", {"reward": 1.0, "terms": (("correct", 1.0), ("cost", 0.0))}),
        (0, "terms", {"terms": ()}),
        (1, "terminated", {"terminated": True}),
        (1, "truncated", {"truncated": True}),
        (1, "events", {"events": ()}),
    ],
)
def test_an_altered_turn_is_named_with_its_field(index, field, changes):
    played = run_episode(gym.make(ID), Scripted(), seed=0, episode_key="k").trajectory
    with pytest.raises(ReplayMismatch, match=rf"^turn {index + 1}: ({field}) was"):
        replay(gym.make(ID), spoil(played, index, **changes))


def test_an_altered_frame_is_named():
    played = run_episode(gym.make(ID), Scripted(), seed=0, episode_key="k").trajectory
    with pytest.raises(ReplayMismatch, match="end: success"):
        replay(gym.make(ID), replace(played, success=True))
    with pytest.raises(ReplayMismatch, match="reset: prompt"):
        replay(gym.make(ID), replace(played, prompt=(RIGHT,)))
    with pytest.raises(ReplayMismatch, match="reset: task_digest"):
        replay(gym.make(ID), replace(played, header=replace(played.header, task_digest="0" * 64)))
    with pytest.raises(ReplayMismatch, match="reset: task_digest"):
        replay(gym.make(ID), replace(played, header=replace(played.header, task_id="train-9")))
    with pytest.raises(ReplayMismatch, match="reset: spec_digest"):
        replay(gym.make(ID, turns=8), played)


def test_turns_after_the_end_are_a_mismatch():
    played = run_episode(gym.make(ID), Scripted(), seed=0, episode_key="k").trajectory
    longer = replace(played, turns=(*played.turns, replace(played.turns[0], index=5)))
    with pytest.raises(ReplayMismatch, match="turn 5"):
        replay(gym.make(ID), longer)


def test_solving_at_every_turn_leaves_the_environment_alone():
    env = gym.make(ID)
    env.reset(seed=0)
    for action in [None, *SCRIPT[:3]]:
        if action is not None:
            env.step(action)
        before = snapshot(env)
        actions = solve(env)
        assert snapshot(env) == before
        twin = fork(env)
        for line in actions:
            *_, info = twin.step(line)
        assert info["success"] is True


@pytest.mark.parametrize("wrap", WRAPS)
def test_solving_through_wrappers(wrap):
    env = wrap(gym.make(ID))
    env.reset(seed=0)
    env.step("x")
    for line in solve(env):
        *_, info = env.step(line)
    assert info["success"] is True


@pytest.mark.parametrize("wrap", WRAPS)
def test_nothing_can_be_solved_after_the_end(wrap):
    env = wrap(gym.make(ID))
    env.reset(seed=0)
    over = False
    while not over:
        _, _, terminated, truncated, _ = env.step("x")
        over = terminated or truncated
    with pytest.raises(Unsolvable, match="toy/Guess-v0.*over"):
        solve(env)


def test_solving_before_the_first_reset_is_refused():
    with pytest.raises(UsageError, match="reset"):
        solve(gym.make(ID))


def test_a_solver_that_gains_nothing_says_so():
    class Hopeless(Guess):
        def _advance(self, episode, action):
            return super()._advance(episode, "<answer>0</answer>")

    env = Hopeless()
    env.reset(seed=0)
    with pytest.raises(Unsolvable, match="nothing can be gained.*train-"):
        solve(env)


def test_an_over_long_action_replays_as_it_was_parsed():
    long = "x" * 1_000_000 + "<answer>1</answer>"
    played = run_episode(gym.make(ID), Scripted([long, "<answer>1</answer>"]), seed=0).trajectory
    assert played.turns[0].events[0].startswith("action cut")
    assert replay(gym.make(ID), played).turns[0].events == played.turns[0].events
    with pytest.raises(ReplayMismatch, match="turn 1: events"):
        replay(gym.make(ID), spoil(played, 0, events=("something else", *played.turns[0].events)))
