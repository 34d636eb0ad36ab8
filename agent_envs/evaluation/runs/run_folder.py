"""The folder of a run holds its settings, its suite, its journal, what outside services answered, and its results.

config.json      who plays, and everything that must stay equal when a killed run goes on
suite.json       what is played
journal.jsonl    every finished episode, appended as it finishes
externals.jsonl  what outside services answered to the environments, where there are any
spent.json       under a cost limit: calls and tokens by model, as they were paid
results.json     the numbers; they can be computed again from the rest
request.jsonl    what `eval` was asked for, until its tasks are drawn
"""

import contextlib
import hashlib
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Annotated, Any, Literal

from pydantic import Field, JsonValue, ValidationError

from agent_envs.base.caches import write_atomically
from agent_envs.base.errors import AgentEnvsError, UsageError
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.base.serialization import canonical_json
from agent_envs.base.strict_model import Strict
from agent_envs.base.version import VERSION
from agent_envs.evaluation.runs.measures import EpisodeNumbers, Measures, NumbersCache, numbers_of
from agent_envs.evaluation.suites import suite as suites
from agent_envs.evaluation.suites.plan import Notes
from agent_envs.rollout.episode_runner import EpisodeResult
from agent_envs.rollout.run_many import UNFINISHED, RunLog, read_rows, result_of
from agent_envs.services.chat.model import known_counts
from agent_envs.services.chat.named import is_chat_name
from agent_envs.services.chat.prices import Price
from agent_envs.wrappers.feedback_models import PREFIX

CLOSE = 1e-6  # what rewards and the sums of their terms may differ by
REQUEST = "request.jsonl"
CONFIG_SCHEMA: Literal["agent-envs/config@1"] = "agent-envs/config@1"


@dataclass(frozen=True)
class Settings:
    """Settings of a run: agent, concurrency, prices and limits."""

    agent: str  # its name, see `agents.make_agent`
    agent_options: dict[str, Any] = dataclass_field(default_factory=dict)  # its arguments
    concurrency: int = 1  # episodes at a time
    max_cost_usd: float | None = None  # no call begins once this much is spent; None for no limit
    prices: str = ""  # path of a table of prices; "" for the one that comes with the package
    smoke: bool = False  # only a part of a split: such a run cannot be packed
    pack: str = ""  # folder that the submission is written to when the run is complete; "" for none
    notes: Notes | None = None  # what is known of the suite before it is played; None to have it looked up
    actors: int = 0  # of Ray that play this part of the run, or step its environments; 0 for this process


@dataclass(frozen=True)
class RunPrices:
    """The token prices of a run: looked up once, before it begins, and kept in its config.json."""

    agent: Price | None = None  # the agent's price; None where it has none
    feedback: Mapping[str, Price] = dataclass_field(default_factory=dict)  # of its models, by their names in the suite
    date: str = ""  # of the table of prices


class Identity(Strict):
    """The settings that must be equal in all parts of one run."""

    agent: str
    agent_options: dict[str, JsonValue]
    agent_code: str
    package: str
    suite: str
    suite_digest: suites.Hex
    smoke: bool


class Config(Strict):
    """`config.json`."""

    format: Annotated[Literal["agent-envs/config@1"], Field(alias="schema")] = CONFIG_SCHEMA
    identity: Identity
    concurrency: Annotated[int, Field(ge=1)]
    max_cost_usd: float | None
    price: Price | None
    prices_date: str
    pack: str
    feedback_prices: dict[str, Price] = {}
    notes: Notes = Notes()

    @property
    def prices(self) -> RunPrices:
        """The prices that the run began with."""
        return RunPrices(self.price, self.feedback_prices, self.prices_date)

    def settings(self) -> Settings:
        """Return the settings with which the run began."""
        identity = self.identity
        return Settings(
            identity.agent, dict(identity.agent_options), self.concurrency, self.max_cost_usd, "", identity.smoke, self.pack,
            self.notes,
        )  # fmt: skip


