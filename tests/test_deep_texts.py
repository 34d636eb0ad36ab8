"""No JSON of others takes Python's reader to the end of the stack: garbage that is collected down there is not closed."""

import gc
import weakref

import pytest

from agent_envs.base.protocol import read_call, sound_json
from agent_envs.services.chat.conversation import read_native_call
from agent_envs.services.http.faults import parse_json
from agent_envs.tools.forms import json_or_text
from agent_envs.tools.retrieval.wire import BadRequest, read_request
from agent_envs.tools.sandbox.bwrap import _check_answer

READERS = {
    "service": lambda text: parse_json(text.encode()), "sound": sound_json, "call": lambda text: read_call(text, "0"),
    "native": lambda text: read_native_call("0", "f", text), "value": json_or_text,
    "search": lambda text: read_request(text.encode()), "cell": lambda text: _check_answer(text.encode(), len(text), ""),
}  # fmt: skip
LEAST = 300  # frames below a collection; the reader alone leaves 30


def frames_left(count=0):
    try:
        return frames_left(count + 1)
    except RecursionError:
        return count


class Loop:
    """Garbage that only the collector ends."""

    def __init__(self):
        self.me = self


@pytest.mark.parametrize("text", ["[" * 5_000, '{"a":' * 5_000], ids=["lists", "objects"])
@pytest.mark.parametrize("reader", READERS)
def test_garbage_is_collected_with_a_stack_below_it(reader, text):
    limits, left = gc.get_threshold(), []
    base = frames_left()
    for first in range(100, base, 10):
        gc.collect()
        gc.disable()
        weakref.finalize(Loop(), lambda: left.append(frames_left()))
        gc.set_threshold(first)
        gc.enable()
        try:
            READERS[reader](text)
        except (ValueError, BadRequest):
            pass
        finally:
            gc.set_threshold(*limits)
            gc.collect()
    assert left and min(left) > LEAST
