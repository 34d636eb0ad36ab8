"""A run with a model asks the servers before it begins, and tells while it lasts how far it is and what goes wrong first."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from agent_envs.base.terminal import escaped
from agent_envs.core.env import core_of
from agent_envs.evaluation.runs.measures import valid_turn
from agent_envs.evaluation.runs.run_folder import RunPrices
from agent_envs.evaluation.suites.plan import entry_env
from agent_envs.evaluation.suites.suite import Suite
from agent_envs.rollout.episode_runner import EpisodeResult, Planned
from agent_envs.rollout.policy import Policy, Reply, Request, traits_of
from agent_envs.rollout.ray_backend import Actors
from agent_envs.services.chat.http import HttpChat
from agent_envs.services.chat.named import is_chat_name, make_chat_model
from agent_envs.services.chat.server import shows_tools
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services

Tell = Callable[[str], None]
Progress = Callable[[int, int, float, str], None]
Episodes = Generator[tuple[Planned, EpisodeResult], None, None]
FIRST_SECONDS = 10.0  # without an episode that ends; then twice as long, and so on
MOST_REPLIES, MOST_CHARACTERS = 3, 400


def meet_servers(
    suite: Suite, actor: Policy, prices: RunPrices, tell: Tell | None, needed: Callable[[], bool] = lambda: True
) -> None:
    """Check, if `needed`, that each chat model answers (EnvFault, UsageError); set the agent's to tools as text where it must.

    Where an environment has native tools and the agent's server leaves them out of its prompts, they are sent as text. That
    takes two calls of a token, and is not asked of a model with a price: its provider takes tools.
    """
    pairs = [(entry.feedback.model, entry.feedback.options) for entry in suite.entries if entry.feedback is not None]
    pairs += [(value, {}) for entry in suite.entries for value in entry.arguments.values() if isinstance(value, str)]
    models = {name: make_chat_model(name, **options) for name, options in pairs if is_chat_name(name)}
    own, tell = getattr(actor, "model", None), tell or (lambda text: None)
    chats = [model for model in (*models.values(), own) if isinstance(model, HttpChat)]
    if not chats or not needed():
        return
    listing = [model.greet() for model in chats][-1]
    if not isinstance(own, HttpChat):
        return
    if listing.context is not None:
        tell(f"server: a context of {listing.context:,} tokens")
    if not own.needs_asking or prices.agent is not None:
        return
    if not any(core_of(entry_env(entry)).tools for entry in suite.entries):
        return
    reach = shows_tools(own)
    own.tools_as_text = reach is False
    if reach is None:
        tell(
            "server: whether tools reach its prompts is not known; --agent-arg tools=text puts them into the system message"
        )
    elif not reach:
        tell("server: tools do not reach its prompts, so they are written into the system message (tools=text)")


class Stage(ExitStack):
    """A context manager of who plays a run: this process, or actors of Ray.

    Attributes:
        recording: of outside services' answers; None where nothing is kept.
    """

    def __init__(self, actors: int, agent: Callable[[], Policy] | None, externals: Path | None) -> None:
        """Open the recording of a path.

        Args:
            actors: how many; 0 for this process.
            agent: makes the agent that plays in each; None where it stays here, and they step its environments.
            externals: of the recording.
        """
        super().__init__()
        self._actors = self.enter_context(Actors(actors, agent=agent)) if actors else None
        if externals is not None:
            self.callback(_drop_empty, externals)
        record = self._actors.recording if self._actors else partial(Recording, mode="record")
        self.recording = self.enter_context(record(externals)) if externals is not None else None

    def services(self, services: Services) -> Services:
        """Return services of a run that is played here."""
        return self._actors.services(services) if self._actors else services

    def progress(self, progress: Progress | None) -> Progress | None:
        """Return a run's progress with the line of its actors, where it has some."""
        if progress is None or (actors := self._actors) is None:
            return progress
        return lambda done, planned, wins, more: progress(
            done, planned, wins, "; ".join(text for text in (actors.line(), more) if text)
        )


