"""The searcher in contracts: whose contract is meant, and what a clause comes to with all that it leans on."""

import pytest

from agent_envs.envs.legal_search.contract_search import contract_guess, parties
from agent_envs.envs.legal_search.extraction import Shown
from agent_envs.envs.legal_search.heuristic import NaiveRAG
from agent_envs.envs.legal_search.outcomes import ended_of
from agent_envs.envs.legal_search.transcript import Seen
from tests.envs.legal_search.test_solver import played, share

ROOT = "Agreement K-1. Carriage Agreement between Adelos Mills and Borund Works"
DEAL = "Adelos Mills moves freight for Borund Works. Under their contract as it stands today, "


def page(number, text, clause="Clause 4. Performance > Paragraph", root=ROOT):
    return Shown(f"K-1 § {number}", f"{root} > {clause} {number}", text)


DELAY = page("4.1", "Damages for delay are limited to 10 per cent of the Annual Charge.")
CAP = page("6.1", "Liability is limited to 3 times the Annual Charge.")
CHARGE = page("1.2", "“Annual Charge” means the sum stated in Part B of Schedule 1.")
SUM = page("Schedule 1, Part B", "$500,000, net of any tax.", "Schedule 1. Sums > Part B")
RATE = page("1.1", "“Reference Rate” means 4 per cent per annum.")
INTEREST = page("3.2", "Overdue sums bear interest at the Reference Rate plus 5 percentage points per annum.")
END = page("9.1", "A notice of termination takes effect 30 days following its receipt.")
POST = page("10.1", "A notice sent by post is deemed received 3 days after posting.", "Clause 10. Notices > Paragraph")
PLAIN = page("5.1", "Duties of confidence survive for 7 years.")


def amendment(number, old, new):
    text = f"With effect from 1 May 2011, clause {number} is amended: the figure {old} is replaced by {new}."
    return Shown("K-1 § Amendment 1", f"{ROOT} > Amendment 1", text)


@pytest.mark.parametrize(
    ("asked", "read", "answer"),
    [
        ("how many years does the duty last?", [PLAIN], "7"),
        ("how many years does the duty last?", [PLAIN, amendment("5.1", 7, 11)], "11"),
        ("how many years does the duty last?", [PLAIN, amendment("5.10", 7, 11)], "7"),
        ("how much, in dollars, can being late cost?", [DELAY, CHARGE, SUM], "50000"),
        ("how much, in dollars, can being late cost?", [DELAY, CHARGE, SUM, amendment("4.1", 10, 20)], "100000"),
        ("how much, in dollars, can being late cost?", [DELAY, CHARGE], None),
        ("what is the ceiling, in dollars?", [CAP, CHARGE, SUM], "1500000"),
        ("what yearly rate, in percent, is owed?", [INTEREST, RATE], "9"),
        ("what yearly rate, in percent, is owed?", [INTEREST], None),
        ("a letter was mailed on 1 March 2019. When did it end?", [END, POST], "3 April 2019"),
        ("a letter was mailed on 1 March 2019. When did it end?", [END, POST, amendment("10.1", 3, 4)], "4 April 2019"),
        ("a letter was mailed on 1 March 2019. When did it end?", [END], None),
    ],
)
def test_what_a_clause_comes_to(asked, read, answer):
    found = contract_guess(Seen(DEAL + asked, "tags", read=read))
    assert (found.answer if found else None) == answer
    assert found is None or set(found.sources) <= {one.id for one in read}


@pytest.mark.parametrize(
    ("question", "names"),
    [
        (DEAL + "how many days?", ("Adelos Mills", "Borund Works")),
        ("Carriage Agreement between Adelos Mills and Borund Works, clause 5.1 (Confidential Information), as amended: how?",
         ("Adelos Mills", "Borund Works")),
        ('In the D.C. Code provisions on "Uniform Electronic Transactions", what does "Paper Record" mean?', ()),
        ("Under the law of Aranora, how many days does an innkeeper have?", ()),
        (DEAL.replace("Under", "In another deal, Cera Mills moves freight for Dol Works. Under"), ()),
    ],
)  # fmt: skip
def test_whose_contract_is_meant(question, names):
    assert parties(question) == names


@pytest.mark.parametrize("knobs", [{}, {"world": {"paraphrase": False}}, {"protocol": "json"}], ids=str)
def test_the_searcher_follows_amendments_terms_and_schedules(knobs):
    searcher, naive = (played(agent, tasks="agreements", **knobs) for agent in ("heuristic", NaiveRAG()))
    assert share(searcher) > share(naive) + 0.15 and share(searcher) < 0.9
    assert {ended_of(result.trajectory).outcome for result in searcher} <= {"cited", "uncited", "wrong", "abstained"}
