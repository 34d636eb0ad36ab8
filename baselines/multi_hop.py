"""An agent without a model follows a question's chain of facts: it searches again with each name that the documents tell.

    agent-envs eval SearchQA --agent baselines.multi_hop:MultiHop          # from a checkout

It reads questions and documents of the fictional worlds by the wordings in which all of them are told, and no gold.
A question of another set has no such chain: there it acts as the heuristic, which searches once. It plays alike under every
limit of turns, but for the last one, in which it answers.
"""

import re
from collections.abc import Sequence

from agent_envs.envs.search_qa.chains import ChainProgress, ParsedQuestion, documents, follow, parse_question
from agent_envs.envs.search_qa.heuristic import guess, in_protocol, search_once_and_guess
from agent_envs.rollout.policy import Reply, Request
from agent_envs.tools.native_tags import in_tags

_LIMITS = re.compile(r"You have (\d{1,6}) searches and (\d{1,6}) turns")


class MultiHop:
    """An agent that searches for the question, then for its missing facts, and answers once it has all or finds none."""

    name, batch = "multi-hop", 1

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return one action a request."""
        return [Reply(search_on(request)) for request in requests]


def search_on(request: Request) -> str:
    """Return a search for the question or the first missing fact, the answer once all are known, a guess if it cannot go on."""
    rows = [(str(row["role"]), str(row["content"])) for row in request.messages]
    prompt, *later = in_tags(rows, "information")
    question = prompt.rpartition("Question: ")[2].strip()
    plan = parse_question(question)
    if plan is None:
        return search_once_and_guess(request)
    pages = [document for text in later for document in documents(text)]
    ways = [follow(side, pages) for side in plan.sides]
    missing = next((way for way in ways if not way.complete), None)
    own = [text for row, text in zip(request.messages[1:], later, strict=True) if row["role"] == "assistant"]
    queries = [text.partition("<search>")[2].partition("</search>")[0] for text in own]
    queries_left = (question, missing.question, missing.name) if missing else ()
    query = next((text for text in queries_left if text not in queries), "")
    if query and not request.prefill and not _is_last(prompt, queries):
        return in_protocol(request, f"<think>I do not know this yet.</think>\n<search>{query}</search>")
    answer = _answer(plan, ways) if missing is None else guess(missing.question or question, " ".join(later))
    thought = "" if request.prefill else "<think>This is what the documents tell.</think>\n"
    return in_protocol(request, f"{thought}<answer>{answer}</answer>")


def _is_last(prompt: str, queries: Sequence[str]) -> bool:
    """Return whether the prompt's limits on searches or turns leave nothing but an answer; False where it names none."""
    limits = _LIMITS.search(prompt)
    return limits is not None and (len(queries) >= int(limits[1]) or len(queries) + 1 >= int(limits[2]))


def _answer(plan: ParsedQuestion, ways: Sequence[ChainProgress]) -> str:
    """Return the answer by `comparison`: a value if "", yes or no for "same", years for "gap", else the first or last name."""
    values = [way.value for way in ways]
    if plan.comparison == "same":
        return "yes" if values[0] == values[1] else "no"
    if not plan.comparison:
        return values[0]
    years = [int(value) if value.isdecimal() else 0 for value in values]
    if plan.comparison == "gap":
        return str(abs(years[0] - years[1]))
    year = min(years) if plan.comparison == "first" else max(years)
    return ways[years.index(year)].name
