"""Conversations are kept as tokens that only grow, for any chat template: tokens in, tokens out.

Modules, in reading order:
    chat: ChatTokenizer and Conversation: what was sampled stays, everything else is encoded once; drift.
    rendering: chat templates (chatml, qwen, llama, jinja): found, probed for the messages, roles and calls they take, and
        rendered piece by piece.
    control: control tokens, which no message may spell as text (injection); text to tokens and back within a conversation.
"""

from trainers.tokens.chat import ChatTokenizer, Conversation, drift

__all__ = ["ChatTokenizer", "Conversation", "drift"]
