"""`agent-envs serve` and `serve-retriever` put environments and retrievers behind HTTP, for other machines and trainers."""

import json
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from agent_envs.base.errors import UsageError
from agent_envs.base.terminal import show
from agent_envs.cli.options import Arguments, Json, named_values, tell

if TYPE_CHECKING:
    from agent_envs.base.documents import Corpus
    from agent_envs.tools.retrieval.server import RetrieverServer


def serve(
    ids: Annotated[
        list[str], typer.Argument(help="Ids, or module:id; a client gets the first, or URL/NAME.", metavar="ID")
    ],
    arg: Arguments = None,
    host: Annotated[str, typer.Option(help="Address; one that other machines reach needs --token-env.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 takes a free one.")] = 8000,
    token_env: Annotated[
        list[str] | None,
        typer.Option(
            help="An environment variable that holds a token of 32 characters or more. Each token has its own sessions. "
            "NAME:export also lets its clients take snapshots out as bytes, which hold the answers. Repeatable."
        ),
    ] = None,
    sessions: Annotated[
        int, typer.Option(min=1, help="Sessions open at once; further clients wait in a queue for 30 s.")
    ] = 1024,
    idle: Annotated[float, typer.Option(min=1, help="Seconds until an unused session or snapshot ends.")] = 1800,
    deadline: Annotated[float, typer.Option(min=0.1, help="Seconds for the answer to a message.")] = 120,
    as_json: Json = False,
) -> None:
    """Serve environments to OpenEnv's clients, TRL, verifiers, and `agent_envs/Remote-v0`; Ctrl-C or SIGTERM ends it.

    agent-envs serve SearchQA
    agent-envs serve SearchQA BabyAI --port 0
    TOKEN=$(openssl rand -hex 16) agent-envs serve SearchQA --host 0.0.0.0 --token-env TOKEN

    A client is gym.make("agent_envs:agent_envs/Remote-v0", url="http://127.0.0.1:8000", token="env:TOKEN"). URL/health shows
    how many sessions are open and how many clients wait, and a line a minute tells it here. docs/serving.md has the messages.
    --arg goes with one id only.
    """
    from agent_envs.serving.server import EnvServer
    from agent_envs.serving.sessions import ServerLimits

    sys.path.insert(0, "")
    if arg and len(ids) > 1:
        raise UsageError("--arg goes with one id; serve the others from servers of their own")
    rights = [name.partition(":")[::2] for name in token_env or ()]
    if unknown := {right for _, right in rights} - {"", "export"}:
        raise UsageError(f"--token-env: the right {unknown.pop()!r}; write NAME, or NAME:export")
    tokens = {name: str(_token(name)) for name, _ in rights}
    _raise_file_limit()
    with EnvServer(
        {env_id: named_values(arg, "--arg") for env_id in ids}, host=host, port=port, tokens=tokens, tell=tell,
        exporters=frozenset(name for name, right in rights if right),
        limits=ServerLimits(sessions=sessions, idle_seconds=idle, step_seconds=deadline),
    ) as server:  # fmt: skip

        def announce() -> None:
            """Print the address, or one line of JSON."""
            if as_json:
                print(json.dumps({"url": server.url, "environments": list(server.served)}), flush=True)
            else:
                show(f"{', '.join(server.served)} at {server.url}; Ctrl-C ends it")

        try:
            server.serve_forever(announce)
        except KeyboardInterrupt:
            tell("stopped")


def _raise_file_limit() -> None:
    """Allow as many open files as the system does: each client is one."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def serve_retriever(
    corpus: Annotated[str, typer.Option(help="sample, wiki-18, a .jsonl file, or a generated world:SPLIT:INDEX.")],
    retriever: Annotated[str, typer.Option(help="bm25, bm25_okapi, rank_bm25, tantivy, random, empty.")] = "bm25",
    host: Annotated[str, typer.Option(help="Address; one that other machines reach needs --token-env.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 takes a free one.")] = 8000,
    token_env: Annotated[str, typer.Option(help="The environment variable that holds the clients' token.")] = "",
    verbose: Annotated[bool, typer.Option(help="Log every request; else a line a minute.")] = False,
    as_json: Json = False,
) -> None:
    """Serve a retriever as Search-R1's and SkyRL's clients expect it; Ctrl-C ends it.

    An environment uses it as `--arg retriever=search_r1@URL`. The URL is printed once the index is built.
    """
    from agent_envs.tools.listening import check_access
    from agent_envs.tools.retrieval.build import MODEL_FORMS, RETRIEVERS, built_over, is_retriever
    from agent_envs.tools.retrieval.server import RetrieverServer

    # The oracle needs the task, which no wire carries; a server before a server is of no use.
    if retriever == "oracle" or "@" in retriever or not is_retriever(retriever):
        names = (*(name for name in RETRIEVERS if name != "oracle"), *MODEL_FORMS)
        raise UsageError(f"--retriever {retriever}: a server can be one of {', '.join(names)}")
    token = _token(token_env)
    check_access(host, token)  # before an index is built for minutes
    passages = _corpus(corpus)
    served = built_over(None, retriever, passages, None).retriever
    with RetrieverServer(served, passages, host=host, port=port, token=token, tell=tell, verbose=verbose) as server:
        _announce(server, as_json)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            tell("stopped")


def _announce(server: "RetrieverServer", as_json: bool) -> None:
    """Print the server's address and the argument that uses it, or one line of JSON."""
    if as_json:
        # On one line, for a program that reads the first one and goes on.
        print(json.dumps({"url": server.url, **server.health}), flush=True)
        return
    show(f"{server.health['retriever']} over {server.health['passages']:,} passages at {server.url}")
    show(f"use it: --arg retriever=search_r1@{server.url} (or skyrl@); Ctrl-C ends it")


def _token(variable: str) -> str | None:
    """Return the token of an environment variable; UsageError where it is named but not set, None without a name."""
    token = os.environ.get(variable, "").strip() or None
    if variable and token is None:
        raise UsageError(f"--token-env {variable}: this environment variable is not set")
    return token


def _corpus(name: str) -> "Corpus":
    """Load a corpus by name, or a generated world's as world:SPLIT:INDEX; UsageError if malformed."""
    kind, colon, place = name.partition(":")
    if kind != "world" or not colon:
        from agent_envs.datasets.catalogue import load_corpus

        return load_corpus(name)
    from agent_envs.datasets.world import WorldConfig, get_world

    split, _, index = place.partition(":")
    if not (index.isascii() and index.isdigit() and len(index) < 10):
        raise UsageError(f"--corpus {name}: write world:SPLIT:INDEX, as world:test:0")
    return get_world(WorldConfig(), split, int(index)).corpus
