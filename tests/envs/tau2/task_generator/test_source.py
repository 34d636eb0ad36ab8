"""The generated tasks as a task source."""

import copy
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.envs.tau2.builtin import DOMAINS
from agent_envs.envs.tau2.task_generator import names
from agent_envs.envs.tau2.task_generator.source import (
    DIFFICULTIES,
    SIZES,
    GeneratedSource,
    generated_domain,
    members,
    task_id,
    world_of,
)
from agent_envs.envs.tau2.users.persona import PERSONAS, TASK_MANNERS
from tests.rows import each_row


def test_splits_and_sizes():
    source = GeneratedSource("retail")
    assert source.splits == ("train", "dev", "test")
    assert [source.size(split) for split in source.splits] == [100_000, 1_000, 1_000]
    assert source.name == "generated-retail"


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_model_is_told_in_words_the_manners_that_a_scripted_user_has(domain):
    source, met = GeneratedSource(domain), {}
    for number in range(300):
        data = source.get("train", number).data
        met[data["user_script"].get("persona", "plain")] = data["user_scenario"]["persona"]
    assert set(met) <= set(PERSONAS) and set(met) - {"plain"} == set(TASK_MANNERS[domain]) - {"plain"}
    assert all(words == TASK_MANNERS[domain].get(name) for name, words in met.items())


@pytest.mark.parametrize("split", SIZES)
def test_a_task_is_found_by_index_and_by_id(split):
    source = GeneratedSource("retail", difficulty="hard")
    task = source.get(split, 7)
    assert task.id == f"hard-{split}-7"
    assert source.get(split, task.id) is task
    assert task.split == split
    assert task.data["source"] == "generated-retail"
    assert "evaluation_criteria" not in task.data and task.hidden["actions"]
    assert source.get(split, source.size(split) - 1).id == task_id(split, source.size(split) - 1, "hard")


def test_mixed_takes_the_difficulties_in_turn():
    source = GeneratedSource("retail")
    assert [source.get("dev", number).data["difficulty"] for number in range(6)] == [*DIFFICULTIES, *DIFFICULTIES]
    assert source.get("dev", "medium-dev-4").id == "medium-dev-4"
    with pytest.raises(KeyError):
        source.get("dev", "easy-dev-4")


@each_row(
    "key",
    [
        -1,
        1000,
        10**9,
        "",
        "easy",
        "easy-test-0",
        "easy-dev-1000",
        "easy-dev-00",
        "easy-dev-3-w1",
        "hard-dev-0",
        "easy-dev-x",
    ],
)
def test_what_is_no_task_of_the_split_is_a_key_error(key):
    with pytest.raises(KeyError):
        GeneratedSource("retail").get("dev", key)


@given(st.text(max_size=40))
def test_any_text_is_an_id_or_a_key_error(key):
    try:
        assert GeneratedSource("retail").get("test", key).id == key
    except KeyError:
        pass


@pytest.mark.parametrize(
    "arguments", [{"domain": "shop"}, {"domain": "retail", "difficulty": "harder"}, {"domain": "retail", "world": -1}]
)
def test_wrong_arguments_are_refused_by_name(arguments):
    with pytest.raises(UsageError, match="shop|harder|-1"):
        GeneratedSource(**arguments)


def test_worlds_have_ids_digests_and_databases_of_their_own():
    here, there = GeneratedSource("retail"), GeneratedSource("retail", world=3)
    assert there.get("dev", 0).id == "easy-dev-0-w3"
    assert (world_of("easy-dev-0"), world_of("easy-dev-0-w3"), world_of("anything")) == (0, 3, 0)
    assert here.get("dev", 0).data != there.get("dev", 0).data
    digests = {GeneratedSource("retail", world, level).digest for world in (0, 3) for level in (*DIFFICULTIES, "mixed")}
    assert len(digests) == 8
    assert set(generated_domain("retail").agent_database.tables["users"]) != set(
        generated_domain("retail", world=3).agent_database.tables["users"]
    )


def test_a_domain_is_made_once_and_its_copies_share_the_source():
    assert generated_domain("retail") is generated_domain("retail")
    source = GeneratedSource("retail")
    assert copy.deepcopy(source) is source
    assert "pending (item modified)" in generated_domain("retail").policy


@given(st.integers(min_value=10, max_value=5000))
def test_customers_are_divided_without_a_rest(count):
    parts = [members(split, count) for split in SIZES]
    assert [place for part in parts for place in part] == list(range(count))
    assert len(parts[0]) >= 7 * count // 10 and all(parts)


def test_people_have_names_of_their_own():
    everybody = names.people(Random("people"), 400)
    assert len({person.full for person in everybody}) == 400


def test_addresses_fit_on_one_line():
    rng = Random("places")
    for _ in range(200):
        place = names.address(rng)
        assert len(place["zip"]) == 5 and place["zip"].isdigit()
        assert list(place) == ["address1", "address2", "city", "country", "state", "zip"]
        line = names.on_one_line(place)
        assert all(value in line for value in place.values()) and ", ," not in line
