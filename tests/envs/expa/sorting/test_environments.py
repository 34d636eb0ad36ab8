"""Compare and swap: observations, legality, and what they change."""

from agent_envs.envs.expa import Latent
from agent_envs.envs.expa.sorting.environments import Arrangement, Compare, Swap

STATE = Latent(Arrangement(("A", "B", "C"), (2, 0, 1)))


def play(environment, state, *names):
    text, left = environment.desc, False
    for name in names:
        assert name in environment.legal(state) and not left
        text += environment.actions[name]
        observation, state, left = environment.step(state, name)
        text += observation
    return text, state, left


def test_compare_reads_as_the_release_writes_it_and_compares_numbers_of_symbols():
    assert play(Compare(4), STATE, "A", "B") == (" compare A and B: A > B\n", STATE, True)
    assert play(Compare(4), STATE, "B", "C")[0] == " compare B and C: B < C\n"
    assert play(Compare(4), STATE, "C", "C")[0] == " compare C and C: C = C\n"
    moved = Latent(STATE.world.swapped("A", "B"))
    assert play(Compare(4), moved, "A", "B")[0] == " compare A and B: A > B\n", "places do not matter"


def test_swap_moves_places_and_shows_all():
    text, state, left = play(Swap(4), STATE, "A", "C")
    assert (text, left) == (" swap A and C => C, B, A\n", True)
    assert state.world.order == ("C", "B", "A") and state.world.values == (2, 0, 1)
    assert STATE.world.order == ("A", "B", "C"), "states are values"
    assert play(Swap(4), state, "C", "A")[1] == STATE


def test_only_the_tasks_symbols_are_legal_and_no_symbol_swaps_with_itself():
    assert list(Compare(5).legal(STATE)) == list(Swap(5).legal(STATE)) == ["A", "B", "C"]
    pressed = STATE.press("B")
    assert list(Compare(5).legal(pressed)) == ["A", "B", "C"]
    assert list(Swap(5).legal(pressed)) == ["A", "C"]
    assert Compare(5).available(STATE)
    assert not Compare(5).available(Latent(Arrangement(("A", "B"), (0, 1), ("swap",))))


def test_as_text_the_result_is_the_bare_observation():
    assert Compare(5).call(STATE, "A, B") == ("A > B", STATE, ("A", "B"))
    told, state, ids = Swap(5).call(STATE, "A and C")
    assert (told, ids, state.world.order) == ("C, B, A", ("A", "C"), ("C", "B", "A"))
    told, state, ids = Swap(5).call(STATE, "A, A")
    assert told.startswith("Error: 'A' cannot stand there") and state == STATE and ids == ()
    assert Compare(5).call(STATE, "A, E")[0].startswith("Error: 'E' cannot stand there; expected A or B or C")
