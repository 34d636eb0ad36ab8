"""No JSON of others takes Python's reader to the end of the stack: garbage that is collected down there is not closed."""

import contextlib
import gc
import weakref

import pytest

from agent_envs.base.errors import AgentEnvsError
from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import read_call, sound_json
from agent_envs.cli import play
from agent_envs.core.snapshot import Snapshot
from agent_envs.envs.tau2 import conversation_view
from agent_envs.evaluation.runs import measures
from agent_envs.integrations import session
from agent_envs.services.chat.conversation import read_native_call
from agent_envs.services.http.faults import parse_json
from agent_envs.tools.forms import json_or_text
from agent_envs.tools.retrieval import wire
from agent_envs.tools.sandbox import bwrap

READERS = {
    "service": lambda text: parse_json(text.encode()), "text": sound_json, "value": json_or_text,
    "call": lambda text: read_call.__wrapped__(text, "0"), "native": lambda text: read_native_call("0", "f", text),
    "search": lambda text: wire.read_request(text.encode()), "row": session._arguments,
    "cell": lambda text: bwrap._check_answer(text.encode(), len(text), ""), "tau2": conversation_view._lay_out,
    "measure": lambda text: measures._payload(ToolCall("0", "f", text)), "play": lambda text: play._lay_out(text, 80),
    "snapshot": lambda text: Snapshot.from_bytes(text.encode()),
}  # fmt: skip


def frames_left(count=0):
    try:
        return frames_left(count + 1)
    except RecursionError:
        return count


@pytest.mark.parametrize("text", ["[" * 5_000, '{"a":' * 5_000], ids=["lists", "objects"])
@pytest.mark.parametrize("reader", READERS)
def test_garbage_is_collected_with_a_stack_below_it(reader, text):
    """Json's reader alone leaves 10 frames. A class is garbage that only the collector ends."""
    limits, frames = gc.get_threshold(), []
    try:
        for first in range(100, frames_left(), 10):
            gc.collect(0)  # a class made now is in the youngest generation; a round over all is dear after other tests
            weakref.finalize(type("Loop", (), {}), lambda: frames.append(frames_left()))
            gc.set_threshold(first)
            with contextlib.suppress(ValueError, AgentEnvsError, wire.BadRequest):
                READERS[reader](text)
    finally:
        gc.set_threshold(*limits)
    gc.collect(0)
    assert len(frames) > 50 and min(frames) > 300
