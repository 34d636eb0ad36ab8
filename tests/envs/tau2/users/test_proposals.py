"""A customer says yes to what it wants, no to what it does not want, and asks back: held on three hundred proposals."""

import pytest

from tests.envs.tau2.users.proposals import HALVES, answered, counts, rows


@pytest.fixture(scope="module", params=HALVES)
def found(request):
    return counts(request.param)


def test_what_is_wanted_is_accepted_and_what_is_not_is_refused(found):
    wanted, unwanted = found["wanted"], found["unwanted"]
    assert wanted["yes"] >= 0.95 * wanted.total()
    assert unwanted["yes"] <= 0.05 * unwanted.total()
    assert unwanted["no"] >= 0.9 * unwanted.total()


def test_what_names_nothing_is_asked_back_and_never_agreed_to(found):
    ambiguous = found["ambiguous"]
    assert ambiguous["yes"] == 0 and ambiguous["back"] >= 0.8 * ambiguous.total()


def test_closing_and_clarifying_questions_keep_working(found):
    assert found["closing"]["right"] >= 0.95 * found["closing"].total()


def test_each_half_has_its_share_of_each_kind():
    for half in HALVES:
        kinds = [kind for _, kind, _, _ in rows(half)]
        assert [kinds.count(kind) >= least for kind, least in (("wanted", 50), ("unwanted", 50))] == [True, True]
        assert [kinds.count(kind) for kind in ("ambiguous", "closing")] == [25, 25]


def test_a_no_names_what_is_wanted_instead():
    kind, said = answered("retail cancel", "Would you like me to exchange the items for a newer model?")
    assert kind == "no" and "#W7765351 to be cancelled" in said
