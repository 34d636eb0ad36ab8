"""The faults of services: those below HTTP, and answers that are no good."""

from tests import servers
from tests.servers import FaultServer

ANSWERED = {
    "bad_request": (400, {}, b'{"error": {"message": "no such field"}}'),
    "unauthorized": (401, {}, b'{"error": {"message": "bad key"}}'),
    "not_found": (404, {}, b"not here"),
    "server_error": (500, {}, b"<html>oops</html>"),
    "unavailable": (503, {"retry-after": "0"}, b""),
    "no_json": (200, {}, b"<html>hello</html>"),
    "empty": (200, {}, b""),
    "not_utf8": (200, {}, b'{"choices": "\xff"}'),
    "not_a_number": (200, {}, b'{"choices": NaN}'),
    "deep": (200, {}, b"[" * 100_000),
    "null": (200, {}, b"null"),
    "error_as_answer": (200, {}, b'{"error": {"message": "upstream failed"}}'),
    "no_structure": (200, {}, b'{"choices": [], "content": null}'),
}
FAULTS = (*ANSWERED, *servers.FAULTS)
ENDLESS = ("hang", "slow_drip", "slow_headers")
PERMANENT = {"bad_request", "unauthorized", "not_found", "redirect_loop", "huge_header", "huge_body", "gzip_bomb"}


class FaultyServer(FaultServer):
    """A context manager; `faults(n)` names the fault of the n-th request, from 0, or gives None for an answer."""

    def __init__(self, handler, faults=lambda number: None):
        """Serve `handler(path, headers, body)`."""
        super().__init__(handler, faults, answers=ANSWERED)
