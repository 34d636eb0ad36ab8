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


@pytest.mark.parametrize(
    ("name", "text", "due"),
    [
        ("airline cancel", "Would you like travel insurance?", "no"),
        ("airline move", "Would you like travel insurance?", "no"),
        ("telecom easy-test-12-w12", "It renews every month. Shall I add 1 GB to 696-555-0107 for $5?", "no"),
        ("telecom easy-test-6-w12", "There is something I could activate for your travels. Shall I?", "back"),
        (
            "airline easy-test-0-w51",
            "I'd take HAT099 on May 27, and pay everything with the card ending in 5421. Fine?",
            "no",
        ),
        ("airline easy-test-0-w14", "I'd make it 5 bags; 2 free. $100 on the card ending in 6601. Okay?", "yes"),
        ("retail easy-test-0-w14", "I'll have #W2759366 cancelled too. OK?", "yes"),
        ("retail easy-test-0-w14", "Shall I cancel order #W2759366 and x y z a b?", "back"),
        ("retail easy-test-0-w14", "Shall I cancel order #W2759366 and $1 $1 $1?", "back"),
        ("retail easy-test-0-w14", "Shall I cancel order #W2759366 and charge you $20?", "back"),
        ("retail easy-test-18-w12", "You can return all but the kettle. Do you want to go ahead?", "no"),
        ("airline easy-test-9-w14", "Shall I cancel just the flight of May 23 on WYT7Y8?", "no"),
        ("airline hard-test-2-w11", "Shall I book HAT007 in economy for both of you on May 21?", "no"),
        ("telecom hard-test-5-w14", "I'd suspend both 492-555-0152 and 754-555-0116. Is that alright?", "no"),
        ("telecom hard-test-2-w11", "I'd put 2 GB on the line 302-555-0186 for $6. Shall I?", "no"),
        (
            "retail easy-test-3-w11",
            "The black silicone case only comes with a stand right now. Should I switch to it?",
            "no",
        ),
        (
            "telecom easy-test-0-w12",
            "I can switch off data roaming for 462-555-0134, so that it can't be used. Shall I?",
            "yes",
        ),
    ],
)
def test_holes_that_were_known_or_found_stay_closed(name, text, due):
    assert answered(name, text, "task")[0] == due
