"""The oracle policy reads the scenario and acts through ordinary actions, and the random policy draws legal ones."""

import random
import re

from agent_envs.core.env import Episode, TurnEnv
from agent_envs.core.registry import refuse_live_service
from agent_envs.envs.legal_search import tools
from agent_envs.envs.legal_search.env import LegalSearch
from agent_envs.envs.legal_search.outcomes import scenario_of
from agent_envs.envs.legal_search.tasks import ABSTAIN, LegalStep
from agent_envs.grading.text_answers import exact_match
from agent_envs.wrappers.turns import allowance

_WORD = re.compile(r"\w[\w'-]*")


def next_action(env: TurnEnv) -> str:
    """Return the next search or read of the task's steps, or the gold answer with its sources once they or turns are used up.

    Where turns are too few for every step's search, sections are read without one.
    """
    core = env.unwrapped
    assert isinstance(core, LegalSearch)
    refuse_live_service(core)
    episode = core.episode
    left, prefill = allowance(env)
    scenario = scenario_of(episode.task)
    queries, sections = _past_wishes(episode, core.protocol)
    # A step without a section is a search that finds nothing.
    waiting = [s for s in scenario.steps if not (s.section in sections if s.section else s.query in queries)]
    if waiting and left > 1:
        step = waiting[0]
        if not step.section or _may_search(core, step, queries, left - len(waiting)):
            text = tools.rendered(tools.KEYWORD, core.protocol, query=step.query)
            return f"<think>A section is missing.</think>\n{text}"
        text = tools.rendered(tools.READ, core.protocol, section_id=step.section)
        return f"<think>This section is to be read.</think>\n{text}"
    gold = episode.task.gold if scenario.answerable else ()
    answer = next((text for text in gold if exact_match(text, gold)), ABSTAIN)
    sources = list(scenario.answer_sections[: tools.MOST_SOURCES])
    if prefill:
        return tools.rendered(tools.ANSWER, "tags", answer=answer, sources=sources)
    text = tools.rendered(tools.ANSWER, core.protocol, answer=answer, sources=sources)
    return f"<think>All that is needed was read.</think>\n{text}"


def _may_search(core: LegalSearch, step: LegalStep, queries: list[str], spare_turns: int) -> bool:
    """Return whether a step may begin with its query: not asked before, a turn to spare and searches left."""
    searches: int = core.episode.state.searches
    return bool(step.query) and step.query not in queries and spare_turns > 1 and searches < core.max_searches


def _past_wishes(episode: Episode, protocol: str) -> tuple[list[str], list[str]]:
    """Return the queries that were made and the sections that were asked for."""
    wishes = [tools.read_turn(str(turn.action), protocol)[1] for turn in episode.turns]
    queries = [wish.query for wish in wishes if isinstance(wish, tools.Search)]
    return queries, [wish.section_id for wish in wishes if isinstance(wish, tools.Read)]


def random_action(env: TurnEnv, rng: random.Random) -> str:
    """Return at random a search for words shown, a read of an ID shown (a search if none was), or such words as an answer."""
    core = env.unwrapped
    assert isinstance(core, LegalSearch)
    episode = core.episode
    texts = [message.content for message in episode.turns[-1].observation] if episode.turns else []
    words = _WORD.findall(" ".join([episode.task.question, *texts]))
    picked = " ".join(rng.choice(words) for _ in range(rng.randint(1, 3))) if words else "nothing"
    ids = [name for turn in episode.turns for result in turn.results for name in result.ids]
    name = rng.choice((tools.KEYWORD, tools.SEMANTIC, tools.READ, tools.READ, tools.ANSWER))
    if name == tools.READ and ids:
        text = tools.rendered(tools.READ, core.protocol, section_id=rng.choice(ids))
    elif name == tools.ANSWER:
        text = tools.rendered(tools.ANSWER, core.protocol, answer=picked, sources=rng.sample(ids, min(1, len(ids))))
    else:
        text = tools.rendered(name if name != tools.READ else tools.KEYWORD, core.protocol, query=picked)
    return f"<think>At random.</think>\n{text}"
