"""The fault matrix tries every kind of fault, at the first, a middle and the last call, once and for good, for every client.

    python -m tests.heavy.fault_matrix           # or: make fault-matrix

The clients are the three chat models as agents, the remote retriever in both its formats, and a model as a judge whose verdict
is the reward. Each cell is an episode against a local server that speaks the real wire format and fails on cue. It must end as
an episode without faults does, reward for reward, or as a fault without any reward: a reward that a fault caused is a defect,
and so is any other exception. Exit code 1 if there is one. Deadlines are short here, so that hanging servers cost a second.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym

from agent_envs import EpisodeResult, Planned, Reply, Request, run_many, spec_json
from agent_envs.base.terminal import print_table, progress_bar
from agent_envs.rollout.chat_policy import ChatPolicy
from agent_envs.services.chat import AnthropicChat, OpenAIChat, OpenAIText
from agent_envs.tools.retrieval.build import make_retriever
from agent_envs.tools.retrieval.remote import RemoteRetriever
from agent_envs.tools.retrieval.wire import wire_hit
from benchmarks.agents import Instant
from tests.servers import FAULTS, FaultServer
from tests.services.chat.wire import AnthropicWire, OpenAITextWire, OpenAIWire, Said
from tests.services.test_judges import fair

CALLS = 3
PLACES = {"first": 0, "middle": 1, "last": 2}
ATTEMPT_SECONDS = 0.2
Play = Callable[[str], EpisodeResult]


def no_wait(seconds: float) -> None:
    """Do not sleep between attempts."""


class Mor:
    """Gives the right answer of the judged quiz in every turn."""

    name, batch = "mor", 1

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return it."""
        return [Reply("Mor") for _ in requests]


def played(env: gym.Env[Any, Any], policy: Any) -> EpisodeResult:
    """Return one episode of task 0."""
    [(_, result)] = run_many([Planned("k", spec_json(env), 0, "dev", 0)], policy, pause_seconds=0.0)
    return result


def clients() -> dict[str, tuple[Callable[..., Any], Play]]:
    """Return the good service and the episode of every client, by name."""
    search = gym.make("agent_envs/SearchQA-v0")
    search.reset(seed=0, options={"task": 0, "split": "dev"})
    episode = search.unwrapped.episode
    lines = ["<search>who</search>", "<search>what</search>", f"<answer>{episode.task.gold[0]}</answer>"]
    bm25 = make_retriever("bm25", search.unwrapped.source.corpus(episode.task))

    def say(body: dict[str, Any]) -> Said:
        spoken = sum(message["role"] == "assistant" for message in body.get("messages", ()))
        return Said(lines[spoken + body.get("prompt", "").count("\n\nAssistant: ")])

    def serve(path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        asked = json.loads(body)
        hits = bm25.search(asked.get("query") or asked["queries"][0], asked["topk"])
        return 200, {}, json.dumps({"result": [[wire_hit(hit) for hit in hits]]}).encode()

    def agent(make: Callable[[str], Any]) -> Play:
        return lambda url: played(search, ChatPolicy(make(url), wait=no_wait, attempt_seconds=ATTEMPT_SECONDS))

    def retriever(style: str) -> Play:
        return lambda url: played(gym.make("agent_envs/SearchQA-v0", retriever=f"{style}@{url}"), Instant())

    def judged(url: str) -> EpisodeResult:
        return played(gym.make("toy/Quiz-v0", url=url, seconds=ATTEMPT_SECONDS), Mor())

    return {
        "agent, OpenAI's format": (OpenAIWire(say), agent(lambda url: OpenAIChat("m", url, api_key="k"))),
        "agent, OpenAI's completions": (OpenAITextWire(say), agent(lambda url: OpenAIText("m", url, api_key="k"))),
        "agent, Anthropic's client": (AnthropicWire(say), agent(lambda url: AnthropicChat("m", url=url, api_key="k"))),
        "retriever, Search-R1": (serve, retriever("search_r1")),
        "retriever, SkyRL": (serve, retriever("skyrl")),
        "judge": (OpenAIWire(fair), judged),
    }


def essence(result: EpisodeResult) -> tuple[Any, ...]:
    """Return what of a result must be equal with and without faults that were survived."""
    turns = result.trajectory.turns
    return result.status, result.success, tuple((turn.action, turn.reward, turn.observation) for turn in turns)


def cell(service: Callable[..., Any], play: Play, schedule: Callable[[int], str | None], truth: tuple[Any, ...]) -> str:
    """Return how one episode ended: `as without`, `fault`, or what is wrong with it."""
    with FaultServer(service, schedule) as server:
        result = play(server.url)
    if result.status == "fault":
        return "REWARD" if result.trajectory.turns or result.success else "fault"
    return "as without" if essence(result) == truth else "OTHER"


def main() -> None:
    """Play the matrix and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="JSON file for the counts")
    options = parser.parse_args()
    # The environment's own retriever waits for minutes; the rules that are tested are the same.
    RemoteRetriever.__init__.__kwdefaults__.update(deadline_seconds=5.0, attempt_seconds=ATTEMPT_SECONDS, wait=no_wait)
    ended: dict[tuple[str, str], Counter[str]] = {}
    truths, services = {}, clients()
    every = [(name, kind, place, stays) for name in services for kind in FAULTS for place in PLACES for stays in (0, 1)]
    with progress_bar("faults") as progress:
        for number, (name, kind, place, stays) in enumerate(every, start=1):
            service, play = services[name]
            if name not in truths:
                with FaultServer(service) as server:
                    truths[name] = essence(play(server.url))
                assert truths[name][0] == "terminated" and len(truths[name][2]) >= CALLS, name
            at = PLACES[place]
            word = cell(service, play, lambda n: kind if n == at or (stays and n > at) else None, truths[name])  # noqa: B023
            ended.setdefault((name, kind), Counter())[f"{word}, {'for good' if stays else 'once'}"] += 1
            if progress is not None:
                progress(number, len(every), number)
    names = list(services)
    heads = ["fault", *names]
    rows, wrong = [], 0
    for kind in FAULTS:
        row = [kind]
        for name in names:
            counts = ended[name, kind]
            faults = counts["fault, once"] + counts["fault, for good"]
            bad = counts.total() - counts["as without, once"] - faults
            wrong += bad
            row.append(f"{counts['as without, once']} as without, {faults} faults" + (f", {bad} WRONG" if bad else ""))
        rows.append(row)
    print_table(f"{len(every)} episodes, {wrong} rewards from faults or other wrong ends", heads, rows)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            found = {
                "command": f"python -m tests.heavy.fault_matrix --out {options.out}",
                "episodes": len(every),
                "wrong": wrong,
            }
            json.dump(found | {"heads": heads, "rows": rows}, file, indent=1)
            file.write("\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
