"""Names that look alike are told, and names of one script are not."""

from agent_envs.evaluation.verification.badges import lookalikes, mixed_scripts
from tests.rows import each_row


@each_row(
    "name, scripts",
    [("r\u0430ndom", ("CYRILLIC", "LATIN")), ("\u03b1gent", ("GREEK", "LATIN")), ("検\u0430", ("CJK", "CYRILLIC")),
     ("random", ()), ("хорошо", ()),     ("検索 カナ model", ()), ("서울 agent 2", ()),
     ("ＧＰＴ-5", ()), ("Große Suche", ()), ("", ())],
)  # fmt: skip
def test_scripts_that_are_seldom_written_together(name, scripts):
    assert mixed_scripts(name) == scripts


@each_row(
    "name, other",
    [("r\u0430ndom", "random"), ("\u0441\u043e\u0441\u043e", "coco"), ("Random", "random"), ("so1ver", "solver"),
     ("SoIver", "solver"),     ("modern", "modem"), ("ＧＰＴ", "gpt"), ("agént", "agent"), ("\u0391\u0392", "AB"),
     ("my  agent", "my agent"), ("random.", "random"), ("ran dom", "random"), ("ran_dom", "random"), ("«random»", "random"),
     ("r\u2013andom", "random"), ("random`", "random"), ("ra.r n", "ram"), ("gpt-4-1", "gpt 4.1")],
)  # fmt: skip
def test_names_that_a_reader_takes_for_one(name, other):
    assert lookalikes(name, [name, other, "another"]) == [other] and lookalikes(other, [name]) == [name]


def test_other_names_are_apart():
    assert lookalikes("gpt-5", ["gpt-5", "gpt-5-mini", "gpt-4", "gtp-5"]) == []
    assert lookalikes("qwen-1.7b", ["qwen-17b"]) == [] == lookalikes("...", ["!?", ""])
