"""The policy reads these texts after a turn: what tools brought, in one frame, and explanations."""

from collections.abc import Sequence

from agent_envs.base.documents import Hit
from agent_envs.envs.tool_reasoning.documents import Page
from agent_envs.tools.sandbox import LASTING, ExecResult

EXTRACT = 1_000  # characters of a page that a search shows, as ARPO's release cuts them
_MOST_LINKS = 20
NOTHING_FOUND = "No page matches this query."
SILENT = "The program ended and printed nothing; print(...) what you want to see."
STOPPED = "The program was stopped; names are as they were before it."


def framed(body: str) -> str:
    """Return a body between result tags, as the style `tags` shows it; no page or program can end the frame."""
    safe = body.replace("</result>", "<\\/result>")
    return f"\n<result>\n{safe}\n</result>\n"


def pages_found(hits: Sequence[Hit]) -> str:
    """Return what a search found: ID, title and extract of each page."""
    rows = (
        f"Page {number} [{hit.passage.id}] {hit.passage.title}\n{cut(hit.passage.text, EXTRACT)}"
        for number, hit in enumerate(hits, start=1)
    )
    return "\n\n".join(rows) or NOTHING_FOUND


def page_shown(page: Page) -> str:
    """Return an open page: its place in the document, the text, and where its links lead."""
    of = f", page {page.number} of {page.count}" if page.count > 1 else ""
    links = "; ".join(f"{title} [{target}]" for title, target in page.links[:_MOST_LINKS])
    return f"{page.title} [{page.id}]{of}\n{page.text}" + (f"\nLinks: {links}" if links else "")


def output(result: ExecResult, limit: int) -> str:
    """Return what came of a program: what it printed, the value of its last expression, and its error."""
    parts = [cut(result.stdout.rstrip("\n"), limit), cut(result.value, limit), cut(result.error, limit)]
    shown = [part for part in parts if part]
    if result.status not in LASTING and not result.session_lost:
        shown.append(STOPPED)
    if result.truncated:
        shown.append("(Not all of it is shown.)")
    return "\n".join(shown) or SILENT


def cut(text: str, limit: int) -> str:
    """Return a text, cut at a number of characters, and saying so."""
    return text if len(text) <= limit else f"{text[:limit]} [cut: {len(text) - limit} of {len(text)} characters]"
