"""A customer knows what a shop sells: an option is known where another product has it, and no more is seen of a database."""

import pytest

from agent_envs.envs.tau2.task_generator.source import generated_domain
from agent_envs.envs.tau2.users.shelf import NOTHING, shelf_of

HUB = frozenset({"usb hub"})


@pytest.fixture(scope="module")
def shelf():
    return shelf_of(generated_domain("retail").agent_database)


def test_products_are_known_by_name_and_own_ones_by_their_last_word(shelf):
    assert shelf.named("the yoga mat and two desk lamps") == {"yoga mat", "desk lamp"}
    assert shelf.named("may i exchange the hub?", HUB) == HUB
    assert shelf.named("may i exchange the yoga mat?", HUB) == {"yoga mat"}
    assert shelf.named("the clock", frozenset({"wall clock"})) == {"wall clock"}
    assert shelf.named("the alarm clock", frozenset({"wall clock"})) - {"wall clock"} == {"alarm clock"}
    assert not shelf.named("in that case i can help", HUB)


def test_options_are_those_of_the_product_and_of_like_fields(shelf):
    assert ("ports", "4") in shelf.options("the one with 4 ports in black", HUB)
    assert ("ports", "7") in shelf.options("a hub with seven ports", HUB)
    assert ("color", "white") in shelf.options("the white one", HUB)  # no hub is white, but that is a colour
    assert not shelf.options("a striped one", HUB)
    assert ("size", "xl") in shelf.options("i have it in XL", frozenset({"t shirt"}))


def test_a_domain_without_products_has_none():
    assert not NOTHING.named("the yoga mat") and not NOTHING.options("black", frozenset())
    phone = shelf_of(generated_domain("telecom").agent_database)
    assert not phone.named("the yoga mat") and not phone.cabins
    assert "business" in shelf_of(generated_domain("airline").agent_database).cabins.values()
