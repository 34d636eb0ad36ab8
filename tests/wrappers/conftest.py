"""Servers for the tests of feedback by chat models."""

from tests.services.chat.conftest import serve

__all__ = ["serve"]