@dataclass(frozen=True)
class RunEpisode:
    """An episode of a run, with its place in the suite."""

    key: str
    entry: suites.Entry
    cluster: str
    trial: int
    result: EpisodeResult
    stored: Any = None  # its trajectory as the journal has it, where it comes from one

    def numbers(self, measures: Measures) -> EpisodeNumbers:
        """Return the numbers of the episode, labels and metrics included."""
        numbers = numbers_of(self.entry, self.cluster, self.trial, self.result)
        return measures.annotate(self.entry, numbers, self.result.trajectory)


class Run:
    """A run that lies in a folder."""

    def __init__(self, folder: Path, config: Config, suite: suites.Suite) -> None:
        self.folder, self.config, self.suite = folder, config, suite

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self.config.identity.agent

    @property
    def externals(self) -> Path:
        """Where outside services are recorded."""
        return self.folder / "externals.jsonl"

    def log(self) -> RunLog:
        """Return the journal, bound to the identity of the run."""
        return RunLog(self.folder / "journal.jsonl", {"identity": self.config.identity.model_dump(mode="json")})

    def rows(self) -> Iterator[RunEpisode]:
        """Yield finished episodes in the journal's order, then those a fault or budget ended; UsageError for unplanned rows.

        Raises:
            UsageError: the journal belongs to another configuration, or holds what was not planned.
        """
        path = self.folder / "journal.jsonl"
        places = {key: (entry, cluster, trial) for key, entry, _, cluster, trial in self.suite.episodes()}
        tasks = {key: task for key, _, task, _, _ in self.suite.episodes()}
        journal = read_rows(path)
        head = next(journal, None)
        identity = self.config.identity.model_dump(mode="json")
        if head is not None and (not isinstance(head, dict) or head.get("identity") != identity):
            stored = head.get("identity") if isinstance(head, dict) else head
            raise UsageError(f"{path} was written with another {suites.describe_changes(stored, identity) or 'head'}")
        unfinished: dict[str, RunEpisode] = {}
        finished: set[str] = set()
        for row in journal:
            key, result = result_of(row, path)
            if key not in places or key in finished:
                raise UsageError(f"{path}: episode {key} is {'there twice' if key in finished else 'not planned'}")
            header = result.trajectory.header
            if (header.episode_key, header.task_id) != (key, tasks[key]):
                raise UsageError(f"{path}: the row of episode {key} holds episode {header.episode_key}")
            episode = RunEpisode(
                key, *places[key], _with_earlier_parts(unfinished.pop(key, None), result), row["trajectory"]
            )
            if result.status in UNFINISHED:
                unfinished[key] = episode
            else:
                finished.add(key)
                yield episode
        yield from unfinished.values()

    def sound_rows(self) -> Iterator[RunEpisode]:
        """Yield rows as `rows` does, for results and packing; UsageError for a reward that is not the sum of its terms."""
        for episode in self.rows():
            _check_sums(episode.result, self.folder / "journal.jsonl")
            yield episode

    def numbers(self, measures: Measures | None = None) -> list[EpisodeNumbers]:
        """Return the numbers of every planned episode in the suite's order, unplayed ones too: cached, else computed, kept."""
        measures, cache = measures or Measures(), self.numbers_cache()
        numbers = cache.load()
        if numbers is None:
            by_key = {episode.key: episode.numbers(measures) for episode in self.sound_rows()}
            numbers = measures.plan_numbers(self.suite, by_key)
            cache.keep(numbers, measures)
        return numbers

    def numbers_cache(self) -> NumbersCache:
        """Return the cache of the numbers of the journal as it is now."""
        return NumbersCache(self.suite, self.config.identity.model_dump(mode="json"), self.folder / "journal.jsonl")


