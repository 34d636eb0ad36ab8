"""A model's turn acted, was cut, was refused, or failed: in every form that providers have for it."""

from tests.needs import require

require("[anthropic]")

import pytest

from agent_envs.base.errors import EnvFault
from agent_envs.services.chat.anthropic import AnthropicChat
from agent_envs.services.chat.model import ChatReply, ChatRequest
from agent_envs.services.chat.openai import OpenAIChat
from tests.services.chat.local import LocalServer

ASKED = ChatRequest([{"role": "user", "content": "Who?"}])
USAGE = {"prompt_tokens": 5, "completion_tokens": 1}
AZURE = {
    "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    "code": "content_filter", "innererror": {"code": "ResponsibleAIPolicyViolation"},
}  # fmt: skip


def choice(message=None, **more):
    return {"choices": [{"message": message or {"content": "Mo"}, "finish_reason": "stop", **more}], "usage": USAGE}


REFUSED = {
    "a filter, with nothing": choice({"content": None}, finish_reason="content_filter"),
    "a filter, with an empty text": choice({"content": ""}, finish_reason="content_filter"),
    "a filter, within an action": choice({"content": "<answer>Mo</answer>"}, finish_reason="content_filter"),
    "capitals": choice({"content": ""}, finish_reason="SAFETY"),
    "a refusal": choice({"content": None, "refusal": "I will not."}),
    "a refusal as a part": choice({"content": [{"type": "refusal", "refusal": "I will not."}]}),
    "an error with the filter's name": {"error": {"code": "content_filter", "message": "filtered"}},
}
FAILED = {
    "an error at the top": {**choice(), "error": {"message": "overloaded"}},
    "an error in the choice": choice({"content": ""}, error={"code": 502}),
    "an error in the message": choice({"content": "", "error": {"code": 502}}),
    "the reason error": choice({"content": ""}, finish_reason="error"),
    "an unknown reason": choice({"content": "<answer>Mo</answer>"}, finish_reason="insufficient_system_resource"),
    "an outage behind a router": choice({"content": "half"}, native_finish_reason="network_error"),
    "nothing, uncounted": {"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]},
}


@pytest.mark.parametrize("answer", REFUSED.values(), ids=REFUSED)
def test_refusals_hold_no_text_and_no_call(serve, answer):
    reply = OpenAIChat("m", serve(lambda *_: LocalServer.reply(200, answer))).complete(ASKED)
    assert (reply.outcome, reply.canonical) == ("refused", "") and reply.refusal
    assert ChatReply.from_json(reply.to_json()) == reply


@pytest.mark.parametrize("answer", FAILED.values(), ids=FAILED)
def test_failures_are_faults_that_may_be_tried_again(serve, answer):
    with pytest.raises(EnvFault) as caught:
        OpenAIChat("m", serve(lambda *_: LocalServer.reply(200, answer))).complete(ASKED)
    assert caught.value.retryable and caught.value.usage["calls"] == 1


@pytest.mark.parametrize(
    ("status", "error", "refused"),
    [
        (400, AZURE, True),
        (403, {"message": "your input was flagged by the provider", "code": 403}, True),
        (400, {"message": "Content Exists Risk"}, True),
        (400, {"message": "max_tokens is too large"}, False),
        (403, {"message": "your request was blocked"}, False),  # by a network's wall
        (500, AZURE, False),  # whose body is not read
    ],
)
def test_a_prompt_that_a_filter_stops_is_refused_and_other_errors_are_faults(serve, status, error, refused):
    model = OpenAIChat("m", serve(lambda *_: LocalServer.reply(status, {"error": error})))
    if not refused:
        with pytest.raises(EnvFault):
            model.complete(ASKED)
        return
    reply = model.complete(ASKED)
    assert reply.outcome == "refused" and error["message"][:30] in reply.refusal
    assert reply.usage == {"calls": 1, "input": 0, "output": 0}


def test_anthropic_outcomes(serve):
    def read(*blocks, **more):
        answer = {"content": list(blocks), "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}
        return AnthropicChat("m", url=serve(lambda *_: LocalServer.reply(200, {**answer, **more}))).complete(ASKED)

    text = {"type": "text", "text": "<answer>Mo"}
    assert read(text).outcome == "acted" and read(text, stop_reason="max_tokens").outcome == "cut"
    assert read(stop_reason="refusal").refusal == "refusal"
    partial = read(text, stop_reason="refusal")
    assert (partial.outcome, partial.text, partial.refusal) == ("refused", "", "<answer>Mo")
    with pytest.raises(EnvFault, match="'meltdown'"):
        read(text, stop_reason="meltdown")


@pytest.mark.parametrize("reason", ["length", "max_tokens", "MAX_TOKENS", "model_length"])
def test_a_cut_reply_keeps_its_text(serve, reason):
    reply = OpenAIChat("m", serve(LocalServer("<answer>Mo", finish=reason))).complete(ASKED)
    assert (reply.outcome, reply.text) == ("cut", "<answer>Mo")
