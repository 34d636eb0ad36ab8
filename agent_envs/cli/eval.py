"""The verb `eval` evaluates an agent on an environment, a sweep, turn limits or a suite, and goes on with a stopped run."""

import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_envs.base.errors import AgentEnvsError, UsageError
from agent_envs.base.terminal import print_result, print_table, show
from agent_envs.cli import options as option
from agent_envs.tools.forms import json_or_text

if TYPE_CHECKING:
    from agent_envs.evaluation.runs.evaluate import Result
    from agent_envs.evaluation.runs.run_folder import Settings
    from agent_envs.evaluation.suites.plan import Notes
    from agent_envs.evaluation.suites.suite import Feedback, Suite

    Advice = tuple[Feedback | None, ...]

OwnEnvId = Annotated[str, typer.Argument(help="An id: SearchQA; or module:namespace/Name-v0. Not with --suite.")]
Agent = Annotated[
    str,
    option.Player(
        help="random, heuristic, solver, null; openai:MODEL@URL, openai-text:..., anthropic:MODEL; module:Class."
    ),
]
Tasks = Annotated[str, option.Environment(help="The environment's task source: world, hotpotqa, ...")]
Split = Annotated[str, option.Environment(help="Default: test, else dev; the output says which.")]
Limit = Annotated[int | None, option.Amount("-n", min=1, help="First N tasks alone; such a run cannot be packed.")]
Trials = Annotated[int | None, option.Amount(min=1, help="Episodes a task (default 1; a suite has its own).")]
SuiteName = Annotated[str, option.Environment(help="A suite by name or file: core.")]
Salt = Annotated[str, option.Environment("--round", help="A board's salt: draws new tasks of the suite's entries.")]
Registered = Annotated[str, option.Environment("--as", help="With --round: the registered name, if --agent differs.")]
Sweep = Annotated[str, option.Environment(help="Play for each value of an argument: retriever=bm25,random,oracle.")]
TurnLimits = Annotated[
    str | None, option.Environment(help="Play for each number of free turns before a forced answer: 0,1,2,4.")
]
FeedbackNames = Annotated[
    str,
    option.Adviser(
        help="Feedback before every turn (VEG): scripted:good, scripted:weak, scripted:misleading, anthropic:MODEL, "
        "openai:MODEL@URL; several, with none among them, are compared: none,scripted:good."
    ),
]
Epsilon = Annotated[
    float | None, option.Adviser(min=0, max=1, help="Probability that feedback explores (default 0.1).")
]
Templates = Annotated[str, option.Adviser(help="Folder with explore.md and exploit.md, prompts for a chat model.")]
Concurrency = Annotated[int, option.Player(min=1, help="Episodes at a time.")]
MaxCost = Annotated[float | None, option.Amount(help="Limit in US dollars: no call begins once it is spent.")]
Yes = Annotated[bool, option.Amount("--yes", help="Play all tasks with a model that has a price.")]
PricesFile = Annotated[Path | None, option.Amount(help="Your own table of prices.")]
Out = Annotated[Path | None, option.Storage(help="Folder of the run (default: runs/TIME-NAME).")]
Pack = Annotated[Path | None, option.Storage(help="Folder of the submission, written when the run is complete.")]
SetAside = Annotated[
    bool,
    option.Storage(
        "--set-aside", help="With --resume: move damaged lines of its files aside, and play those episodes again."
    ),
]
Resume = Annotated[Path | None, option.Storage(help="Continue the run of this folder; takes no other setting.")]


