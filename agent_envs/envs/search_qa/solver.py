"""The oracle policy reads the scenario and acts through ordinary actions, and the random policy draws legal ones."""

import random
import re

from agent_envs.core.env import TurnEnv
from agent_envs.core.registry import refuse_live_service
from agent_envs.envs.search_qa.env import SearchQA, SearchState
from agent_envs.envs.search_qa.tasks import Scenario
from agent_envs.grading.text_answers import exact_match, token_f1
from agent_envs.wrappers.turns import allowance

_WORD = re.compile(r"\w[\w'-]*")


def next_action(env: TurnEnv) -> str:
    """Return the next search of the task's chain, or the gold answer once the chain, the searches or the turns are used up."""
    core = env.unwrapped
    assert isinstance(core, SearchQA)
    refuse_live_service(core)
    episode = core.episode
    state: SearchState = episode.state
    queries = episode.task.hidden.queries if isinstance(episode.task.hidden, Scenario) else ()
    left, prefill = allowance(env)
    if state.searches < min(len(queries), core.max_searches) and left > 1:
        query = queries[state.searches]
        thought = f"<think>Fact {state.searches + 1} of {len(queries)} is missing.</think>\n"
        return core.spoken(f"{thought}<search>{query}</search>")
    gold = episode.task.gold
    best = max(gold, key=lambda text: (exact_match(text, gold), token_f1(text, gold)), default="")
    thought = "" if prefill else "<think>Every fact is known.</think>\n"
    return core.spoken(f"{thought}<answer>{best}</answer>", prefill)


def random_action(env: TurnEnv, rng: random.Random) -> str:
    """Return a search for one to three random words of question and last message, or such words as an answer; half of each."""
    core = env.unwrapped
    assert isinstance(core, SearchQA)
    episode = core.episode
    messages = episode.turns[-1].observation if episode.turns else ()
    words = _WORD.findall(" ".join([episode.task.question, *(message.content for message in messages)]))
    picked = " ".join(rng.choice(words) for _ in range(rng.randint(1, 3))) if words else "nothing"
    tag = "search" if rng.random() < 0.5 else "answer"
    return core.spoken(f"<think>At random.</think>\n<{tag}>{picked}</{tag}>")
