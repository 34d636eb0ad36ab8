"""The scripted reader's law: it plays LegalSearch as the family's own searcher does, from the messages alone."""

import re
from collections.abc import Sequence
from typing import Any

from agent_envs.envs.legal_search.heuristic import final_answer, search_and_read
from agent_envs.envs.legal_search.transcript import SearchHistory
from agent_envs.rollout.policy import Request
from baselines.reading_errors import Errors

_HIT = re.compile(r"^\d+\. ID: (.+)\n   Place: .*\n   Text: .*$", re.MULTILINE)
_RESULTS = re.compile(r"Search results:\n(.*?)\n\nQuestion: ", re.S)
_RULES = "\nQuestion: {}"


def read_law(rows: Sequence[dict[str, Any]], question: str, errors: Errors) -> str:
    """Return the next search or answer if the prompt offers `<keyword>`, else an answer from the results in the prompt."""
    system = [row for row in rows if row["role"] == "system"]
    rest = [dict(row) for row in rows if row["role"] != "system"]
    prompt = str(rest[0]["content"])
    if "<keyword>" not in prompt:
        match = _RESULTS.search(prompt)
        results = match[1] if match else ""
        history = SearchHistory.of(_request([
            {"role": "user", "content": _RULES.format(question)},
            {"role": "assistant", "content": f"<semantic>{question}</semantic>"},
            {"role": "user", "content": _drop_overlooked(results, question, errors)},
        ]))  # fmt: skip
        return final_answer(_request(rest), history, history.all_hits)
    assert system is not None
    reader_rows = [{**row, "content": _drop_overlooked(str(row["content"]), question, errors)} for row in rest]
    action = search_and_read(_request(reader_rows))
    search = re.search(r"<(keyword|semantic)>(.*?)</\1>", action)
    if search and errors.strikes("wrong_hop", question, search[2], len(rows)):
        return f"<{search[1]}>something else</{search[1]}>"
    return action


def _request(messages: Sequence[dict[str, Any]]) -> Request:
    """Return the conversation as a request to the scripted reader."""
    return Request("reader", len(messages) // 2, tuple(messages))


def _drop_overlooked(text: str, question: str, errors: Errors) -> str:
    """Return results without the sections that the reader overlooks."""
    return _HIT.sub(lambda hit: "" if errors.strikes("missed_fact", question, hit[1]) else hit[0], text)
