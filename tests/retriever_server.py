"""A retriever that is served from a thread of the tests' process."""

import contextlib
import threading

from agent_envs.tools.retrieval.server import RetrieverServer


@contextlib.contextmanager
def running_server(retriever, corpus=None, **arguments):
    """Yield the URL; see `RetrieverServer` for the arguments."""
    with RetrieverServer(retriever, corpus, **{"port": 0, **arguments}) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()
