"""The last box of a solution."""

from hypothesis import given
from hypothesis import strategies as st

from agent_envs.grading.math import boxed
from tests.rows import each_row


@each_row(
    ("text", "content"),
    [
        ("The answer is $\\boxed{5}$.", "5"),
        ("\\boxed{1} and then \\boxed{2}", "2"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed{\\{1,2\\}}", "\\{1,2\\}"),
        ("\\boxed{\\{}", "\\{"),
        ("\\boxed{a\\\\}", "a\\\\"),
        ("\\boxed {5}", "5"),
        ("\\boxed\n{5}", "5"),
        ("\\boxed{ 5 }", " 5 "),
        ("\\boxed{}", ""),
        ("\\boxed{\\boxed{5}}", "5"),
        ("\\boxed{1}\\boxed{2", "1"),
        ("\\boxed{a \\boxed{b", None),
        ("\\boxed{1} } {", "1"),
        ("} \\boxed{1}", "1"),
        ("{ \\boxed{1}", "1"),
        ("\\boxed{x^{2}}{3}", "x^{2}"),
        ("\\boxed5", None),
        ("\\fbox{5}", None),
        ("boxed{5}", None),
        ("\\\\boxed{5}", None),
        ("", None),
        ("\ud800\\boxed{\udfff}", "\udfff"),
    ],
)
def test_boxed(text, content):
    assert boxed(text) == content


@given(
    st.text(),
    st.recursive(st.text("ab\n", max_size=3), lambda inner: inner.map(lambda text: f"{{{text}}}")),
    st.text("ab{"),
)
def test_a_balanced_box_is_found(before, content, after):
    if not before.endswith("\\"):
        assert boxed(f"{before}\\boxed{{{content}}}{after}") == content