def evaluate_agent(
    context: typer.Context,
    env_id: OwnEnvId = "",
    agent: Agent = "random",
    tasks: Tasks = "",
    split: Split = "",
    limit: Limit = None,
    trials: Trials = None,
    suite: SuiteName = "",
    salt: Salt = "",
    registered: Registered = "",
    sweep: Sweep = "",
    turn_limits: TurnLimits = None,
    feedback: FeedbackNames = "",
    epsilon: Epsilon = None,
    feedback_templates: Templates = "",
    concurrency: Concurrency = 1,
    backend: option.StepsIn = option.Backend.threads,
    actors: option.Actors = 2,
    max_cost: MaxCost = None,
    yes: Yes = False,
    prices: PricesFile = None,
    out: Out = None,
    pack: Pack = None,
    resume: Resume = None,
    set_aside: SetAside = False,
    as_json: option.Json = False,
    arg: option.Arguments = None,
    agent_arg: option.AgentArguments = None,
    feedback_arg: option.FeedbackArguments = None,
) -> None:
    """Evaluate an agent and print success with its 95 % interval. Exit code 3: faults, or unplayed episodes.

    A run that was stopped, by Ctrl-C or a kill too, goes on with --resume RUN; after --max-cost, with --out and a larger one.
    """
    from agent_envs.evaluation.runs.costs import parse_feedback
    from agent_envs.evaluation.runs.run_folder import Settings, request_kept

    sys.path.insert(0, "")
    actors *= backend == "ray"
    if resume is not None:
        _refuse_other_options(context)
        _resume(context, resume, set_aside, as_json, actors)
        return
    if set_aside:
        raise UsageError("--set-aside mends a run that lies in a folder: name it with --resume")
    choice = (env_id, option.named_values(arg, "--arg"), tasks, split, trials, sweep, turn_limits)
    if epsilon is not None and not feedback:
        raise UsageError("--epsilon is how often feedback is to explore: name who gives it with --feedback")
    advice = parse_feedback(feedback, epsilon, feedback_templates, option.named_values(feedback_arg, "--feedback-arg"))
    _check_pack(pack, limit, env_id)
    _check_out(out)
    paths = [str(prices) if prices else "", str(pack.absolute()) if pack else ""]
    who = agent, option.named_values(agent_arg, "--agent-arg")
    settings = Settings(*who, concurrency, max_cost, paths[0], limit is not None, paths[1], actors=actors)
    folder = out or _new_folder(suite or f"{env_id.split('/')[-1]}-{tasks or 'default'}", feedback, agent)
    title = f"{suite or env_id} {agent}{f' feedback={feedback}' if feedback else ''}"
    nonce = _round_nonce(salt, suite, registered, agent, pack)
    with request_kept(folder, context.params, option.tell):
        selection = _suite(suite, limit, choice, advice, nonce)
        _tell_limits(turn_limits, selection)
        _tell_plan(selection, settings, yes)
        _begin(selection, settings, folder, title, as_json)


def _tell_plan(suite: "Suite", settings: "Settings", yes: bool) -> None:
    """Print the number of episodes of a chat model, if one plays; UsageError for a price without --yes or a limit."""
    from agent_envs.evaluation.runs.costs import prices_of, uses_chat_model

    prices = prices_of(suite, settings)
    if not uses_chat_model(suite, settings, prices):
        return
    tasks = sum(len(entry.tasks) for entry in suite.entries)
    plan = f"{tasks * suite.trials:,} episodes ({tasks:,} tasks, {suite.trials} each)"
    option.tell(f"plan: {plan}")
    if (prices.agent or prices.feedback) and not (settings.smoke or settings.max_cost_usd or yes):
        raise UsageError(f"{plan} with a model that has a price: give -n N, --max-cost USD, or --yes")


def _begin(suite: "Suite", settings: "Settings", folder: Path, title: str, as_json: bool) -> None:
    """Print the notes on a suite, then play it."""
    from agent_envs.evaluation.runs.evaluate import evaluate
    from agent_envs.evaluation.suites.plan import notes_on

    settings = replace(settings, notes=notes_on(suite))
    _tell_notes(settings.notes)
    _finish(partial(evaluate, suite, settings, folder=folder, tell=option.tell), folder, title, as_json)


def _resume(context: typer.Context, folder: Path, mend: bool, as_json: bool, actors: int) -> None:
    """Go on with the run of a folder, as it was begun, or begin one that ended before its tasks were drawn."""
    from agent_envs.evaluation.runs.evaluate import resume
    from agent_envs.evaluation.runs.run_folder import open_run, read_request

    if (request := read_request(folder, set(context.params))) is not None:
        context.params = {**request, "as_json": as_json}
        evaluate_agent(context, **context.params)
        return
    if mend:
        from agent_envs.evaluation.runs.evaluate import set_aside
        from agent_envs.evaluation.submission.pack import lost_episodes

        rows, answers = set_aside(folder, lost_episodes)
        option.tell(f"moved to *-damaged.jsonl: {rows} lines of episodes and {answers} of services' answers")
    _tell_notes(open_run(folder).config.notes)
    _finish(partial(resume, folder, tell=option.tell, actors=actors), folder, str(folder), as_json)


def _tell_notes(notes: "Notes | None") -> None:
    """Print the notes of the evaluation, if there are any."""
    for line in notes.lines if notes is not None else ():
        option.tell(f"note: {line}")


def _check_pack(pack: Path | None, limit: int | None, env_id: str) -> None:
    """Raise UsageError for `--pack` with a smoke run, another package's environment, or a folder that is not empty."""
    if pack is not None and ":" in env_id and not env_id.startswith("agent_envs:"):
        raise UsageError(f"--pack: {env_id} is not of agent-envs, and a verifier plays no other package's environments")
    if pack is not None and limit is not None:
        raise UsageError("--pack: a run with -n is a smoke run and cannot be packed; leave -n out")
    if pack is not None and pack.exists() and any(pack.iterdir()):
        raise UsageError(f"--pack {pack}: the folder is not empty; name a new one")


