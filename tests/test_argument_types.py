"""Every argument of every id: a value of the wrong type is refused in one line, or accepted; nothing else is raised."""

import inspect

import gymnasium as gym
import pytest

from agent_envs.base.errors import AgentEnvsError, UsageError
from agent_envs.core.registry import TABLE
from tests.needs import needs
from tests.rows import each_row

ODD = (
    None, True, -1, 5, 2**70, 0.5, float("nan"), float("inf"), "", "x", "\ud800", "a\0b", [], ["a"], [[[]]], {}, {"like": 3},
    {"x": float("nan")}, object(),
)  # fmt: skip
CASES = (  # made when they are tested, not wherever tests are collected: each id is made once for it
    (row.id, name)
    for row in TABLE
    for name in inspect.signature(type(gym.make(row.id).unwrapped).__init__).parameters
    if name not in ("self", "render_mode", "arguments", "kwargs")
)


@needs("[envs]")
@each_row(("env_id", "name"), CASES)
def test_a_value_of_another_type_is_refused_or_accepted(env_id, name):
    for value in ODD:
        try:
            gym.make(env_id, **{name: value})
        except AgentEnvsError as error:
            assert str(error)


@each_row(
    ("env_id", "name", "value"),
    [
        *[("agent_envs/Tau2Retail-v0", "user", value) for value in (None, 5, [], {}, object(), str)],
        *[("agent_envs/Tau2Retail-v0", "persona", value) for value in (3, None, [], ["a"], {"like": 3})],
        *[("agent_envs/Tau2Retail-v0", "world", value) for value in ([], {}, "x", "\ud800", True)],
        *[("agent_envs/Tau2Retail-v0", "judge", value) for value in (5, 0, False, [], {}, float("nan"), object())],
        *[("agent_envs/LegalSearch-v0", "judge", value) for value in (5, [], float("nan"))],
        *[("agent_envs/LegalSearch-v0", "weights", value) for value in (3, True, [], "x", {"found": float("nan")})],
        *[("agent_envs/LegalSearch-v0", "world", value) for value in (3, "x", [], ["a"])],
    ],
)
def test_the_refusal_names_argument_and_value(env_id, name, value):
    with pytest.raises(UsageError) as caught:
        gym.make(env_id, **{name: value})
    told = str(caught.value)
    assert name in told and "\n" not in told
