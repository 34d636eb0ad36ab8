"""tau2's solver and heuristic play with simulated users, beside empty conversations and a crowd of open episodes.

    AGENT_ENVS_DATA=... python -m benchmarks.tau2_users [--out FILE] [--tasks N] [--crowd N]
    python -m benchmarks.tau2_users --behaviour scripted [--persona NAME_OR_JSON] [--tasks N]
    python -m benchmarks.tau2_users --solved | --leaks | --lazy | --speed [--tasks N]

Rates are over generated test tasks, with 95 % intervals; empty conversations are scored on these and on the official tasks.
The crowd is N telecom episodes that stand open at once and are stepped in turn by the heuristic, in one process and one thread,
the scripted user included; time is CPU time. The original keeps a thread for each episode, and its telecom step takes 0.66 to
1.20 s without any model (recorded once; it is not installed here).

`--behaviour USER` measures how any user (scripted, or a model by name) behaves, on what arXiv 2603.11245 found people and
models to differ in: information told a turn, pushback on a wrong assumption, refusals of unwanted proposals, repair after an
agent's error, and the spread of wording.

`--solved` counts the tasks of worlds 0 and 5 that solver and heuristic solve; `--leaks` measures how much of a wish's details
the scripted customer tells agents that do not ask for it, beside one that asks for all; `--lazy` how many tasks agents solve
that do not work: random, null, one that asks "Shall I do what you want?" and one that asks for everything; `--speed` how many
messages the customer answers in a CPU-second.
"""

import argparse
import json
import platform
import re
import resource
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import gymnasium as gym

import agent_envs
from agent_envs.envs.tau2.heuristics import act
from agent_envs.envs.tau2.metrics import idle_score
from agent_envs.envs.tau2.official import load_domain
from agent_envs.envs.tau2.task_generator.source import GeneratedSource, generated_domain
from agent_envs.envs.tau2.tasks import OfficialSource, tau2_task
from agent_envs.envs.tau2.user_script import read_script
from agent_envs.envs.tau2.users.consent import tokens
from agent_envs.evaluation.statistics.rates import pass_hat_k, pass_rate, success_rate
from agent_envs.rollout.policy import CompanionPolicy, NullPolicy, Request
from benchmarks.tau2_null_policy import null_policy_score
from benchmarks.tau2_user_checks import episode_faults

DOMAINS = ("retail", "airline", "telecom")
TRIALS = 4
STEP_SECONDS_OF_THE_ORIGINAL = 0.66


def rates(domain: str, kind: str, tasks: int, trials: int) -> dict[str, Any]:
    """Play a built-in agent on the first test tasks; return success by difficulty, and pass^k."""
    env = gym.make(f"agent_envs/Tau2{domain.title()}-v0")
    source = env.unwrapped.source
    values: list[float] = []
    names: list[str] = []
    kinds: list[str] = []
    faults = turns = 0
    started = time.process_time()
    for place in range(tasks):
        task = source.get("test", place)
        for trial in range(trials):
            key = f"tau2-users-{place}-{trial}"
            result = agent_envs.run_episode(
                env, CompanionPolicy(kind), seed=trial, task=place, split="test", episode_key=key
            )
            values.append(float(bool(result.success)))
            names.append(task.id)
            kinds.append(task.data["difficulty"])
            turns += len(result.trajectory.turns)
            faults += bool(episode_faults(env.unwrapped))
    seconds = time.process_time() - started
    figures: dict[str, Any] = {"episodes": len(values), "cpu_seconds": round(seconds, 1), "turns": turns}
    figures |= {"success": success_rate(values, names).text(), "user_faults": faults}
    for level in ("easy", "medium", "hard"):
        places = [place for place, one in enumerate(kinds) if one == level]
        figures[level] = success_rate([values[p] for p in places], [names[p] for p in places]).text()
    if trials > 1:
        figures |= {f"pass^{k}": pass_rate(pass_hat_k, values, names, k).text() for k in range(1, trials + 1)}
    return figures


