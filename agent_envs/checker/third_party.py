"""The parts of the checker that anyone's environment allows, each passed, failed, or one that cannot be asked.

An adapter of `agent_envs.integrations.third_party` gives a `ThirdPartyEnv`; `PARTS` are played on it in their order. What an
environment raises is a finding of one part alone, "no exception"; any other part that meets it cannot be asked.
"""

import contextlib
import math
import random
import re
import string
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from statistics import fmean
from typing import Any, Protocol, TypeVar

from agent_envs.base.errors import EnvFault
from agent_envs.base.terminal import escaped
from agent_envs.checker.env_under_test import Check, CheckFailed, CheckSkipped, Report
from agent_envs.checker.fuzz import hostile_strings
from agent_envs.core.authors_code import author_line, author_place

MOST_STEPS = 200  # of an episode, which is cut there
PLAYS = 8  # of a random agent on each seed, the best of which is played back
MOST_CRASHES = 5  # after which no further hostile text is tried
HALF = 0.5  # of the way from random plays to a solved episode; of the seeds, where copying beats every other play
LONGEST = 100_000  # characters of the end of an observation that are copied
RAISED = (Exception, SystemExit, GeneratorExit)  # by an environment; not Ctrl-C
_TAG = re.compile(r"<([A-Za-z_]{1,30})>")

Result = TypeVar("Result")
Step = tuple[str, float, bool]  # the observation as text, the reward, and whether the episode is over
Agent = Callable[[Sequence[str]], Any]  # from the observations of an episode so far to an action


class ThirdPartyEnv(Protocol):
    """An environment of anyone's, as its adapter shows it.

    Attributes:
        name: as the command line has it.
        text: whether an action is a text.
        solved: the return of a solved episode, None where nobody says.
        flaw: what is wrong with the newest observation or reward, "" for nothing.
        outside: the errors that say nothing of it, as of a server that is away.
    """

    name: str
    text: bool
    solved: float | None
    flaw: str
    outside: tuple[type[Exception], ...]

    def renew(self, bare: bool = False) -> None:
        """Go on with a fresh environment that no reset has reached; `bare`: without guards that are not its own."""

    def reset(self, seed: int) -> str:
        """Begin the episode of a seed; return the first observation as text."""

    def step(self, action: Any) -> Step:
        """Take a turn; return observation, reward and end; CheckSkipped before a reset, where its kind has no step then."""

    def sample(self, rng: random.Random, observations: Sequence[str]) -> Any:
        """Return a random action, a text perhaps of words of the newest observation."""

    def close(self) -> None:
        """Free what it holds."""


class EnvRaised(CheckSkipped):
    """An exception of the environment's, where it was raised."""


@dataclass
class Play:
    """One episode: its actions, and what came back, first from the reset (with reward 0), then from each; of texts a hash."""

    steps: list[Step]
    actions: list[Any] = field(default_factory=list)

    @property
    def total(self) -> float:
        """The return."""
        return math.fsum(reward for _, reward, _ in self.steps)

    def difference(self, other: "Play") -> str:
        """Return at which turn another play came out otherwise, "" where it did not; equal texts count, so NaN is NaN."""
        pairs = enumerate(zip_longest(self.steps, other.steps))
        return next((f"turn {turn}" for turn, (mine, theirs) in pairs if repr(mine) != repr(theirs)), "")


