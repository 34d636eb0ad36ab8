"""Copy on write: the shared database is never touched, and every hash is that of a naive full dump."""

import copy
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.serialization import decode_state, encode_state
from agent_envs.envs.tau2.database import NO_CHANGES, Changes, Database, View, frozen, identical, same, thawed
from tests.envs.tau2.hashes import lenient_hash, original_hash
from tests.examples import examples

TABLES = {
    "things": {"b": {"x": 1.0, "list": [1, {"deep": None}]}, "a": {"x": 2, "list": []}, "#1": {"é": "ü"}},
    "rows": {
        "r2": {"id": "r2", "x": 0.125, "when": "2025-01-01 00:00:00"},
        "r1": {"id": "r1", "x": True, "when": None},
    },  # fmt: skip
    "one": {"": {"y": None, "list": [0.5]}},
}
DATETIMES = {"rows": ("when",)}


def database() -> Database:
    return Database("small", copy.deepcopy(TABLES), listed=("rows",), single=("one",))


def plain(tables):
    """The database as the original would dump it."""
    return {"things": tables["things"], "rows": list(tables["rows"].values()), "one": tables["one"][""]}


def naive_original(tables):
    return hashlib.sha256(json.dumps(plain(tables), sort_keys=True, default=str).encode()).hexdigest()


def naive_lenient(tables):
    def walk(value):
        if isinstance(value, dict):
            return {key: walk(item) for key, item in value.items() if item is not None}
        if isinstance(value, list | tuple):
            return [walk(item) for item in value]
        return value if isinstance(value, str | bool) or value is None else round(value * 100)

    tables = copy.deepcopy(tables)
    for row in tables["rows"].values():
        if isinstance(row.get("when"), str):
            row["when"] = row["when"].replace(" ", "T")
    text = json.dumps(walk(plain(tables)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


NAMES = st.text(max_size=2).filter(lambda name: not name.startswith("$"))  # as `toolkit.call` sees to
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, 1.0, 2.0, 0.125, -0.5])
    | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
TABLE = st.sampled_from(["things", "rows", "one"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["edit", "append", "drop", "add", "commit"]), TABLE, st.integers(0, 5), VALUES),
    max_size=12,
)


def apply(step, view, model, number):
    """Do a step on a view and on plain dicts."""
    action, table, place, value = step
    if action == "commit":
        return
    keys = list(model[table])
    if action == "add" and table != "one":
        key = f"new{number}"
        view.add(table, key, {"id": key, "x": value})
        model[table][key] = {"id": key, "x": copy.deepcopy(value)}
    elif keys:
        key = keys[place % len(keys)]
        for record in (view.edit(table, key), model[table][key]):
            if action == "edit":
                record["x"] = copy.deepcopy(value)
            elif action == "drop":
                record.pop("x", None)
            elif isinstance(record.get("list"), list):
                record["list"].append(copy.deepcopy(value))


def run(shared, steps):
    """Do steps with a commit after some of them: every (changes, model) on the way."""
    changes, model, moments = NO_CHANGES, copy.deepcopy(TABLES), []
    view = View(shared, changes)
    for number, step in enumerate([*steps, ("commit", "", 0, None)]):
        apply(step, view, model, number)
        if step[0] == "commit":
            changes = view.commit()
            view = View(shared, changes)
            moments.append((changes, copy.deepcopy(model)))
    return moments


@given(STEPS)
@examples(300)
def test_hashes_equal_a_naive_full_dump_and_nothing_shared_changes(steps):
    shared = database()
    moments = run(shared, steps)
    for changes, model in moments:  # also the early ones: later steps did not touch them
        assert original_hash(shared, changes) == naive_original(model)
        assert lenient_hash(shared, changes, DATETIMES) == naive_lenient(model)
        view = View(shared, changes)
        for table, rows in model.items():
            assert list(view.records(table)) == list(rows)
            assert thawed(list(view.rows(table))) == list(rows.values())
    assert identical(shared.tables, TABLES)
    assert original_hash(shared, NO_CHANGES) == naive_original(TABLES)


@given(STEPS, STEPS)
@examples(300)
def test_same_is_equality_of_the_original_hash(one, other):
    shared = database()
    (ours, model), (theirs, other_model) = run(shared, one)[-1], run(shared, other)[-1]
    assert same(shared, ours, theirs) == (naive_original(model) == naive_original(other_model))
    assert same(shared, ours, run(shared, one)[-1][0])


@given(STEPS, STEPS)
def test_two_forks_of_one_moment_do_not_see_each_other(first, second):
    shared = database()
    start = run(shared, first)[-1][0]
    before = json.dumps(encode_state(start), sort_keys=True)
    view, twin = View(shared, start), View(shared, start)
    model = {table: {key: thawed(row) for key, row in twin.records(table).items()} for table in TABLES}
    for number, step in enumerate(second):
        apply(step, view, model, 100 + number)
    view.commit()
    assert twin.commit() is start
    assert json.dumps(encode_state(start), sort_keys=True) == before
    assert decode_state(json.loads(before)) == start


def test_records_are_replaced_not_changed():
    shared = database()
    view = View(shared, NO_CHANGES)
    draft = view.edit("things", "b")
    draft["list"].append("new")
    assert view.get("things", "b") is draft and view.edit("things", "b") is draft
    changes = view.commit()
    draft["list"].append("too late")
    assert changes == Changes({"things": {"b": {"x": 1.0, "list": (1, {"deep": None}, "new")}}})
    later = View(shared, changes)
    later.edit("things", "b")["x"] = 9
    assert later.commit().tables["things"]["b"]["x"] == 9
    assert changes.tables["things"]["b"]["x"] == 1.0


def test_what_is_as_it_was_leaves_the_changes_but_only_with_its_spelling():
    shared = database()
    view = View(shared, NO_CHANGES)
    view.edit("things", "a")["x"] = 2
    assert view.commit() is NO_CHANGES
    view.edit("things", "a")["x"] = 2.0
    changes = view.commit()
    assert changes.tables == {"things": {"a": {"x": 2.0, "list": ()}}}
    assert not same(shared, changes, NO_CHANGES)
    assert original_hash(shared, changes) != original_hash(shared, NO_CHANGES)
    assert lenient_hash(shared, changes, DATETIMES) == lenient_hash(shared, NO_CHANGES, DATETIMES)
    back = View(shared, changes)
    back.edit("things", "a")["x"] = 2
    assert back.commit().tables == {}


def test_order_of_additions_counts_in_lists_alone():
    shared = database()

    def added(table, *keys):
        view = View(shared, NO_CHANGES)
        for key in keys:
            view.add(table, key, {"x": key})
        return view.commit()

    assert same(shared, added("things", "p", "q"), added("things", "q", "p"))
    assert not same(shared, added("rows", "p", "q"), added("rows", "q", "p"))


def test_wrong_keys_are_refused():
    view = View(database(), NO_CHANGES)
    assert view.get("things", "nowhere") is None
    for wrong in (lambda: view.edit("things", "nowhere"), lambda: view.add("things", "a", {})):
        with pytest.raises(KeyError):
            wrong()


@given(VALUES, VALUES)
def test_identical_is_equality_of_texts(one, other):
    texts = [json.dumps(value, sort_keys=True) for value in (one, other)]
    assert identical(one, other) == (texts[0] == texts[1])
    assert identical(frozen(one), one) and identical(thawed(frozen(one)), one)
