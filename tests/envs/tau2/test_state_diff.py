"""The diff of two database states is complete, and each difference is printed in a short readable form."""

from hypothesis import given
from hypothesis import strategies as st

from agent_envs.envs.tau2.builtin import builtin_domain
from agent_envs.envs.tau2.database import Changes, frozen
from agent_envs.envs.tau2.state_diff import ABSENT, Difference, differences
from agent_envs.envs.tau2.toolkit import FRESH, DomainState
from tests.examples import examples

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from((1.0, "", "a", " b ", "c\nd")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=12,
)
RECORDS = st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3).map(frozen)


def patched(value, path, new):
    """Return a value with one member replaced, added at its end, or taken away."""
    if not path:
        return new
    name, rest = path[0], path[1:]
    if isinstance(value, dict):
        inner = patched(value.get(name, ABSENT), rest, new)
        return {key: item for key, item in {**value, name: inner}.items() if item is not ABSENT}
    items = list(value) + [ABSENT] * (name + 1 - len(value))
    items[name] = patched(items[name], rest, new)
    return tuple(items)


def _without_absent(value):
    if isinstance(value, dict):
        return {key: _without_absent(item) for key, item in value.items()}
    return tuple(_without_absent(item) for item in value if item is not ABSENT) if isinstance(value, tuple) else value


@examples(150)
@given(old=st.none() | RECORDS, new=st.none() | RECORDS)
def test_differences_are_all_that_differs(old, new):
    domain = builtin_domain("retail")
    before = DomainState(Changes({"orders": {"#new": old}})) if old is not None else FRESH
    after = DomainState(Changes({"orders": {"#new": new}}))
    found = differences(domain, before, after)
    record = ABSENT if old is None else old
    for item in found:
        assert item.stands_in(domain, after) and not item.stands_in(domain, before) and item.text
        record = patched(record, item.path, item.new)
    expected = ABSENT if new is None else new
    assert (record is expected) if ABSENT in (record, expected) else repr(_sorted(record)) == repr(_sorted(expected))


def _sorted(value):
    value = _without_absent(value)
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return tuple(map(_sorted, value)) if isinstance(value, tuple) else value


def test_differences_are_named_as_a_reader_names_them():
    def text(path, old, new):
        return Difference("agent", "orders", "#W1", path, old, new).text

    assert text(("status",), "delivered", "exchange requested") == "status: delivered \u2192 exchange requested"
    assert text(("items", 1, "price"), 2.5, None) == "items[1].price: 2.5 \u2192 null"
    assert text((), ABSENT, {"a": (1, " b")}) == 'added: {"a": [1, " b"]}'
    assert text(("tags", 0), "", ABSENT) == 'tags[0] removed: ""'
    assert len(text(("note",), "x" * 10_000, "y" * 10_000)) < 1_000
    assert Difference("user", "device", "", (), 1, 2).record == "customer's device"
