"""`Toolbox` holds the services behind the tools: a retriever, a page reader, a sandbox; each live, recorded or replayed."""

from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import Any

from agent_envs.base.documents import Corpus, Hit
from agent_envs.base.errors import EnvFault
from agent_envs.base.serialization import canonical_json, decode_state, encode_state
from agent_envs.envs.tool_reasoning.actions import PYTHON, SEARCH
from agent_envs.envs.tool_reasoning.equality import Equality, make_equality
from agent_envs.envs.tool_reasoning.observations import Document, DocumentPage
from agent_envs.services.chat import ChatModel, ChatRequest, ask, chat_port
from agent_envs.services.recording import CallSite, ExternalPort, Recording
from agent_envs.tools.retrieval.build import built_over, is_outside
from agent_envs.tools.sandbox import (
    ExecResult,
    Limits,
    SandboxCell,
    SandboxSpec,
    record_of,
    recorded_cell,
    run_cell,
    sandbox_version,
)
from agent_envs.tools.web import PageReader

_READER = Template(files(__package__).joinpath("reader.md").read_text(encoding="utf-8").strip())
_SUMMARY_CHARACTERS = 8_000


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """The services that an environment names.

    Attributes:
        tools: those that are offered.
        retriever: what searches, by name.
        browse: what is opened: `corpus`, `web`, or "" for nothing.
        private_hosts: hosts whose addresses are not public, and may be opened all the same.
        reader: who summarises pages; None shows them as they are.
        backend: the sandbox in which they do.
        limits: of each program.
        equality: how answers are compared.
    """

    tools: tuple[str, ...]
    retriever: str
    browse: str
    private_hosts: tuple[str, ...]
    reader: ChatModel | None
    backend: str
    limits: Limits
    equality: str


class Toolbox:
    """The services. Shared by an environment and its forks; holds nothing of an episode.

    What is outside is made at once, so that a missing key is told before an episode begins; an index, at the first search.
    """

    def __init__(self, settings: ToolSettings, corpus: Corpus | None, recording: Recording | None) -> None:
        """Take what the services are, what is searched, and where outside answers are recorded or replayed.

        A replay needs neither keys, the sandbox nor a package that compares answers.

        Raises:
            UsageError: this machine cannot have the sandbox, or a service has no key here.
            MissingExtra: a package of the sandbox, or one that compares answers, is not installed.
        """
        self.corpus, self.recording = corpus, recording
        self._settings = settings
        self._spec = SandboxSpec(settings.backend, settings.limits)
        outside = SEARCH in settings.tools and is_outside(settings.retriever)
        self._built = built_over(None, settings.retriever, corpus, recording) if outside else None
        self._pages = PageReader(recording=recording, private_hosts=settings.private_hosts)
        reads = settings.reader if settings.browse else None
        self._reader: ExternalPort | None = None if reads is None else chat_port(reads, recording=recording)
        self._equality: Equality = make_equality(settings.equality, recording=recording)
        if PYTHON in settings.tools and (recording is None or recording.mode == "record"):
            sandbox_version(settings.backend)
        # A byte of output is at most six of JSON, and there are what was printed, a value, and an error.
        most = 12 * settings.limits.output_bytes + 100_000
        self._programs = ExternalPort(
            f"sandbox:{settings.backend}", self._run, recording=recording, deterministic=True, max_bytes=most
        )

    def search(self, query: str, top_k: int, support: tuple[str, ...], key: str) -> tuple[Hit, ...]:
        """Search with a query; raises EnvFault where an outside search failed."""
        self._built = built_over(self._built, self._settings.retriever, self.corpus, self.recording)
        return self._built.retriever.search(query, top_k, support=support, seed=key)

    def fetched(self, url: str) -> Document | str:
        """Return a page of the web, or why it could not be opened; EnvFault where our own way into the web failed."""
        page = self._pages.read(url)
        if page.error:
            return page.error
        return Document(page.url, page.title, page.text, page.links)

    def read(self, page: DocumentPage, question: str, site: CallSite) -> DocumentPage:
        """Return a page as the reader sums it up, without links; unchanged without a reader. EnvFault where it fails."""
        if self._reader is None:
            return page
        links = [f"{title} [{target}]" for title, target in page.links]
        page_json = canonical_json({"title": page.title, "text": page.text, "links": links})
        text = _READER.safe_substitute(question=canonical_json(question), page=page_json)
        request = ChatRequest([{"role": "user", "content": text}], max_tokens=1_024)
        reply = ask(self._reader, request, site, lambda answer: bool(answer.text.strip()))
        if not reply.text.strip():
            raise EnvFault(f"{self._reader.name}: an empty summary of a page", retryable=False)
        return DocumentPage(page.id, page.title, reply.text.strip()[:_SUMMARY_CHARACTERS], page.number, page.count)

    def run(self, cells: tuple[SandboxCell, ...], code: str) -> tuple[ExecResult, str, tuple[SandboxCell, ...]]:
        """Run a program behind earlier cells; return its result, the sandbox's version, and all cells. EnvFault on failure.

        Raises EnvFault: the sandbox failed, or a recording holds something else.
        """
        request = {"spec": encode_state(self._spec), "cells": encode_state(cells), "code": code}
        answer: Any = self._programs.call(request, CallSite(""))
        try:
            result, version = ExecResult.from_json(answer["result"]), str(answer["version"])
        except (KeyError, TypeError, ValueError) as error:
            raise EnvFault(f"{self._programs.name}: the recorded result is malformed: {error}", False) from error
        return result, version, recorded_cell(record_of(self._spec, cells), code, result).cells

    def _run(self, request: Any, seconds: float) -> Any:
        """Run code behind the recorded cells, and return the result and the sandbox's version as JSON data."""
        record = record_of(self._spec, decode_state(request["cells"]))
        result, _ = run_cell(record, request["code"])
        return {"result": result.to_json(), "version": sandbox_version(self._spec.backend)}

    def equal(self, answer: str, golds: tuple[str, ...]) -> bool:
        """Return whether an answer is right; raises EnvFault where the sandbox in which answers are compared failed."""
        return self._equality(answer, golds)