class Subject:
    """An environment under test by these parts, the plays that several of them need, and what it raised."""

    def __init__(self, env: ThirdPartyEnv, episodes: int, hostile: int) -> None:
        """Take how many seeds are played, and how many hostile texts."""
        self.env, self.seeds, self.hostile, self.calls = env, range(episodes), hostile, 0
        self.equal_starts = False
        self.raised: list[str] = []
        self.flaws: list[str] = []
        self._plays: dict[tuple[str, int], list[Play]] = {}

    def play(self, seed: int, agent: Agent) -> Play:
        """Play an episode, to its end or up to 200 steps; EnvRaised where the environment raises."""
        play = Play([(self.reset(seed), 0.0, False)])
        while not play.steps[-1][2] and len(play.actions) < MOST_STEPS:
            play.actions.append(agent([observation for observation, _, _ in play.steps]))
            play.steps.append(self.step(play.actions[-1]))
        play.steps = [(str(hash(observation)), reward, over) for observation, reward, over in play.steps]
        return play

    def reset(self, seed: int) -> str:
        """Reset, and note a flaw; EnvRaised where the environment raises."""
        return self._guard(f"reset(seed={seed})", lambda: self.env.reset(seed))

    def step(self, action: Any) -> Step:
        """Step, and note a flaw; EnvRaised where the environment raises."""
        return self._guard(f"step({repr(action)[:60]})", lambda: self.env.step(action))

    def _guard(self, where: str, call: Callable[[], Result]) -> Result:
        """Call the environment; EnvRaised for an exception of its own, and a fresh one, EnvFault where a service is away."""
        self.calls += 1
        try:
            result = call()
        except self.env.outside as error:
            raise EnvFault(escaped(f"check {self.env.name}: {where}: {error}", 300)) from error
        except BaseException as error:
            self._note(where, error)
            self.renew()
            raise EnvRaised(f"{self.raised[-1]} (see: no exception)") from error
        self.flaws += [f"{where}: {self.env.flaw}"[:300]] if self.env.flaw else []
        return result

    def renew(self, bare: bool = False) -> None:
        """Go on with a fresh environment; what the last one raises as it closes counts as raised, EnvFault for a service."""
        try:
            self.env.renew(bare)
        except self.env.outside as error:
            raise EnvFault(escaped(f"check {self.env.name}: {error}", 300)) from error
        except BaseException as error:  # noqa: BLE001 - `_note` raises what is none of its
            self._note("close()", error)

    def _note(self, where: str, error: BaseException) -> None:
        """Note what the environment raised, with the author's file and line; raise on what is none of it, such as Ctrl-C."""
        if not isinstance(error, RAISED) and not author_line(error):
            raise error
        place = author_place(error)
        self.raised.append(f"{where} raised {type(error).__name__}: {error}"[:300] + (f" ({place})" if place else ""))

    def plays(self, kind: str, seed: int) -> list[Play]:
        """Return the plays of random agents (8), or of those that say each of `TEXTS` of a kind, on a seed, made once."""
        if (kind, seed) not in self._plays:
            self._plays[kind, seed] = [self.play(seed, agent) for agent in self._agents(kind, seed)]
        return self._plays[kind, seed]

    def _agents(self, kind: str, seed: int) -> list[Agent]:
        """Return the agents of a kind for a seed; CheckSkipped for those that speak, where actions are no text."""
        if kind == "random":
            return [partial(self.env.sample, random.Random(f"{seed}:{number}")) for number in range(PLAYS)]
        if not self.env.text:
            raise CheckSkipped("its actions are no text")
        source = self.reset((seed + 1) % len(self.seeds)) if kind == "foreign" else ""
        return [partial(say_back, f"{seed}", part, source) for part in TEXTS[kind]]

    def returns(self, kind: str) -> list[float]:
        """Return the returns of all plays of an agent; CheckSkipped where one is no finite number."""
        returns = [play.total for seed in self.seeds for play in self.plays(kind, seed)]
        if not all(map(math.isfinite, returns)):
            raise CheckSkipped("a reward is no finite number (see: observations)")
        return returns

    def need_equal_starts(self) -> None:
        """Raise CheckSkipped unless equal seeds gave equal starts, so that a task can be had twice."""
        if not self.equal_starts:
            raise CheckSkipped("equal seeds gave no equal starts, so no task can be had twice (see: seeds)")

    def usual_solved(self, returns: Sequence[float]) -> float:
        """Return the return of a solved episode: as declared, else 1 if returns lie in 0 to 1 and reach it, else infinity."""
        if self.env.solved is not None:
            return self.env.solved
        return 1.0 if min(returns) >= 0 and max(returns) == 1 else math.inf

    def solved(self, figures: str, returns: Sequence[float]) -> float:
        """Return the usual return of a solved episode; CheckSkipped, with the figures, if none is known and any was earned."""
        solved = self.usual_solved(returns)
        if solved == math.inf and not min(returns) == max(returns) <= 0:
            raise CheckSkipped(f"{figures}; how much that is, nobody says: --solved RETURN of a solved episode")
        return solved


def random_text(rng: random.Random, words: Sequence[str] = ()) -> str:
    """Return up to 40 random printable characters, or, as often where there are words, one to five of these."""
    if words and rng.random() < HALF:
        return " ".join(rng.choice(words) for _ in range(rng.randint(1, 5)))
    return "".join(rng.choice(string.printable) for _ in range(rng.randint(1, 40)))


# Texts of agents that do not think: controls, and parts of the newest observation or of all.
SPANS: dict[str, Callable[[random.Random, str, str], str]] = {
    "nothing": lambda rng, newest, everything: "",
    "other words": lambda rng, newest, everything: f"vexq zub {rng.randrange(10**9)}",
    "the newest observation": lambda rng, newest, everything: newest,
    "all observations": lambda rng, newest, everything: everything,
    "a line": lambda rng, newest, everything: rng.choice(everything.splitlines() or [""]),
    "a word": lambda rng, newest, everything: rng.choice(re.findall(r"[\w.-]+", everything) or [""]),
}
_PARTS = [f"{part}{tag}" for part in SPANS for tag in ("", " in a tag")]
TEXTS = {"null": _PARTS[:1], "control": _PARTS[1:4], "copying": _PARTS[4:], "foreign": _PARTS[4:]}
CONTROLS = ("null", "random", "control")


