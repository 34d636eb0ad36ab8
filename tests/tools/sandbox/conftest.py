import pytest

from agent_envs.tools.sandbox import BACKENDS
from tests.tools.sandbox.backends import need


@pytest.fixture(params=BACKENDS)
def backend(request) -> str:
    need(request.param)
    return request.param
