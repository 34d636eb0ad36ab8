"""The conversations that docs/tau2.md shows are what the scripted user says to these lines of an agent."""

import pytest

from tests import ROOT
from tests.envs.tau2.users.proposals import scene

SCENES = ("retail cancel", "airline move", "telecom service")


def shown() -> list[list[str]]:
    """Return the lines of each conversation of the page."""
    page = (ROOT / "docs" / "tau2.md").read_text(encoding="utf-8")
    block = page.split("### One conversation a domain")[1].split("```")[1]
    return [told.splitlines() for told in block.strip().split("\n\n")]


def replayed(name: str, lines: list[str]) -> list[str]:
    """Return a conversation as it goes today, with the agent's lines of the page."""
    talk = scene(name)
    found, called = [f"user: {talk.answer}"], 0
    for said in (line.removeprefix("agent: ") for line in lines if line.startswith("agent: ")):
        answer = talk.say(said)
        found += [f"agent: {said}", *(f"      ({call})" for call in talk.calls[called:]), f"user: {answer}"]
        called = len(talk.calls)
    return found


@pytest.mark.parametrize(("place", "name"), list(enumerate(SCENES)))
def test_the_page_shows_what_the_user_says(place, name):
    lines = shown()[place]
    today = replayed(name, lines)
    for there, line in zip(today, lines, strict=True):  # a long line of the page is cut, and ends in " ..."
        assert there == line or line.endswith(" ...") and there.startswith(line.removesuffix("..."))


def test_the_page_has_one_conversation_a_domain():
    assert len(shown()) == len(SCENES)
