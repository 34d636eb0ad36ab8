"""Servers for the tests of everything that talks to a chat model."""

import contextlib

import pytest

from tests.services.chat.faulty import FaultyServer


@pytest.fixture
def serve():
    """A function that starts a server of a handler and returns its URL."""
    with contextlib.ExitStack() as stack:
        yield lambda handler: stack.enter_context(FaultyServer(handler)).url