def _drop_empty(path: Path) -> None:
    """Remove a recording without an answer."""
    if path.exists() and path.stat().st_size == 0:
        path.unlink()


class SignsOfLife:
    """A context manager that tells about a run while it is played, or nothing where nobody is told.

    `policy` counts what is asked of an agent; the episodes that end are `watched`.
    """

    def __init__(self, tell: Tell | None) -> None:
        """Tell nothing yet."""
        self._tell, self._counts, self._lock = tell, Counter[str](), threading.Lock()
        self._over, self._keys, self._replies = threading.Event(), set[str](), 0
        self._thread = threading.Thread(target=self._tell_while_idle, daemon=True)

    def __enter__(self) -> "SignsOfLife":
        if self._tell is not None:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def policy(self, policy: Policy) -> Policy:
        """Return an agent with its calls counted; one that is bound to environments stays as it is."""
        return policy if self._tell is None or traits_of(policy).needs_env else CountedPolicy(policy, self.count)

    def count(self, **counts: int) -> None:
        """Count calls, turns, tokens and uncounted replies."""
        with self._lock:
            self._counts.update(counts)

    def watched(self, play: Callable[..., Episodes], **options: Any) -> Episodes:
        """Play and yield the episodes as they end, and tell the run's first replies without a valid action."""
        with closing(play(**options)) as episodes:
            for planned, result in episodes:
                if planned.key not in self._keys:
                    self._keys.add(planned.key)
                    self._show(result)
                yield planned, result

    def _show(self, result: EpisodeResult) -> None:
        """Tell an episode's replies without a valid action, escaped and cut, until three of the run were told."""
        for turn in result.trajectory.turns:
            if self._tell is None or self._replies == MOST_REPLIES:
                return
            if valid_turn(turn) or not isinstance(turn.action, str) or turn.outcome in ("refused", "full"):
                continue
            self._replies += 1
            reason, text = (escaped(part, MOST_CHARACTERS) for part in (turn.finish_reason, turn.action))
            reason = f"finish_reason {reason}" if reason else "no finish_reason"
            head = f"reply without a valid action, {self._replies} of at most {MOST_REPLIES} shown"
            self._tell(f"{head} ({reason}): {text}")

    def _tell_while_idle(self) -> None:
        """Tell the counts once no episode has ended for 10 s, then 20, 40, ..., from 10 s again when one ends."""
        ended, since, pause = len(self._keys), time.monotonic(), FIRST_SECONDS
        while self._tell is not None and not self._over.wait(max(since + pause - time.monotonic(), 0.0)):
            if len(self._keys) != ended:
                ended, since, pause = len(self._keys), time.monotonic(), FIRST_SECONDS
                continue
            with self._lock:
                counts = Counter(self._counts)
            words = "tokens are not counted" if counts["uncounted"] else f"{counts['tokens']:,} tokens"
            words = f"{counts['calls']:,} calls, {counts['turns']:,} turns, {words}"
            so_far = f"; so far {words}" if counts["calls"] else ""  # actors count their own
            self._tell(f"no episode has ended for {pause:.0f} s{so_far}")
            pause *= 2


class CountedPolicy:
    """An agent that counts what it is asked."""

    def __init__(self, policy: Policy, count: Callable[..., None]) -> None:
        self.name, self.traits = policy.name, traits_of(policy)
        self._policy, self._count = policy, count

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the agent itself."""
        return getattr(self._policy, name)

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Ask the agent and return its replies, counting the call and each reply's turn and tokens."""
        self._count(calls=1)
        replies = self._policy.act(requests)
        # What is wrong with others is told by who plays them.
        rows = replies if isinstance(replies, list | tuple) else ()
        for usage in (reply.usage for reply in rows if isinstance(reply, Reply)):
            tokens = usage.get("input", 0) + usage.get("output", 0)
            self._count(turns=1, tokens=tokens, uncounted=usage.get("uncounted", 0))
        return replies
