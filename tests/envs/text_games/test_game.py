"""The shared base of text games renders, parses, rewards, limits and snapshots a small corridor game correctly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs import Snapshot, check_turn_env, fork, restore, snapshot
from agent_envs.base.errors import UsageError
from agent_envs.base.protocol import Malformed, Say
from agent_envs.envs.text_games.game import PROTOCOL, Action, numbered
from agent_envs.envs.text_games.scoring import MOVE, PENALTY, REWARDS, TurnFacts, facts_of, metrics_of
from tests.envs.text_games.corridor import CorridorGame
from tests.examples import examples
from tests.rows import each_row

ON, BACK, WAIT = "ACTION: step forward", "ACTION: step back", "ACTION: wait"


def started(end=4, **arguments):
    """An environment in an episode whose treasure lies on a field."""
    env = CorridorGame(**arguments)
    task = next(task for task in (env.source.get("train", n) for n in range(50)) if task.hidden == end)
    env.reset(seed=0, options={"task": task})
    return env


def played(env, *actions):
    steps = [env.step(action) for action in actions]
    return [step[1] for step in steps], steps[-1]


def test_the_machinery_passes_every_check():
    for arguments in ({}, {"reward": "native", "on_invalid": "end", "prompt_role": "user", "max_turns": 6}):
        report = check_turn_env(CorridorGame(**arguments), episodes=4, hostile=400)
        assert {check.name for check in report.checks if check.status != "passed"} == set(), report.text()


def test_the_prompt_is_one_message_and_the_first_observation_another():
    env = CorridorGame()
    observation, info = env.reset(seed=0)
    system, user = info["messages"]
    assert system["content"].splitlines()[:5] == [
        "You are in a corridor. Your goal is to find the treasure.",
        "- step back: go one field back",
        "- wait: stay where you are",
        "- step forward: go one field on",
        "Answer every observation in this form:",
    ]
    assert "A turn whose action is not in the list counts as `wait`" in system["content"]
    assert (system["role"], user) == ("system", {"role": "user", "content": "field 1"})
    assert observation == f"{system['content']}\n\n{user['content']}" and env.standing == 1
    assert [row["role"] for row in CorridorGame(prompt_role="user").reset(seed=0)[1]["messages"]] == ["user", "user"]


def test_slots_in_a_goal_are_text():
    goal = "reach {actions} and {format} and {goal} and {0} and \\1"
    env = CorridorGame(goal=goal)
    content = env.reset(seed=0)[1]["messages"][0]["content"]
    assert content.startswith(f"You are in a corridor. Your goal is to {goal}.\n- step back:")


NAMED = [
    "ACTION: step forward", "ACTION:step forward", "ACTION:\n\n  step forward", "THINK: far.\nACTION: step forward",
    "THINK: so ACTION: step forward", "ACTION: Step Forward", "ACTION: STEP FORWARD.", 'ACTION: "step forward"',
    "ACTION: 'step forward'!", "ACTION: `step forward`", "ACTION: **step forward**", "**ACTION:** step forward",
    "ACTION: step_forward", "ACTION: <step forward>", "ACTION: [step  forward];", "ACTION: (step\tforward)",
    "ACTION: - step forward -", "ACTION: step\u00a0forward", "ACTION: forward", "ACTION: right", "ACTION: RIGHT,",
    "ACTION: step back\nACTION: step forward", "ACTION: step forward\nbecause it is near", "ACTION: step forward\r\n\r\n",
    "ACTION: step back or ACTION: step forward", f"ACTION: step forward{'.' * 150}", "x" * 999_000 + "\nACTION: step forward",
    "ACTION: step forward\n" + "y" * 900_000, "\u202e\U0001f600 ACTION: step forward",
    "Action: step forward", "action: step forward", "ACTION: step forward\nReaction: none", "ACTION: \u201cstep forward\u201d",
]  # fmt: skip
UNNAMED = [
    "", " ", "step forward", "ACTION", "ACTION:", "ACTION: \n ", "Reaction: step forward", "ACTION: step forward now",
    "ACTION: step  for ward", "ACTION: stepforward", "ACTION: 2", "ACTION: st\u0435p forward", "ACTION: step\x00forward",
    "ACTION: step forward\nACTION: fly", "ACTION: step forward ACTION:", "ACTION: ...", "ACTION: \ud800", "[" * 1_000_000,
    "ACTION:" * 100_000, "ACTION: " + "step " * 100_000, f"ACTION: {'.' * 300}step forward", "ACTION: " + "\u0130" * 500,
]  # fmt: skip


@each_row("text", NAMED)
def test_names_of_actions_are_understood(text):
    env = CorridorGame()
    number, parsed = env.action_of(text)
    assert number == 2 and isinstance(parsed, Say)


@each_row("text", UNNAMED)
def test_what_names_no_action_is_malformed_with_a_short_reason(text):
    env = CorridorGame()
    number, parsed = env.action_of(text)
    assert number is None and isinstance(parsed, Malformed) and len(parsed.reason) < 600
    if isinstance(PROTOCOL.parse(text), Say):
        assert "is no action; name one of step back, wait, step forward" in parsed.reason


@examples(200)
@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_read_and_the_last_label_counts(before, after):
    env = CorridorGame()
    env.action_of(before)
    text = f"{before}\nACTION: wait\n{after}"
    if PROTOCOL.label not in after.upper():
        assert env.action_of(text)[0] == 1


def test_one_word_for_two_actions_is_refused():
    with pytest.raises(UsageError, match="Maze: 'up' names two actions, 'north' and 'climb'"):
        numbered("Maze", (Action("north", "", ("up",)), Action("climb", "", ("up",))))


def test_what_say_writes_is_what_is_read():
    env = CorridorGame()
    for number in range(3):
        assert env.action_of(env.say(number))[0] == env.action_of(env.say(number, "ACTION: fly"))[0] == number
    assert env.say(0, "well") == "THINK: well\nACTION: step back"


def test_an_invalid_turn_takes_the_default_and_is_told_so():
    env = started()
    observation, reward, terminated, truncated, info = env.step("I go on")
    why = 'no line begins with "ACTION:"'
    form = "A turn of the right form, for another task:\nACTION: wait"
    goal = env.unwrapped.restate(env.unwrapped.episode)
    assert observation == f"Your turn held no action: {why}.\n{form}\n{goal}\nInstead you did: wait.\nfield 1"
    assert (reward, terminated, truncated, info["events"]) == (0.0, False, False, [why])
    turn = env.episode.turns[0]
    assert facts_of(turn) == TurnFacts("wait", True, 0.0, 0.0, False) and isinstance(turn.parsed, Malformed)
    assert turn.results[0].name == MOVE and turn.results[0].call_id == ""


def test_an_invalid_turn_ends_the_episode():
    env = started(on_invalid="end", reward="format_penalty")
    env.step(ON)
    observation, reward, terminated, truncated, info = env.step("ACTION: fly")
    assert observation == "The episode ends here: 'fly' is no action; name one of step back, wait, step forward."
    assert (reward, terminated, truncated, info["success"], info["turns_left"]) == (-0.1, True, False, False, 0)
    assert facts_of(env.episode.turns[1]) == TurnFacts("", True, 0.0, pytest.approx(1 / 3), False)
    assert env.episode.state.place == 2
    env = started(on_invalid="end")
    assert env.step("hm")[2] and facts_of(env.episode.turns[0]).progress == 0.0


def test_notes_stand_above_the_description():
    assert started().step(ON)[0] == "The floor creaks.\nfield 2"


WON = (ON, ON, ON)
SLOPPY = ("hm", ON, "ACTION: fly", ON, ON)


def test_the_binary_reward():
    assert played(started(), *WON)[0] == [0.0, 0.0, 1.0]
    assert played(started(), *SLOPPY)[0] == [0.0, 0.0, 0.0, 0.0, 1.0]
    rewards, last = played(started(), BACK)
    assert rewards == [0.0] and last[2] and last[4]["success"] is False


def test_the_games_own_reward():
    rewards, last = played(started(reward="native"), *WON)
    assert rewards == [0.0, 0.0, pytest.approx(0.6)] and last[4]["reward_terms"] == {"native": rewards[2]}
    assert played(started(reward="native"), WAIT, BACK)[0] == [0.0, -1.0]


def test_the_penalty_for_invalid_turns_is_added():
    rewards, last = played(started(reward="format_penalty"), *SLOPPY)
    assert rewards == [-0.1, 0.0, -0.1, 0.0, 1.0]
    assert last[4]["reward_terms"] == {"success": 1.0, "invalid": 0.0}


@pytest.mark.parametrize(
    ("reward", "paid"), [("format_penalty", 0.9), ("format_penalty_released", -0.1), ("binary", 1.0)]
)
def test_an_invalid_turn_that_wins(reward, paid, monkeypatch):
    env = started(end=3, reward=reward)
    monkeypatch.setattr(type(env.game), "default", 2)
    rewards, last = played(env, ON, "no idea")
    assert rewards == [0.0, pytest.approx(paid)] and last[4]["success"] is True and last[2]


def test_rewards_declare_their_bounds():
    specs = {name: CorridorGame(reward=name, max_turns=7).reward_spec for name in REWARDS}
    worst = -PENALTY * 7
    assert {name: (spec.low, spec.high, spec.episode) for name, spec in specs.items()} == {
        "binary": (0.0, 1.0, (0.0, 1.0)),
        "native": (-1.0, 1.0, (-1.0, 1.0)),
        "format_penalty": (-0.1, 1.0, (worst, 1.0)),
        "format_penalty_released": (-0.1, 1.0, (worst, 1.0)),
    }
    assert len({spec.digest for spec in specs.values()}) == 4


@examples(100)
@given(st.sampled_from(REWARDS), st.lists(st.sampled_from([ON, BACK, WAIT, "hm"]), min_size=8, max_size=8))
def test_returns_lie_in_their_bounds(reward, actions):
    env = started(reward=reward)
    total = 0.0
    for action in actions:
        _, paid, terminated, truncated, _ = env.step(action)
        assert env.reward_spec.low <= paid <= env.reward_spec.high
        total += paid
        if terminated or truncated:
            break
    assert env.episode.over
    assert env.reward_spec.episode[0] - 1e-9 <= total <= env.reward_spec.episode[1] + 1e-9


def test_the_games_limit_or_the_callers_ends_the_episode():
    for arguments, limit in (({}, 8), ({"max_turns": 2}, 2), ({"max_turns": 12}, 12)):
        env = started(**arguments)
        lefts = [env.reset(seed=0, options={"task": env.episode.task})[1]["turns_left"]]
        over = False
        while not over:
            *_, terminated, over, info = env.step(WAIT)
            assert not terminated
            lefts.append(info["turns_left"])
        assert lefts == list(range(limit, -1, -1)) and info["success"] is False


def test_a_win_on_the_last_turn_is_a_win():
    rewards, (_, _, terminated, truncated, info) = played(started(max_turns=3), *WON)
    assert (rewards[-1], terminated, truncated, info["success"], info["turns_left"]) == (1.0, True, False, True, 0)


def test_metrics_tell_of_valid_turns_progress_and_the_games_own_reward():
    env = started()
    played(env, *SLOPPY)
    assert metrics_of(env.trajectory) == {"valid_actions": 0.6, "progression": 1.0, "native_return": 0.6}
    env = started(reward="native")
    played(env, ON, WAIT)
    assert metrics_of(env.trajectory) == {
        "valid_actions": 1.0,
        "progression": pytest.approx(1 / 3),
        "native_return": 0.0,
    }


@each_row(
    ("arguments", "why"),
    [
        ({"reward": "gold"}, "reward='gold'; give one of binary, native"),
        ({"reward": 1}, "reward=1"),
        ({"on_invalid": "retry"}, "on_invalid='retry'; give one of default, end"),
        ({"prompt_role": "tool"}, "prompt_role='tool'; give one of system, user"),
        ({"max_turns": 0}, "max_turns=0; give a whole number"),
        ({"max_turns": True}, "max_turns=True"),
        ({"max_turns": 10**99}, "max_turns=an integer of 329 bits"),
        ({"max_turns": "5"}, "max_turns='5'"),
    ],
)
def test_arguments_are_checked(arguments, why):
    with pytest.raises(UsageError, match=f"CorridorGame: {why}"):
        CorridorGame(**arguments)


def test_a_snapshot_is_small_and_plays_on_elsewhere():
    env = started()
    env.step(ON)
    data = snapshot(env).to_bytes()
    assert len(data) < 6_000 and b"CorridorState" in data and b"pickle" not in data
    other = CorridorGame()
    restore(other, Snapshot.from_bytes(data))
    assert snapshot(other).to_bytes() == data
    twin = fork(env)
    assert twin.step(ON) == other.step(ON) == env.step(ON)


def test_pictures_and_drawings_are_the_games():
    env = started(render_mode="svg")
    env.step(ON)
    assert env.render() == '<svg xmlns="http://www.w3.org/2000/svg"><text>2</text></svg>' and env.drawing() == "..@"
    env.render_mode = "ansi"
    assert env.render().startswith("[environment] You are in a corridor.")
