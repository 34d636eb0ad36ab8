r"""The oracle policy (solver) knows what to look up and run, but earns the answer by it; the random policy draws its calls.

In math_world it answers with what its program printed, or with a fact whose page it was shown. So where a tool is not offered,
or a search does not find, it does not know: what it earns is what the tools are worth. Of a published set it gives the gold
answer, after one search at most.
"""

import json
import random
import re

from agent_envs.base.protocol import Call
from agent_envs.core.env import Episode, TurnEnv
from agent_envs.core.registry import refuse_live_service
from agent_envs.envs.tool_reasoning.actions import BROWSE, PYTHON, SEARCH
from agent_envs.envs.tool_reasoning.calls import ToolReasoningState
from agent_envs.envs.tool_reasoning.content import ToolReasoningScenario
from agent_envs.envs.tool_reasoning.env import ToolReasoning
from agent_envs.grading.text_answers import exact_match, token_f1
from agent_envs.wrappers.turns import allowance

_WORD = re.compile(r"\w[\w'-]*")
_NUMBER = re.compile(r"\b[0-9]{1,6}\b")
_ID = re.compile(r"\[([^\[\]\s]{1,200})\]")
UNKNOWN = "unknown"


def next_action(env: TurnEnv) -> str:
    """Return the chain's next search, then its program, then the answer, UNKNOWN where the tools have not given it."""
    core = env.unwrapped
    assert isinstance(core, ToolReasoning)
    refuse_live_service(core)
    episode, most = core.episode, core.calls.bounds.most
    state: ToolReasoningState = episode.state
    hidden = episode.task.hidden
    scenario = hidden if isinstance(hidden, ToolReasoningScenario) else ToolReasoningScenario()
    left, prefill = allowance(env)
    results = [result for turn in episode.turns for result in turn.results if not result.error]
    pages_read, call_texts = {page for result in results for page in result.ids}, _call_texts(episode)
    missing = [
        query
        for query, page in zip(scenario.queries, scenario.support, strict=False)
        if page not in pages_read and query not in call_texts
    ]
    if missing and SEARCH in core.offered and state.searches < most[SEARCH] and left > 1:
        return _thought(f"Still to be looked up: {len(missing)}.", core.actions.rendered(SEARCH, missing[0]))
    has_facts = set(scenario.support) <= pages_read if scenario.found else True
    printed = _last_print(episode, scenario.code)
    runs = PYTHON in core.offered and state.programs < most[PYTHON] and scenario.code not in call_texts
    if has_facts and scenario.code and not printed and runs and left > 1:
        return _thought("Calculate", core.actions.rendered(PYTHON, scenario.code))
    gold = episode.task.gold
    answer = max(gold, key=lambda text: (exact_match(text, gold), token_f1(text, gold)), default="")
    if scenario.code:
        answer = printed or UNKNOWN
    elif not has_facts:
        answer = UNKNOWN
    final = f"<answer>\\boxed{{{answer}}}</answer>"
    return final if prefill else _thought("Nothing more can be found out.", final)


def _thought(text: str, action: str) -> str:
    """Return an action with a thought before it."""
    return f"<think>{text}</think>\n{action}"


def _call_texts(episode: Episode) -> set[str]:
    """Return every query and program of the episode."""
    calls = [call for turn in episode.turns if isinstance(turn.parsed, Call) for call in turn.parsed.calls]
    return {str(value).strip() for call in calls for value in json.loads(call.arguments).values()}


def _last_print(episode: Episode, code: str) -> str:
    """Return the output of the task's own program; "" where it has not run without error."""
    for turn in episode.turns:
        calls = turn.parsed.calls if isinstance(turn.parsed, Call) else ()
        for call, result in zip(calls, turn.results, strict=False):
            ran = result.name == PYTHON and result.ids[:1] == ("ok",)
            if ran and json.loads(call.arguments).get("code", "").strip() == code.strip():
                return result.content.strip()
    return ""


def random_action(env: TurnEnv, rng: random.Random) -> str:
    """Return a call of a random tool with words, IDs or numbers shown, or an answer of such words."""
    core = env.unwrapped
    assert isinstance(core, ToolReasoning)
    episode = core.episode
    messages = episode.turns[-1].observation if episode.turns else ()
    text = " ".join([episode.task.question, *(message.content for message in messages)])
    kind = rng.choice((*core.offered, "answer"))
    if kind == PYTHON:
        numbers = _NUMBER.findall(text) or ["1"]
        terms = [str(int(rng.choice(numbers))) for _ in range(rng.randint(1, 3))]
        sign = rng.choice((" + ", " - ", " * "))
        return _thought("At random.", core.actions.rendered(PYTHON, f"print({sign.join(terms)})"))
    words = (_ID.findall(text) if kind == BROWSE else []) or _WORD.findall(text) or ["nothing"]
    picked = " ".join(rng.choice(words) for _ in range(1 if kind == BROWSE else rng.randint(1, 3)))
    if kind == "answer":
        return _thought("At random.", f"<answer>\\boxed{{{picked}}}</answer>")
    return _thought("At random.", core.actions.rendered(kind, picked))
