"""Servers for the tests of feedback by chat models."""

from tests.chat.conftest import serve

__all__ = ["serve"]