def score_nobody(domain: str, tasks: int) -> dict[str, Any]:
    """Score an empty conversation on the same tasks, and on the official ones."""
    source, world = GeneratedSource(domain), generated_domain(domain)
    passed = sum(
        idle_score(world, tau2_task(source.get("test", place), domain)).reward_without_nl for place in range(tasks)
    )
    floor = null_policy_score(load_domain(domain), OfficialSource(domain), "base")
    return {
        "generated": f"{passed:g} of {tasks}", "official base": f"{floor.passed} of {floor.tasks}",
        "official rate": round(floor.rate, 3), "of these unjudged": floor.unjudged,
    }  # fmt: skip


def crowd(size: int) -> dict[str, Any]:
    """Play episodes side by side, one turn of each in turn, and tell what a step costs and what all of them hold."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    envs = [gym.make("agent_envs/Tau2Telecom-v0") for _ in range(size)]
    states = []
    for place, env in enumerate(envs):
        _, info = env.reset(
            seed=place, options={"task": place % 1_000, "split": "test", "episode_key": f"crowd-{place}"}
        )
        states.append(info["messages"])
    opened = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    going, steps, acting, stepping, solved = list(range(size)), 0, 0.0, 0.0, 0
    while going:
        still = []
        for place in going:
            env = envs[place]
            started = time.process_time()
            action = act(Request(f"crowd-{place}", 0, states[place], env.unwrapped.tools))
            acted = time.process_time()
            _, _, terminated, truncated, info = env.step(action)
            stepping += time.process_time() - acted
            acting += acted - started
            steps += 1
            states[place] = [*states[place], {"role": "assistant", "content": action}, *info["messages"]]
            if terminated or truncated:
                solved += info["success"]
            else:
                still.append(place)
        going = still
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "episodes": size, "steps": steps, "solved": solved, "steps_per_cpu_second": round(steps / stepping),
        "agent_cpu_seconds": round(acting, 1), "environment_cpu_seconds": round(stepping, 1),
        "mb_at_the_start": round(opened / 1e6, 1), "peak_rss_mb": round(peak / unit), "rss_before_mb": round(before / unit),
        "times_the_original": round(STEP_SECONDS_OF_THE_ORIGINAL * steps / stepping),
    }  # fmt: skip


_ASK = "Could you please tell me your full name, zip code, e-mail address, user ID, phone number and date of birth?"
# Of each domain: what nobody of its easy tasks wants, as a proposal, as a wrong assumption, and as an agent's error.
_STRANGE = {
    "retail": ("exchange the item for a pair of gold earrings", "exchanged the item for a pair of gold earrings"),
    "airline": ("change the destination to Honolulu", "changed the destination to Honolulu"),
    "telecom": ("cancel the contract", "cancelled the contract"),
}
_KEYS = 8  # episodes of a task, for the spread of wording
_YES = re.compile(r"(?:^|[.!?] )(?:yes|sure|okay|ok|go ahead|please do|correct)\b", re.IGNORECASE)
_POLITE = re.compile(r"\b(?:please|thanks?|thank you|sorry|appreciate|kindly|grateful)\b", re.IGNORECASE)
_FIGURES = re.compile(r"#?[A-Z]*\d[\w-]*|\b[\w.]+@[\w.]+|\b[a-z]+_[a-z]+_\d+|\b[A-Z][a-z]+ [A-Z][a-z]+\b")


def behaviour(domain: str, user: Any, persona: Any, tasks: int) -> dict[str, float]:
    """Return the measures of one user, by name or as a chat model, over easy generated tasks.

    Returns:
        facts: figures and names that a message tells for the first time, a message; of the opening and two answers.
        polite: share of these messages, and of the answers to proposals and reports, with a word of thanks, regret or request.
        pushback, refuses: shares of answers without a yes to a wrong assumption, and to an unwanted proposal.
        repairs: share of reported errors after which the user neither thanks nor leaves, but says what it wants.
        spread: distinct openings among those of one task, as a share of them.
    """
    env = gym.make(f"agent_envs/Tau2{domain.title()}-v0", user=user, persona=persona, difficulty="easy")
    wish, wrong = _STRANGE[domain]
    sums = dict.fromkeys(("facts", "polite", "pushback", "refuses", "repairs", "spread"), 0.0)
    for place in range(tasks):
        messages = [_opening(env, place, "0"), *(_answer(env, _ASK) for _ in range(2))]
        sums["facts"] += len(set(_FIGURES.findall(" ".join(messages)))) / len(messages)
        for name, text in (("pushback", f"So you want me to {wish}, is that right?"), ("refuses", f"Shall I {wish}?")):
            _opening(env, place, name)
            messages.append(_answer(env, text))
            sums[name] += not _YES.search(messages[-1])
        _opening(env, place, "repairs")
        answer = _answer(env, f"I have {wrong}, as you asked. Is there anything else?")
        sums["polite"] += sum(map(bool, map(_POLITE.search, (*messages, answer)))) / (len(messages) + 1)
        sums["repairs"] += "###" not in answer and "thank" not in answer.lower()
        sums["spread"] += len({_opening(env, place, str(key)) for key in range(_KEYS)}) / _KEYS
    return {name: round(total / tasks, 3) for name, total in sums.items()}


# What agents say that do not ask what is wanted, and what one says that asks for all; {} is the wish.
_LAZY = {
    "shall I do what you want?": "Shall I do what you want?",
    "echoes the wish": "{} Shall I go ahead?",
    "names all topics": "Shall I go ahead with the items, options, payment, address, reason, route, date, flights, cabin, "
    "passengers, bags, insurance, plan and line as you want them?",
    "asks for all topics": "Could you tell me the order number, items, options, payment method, address, reason, reservation "
    "number, route, dates, flights, cabin, passengers, bags, insurance, kind of trip, line, plan and amount?",
}  # fmt: skip
_TURNS = 4


def leaks(domain: str, tasks: int) -> dict[str, float]:
    """Return, of each kind of agent, the share of the first wish's details that are out after four turns."""
    env = gym.make(f"agent_envs/Tau2{domain.title()}-v0")
    shares = {}
    for name, words in _LAZY.items():
        out = there = 0
        for place in range(tasks):
            transcript = _opening(env, place, "leaks")
            want = read_script(env.unwrapped.episode.task.data["user_script"]).wants[0]
            details = [fact.say for fact in want.facts if not tokens(fact.say) <= tokens(transcript)]
            for _ in range(_TURNS):
                transcript += f" {_answer(env, words.format(want.say))}"
            out += sum(tokens(detail) <= tokens(transcript) for detail in details)
            there += len(details)
        shares[name] = round(out / there, 3) if there else 0.0
    return shares


