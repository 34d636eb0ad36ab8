import pytest

from agent_envs import fork
from agent_envs.base.errors import UsageError
from agent_envs.core.snapshot import Snapshot, restore, snapshot
from agent_envs.core.trajectory import Task, Trajectory
from agent_envs.envs.text_games.baba_is_ai.env import ACTIONS, BabaIsAI, BabaPlay, labels_of
from agent_envs.envs.text_games.baba_is_ai.levels import BabaTask
from agent_envs.envs.text_games.baba_is_ai.solver import next_action
from agent_envs.rollout.episode_runner import replay
from tests.envs.text_games.baba_is_ai.boards import board

HEADINGS = [
    "Description", "Task sources", "Action", "Observation", "Tools", "Reward", "Episode end", "Info", "Arguments",
    "Version history",
]  # fmt: skip


def on(world, **arguments):
    """Return an environment that plays one map."""
    env = BabaIsAI(**arguments)
    task = Task("by hand", "test", "win", data=BabaTask("goto_win", world))
    return env, *env.reset(options={"task": task})


BOARD = board("BABA IS YOU .", "KEY IS WIN .", "baba . . key", "BALL . . .")


def test_the_page_has_its_headings():
    lines = BabaIsAI.__doc__.splitlines()
    assert [line.strip()[:-1] for line in lines if line[:5].strip() and line.rstrip().endswith(":")] == HEADINGS


def test_the_first_messages():
    env, shown, info = on(BOARD)
    rules, first = info["messages"]
    assert rules["role"] == "system" and first["role"] == "user" and info["turns_left"] == 100
    assert "Your goal is to bring something that is YOU onto something that is WIN.\n" in rules["content"]
    assert "- up: go one cell up\n" in rules["content"] and "counts as `idle`" in rules["content"]
    assert "{" not in rules["content"]
    assert first["content"].startswith("Rules in force:\n- baba is you\n- key is win\n") and first["content"] in shown
    assert on(BOARD, prompt_role="user")[2]["messages"][0]["role"] == "user"


def test_a_win_pays_by_its_turn():
    env, *_ = on(BOARD, reward="native")
    assert env.step("ACTION: right")[1:4] == (0.0, False, False)
    env.step("ACTION: Right.")
    shown, reward, terminated, truncated, info = env.step("THINK: there it is\nACTION: go right")
    assert (reward, terminated, truncated, info["success"]) == (1 - 0.9 * 3 / 100, True, False, True)
    assert shown.startswith("You win: one of yours stands on what is WIN.\nRules in force:")
    env, *_ = on(BOARD, reward="native", max_turns=4)
    assert [env.step("ACTION: east")[1] for _ in range(3)] == [0.0, 0.0, 1 - 0.9 * 3 / 4]


def test_a_loss_ends_the_episode():
    broken = board("baba . .", "BABA IS YOU", ". . .")
    env, *_ = on(broken, reward="native")
    shown, reward, terminated, _, info = env.step("ACTION: down")
    assert (reward, terminated, info["success"]) == (-1.0, True, False)
    assert shown.startswith(
        "Nothing is YOU any more: you have lost.\nRules in force:\nThe map has 3 columns and 3 rows. Nothing"
    )
    env, *_ = on(broken)
    assert env.step("ACTION: down")[1] == 0.0


def test_an_invalid_turn_is_an_idle_one_or_the_end():
    env, *_ = on(BOARD, reward="format_penalty")
    shown, reward, terminated, _, info = env.step("I go right.")
    assert (reward, terminated) == (-0.1, False) and "Instead you did: idle." in shown
    assert env.episode.state == BabaPlay(BOARD, 1, 100) and len(info["events"]) == 1
    env, *_ = on(BOARD, on_invalid="end")
    assert env.step("ACTION: jump")[2] is True and env.episode.success is False


def test_the_limit_truncates():
    env, *_ = on(BOARD, max_turns=2)
    assert env.step("ACTION: idle")[2:4] == (False, False)
    assert env.step("ACTION: wait")[2:4] == (False, True)


def test_names_and_aliases_belong_to_one_action_each():
    names = [name for action in ACTIONS for name in (action.name, *action.aliases)]
    assert len(names) == len(set(names))
    assert [action.name for action in ACTIONS] == ["idle", "up", "right", "down", "left"]
    env, *_ = on(BOARD)
    assert [env.action_of(f"ACTION: {name}")[0] for name in ("move_up", "GO LEFT", "`south`", "noop")] == [1, 4, 3, 0]


@pytest.mark.parametrize(
    "arguments", [{"kind": "find_win"}, {"max_turns": 0}, {"reward": "paper"}, {"on_invalid": "skip"}, {"kind": None}]
)
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(UsageError, match=f"BabaIsAI: {next(iter(arguments))}="):
        BabaIsAI(**arguments)


def test_a_task_of_another_source_is_refused():
    with pytest.raises(UsageError, match="no BabaTask"):
        BabaIsAI().reset(options={"task": Task("x", "test", "q")})


def test_kinds_have_tasks_of_their_own():
    env = BabaIsAI(kind="make_win")
    _, info = env.reset(seed=3, options={"split": "test"})
    assert info["task_id"].startswith("baba-make_win-test-")
    assert labels_of(env.episode.task) == {"kind": "make_win"}


def test_snapshots_are_small_and_whole():
    env = BabaIsAI(kind="two_room-make_you")
    env.reset(options={"task": 2, "split": "test"})
    env.step(next_action(env))
    moment = Snapshot.from_bytes(snapshot(env).to_bytes())
    twin, other = fork(env), BabaIsAI(kind="two_room-make_you")
    other.reset(options={"task": 0})
    restore(other, moment)
    action = next_action(env)
    assert env.step(action) == twin.step(action) == other.step(action)


def test_an_episode_replays_from_its_record():
    env = BabaIsAI(kind="make_win")
    env.reset(options={"task": 5, "split": "test"})
    while not env.episode.over:
        env.step(next_action(env))
    record = Trajectory.from_json(env.trajectory.to_json())
    assert record.success and replay(BabaIsAI(kind="make_win"), record).success


def test_pictures_in_both_modes():
    env, *_ = on(BOARD, render_mode="svg")
    assert env.render().startswith("<svg ") and env.drawing().endswith("rules: baba is you, key is win")
    env, *_ = on(BOARD, render_mode="ansi")
    assert "Rules in force" in env.render()