def say_back(name: str, part: str, source: str, observations: Sequence[str]) -> str:
    """Return a text of `SPANS`, from another source where there is one; in a tag where `part` says so, one a turn."""
    turn, observed = f"{name}:{len(observations)}", "\n".join(observations)[-LONGEST:]
    rng, newest = random.Random(f"{turn}:{part}"), (source or observations[-1])[-LONGEST:]
    text = SPANS[part.removesuffix(" in a tag")](rng, newest, source[-LONGEST:] or observed)
    tags = sorted(set(_TAG.findall(observed))) if part.endswith(" in a tag") else []
    tag = random.Random(turn).choice(tags) if tags else ""
    return f"<{tag}>{text}</{tag}>" if tag else text


def playback(play: Play) -> Agent:
    """Return the agent that repeats a play's actions and never looks, the last one again behind its end."""
    return lambda observations: play.actions[min(len(observations), len(play.actions)) - 1]


def check_seeds(subject: Subject) -> str:
    """Return a note if equal seeds give equal starts, in a fresh environment too, and not all seeds one; else CheckFailed."""
    starts = [subject.reset(seed) for seed in subject.seeds]
    for moment in ("again", "in a fresh environment"):
        if [subject.reset(seed) for seed in subject.seeds] != starts:
            raise CheckFailed(f"equal seeds {moment} give other first observations")
        subject.renew()
    subject.equal_starts = True
    if len(starts) < 2:
        raise CheckSkipped("one seed was played: whether seeds differ takes two (-n 2)")
    kinds = ("random", "null", "control") if subject.env.text else ("random",)
    plays = (play for kind in kinds for play in subject.plays(kind, 0))  # what a seed hides may show in one reply alone
    if not any(play.difference(subject.play(seed, playback(play))) for play in plays for seed in subject.seeds):
        raise CheckFailed(f"{len(starts)} seeds give one episode: the seed is not read, or there is but one task")
    return f"{len(starts)} seeds, {len(set(starts))} different first observations"


def check_determinism(subject: Subject) -> str:
    """Return a note if equal seeds and actions give equal episodes, here and in a fresh environment; else CheckFailed."""
    subject.need_equal_starts()
    for moment in ("again", "in a fresh environment"):
        for seed in subject.seeds:
            play = subject.plays("random", seed)[0]
            if turn := play.difference(subject.play(seed, playback(play))):
                raise CheckFailed(f"seed {seed} and the same actions {moment}: differs at {turn}")
        subject.renew()
    return f"{len(subject.seeds)} episodes of random actions, each twice more"


def check_refusal(subject: Subject) -> str:
    """Return a note if a step before the first reset is refused; CheckSkipped for what may be a crash, else CheckFailed."""
    subject.renew(bare=True)
    try:
        subject.env.step(subject.env.sample(random.Random(0), [""]))
    except CheckSkipped:
        raise
    except subject.env.outside:
        raise
    except (AttributeError, LookupError, NameError, TypeError) as error:
        raise CheckSkipped(
            f"{type(error).__name__}: {error}"[:120] + ": no guard, or one that looks like none"
        ) from error
    except RAISED as error:  # whichever it chose: it is the refusal that is asked for
        return f"{type(error).__name__}: {error}"[:120]
    finally:
        subject.renew()
    raise CheckFailed("a step before the first reset was taken")


def check_ignorance(subject: Subject, kind: str) -> str:
    """Return a note if an agent that knows nothing earns less than a solved episode on average; else CheckFailed."""
    returns = subject.returns(kind)
    figures = f"earns {fmean(returns):.3g} a task, at most {max(returns):.3g}"
    solved = subject.solved(figures, returns)
    if fmean(returns) >= solved:
        raise CheckFailed(f"{figures}, as much as a solved episode ({solved:.3g})")
    return f"{figures}; a solved episode {solved:.3g}" if solved < math.inf else figures