def solved(domain: str, tasks: int) -> dict[str, int]:
    """Count the first test tasks of two worlds that the solver and the heuristic solve."""
    counts = {}
    for kind, world in ((kind, world) for kind in ("solver", "heuristic") for world in (0, 5)):
        env = gym.make(f"agent_envs/Tau2{domain.title()}-v0", **({"world": world} if world else {}))
        results = (
            agent_envs.run_episode(env, CompanionPolicy(kind), seed=0, task=place, split="test")
            for place in range(tasks)
        )
        counts[f"{kind}, world {world}"] = sum(bool(result.success) for result in results)
    return counts


def lazy(domain: str, tasks: int) -> dict[str, int]:
    """Count the test tasks that agents without effort solve."""
    env = gym.make(f"agent_envs/Tau2{domain.title()}-v0")
    counts = {}
    for kind, policy in (("random", CompanionPolicy("random")), ("null", NullPolicy())):
        results = (agent_envs.run_episode(env, policy, seed=0, task=place, split="test") for place in range(tasks))
        counts[kind] = sum(bool(result.success) for result in results)
    for name in ("shall I do what you want?", "asks for all topics"):
        counts[name] = 0
        for place in range(tasks):
            _opening(env, place, "lazy")
            while not env.unwrapped.episode.over:
                _answer(env, _LAZY[name])
            counts[name] += bool(env.unwrapped.episode.success)
    return counts


