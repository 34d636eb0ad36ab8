"""Judges decide whether an answer is right: `ModelJudge` asks a chat model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Literal, Protocol

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.serialization import canonical_json, state_type
from agent_envs.services.chat import ChatModel, ChatRequest, ask, chat_port
from agent_envs.services.recording import CallSite, ExternalPort, Recording

MAX_ANSWER_CHARACTERS = 4_000
MAX_TOKENS = 512  # of a reply
_WORDS = {"YES": True, "NO": False}
_NUDGE = "The last line of your reply must be YES or NO, and nothing else. Write that line now."


@state_type
@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's word, and the version of the judge that gave it."""

    correct: bool
    judge: str


class NoVerdict(EnvFault):
    """A judge answered, and gave no verdict."""


class Judge(Protocol):
    """Decides whether an answer to a question matches the gold answers."""

    name: str

    def __call__(self, question: str, answer: str, golds: Sequence[str], site: CallSite) -> Verdict:
        """Return the verdict; raises EnvFault where an outside judge failed."""
        ...


class ModelJudge:
    """A chat model's yes or no, at temperature 0 where the model takes one, and recorded by the request alone.

    The answer is cut, at 4,000 characters unless said otherwise, and stands in the prompt as one JSON text, which it cannot
    close. A reply whose last line is no verdict is asked for once more, and is then a fault: never a reward. A run that goes on
    asks for that second reply again.
    """

    def __init__(
        self,
        model: ChatModel | ExternalPort,
        prompt: str | Path = "correct@1",
        *,
        recording: Recording | None = None,
        temperature: float | None | Literal["lowest"] = "lowest",
        longest: int = MAX_ANSWER_CHARACTERS,
    ) -> None:
        """Take the model that judges and the prompt, and open a port to it.

        Args:
            model: who judges; or a port that `chat_port` made, which should be deterministic.
            prompt: `NAME@VERSION` of one of ours, or a file NAME-VERSION.md with $question, $golds and $answer in it.
            recording: where verdicts are recorded, or replayed from.
            temperature: `lowest` is 0, and none for Anthropic's models, whose format has none any more; None leaves it to the
                service, as OpenAI's reasoning models demand.
            longest: how many characters of an answer are shown; the rest is cut off.

        Raises:
            UsageError: there is no such prompt, or a port came with its own recording.
        """
        if isinstance(model, ExternalPort):
            if recording is not None:
                raise UsageError(f"ModelJudge({model.name}): recording= belongs to the port: give it to chat_port(...)")
            self._port = model
        else:
            self._port = chat_port(model, recording=recording, deterministic=True)
        version, self._prompt = _read_prompt(prompt)
        self.name = f"{self._port.name}/{version}"
        if temperature == "lowest":
            temperature = 0.0 if getattr(self._port, "takes_temperature", True) else None
        self._longest = longest
        self._sampling = ChatRequest((), temperature=temperature, max_tokens=MAX_TOKENS)

    def __call__(self, question: str, answer: str, golds: Sequence[str], site: CallSite) -> Verdict:
        """Return the model's verdict on an answer; asked once more where its reply holds none.

        Raises:
            EnvFault: the service failed.
            NoVerdict: it gave none twice.
        """
        cut = answer if len(answer) <= self._longest else f"{answer[: self._longest]} (cut)"
        values = {"question": question, "golds": list(golds), "answer": cut}
        text = self._prompt.safe_substitute({name: canonical_json(value) for name, value in values.items()})
        request = replace(self._sampling, messages=[{"role": "user", "content": text}])
        reply = ask(self._port, request, site)
        correct = _verdict(reply.text)
        if correct is None:
            message = {"role": "assistant", "content": reply.text or "(nothing)"}
            again = replace(request, messages=[*request.messages, message, {"role": "user", "content": _NUDGE}])
            site = replace(site, ordinal=site.ordinal + 1)
            correct = _verdict(ask(self._port, again, site, lambda reply: _verdict(reply.text) is not None).text)
        if correct is None:
            raise NoVerdict(f"{self.name}: no verdict in two replies", retryable=False)
        return Verdict(correct, self.name)


def _verdict(text: str) -> bool | None:
    """Return True for YES, False for NO in the last line of a reply that has text; None for any other word or no text."""
    lines = [line.strip(" \t*_`.\"'") for line in text.splitlines() if line.strip()]
    return _WORDS.get(lines[-1].upper()) if lines else None


def _read_prompt(prompt: str | Path) -> tuple[str, Template]:
    """Return NAME@VERSION and template of a prompt, by name or from a file NAME-VERSION.md; UsageError for no such one."""
    folder = files(__package__).joinpath("judge_prompts")
    if isinstance(prompt, Path):
        name, dash, version = prompt.stem.rpartition("-")
        if not dash or not prompt.is_file():
            raise UsageError(f"ModelJudge: {prompt} is no file NAME-VERSION.md")
        return f"{name}@{version}", Template(prompt.read_text(encoding="utf-8").strip())
    names = sorted(entry.name.removesuffix(".md").replace("-", "@") for entry in folder.iterdir())
    if prompt not in names:
        raise UsageError(f"ModelJudge: prompt={prompt!r}; the prompts are {', '.join(names)}, or the Path of a file")
    return prompt, Template(folder.joinpath(f"{prompt.replace('@', '-')}.md").read_text(encoding="utf-8").strip())
