import pytest

from tests.tools.sandbox.backends import BWRAP, MONTY


@pytest.fixture(params=[MONTY, BWRAP])
def backend(request) -> str:
    return request.param
