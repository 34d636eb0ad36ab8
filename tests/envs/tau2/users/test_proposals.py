"""A customer says yes to what it wants, no to what it does not want, and asks back: held on three hundred proposals."""

from collections import Counter

import pytest

from tests.envs.tau2.users.proposals import HALVES, READ, answered, counts, rows
from tests.envs.tau2.users.rendered import count


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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retail all but", "I'd return the lamp and the water bottle and put the money on your gift card. Proceed?"),
        (
            "retail easy-train-13-w11",
            "In #W6374188:\n- Grill: charcoal → gas\n- Thermometer: built in → none\n\nDo you confirm?",
        ),
        ("retail cancel", "I can cancel order #W7765351 for you. Shall I kick it off?"),
        ("airline cancel", "Under your insurance I can cancel KZN7Q1 and return $240. Shall I go ahead and do that?"),
        (
            "airline cancel",
            "KZN7Q1 was booked today, so it is within 24 hours and can be cancelled. Do you wish to proceed?",
        ),
        ("telecom wake", "May I take 592-555-0104 off hold?"),
    ],
)
def test_lists_exceptions_insurance_and_unknown_verbs_are_read_by_what_they_are_about(name, text):
    assert answered(name, text)[0] == "yes"


def test_an_unknown_verb_for_more_than_was_told_is_refused():
    assert answered("retail cancel", "I can cancel order #W7765351 for you. Shall I also frame it?")[0] == "no"


EARLIER = ("blind", "fourth", "fifth", "sixth")  # read before the others were written


@pytest.mark.parametrize("table", READ)
def test_tables_that_were_read_stay_as_they_are_understood(table):
    kinds = counts(table)
    wanted, unwanted = kinds["wanted"], kinds["unwanted"]
    assert wanted["yes"] >= 0.9 * wanted.total()
    assert unwanted["yes"] <= (0.04 if table in EARLIER else 0.07) * unwanted.total()


@pytest.mark.data
def test_proposals_on_official_tasks_stay_as_they_are_understood():
    kinds = counts("official")
    assert kinds["wanted"]["yes"] >= 0.8 * kinds["wanted"].total() and not kinds["unwanted"]["yes"]


@pytest.mark.parametrize("domain", ["retail", "airline", "telecom"])
def test_what_is_rendered_from_expected_actions_is_accepted_and_refused_with_one_value_altered(domain):
    kinds = count(domain, 38, tasks=6)
    wanted, unwanted = kinds["wanted"], kinds["unwanted"]
    assert min(wanted.total(), unwanted.total()) >= 40
    assert wanted["yes"] >= 0.95 * wanted.total()
    assert unwanted["yes"] <= 0.03 * unwanted.total()


def test_all_tables_together_are_understood_as_they_are_meant():
    kinds = [counts(table) for table in (*HALVES, *READ)]
    wanted, unwanted = (sum((kind[name] for kind in kinds), Counter()) for name in ("wanted", "unwanted"))
    assert wanted["yes"] >= 0.96 * wanted.total()
    assert unwanted["yes"] <= 0.03 * unwanted.total()


@pytest.mark.parametrize(
    "closer",
    [
        "Good to go?",
        "How does that sound?",
        "Any objections?",
        "If that's alright, I'll do it right away.",
        "Once you give me your OK, it'll be done.",
        "Do I have your blessing?",
    ],
)
def test_a_question_about_what_the_agent_would_do_asks_for_a_yes_in_any_words(closer):
    kind, _ = answered(
        "retail cancel", f"I'd cancel order #W7765351 and refund $84.20 to your PayPal account. {closer}"
    )
    assert kind == "yes"
    kind, _ = answered("retail cancel", f"I'd exchange the machine in order #W7765351 for a newer one. {closer}")
    assert kind == "no"
