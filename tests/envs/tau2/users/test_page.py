"""The conversations that docs/tau2.md shows are what the scripted user says to these lines of an agent."""

import pytest

from tests import ROOT
from tests.envs.tau2.users.scenes import CALLER, SHOPPER, Talk, row

FLIER = [
    {"topic": "name", "say": "My name is Kai Winter.", "value": "Kai Winter"},
    {"topic": "user_id", "say": "My user id is kai_winter_1234.", "value": "kai_winter_1234"},
]
SCENES = {
    "retail": (SHOPPER, {
        "say": "I would like order #W7765351 to be cancelled: I placed it by mistake.",
        "facts": [
            {"topic": "order", "say": "The order number is #W7765351.", "value": "#W7765351"},
            {"topic": "reason", "say": "I placed it by mistake."},
        ],
        "signs": ["cancel"],
    }),
    "airline": (FLIER, {
        "say": "I would rather fly on May 22 than on May 23 for the flight out of my reservation XYY6K0.",
        "facts": [
            {"topic": "reservation", "say": "The reservation number is XYY6K0.", "value": "XYY6K0"},
            {"topic": "route", "say": "It is the trip from Chicago to Denver."},
            {"topic": "flight", "say": "The earliest flight with free seats on May 22."},
            {"topic": "payment", "say": "My credit card ending in 8156."},
            {"topic": "date", "say": "From May 23 to May 22."},
            {"topic": "cabin", "say": "The same cabin as now."},
        ],
        "signs": ["changed", "moved", "HAT082"],
    }),
    "telecom": (CALLER, {
        "say": "I cannot make calls any more, because my phone finds no network.",
        "facts": [{"topic": "problem", "say": "I cannot make calls any more, because my phone finds no network."}],
        "check": {"tool": "check_network_status", "passes": "Cellular Connection: connected"},
    }),
}  # fmt: skip
CHANGE = "      [the agent makes the change]"
DOMAINS = {"airline": "retail"}  # a customer of no database; the words are the script's alone


def shown() -> list[list[str]]:
    """Return the lines of each conversation of the page."""
    page = (ROOT / "docs" / "tau2.md").read_text(encoding="utf-8")
    block = page.split("### One conversation a domain")[1].split("```")[1]
    return [told.splitlines() for told in block.strip().split("\n\n")]


def replayed(name: str, lines: list[str]) -> list[str]:
    """Return a conversation as it goes today, with the agent's lines of the page."""
    facts, want = SCENES[name]
    task = row(want, domain=DOMAINS.get(name, name))
    task["user_script"]["facts"] = facts
    talk = Talk(task, "plain")
    found, called = [f"user: {talk.answer}"], 0
    for line in lines:
        if line == CHANGE:
            talk.change()
            found.append(line)
        if not line.startswith("agent: "):
            continue
        said = line.removeprefix("agent: ")
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
