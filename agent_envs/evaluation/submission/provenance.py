"""Provenance says who played and what ran it, from a run's settings, this installation, and what only a person knows."""

import json
import platform
import re
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import distributions
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import digest
from agent_envs.base.strict_model import Strict
from agent_envs.evaluation.runs.run_folder import Run
from agent_envs.evaluation.submission import models as schema
from agent_envs.evaluation.suites.suite import first_fault
from agent_envs.services.chat.named import PROVIDERS

_SAMPLING = ("temperature", "top_p", "max_tokens", "reasoning_effort")
_GIT_SECONDS = 10
QUESTIONS = ("agent.scaffold", "agent.multi_attempt", "submitter.name", "submitter.contact", "licence",
             "training.on_suite_train", "training.on_suite_test")  # fmt: skip
_ADDRESS = re.compile(r"@(?=https?://)")  # a model's name may hold an @ of its own


class About(Strict):
    """The file of `--about`. `report` is the path of a Markdown file beside it, or empty."""

    format: Annotated[Literal["agent-envs/about@1"], Field(alias="schema")]
    agent: schema.AboutAgent = schema.AboutAgent()
    models: Annotated[tuple[schema.ModelInfo, ...], Field(max_length=20)] = ()
    submitter: schema.Submitter = schema.Submitter()
    date: schema.Date = ""
    licence: schema.Line = ""
    training: schema.Training = schema.Training()
    hardware: schema.LongLine = ""
    report: Annotated[str, Field(max_length=300)] = ""


def about_template() -> str:
    """Return the text of an `--about` file with every question open."""
    return json.dumps(About(format="agent-envs/about@1").model_dump(mode="json"), indent=2) + "\n"


def read_about(path: Path | None) -> tuple[About, str]:
    """Read an --about file and the text of its report; empty ones for None, UsageError for another form."""
    if path is None:
        return About(format="agent-envs/about@1"), ""
    try:
        about = About.model_validate_json(_small_text(path))
    except ValidationError as error:
        raise UsageError(f"--about {path}: {first_fault(error)}") from None
    return about, _small_text(path.parent / about.report) if about.report else ""


def unanswered(packed: Path) -> list[str]:
    """Return the empty fields of a submission that only a person can fill, with --about."""
    submission = schema.Submission.model_validate_json((packed / "submission.json").read_text(encoding="utf-8"))
    answers = {name: attrgetter(name)(submission) for name in QUESTIONS}
    for number, model in enumerate(submission.models):
        answers[f"models.{number}.revision"] = model.revision
        answers[f"models.{number}.weights"] = model.weights.removeprefix("unknown")
    return [name for name, answer in answers.items() if answer in (None, "")]


def submission_of(run: Run, about: About, *, reference: bool) -> schema.Submission:
    """Return a run's `submission.json`, nothing of it from results; UsageError where a name does not fit the format.

    Raises:
        UsageError: a name of the run does not fit the format; the message says what to put into --about.
    """
    identity = run.config.identity
    commit = _git("rev-parse", "HEAD")
    agent = about.agent.model_dump() | {
        "name": about.agent.name or public_name(identity.agent),
        "kind": "reference" if reference else "agent",
        "code_commit": about.agent.code_commit or (commit if identity.agent_code else ""),
        "code_sha256": identity.agent_code,
        "options": identity.agent_options,
    }
    try:
        models = about.models or (*_models(identity.agent, identity.agent_options), *_advisers(run))
        return schema.Submission(
            suite=schema.SuiteRef(id=run.suite.id, version=run.suite.version, digest=identity.suite_digest),
            agent=schema.AgentInfo(**agent), models=models, submitter=about.submitter, date=about.date or _last_day(run),
            licence=about.licence, training=about.training, harness=_harness(identity.package, commit),
            hardware=about.hardware, prices=_prices(run, identity.agent, models),
        )  # fmt: skip
    except ValidationError as error:
        raise UsageError(f"{run.folder} cannot be packed as it is: {first_fault(error)}; --about may say it") from None


def public_name(agent: str) -> str:
    """Return an agent's name without the address of its server."""
    return _ADDRESS.split(agent)[0] if agent.partition(":")[0] in PROVIDERS else agent


def _models(agent: str, options: dict[str, Any]) -> tuple[schema.ModelInfo, ...]:
    """Return the model that a chat agent's name stands for, with its sampling options; nothing for other agents."""
    service, _, model = public_name(agent).partition(":")
    if service not in PROVIDERS or not model:
        return ()
    sampling = {name: options[name] for name in _SAMPLING if name in options}
    provider = f"{service}-compatible server" if _ADDRESS.search(agent) else service
    return (schema.ModelInfo(name=model, provider=provider, sampling=sampling),)


def _advisers(run: Run) -> tuple[schema.ModelInfo, ...]:
    """Return the models that give feedback in a run."""
    advisers = {
        entry.feedback.model: entry.feedback.options for entry in run.suite.entries if entry.feedback is not None
    }
    rows = [model.model_copy(update={"role": "feedback"}) for item in advisers.items() for model in _models(*item)]
    return tuple(rows)


def _prices(run: Run, agent: str, models: tuple[schema.ModelInfo, ...]) -> schema.Prices:
    """Collect the prices of the agent's model and of feedback models, dated only if there are any."""
    prices = {public_name(name).partition(":")[2]: price for name, price in run.config.feedback_prices.items()}
    if run.config.price is not None:
        name = next((model.name for model in models if model.role == "agent"), public_name(agent))
        prices[name] = run.config.price
    return schema.Prices(date=run.config.prices_date if prices else "", models=prices)


def _harness(package: str, commit: str) -> schema.Harness:
    """Describe this installation: package, commit and its changes, Python, platform, digest of all packages."""
    return schema.Harness(
        agent_envs=package,
        git_commit=commit,
        git_dirty=bool(_git("status", "--porcelain", "--untracked-files=no")),
        python=platform.python_version(),
        platform=" ".join(platform.platform().split())[:200],
        packages_sha256=_packages(),
    )


@cache
def _packages() -> str:
    """Return the digest of the installed packages, cached; to read them takes longer than to pack a small run."""
    return digest(sorted({"{Name}=={Version}".format_map(item.metadata) for item in distributions()}))


def _last_day(run: Run) -> str:
    """Return the day on which the journal was last written, the same whenever the run is packed; "" without a journal."""
    path = run.log().path
    if not path.exists():
        return ""
    return datetime.fromtimestamp(path.stat().st_mtime, tz=UTC).strftime("%Y-%m-%d")


def _git(*arguments: str) -> str:
    """Run git in the working directory and return its output; "" where it is missing, fails or takes over 10 seconds."""
    try:
        ran = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, timeout=_GIT_SECONDS, check=False
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""


def _small_text(path: Path) -> str:
    """Read a text file of a person's notes; UsageError if it is too large or unreadable."""
    try:
        if path.stat().st_size > schema.MOST_META_BYTES:
            raise UsageError(f"--about: {path} is larger than {schema.MOST_META_BYTES:,} bytes")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--about: {path} cannot be read: {error}") from None
