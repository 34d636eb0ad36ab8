"""Search-o1 reasons freely with searches, and a second call reads the documents for it (Li et al. 2025, arXiv 2501.05366).

Between a search and the next step of reasoning, the second call ("reason in documents") condenses what came back in the light
of the query and of the reasoning; only its notes reach the reasoning. `searches` is 1 by default (VEG, section 3.1: 2 turns);
the release allows 5 on single-hop and 10 on multi-hop sets. Of earlier steps the second call sees the first, the last four,
and those that searched, as in the release.

Differs from the release: the environment's tags in place of its special tokens, so that the environment carries searches out
and counts them; top 3 passages rather than 10; a repeated query ends in an answer, where the release sends a note; the answer
has the form of the environment.
"""

import re
from typing import Any

from baselines.chat_agent import ChatAgent, TurnModel
from baselines.prompts import prompt, user
from baselines.view import EpisodeView, joined

_SEARCH = re.compile(r"<search>(.*?)(?:</search>|\Z)", re.S)
LAST_STEPS = 4  # of the release's condensed reasoning


class SearchO1(ChatAgent):
    """An agent that reasons with notes on documents."""

    short = "search_o1"

    def __init__(self, model: Any = "", *, searches: int = 1, **options: Any) -> None:
        """Take the number of searches that the reasoning may make."""
        super().__init__(model, **options)
        self.searches = searches

    def turn(self, view: EpisodeView, model: TurnModel) -> str:
        """Return reasoning, led by notes on the newest results, with a search; with the answer if it is last or a repeat."""
        notes = ""
        if view.actions and view.evidence:
            notes = self._read(view, model)
        steps = [_plain_step(text) for text in view.actions] + ([f"Notes: {notes}"] if notes else [])
        last = view.must_answer or view.searches >= self.searches
        granted = 0 if last else min(self.searches, view.limit("searches")) - view.searches
        slots = {"question": view.question, "notes": joined(steps), "form": view.form}
        text = prompt("search_o1", "reason", searches=granted, turns=granted + 1, **slots)
        reply = model.ask([user(text)], stop=("</search>", "</answer>"))
        query = _SEARCH.search(reply)
        prefix = f"<think>Notes: {notes}</think>\n" if notes else ""
        thought = reply.partition("<search>")[0].partition("<answer>")[0].strip()
        prefix += f"<think>{thought}</think>\n" if thought else ""
        if query and not last and not self._repeats(query[1], view):
            return prefix + view.call(view.search_verb, query[1].strip())
        return prefix + view.answer(reply if not query else reply.partition("<search>")[0])

    def _read(self, view: EpisodeView, model: TurnModel) -> str:
        """Return the model's notes on the newest documents, shown the first, the last 4 and all searching steps."""
        steps = [_plain_step(text) for text in view.actions]
        last_steps = [
            step for n, step in enumerate(steps) if n == 0 or n >= len(steps) - LAST_STEPS or "Searched:" in step
        ]
        slots = {
            "question": view.question,
            "steps": joined(last_steps),
            "query": _last_query(view.actions[-1]),
            "documents": view.evidence[-1],
        }
        return model.ask([user(prompt("search_o1", "read", **slots))]).strip()

    def _repeats(self, query: str, view: EpisodeView) -> bool:
        """Return whether an action of the episode searched for the query already, in any case."""
        return any(query.strip().lower() == _last_query(text) for text in view.actions)


def _plain_step(action: str) -> str:
    """Return a turn as a step of reasoning, without its tags."""
    text = action.replace("<think>", "").replace("</think>", "")
    return re.sub(r"<(search|semantic|keyword)>(.*?)</\1>", r"Searched: \2", text, flags=re.S).strip()


def _last_query(action: str) -> str:
    """Return the query of an action's first search in lower case; empty where it has none."""
    match = re.search(r"<(search|semantic|keyword)>(.*?)</\1>", action, re.S)
    return match[2].strip().lower() if match else ""