def speed(domain: str, tasks: int) -> int:
    """Return the customer's answers to new messages per CPU-second, the environment's step included."""
    env = gym.make(f"agent_envs/Tau2{domain.title()}-v0")
    answered, seconds = 0, 0.0
    for place in range(tasks):
        _opening(env, place, "speed")
        wish = read_script(env.unwrapped.episode.task.data["user_script"]).wants[0].say
        for turn in range(_TURNS):
            text = f"Step {place}.{turn}: you say this: {wish} I could do that for ${place + turn}.50 today. Shall I go ahead?"
            started = time.process_time()
            answered += bool(_answer(env, text))
            seconds += time.process_time() - started
    return round(answered / seconds)


def _opening(env: Any, place: int, key: str) -> str:
    """Return the customer's opening in an episode of a task."""
    options = {"task": place, "split": "test", "episode_key": f"behaviour-{place}-{key}"}
    _, info = env.reset(seed=int(key) if key.isdigit() else 0, options=options)
    return str(info["messages"][-1]["content"])


def _answer(env: Any, text: str) -> str:
    """Send a text and return the user's answer, "" once the conversation is over."""
    if env.unwrapped.episode.over:
        return ""
    _, _, _, _, info = env.step(text)
    return " ".join(str(one["content"]) for one in info["messages"])


def main() -> None:
    """Measure simulated users by the options: one measure, one user's behaviour, or everything with a record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tasks", type=int, default=500, help="test tasks of the solver and of nobody (default 500)")
    parser.add_argument("--trials-tasks", type=int, default=128, help="test tasks of the heuristic, 4 trials each")
    parser.add_argument("--crowd", type=int, default=1_000, help="telecom episodes at once (default 1,000)")
    parser.add_argument("--behaviour", metavar="USER", help="measure how a user behaves, and nothing else")
    parser.add_argument("--persona", default="plain", help="its manners: a name, or knobs as JSON")
    for name, doc in (
        ("solved", "what solver and heuristic solve"),
        ("leaks", "what lazy agents are told"),
        ("lazy", "what they solve"),
        ("speed", "messages a second"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=f"measure {doc}, and nothing else")
    args = parser.parse_args()
    for measure in (solved, leaks, lazy, speed):
        if getattr(args, measure.__name__):
            for domain in DOMAINS:
                print(domain, json.dumps(measure(domain, min(args.tasks, 60))), flush=True)
            return
    if args.behaviour:
        persona = json.loads(args.persona) if args.persona.startswith("{") else args.persona
        for domain in DOMAINS:
            print(domain, json.dumps(behaviour(domain, args.behaviour, persona, min(args.tasks, 100))), flush=True)
        return
    figures: dict[str, Any] = {"crowd": crowd(args.crowd)}
    print(json.dumps(figures, indent=1))
    for domain in DOMAINS:
        figures[domain] = {"nobody": score_nobody(domain, args.tasks)}
        for kind, tasks, trials in (("solver", args.tasks, 1), ("heuristic", args.trials_tasks, TRIALS)):
            figures[domain][kind] = rates(domain, kind, tasks, trials)
            print(domain, kind, json.dumps(figures[domain][kind]), flush=True)
        print(domain, "nobody", json.dumps(figures[domain]["nobody"]), flush=True)
    if args.out:
        record = {
            "command": f"python -m benchmarks.tau2_users --tasks {args.tasks} --trials-tasks {args.trials_tasks} "
            f"--crowd {args.crowd}",
            "versions": {"python": platform.python_version(), "agent_envs": agent_envs.__version__},
            **figures,
        }
        args.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
