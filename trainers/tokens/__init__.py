"""Tokens in, tokens out: conversations that only grow, for any chat template."""

from trainers.tokens.chat import ChatTokenizer, Conversation, drift
from trainers.tokens.checking import TemplateReport, check_template

__all__ = ["ChatTokenizer", "Conversation", "TemplateReport", "check_template", "drift"]
