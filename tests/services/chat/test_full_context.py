"""Refusals of too long a prompt in the words of servers, with both numbers where they stand there."""

import pytest

from agent_envs.services.chat.http import full_context

HEAD = "openai:m@http://h/v1: POST h/v1/chat/completions: answered 400: "
ROWS = [
    ('{"error":{"code":400,"message":"request (4476 tokens) exceeds the available context size (4096 tokens), try '
     'increasing it","n_ctx":4096,"n_prompt_tokens":4476,"type":"exceed_context_size_error"}}', 4476, 4096),
    ("the request exceeds the available context size. try increasing the context size or enable context shift", 0, 0),
    ("This model's maximum context length is 8192 tokens. However, you requested 9204 tokens (8100 in the messages, 1104 in "
     "the completion). Please reduce the length of the messages or completion.", 8100, 8192),
    ('This model\'s maximum context length is 8192 tokens. However, your messages resulted in 9204 tokens.", "code": '
     '"context_length_exceeded"', 9204, 8192),
    ("'max_tokens' or 'max_completion_tokens' is too large: 1024. This model's maximum context length is 2048 tokens and your "
     "request has 1500 input tokens (1024 > 2048 - 1500).", 1500, 2048),
    ("The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure", 5000, 4096),
    ("This model's maximum context length is 4096 tokens. However, you requested 1024 output tokens and your prompt contains "
     "at least 3073 input tokens, for a total of at least 4097 tokens.", 3073, 4096),
    ("The input (61709 tokens) is longer than the model's context length (40960 tokens).", 61709, 40960),
    ("Requested token count exceeds the model's maximum context length of 40960 tokens. You requested a total of 41000 tokens: "
     "40000 tokens from the input messages and 1000 tokens for the completion.", 40000, 40960),
    ('{"type":"error","error":{"message":"prompt is too long: 200010 tokens > 199999 maximum"}}', 200010, 199999),
    ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length", 190000, 200000),
    ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 9 `max_new_tokens`", 5000, 4096),
    ("Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", 40000, 32768),
    ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).", 1200000, 1048575),
    ("Trying to keep the first 4500 tokens when context the overflows. However, the model is loaded with context length of "
     "only 4096 tokens", 4500, 4096),
    ("This model's maximum prompt length is 131072 but the request contains 150000 tokens.", 150000, 131072),
    ("Your input exceeds the context window of this model. Please adjust your input and try again.", 0, 0),
    ("the input length exceeds the context length", 0, 0),
]  # fmt: skip


@pytest.mark.parametrize(("words", "prompt", "context"), ROWS)
def test_a_refusal_is_read_with_its_numbers(words, prompt, context):
    full = full_context(HEAD + words)
    assert (full.prompt_tokens, full.context_tokens, full.retryable) == (prompt, context, False)


@pytest.mark.parametrize(
    "cause",
    [
        HEAD + "no such field context_length",
        HEAD + "max_tokens is too large: 5000",
        HEAD + "tool choice requires --enable-auto-tool-choice",
        HEAD + "image too large",
        HEAD.replace("400", "429") + "tokens per min: limit 30000, requested 40000; reduce the context length",
        HEAD.replace("400", "503") + "maximum context length exceeded",
        "maximum context length exceeded",
    ],
)
def test_other_faults_stay_what_they_are(cause):
    assert full_context(cause) is None
