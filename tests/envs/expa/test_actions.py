"""Expanded actions: their ids, their sharing, and what they are in a tokenizer's terms."""

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.envs.expa import ExternalEnvironment, Latent, expanded_vocabulary
from agent_envs.envs.expa.actions import expanded_actions
from agent_envs.envs.expa.calculator.calculator import Calculator
from agent_envs.envs.expa.sorting.environments import Compare, Swap


class Words:
    """A tokenizer of words with a leading space, and of single characters."""

    eos_token_id = 7

    def __init__(self):
        self.known = {}

    def encode(self, text, add_special_tokens=True):
        assert add_special_tokens is False
        pieces = [" " + word for word in text.split()] if text.startswith(" ") else list(text)
        return [self.known.setdefault(piece, 100 + len(self.known)) for piece in pieces]


def test_ids_are_end_then_routes_then_actions_and_equal_actions_are_shared():
    actions = expanded_actions((Compare(3), Swap(3)))
    assert [(action.id, action.name, action.kind) for action in actions] == [
        (0, "end", "end"), (1, "compare", "route"), (2, "swap", "route"), (3, "A", "act"), (4, "B", "act"), (5, "C", "act"),
    ]  # fmt: skip
    assert actions[3].environments == ("compare", "swap") and actions[1].environments == ("language",)
    assert [action.desc for action in actions] == ["", " compare", " swap", " A", " B", " C"]


def test_the_paper_counts_of_expanded_actions():
    # Figure 3 and the release: 18 for the basic calculator (its route, 16 buttons, =), 19 with the point; `end` is one more.
    assert len(expanded_actions((Calculator(decimal_point=False),))) == 1 + 18
    assert len(expanded_actions((Calculator(),))) == 1 + 19


def test_two_descriptions_or_names_of_one_thing_are_refused():
    class Other(Compare):
        name = "other"

        def __init__(self):
            self.actions = {"A": " the first"}

    with pytest.raises(UsageError, match="one description"):
        expanded_actions((Compare(2), Other()))
    with pytest.raises(UsageError, match="a name of its own"):
        expanded_actions((Compare(2), Compare(3)))


def test_an_environment_that_lacks_a_part_is_told_which():
    class Dice(ExternalEnvironment):
        actions = {"roll": " roll"}

    with pytest.raises(UsageError, match="external environment Dice lacks name, desc"):
        expanded_actions((Dice(),))
    with pytest.raises(UsageError, match="external environment Words lacks name, desc, actions, legal, step"):
        expanded_actions((Words(),))


def test_vocabulary_rows_start_from_the_first_token_of_the_description():
    tokenizer = Words()
    actions = expanded_actions((Compare(2), Swap(2)))
    rows = expanded_vocabulary(tokenizer, 1000, actions)
    assert [row.token_id for row in rows] == [7, 1000, 1001, 1002, 1003]
    assert [row.action for row in rows] == [0, 1, 2, 3, 4]
    assert rows[0].start == 7 and rows[0].description == (7,)
    for row, action in zip(rows[1:], actions[1:], strict=True):
        assert row.description == tuple(tokenizer.encode(action.desc, add_special_tokens=False))
        assert row.start == row.description[0]
    assert expanded_vocabulary(tokenizer, 1000, actions) == rows


def test_vocabulary_needs_an_end_and_tokens():
    actions = expanded_actions((Compare(2),))
    assert expanded_vocabulary(lambda text: [5], 10, actions, end_id=3)[0].token_id == 3
    with pytest.raises(UsageError, match="eos_token_id"):
        expanded_vocabulary(lambda text: [5], 10, actions)
    with pytest.raises(UsageError, match="first_id=3 gives an action the id 3 of `end`"):
        expanded_vocabulary(lambda text: [5], 3, actions, end_id=3)
    with pytest.raises(UsageError, match="no token"):
        expanded_vocabulary(lambda text: [], 10, actions, end_id=3)


class Twice(ExternalEnvironment):
    """Takes two letters and says them."""

    name, desc = "twice", " twice"
    actions = {"x": " x", "y": " y"}

    def legal(self, state):
        return ("x", "y")

    def step(self, state, action):
        if not state.keyed:
            return " and", state.press(action), False
        return f": {state.keyed[0]}{action}\n", Latent(state.world), True


@pytest.mark.parametrize(
    ("text", "observation", "ids"),
    [
        ("x, y", "xy", ("x", "y")),
        ("  y and x ", "yx", ("y", "x")),
        ("x", "Error: incomplete; expected x or y", ()),
        ("", "Error: incomplete; expected x or y", ()),
        ("x z", "Error: 'z' cannot stand there; expected x or y", ()),
        ("x y x", "Error: 'x' cannot stand there; expected nothing more", ()),
    ],
)
def test_a_tags_text_is_played_through_the_same_steps(text, observation, ids):
    state = Latent(("kept",))
    told, after, trace = Twice().call(state, text)
    assert (told, trace) == (observation, ids)
    assert after == state