class Spool:
    """Texts by key in a temporary file instead of memory, to be read in any order."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.places: dict[str, tuple[int, int]] = {}

    def put(self, key: str, text: str) -> None:
        """Write a text under a key."""
        data = text.encode()
        self.places[key] = (self._file.seek(0, os.SEEK_END), len(data))
        self._file.write(data)

    def get(self, key: str) -> str:
        """Return the text of a key."""
        start, length = self.places[key]
        self._file.seek(start)
        return self._file.read(length).decode()


def _check_sums(result: EpisodeResult, path: Path) -> None:
    """Raise UsageError where a turn's reward is not the sum of its terms, as after an edit by hand."""
    for turn in result.trajectory.turns:
        if abs(turn.reward - math.fsum(dict(turn.terms).values())) > CLOSE * max(1.0, abs(turn.reward)):
            raise UsageError(
                f"{path}: episode {result.trajectory.header.episode_key}, turn {turn.index}: its reward {turn.reward:g} is not "
                "the sum of its terms; the journal was changed after the episode was played"
            )


def _with_earlier_parts(before: RunEpisode | None, result: EpisodeResult) -> EpisodeResult:
    """Add the usage and attempts of earlier parts of the run to a result; none of an episode that is new."""
    if before is None:
        return result
    old = before.result
    causes = (*old.attempts, old.fault) if old.status == "fault" else old.attempts
    # What feedback said is found again, and asked for once.
    usage = {name: count for name, count in old.usage.items() if not name.startswith(PREFIX)}
    seconds, agent_seconds = old.seconds + result.seconds, old.agent_seconds + result.agent_seconds
    usage, attempts = known_counts(Counter(usage) + Counter(result.usage)), (*causes, *result.attempts)
    return replace(result, usage=usage, attempts=attempts, seconds=seconds, agent_seconds=agent_seconds)


def identity_of(suite: suites.Suite, settings: Settings) -> Identity:
    """Return a run's identity: all of suite, settings and installation that must stay equal."""
    return Identity(
        agent=settings.agent, agent_options=settings.agent_options, agent_code=agent_code(settings.agent), package=VERSION,
        suite=suite.name, suite_digest=suite.digest(), smoke=settings.smoke,
    )  # fmt: skip


def agent_code(name: str) -> str:
    """Return the sha256 of the file that holds a `module:Class` agent's class; "" for other agents, or if it is not found."""
    module, colon, attribute = name.partition(":")
    if not colon or not attribute.isidentifier() or is_chat_name(name):
        return ""
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return ""
    if spec is None or not spec.origin or not Path(spec.origin).is_file():
        return ""
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()


def claim(folder: Path, suite: suites.Suite, settings: Settings, prices: RunPrices) -> Run:
    """Create the run of a folder, or open one of the same configuration, whose config.json is written anew.

    Raises:
        UsageError: the folder cannot be made, or holds a run of another configuration; the message names what differs.
    """
    identity = identity_of(suite, settings)
    config = Config(
        identity=identity, concurrency=settings.concurrency, max_cost_usd=settings.max_cost_usd,
        price=prices.agent, prices_date=prices.date, pack=settings.pack, feedback_prices=dict(prices.feedback),
        notes=settings.notes or Notes(),
    )  # fmt: skip
    text = suites.suite_text(suite)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be the folder of a run: {error}") from error
    if (folder / "journal.jsonl").exists():
        Journal(folder / "journal.jsonl").close()  # refuses another's file, and while another process plays this run
    if (folder / "config.json").exists():
        old = open_run(folder)
        what = suites.changes(old.suite.to_json(), suite.to_json())
        what += suites.changes(old.config.identity.model_dump(mode="json"), identity.model_dump(mode="json"))
        if what:
            more = f" and {len(what) - 3} more" if len(what) > 3 else ""
            raise UsageError(f"{folder} holds a run with another {', '.join(what[:3])}{more}: choose another --out")
    elif (left := folder / "suite.json").exists() and left.read_bytes() != text.encode():
        raise UsageError(f"{left} is of another run, or of none: choose another --out")
    else:
        _write(left, text)
    _write(folder / "config.json", canonical_json(config.model_dump(mode="json")) + "\n")
    (folder / REQUEST).unlink(missing_ok=True)
    return Run(folder, config, suite)