def _check_out(out: Path | None) -> None:
    """Raise UsageError for an output folder that has no run and holds files that are neither hidden nor a killed run's."""
    if out is not None and out.is_dir() and not (out / "config.json").exists():
        for path in out.iterdir():
            if not path.name.startswith(
                (".", "request.jsonl", "suite.json", "journal.jsonl")
            ):  # of a run that was killed early
                raise UsageError(f"--out {out}: the folder holds {path.name} and no run; name a new one")


def _round_nonce(salt: str, suite: str, registered: str, agent: str, pack: Path | None) -> str:
    """Return the nonce of a round for an agent, "" for no round; UsageError for no suite or salt, or a pack of another name."""
    from agent_envs.evaluation.submission.provenance import public_name
    from agent_envs.evaluation.suites.draw import round_nonce

    if not (suite and salt) and (salt or registered):
        raise UsageError("--round SALT draws from the suite of --suite NAME, and --as NAME says for whom: give both")
    if pack is not None and registered not in ("", public_name(agent)):
        raise UsageError(
            "--pack packs under --agent's name: leave it out; agent-envs pack RUN DIR --about FILE names another"
        )
    return round_nonce(registered or public_name(agent), salt) if salt else ""


def _suite(name: str, limit: int | None, choice: tuple[Any, ...], feedback: "Advice", nonce: str = "") -> "Suite":
    """Build the suite of a call: a named one, or one that a nonce draws, or an id's choice; UsageError for both or neither."""
    from agent_envs.evaluation.runs.costs import with_feedback
    from agent_envs.evaluation.suites.draw import drawn_suite
    from agent_envs.evaluation.suites.plan import Choice, adhoc_suite, first_tasks, playable_part
    from agent_envs.evaluation.suites.suite import DEMO, load_suite

    env_id, arguments, tasks, split, trials, sweep, turn_limits = choice
    if name:
        if any(choice):
            raise UsageError(
                "--suite names environments, tasks and trials itself: leave out the id, --arg, --tasks, --split, --trials, "
                "--sweep and --turn-limits"
            )
        suite, left = drawn_suite(load_suite(name), nonce) if nonce else (load_suite(name), ())
        for label in left:
            option.tell(f"note: {label} is left out: its tasks are fixed, and no round draws others")
        suite, lacking = playable_part(suite)
        if lacking and suite.id != DEMO:
            needed = 'pip install "agent-envs[envs]" brings what environments need'
            raise UsageError(f"{name}: not every entry can be played here ({needed}): " + "; ".join(lacking))
        for line in lacking:
            option.tell(f"note: {line}")
        return first_tasks(with_feedback(suite, feedback), limit)
    if not env_id:
        raise UsageError("eval: name an id (agent-envs list), --suite NAME, or --resume RUN")
    arguments |= {"tasks": tasks} if tasks else {}
    varied = _sweep(sweep), _turn_limits(turn_limits)
    return adhoc_suite(Choice(env_id, arguments, split, limit, trials or 1, *varied, feedback))


def _sweep(text: str) -> tuple[str, tuple[Any, ...]] | None:
    """Parse NAME=VALUE,VALUE,... to the name and its values; None for "", UsageError for another form."""
    if not text:
        return None
    name, equals, values = text.partition("=")
    choices = tuple(json_or_text(part) for part in values.split(",") if part)
    if not equals or not name or not choices:
        raise UsageError(f"--sweep {text}: write NAME=VALUE,VALUE,...")
    return name, choices


def _turn_limits(text: str | None) -> tuple[int, ...]:
    """Parse turn limits such as "0,1,2"; () for None, UsageError for another form."""
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isascii() and part.isdigit() and len(part) < 5 for part in parts):
        raise UsageError(f"--turn-limits {text!r}: write whole numbers, as 0,1,2,4")
    return tuple(int(part) for part in parts)


def _tell_limits(text: str | None, suite: "Suite") -> None:
    """Print the turn limits that the environment cannot grant, and the limit that stands for them."""
    limits = {entry.turn_limit for entry in suite.entries}
    more = [turns for turns in _turn_limits(text) if turns not in limits]
    if more:
        most = max(entry.turn_limit or 0 for entry in suite.entries)
        option.tell(
            f"note: --turn-limits {', '.join(map(str, more))}: played as {most}, the most that the environment's own limit "
            "allows; an argument of it, max_generations say, allows more (agent-envs show tells)"
        )