def check_copying(subject: Subject) -> str:
    """Return a note unless a part of what is observed, said back, is paid on most seeds; else CheckFailed.

    It is paid where it beats all controls, and where the same of another task's start, which has the form and not the content,
    earns less, or where it earns what a solved episode does.
    """
    solved, paid = subject.usual_solved(subject.returns("copying")), dict.fromkeys(TEXTS["copying"], 0)
    for seed in subject.seeds:
        control = max(play.total for kind in CONTROLS for play in subject.plays(kind, seed))
        foreign = max(play.total for play in subject.plays("foreign", seed))
        for part, play in zip(paid, subject.plays("copying", seed), strict=True):
            paid[part] += play.total > control + 1e-9 and play.total > min(foreign, solved - 2e-9) + 1e-9
    best = max(paid, key=lambda part: paid[part])
    means = ", ".join(f"{kind} {fmean(subject.returns(kind)):.3g}" for kind in ("copying", "foreign", *CONTROLS))
    if paid[best] > HALF * len(subject.seeds):
        raise CheckFailed(f"said back, {best} is paid on {paid[best]} of {len(subject.seeds)} tasks (means: {means})")
    return f"mean returns: {means}"


def check_blind_replay(subject: Subject) -> str:
    """Return a note if the best of 8 random plays, played back, stays below half the way to solved; else CheckFailed."""
    subject.need_equal_starts()
    best = [max(subject.plays("random", seed), key=lambda play: play.total) for seed in subject.seeds]
    blind = fmean(subject.play(seed, playback(play)).total for seed, play in zip(subject.seeds, best, strict=True))
    returns = subject.returns("random")
    chance = fmean(returns)
    figures = f"the best of {PLAYS} random plays, played back, earns {blind:.3g} a task, random actions {chance:.3g}"
    figures += " (all plays earn the same)" if min(returns) == max(returns) else ""
    solved = subject.solved(figures, [*returns, blind])
    if blind - chance >= HALF * (solved - chance):
        raise CheckFailed(f"{figures}, a solved episode {solved:.3g}: it can be played blind")
    return f"{figures}; a solved episode {solved:.3g}" if solved < math.inf else figures


def check_exceptions(subject: Subject) -> str:
    """Return a note if no hostile text raises, nor did any other action before; else CheckFailed."""
    over = True
    for number, text in enumerate(hostile_strings(subject.hostile if subject.env.text else 0)):
        try:
            if over:
                subject.reset(number % len(subject.seeds))
            over = subject.step(text)[2]
        except EnvRaised:
            over = True
        if len(subject.raised) >= MOST_CRASHES:
            break
    if subject.raised:
        raise CheckFailed(f"{subject.raised[0]} ({len(subject.raised)} times in {subject.calls} steps and resets)")
    if not subject.env.text:
        raise CheckSkipped(
            f"its actions are no text, so that none can be hostile; {subject.calls} calls raised nothing"
        )
    return f"{subject.hostile} hostile texts, {subject.calls} steps and resets in all"


def check_observations(subject: Subject) -> str:
    """Return a note if all observations lay in their space and all rewards were numbers; else CheckFailed."""
    for seed in subject.seeds:
        subject.plays("random", seed)
    if subject.flaws:
        raise CheckFailed(f"{subject.flaws[0]} ({len(subject.flaws)} times)")
    return f"{subject.calls} steps and resets"


PARTS: dict[str, Callable[[Subject], str]] = {
    "seeds": check_seeds, "determinism": check_determinism, "step before reset": check_refusal,
    "null agent": partial(check_ignorance, kind="null"),
    "random agents": partial(check_ignorance, kind="random"), "copied observations": check_copying,
    "blind replay": check_blind_replay, "no exception": check_exceptions, "observations": check_observations,
}  # fmt: skip


def check_third_party(
    env: ThirdPartyEnv, *, episodes: int = 8, hostile: int = 500, progress: Callable[[str], None] | None = None
) -> Report:
    """Play every part on anyone's environment, and close it.

    Args:
        env: an adapter's environment.
        episodes: how many seeds are played, with 8 random plays each.
        hostile: how many hostile texts are thrown at it, where it takes text.
        progress: called with the name of each part before it is played.

    Returns:
        A report; `report.ok` is False if any part failed. A part that cannot be asked did not pass.

    Raises:
        EnvFault: a server went away.
    """
    subject, rows = Subject(env, episodes, hostile), []
    for name, part in PARTS.items():
        if progress is not None:
            progress(name)
        started, status = time.perf_counter(), "passed"
        try:
            detail = part(subject)
        except (CheckFailed, CheckSkipped) as reason:
            status, detail = "failed" if isinstance(reason, CheckFailed) else "cannot be asked", str(reason)
        rows.append(Check(name, status, detail, time.perf_counter() - started))
    with contextlib.suppress(*RAISED):  # "no exception" has told what it raises there
        env.close()
    return Report(env.name, tuple(rows))