@contextlib.contextmanager
def request_kept(folder: Path, params: Mapping[str, Any], tell: Callable[[str], None]) -> Iterator[None]:
    """Keep what was asked for in the run's folder until the run is there: to draw the tasks of a large split takes minutes.

    What is refused leaves nothing behind that was not there; after a stop or a kill `read_request` gives the same again.

    Raises:
        UsageError: the folder cannot be made, or holds the request of another command.
    """
    if (folder / "config.json").exists():  # the run is there: a larger limit, say
        yield
        return
    path, missing = folder / REQUEST, [place for place in (folder, *folder.parents) if not place.exists()]
    row = {name: str(value.absolute()) if isinstance(value, Path) else value for name, value in params.items()}
    row |= {"out": str(folder.absolute()), "as_json": False, "cwd": os.getcwd()}
    fresh, refused = not path.exists(), False
    with Journal(path) as journal:
        old = next(read_journal(path), None)
        if old is None:
            journal.append(row)
        elif canonical_json(old) != canonical_json(row):
            raise UsageError(
                f"{folder} holds the request of another command, which agent-envs eval --resume {folder} begins: choose "
                "another --out"
            )
    try:
        yield
    except AgentEnvsError:
        refused = True
        raise
    finally:
        has_run = (folder / "config.json").exists()
        if refused and fresh and not has_run:
            with contextlib.suppress(OSError):  # another run may have begun beside it
                path.unlink()
                for place in missing:
                    place.rmdir()
        elif not has_run:
            tell(f"stopped before the first episode: agent-envs eval --resume {folder} begins again")


def read_request(folder: Path, names: Collection[str]) -> dict[str, Any] | None:
    """Return the options that a folder without a run was begun with, and go to where that was; None without a request.

    Raises:
        UsageError: it is damaged, or of another version, or its working directory is gone.
    """
    path = folder.absolute() / REQUEST
    if not path.is_file() or (folder / "config.json").exists():
        return None
    row = next(read_journal(path), None)
    if not isinstance(row, dict) or {*row} != {*names, "cwd"}:
        raise UsageError(f"{path} is no request of this version's eval: begin again with another --out")
    try:
        os.chdir(row.pop("cwd"))  # paths, and modules of agents, are as they were
    except OSError as error:
        raise UsageError(f"{path}: its working directory is gone ({error}): begin again with another --out") from None
    return row | {name: Path(row[name]) for name in ("prices", "pack", "out") if row[name]}


def open_run(folder: Path) -> Run:
    """Open the run in a folder; raises UsageError where there is none, or its parts do not belong together."""
    paths = [folder / "config.json", folder / "suite.json"]
    if not all(path.is_file() for path in paths):
        raise UsageError(f"{folder} is no folder of a run: it has no config.json and suite.json (eval --out makes one)")
    try:
        config = Config.model_validate_json(paths[0].read_bytes())
    except ValidationError as error:
        raise UsageError(f"{paths[0]}: {suites.first_fault(error)}") from None
    suite = suites.read_suite(paths[1].read_bytes(), str(paths[1]))
    if suite.digest() != config.identity.suite_digest:
        raise UsageError(
            f"{paths[1]} was changed since the run began: its digest is {suite.digest()[:12]}, "
            f"and config.json says {config.identity.suite_digest[:12]}"
        )
    return Run(folder, config, suite)


def same_identity(run: Run) -> None:
    """Raise UsageError for a run whose agent, its code, or package is another one now than when it began."""
    now = identity_of(run.suite, run.config.settings())
    old = run.config.identity
    if old.agent_code != now.agent_code and old.agent == now.agent:
        what = f"the file of {now.agent} was changed since it began, and a changed agent is another one"
        raise UsageError(f"{run.folder} cannot go on: {what}; start a new run")
    what = suites.describe_changes(old.model_dump(mode="json"), now.model_dump(mode="json"))
    if what:
        raise UsageError(f"{run.folder} cannot go on: {what} since it began; start a new run")


def _write(path: Path, text: str) -> None:
    """Write a text to a file, whole or not at all."""
    write_atomically(path, lambda file: file.write(text.encode()))


def save_results(run: Run, row: dict[str, Any]) -> None:
    """Write `results.json`."""
    _write(run.folder / "results.json", json.dumps(row, indent=2) + "\n")