def _refuse_other_options(context: typer.Context) -> None:
    """Raise UsageError for any option that changes the run of --resume: it goes on as it was begun."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    names = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    more = [param.opts[0] for param in context.command.params if param.name in {*names} - option.RESUMED_WITH]
    if more:
        raised = "; a larger limit goes with the command that began it and --out RUN" if "--max-cost" in more else ""
        raise UsageError(f"--resume goes on with a run as it was begun: leave out {', '.join(more)}{raised}")


def _finish(play: Callable[..., "Result"], folder: Path, title: str, as_json: bool) -> None:
    """Play under a progress bar, print the result, and pack it; exit 3 if incomplete or stopped, with how to go on."""
    from agent_envs.base.terminal import progress_bar
    from agent_envs.core.authors_code import author_line

    finished = False
    try:
        with option.two_interrupts("running episodes"), progress_bar(title, quiet=as_json) as progress:
            result = play(progress=progress)
        finished = True
    except KeyboardInterrupt as stop:
        if author_line(stop):
            raise
        raise typer.Exit(3) from None
    except AgentEnvsError:
        finished = True  # refused, and says why
        raise
    finally:
        if not finished and (folder / "journal.jsonl").exists():
            option.tell(f"stopped; finished episodes are in {folder}: agent-envs eval --resume {folder} goes on")
    print_result({**result.to_json(), "run": str(folder)}, as_json, lambda: _tell(result, folder))
    if not result.complete:
        raise typer.Exit(3)
    _pack_result(result, folder)


def _pack_result(result: "Result", folder: Path) -> None:
    """Pack a finished run where its settings say so; a folder that is not empty stays, with a note."""
    if not result.settings.pack:
        return
    from agent_envs.evaluation.submission.pack import pack_run

    target = Path(result.settings.pack)
    if target.exists() and any(target.iterdir()):
        option.tell(f"{target} is there already, and stays as it is")
        return
    option.print_pack_notes(target, pack_run(folder, target))


def _tell(result: "Result", folder: Path) -> None:
    """Print a result for people: a line or a table of entries, notes, cost, and how to go on."""
    from agent_envs.evaluation.report.report import feedback_tables, result_notes
    from agent_envs.evaluation.runs.summary import NO_RESULT

    if len(result.summaries) == 1:
        summary = result.summaries[0]
        show(
            f"{summary.entry} {result.settings.agent} on {summary.split}: success {summary.verdict}, faults {summary.faults}"
        )
        show(
            f"mean return {summary.mean_return:.3f}, {summary.mean_turns:.2f} turns an episode, "
            f"{100 * summary.valid_actions:.1f} % of the turns valid"
        )
    else:
        rows = [
            [summary.entry, summary.verdict, f"{summary.mean_turns:.2f}", f"{summary.mean_calls:.2f}",
             f"{100 * summary.valid_actions:.1f} %", str(summary.faults)]
            for summary in result.summaries
        ]  # fmt: skip
        title = f"{result.settings.agent} on {', '.join(sorted({summary.split for summary in result.summaries}))}"
        print_table(title, ["entry", "success (95 % interval)", "turns", "calls", "valid", "faults"], rows)
        if result.suite.scored:
            show(f"score {result.score.text() if result.score is not None else NO_RESULT}")
        for name, rate in result.averages.items():
            show(f"{name}: {rate.text()}")
    for line in result_notes(result):
        show(f"note: {line}")
    if result.cost_usd:
        show(f"cost {result.cost_usd:.4f} USD")
    for table in feedback_tables(result.summaries):
        print_table(table.caption, *table.texts())
    if result.gave_up:
        show("stopped, as episode after episode ended in one and the same fault")
    if result.settings.max_cost_usd and not result.gave_up and any(summary.unplayed for summary in result.summaries):
        show(f"--max-cost is spent: the same command with --out {folder} and a larger --max-cost plays what is left")
    elif not result.complete:
        show(f"not complete: agent-envs eval --resume {folder} plays what is left")
    show(f"run: {folder}")


def _new_folder(name: str, feedback: str, agent: str) -> Path:
    """Return a path under runs/ of the time, the name and the agent, numbered from 2 where it exists; it is not made."""
    parts = (name, "-feedback" if feedback else "", "-", agent.partition("@")[0].replace(":", "."))
    name = "".join(parts).replace("/", ".")
    stem = Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{name[:80]}"
    numbered = (stem.with_name(f"{stem.name}-{number}") for number in itertools.count(2))
    return next(folder for folder in itertools.chain([stem], numbered) if not folder.exists())
