"""What the policy reads after a turn: passages in one of two published formats, and texts that explain."""

import json
from collections.abc import Sequence

from agent_envs.base.documents import Hit

FORMATS = ("search_r1", "skyrl_json")


def information(hits: Sequence[Hit], observation_format: str, max_characters: int) -> str:
    """Return passages between `<information>` tags.

    `search_r1`: raw text, `Doc 1(Title: "...") ...` a line. `skyrl_json`: the JSON text of {"result": "Doc 1: ..."}, line
    breaks and non-ASCII escaped, as SkyRL's search environment sends it. A body over `max_characters` is cut, and says so.
    """
    nothing = "" if hits else "No document matches this query."
    if observation_format == "search_r1":
        rows = (f'Doc {n}(Title: "{h.passage.title}") {h.passage.text}\n' for n, h in enumerate(hits, start=1))
        return f"\n\n<information>{nothing or _cut(''.join(rows).strip(), max_characters)}</information>\n\n"
    rows = (f'Doc {n}: "{h.passage.title}"\n{h.passage.text.strip()}\n' for n, h in enumerate(hits, start=1))
    body = json.dumps({"result": nothing or _cut("".join(rows), max_characters)})
    return f"\n<information>{body}</information>\n"


def explain(text: str) -> str:
    """Return a text that answers an action which could not be carried out."""
    return f"\n\n{text}\n\n"


def _cut(body: str, limit: int) -> str:
    if len(body) <= limit:
        return body
    return f"{body[:limit]} [cut: {len(body) - limit} of {len(body)} characters are not shown]\n"
