"""The command line gathers its verbs here; `agent-envs --help` lists them. Heavy imports wait for the verb that needs them."""

import io
import json
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agent_envs.base.errors import AgentEnvsError
from agent_envs.base.terminal import print_result, print_table, show, stop_on_sigterm
from agent_envs.cli.data import data_app
from agent_envs.cli.doctor import doctor
from agent_envs.cli.eval import evaluate_agent
from agent_envs.cli.options import Arguments, EnvId, Json, make_env, named_values
from agent_envs.cli.play import play
from agent_envs.cli.runs import compare, pack, report, view
from agent_envs.cli.serve import serve, serve_retriever
from agent_envs.cli.verify import verify_submission
from agent_envs.core.authors_code import author_line, traceback_or_hint


class Verbs(TyperGroup):
    """The verbs, where what an author's environment or agent raises is told in one line."""

    def invoke(self, ctx: Any) -> Any:
        """Run a verb; typer.Exit with code 2 for what an author's code raised."""
        try:
            return super().invoke(ctx)
        except BaseException as error:
            if not (line := author_line(error)):
                raise
            show(f"agent-envs: {line}{traceback_or_hint(error)}", file=sys.stderr)
            raise typer.Exit(2) from None


app = typer.Typer(
    cls=Verbs,
    help="Gymnasium environments for multi-turn LLM agents. Start with: agent-envs eval SearchQA --agent random -n 20",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data_app, name="data")
app.command("eval")(evaluate_agent)
for verb in (play, report, compare, view, pack, serve, doctor):
    app.command(verb.__name__)(verb)
app.command("verify")(verify_submission)
app.command("serve-retriever")(serve_retriever)


def main() -> None:
    """Run the command line. Exit codes: 0 ok, 1 a check failed, 2 wrong usage, missing data or what code raised, 3 partial."""
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows ASCII only still gets every line
            stream.reconfigure(errors=errors)
    stop_on_sigterm()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _ctrl_c)
    try:
        app()
    except AgentEnvsError as error:
        show(f"agent-envs: {error}", file=sys.stderr)
        sys.exit(2)


def _ctrl_c(number: int, frame: Any) -> None:
    """Raise KeyboardInterrupt, from a frame of ours, which tells it from one that an environment raises."""
    raise KeyboardInterrupt


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """Hold the options that belong to no verb."""
    if version:
        from agent_envs import __version__

        show(f"agent-envs {__version__}")
        raise typer.Exit


@app.command("list")
def list_ids(as_json: Json = False) -> None:
    """List the environments."""
    from agent_envs.core.registry import TABLE

    rows = [{"id": row.id, "family": row.family, "summary": row.summary, "extra": row.extra} for row in TABLE]
    title = 'Environments (what one needs: pip install "agent-envs[envs]" brings all)'
    cells = [list(row.values()) for row in rows]
    print_result(rows, as_json, lambda: print_table(title, ["id", "family", "what", "needs"], cells))


@app.command("show")
def show_page(env_id: EnvId, as_json: Json = False, arg: Arguments = None) -> None:
    """Show an environment's page, its reward, its tools and an example episode."""
    import inspect
    from dataclasses import asdict

    from agent_envs.core.env import core_of
    from agent_envs.core.trajectory import transcript
    from agent_envs.rollout.episode_runner import run_episode
    from agent_envs.rollout.policy import CompanionPolicy

    env = make_env(env_id, arg)
    core = core_of(env)
    result = run_episode(env, CompanionPolicy("solver"), seed=0, task=0)
    page: dict[str, Any] = {
        "id": core.env_id,
        "page": inspect.getdoc(type(core)),
        "splits": {split: core.source.size(split) for split in core.source.splits},
        "reward": core.reward_spec.describe(),
        "tools": [dict(tool) for tool in core.tools],
        "stop": list(core.stop),
        "expanded_actions": [asdict(action) for action in getattr(core, "expanded_actions", ())],
        "example": transcript(result.trajectory.prompt, result.trajectory.turns),
    }

    def text() -> None:
        """Print the page: reward, expanded actions, splits and an example episode."""
        show(f"{page['id']}\n\n{page['page']}\n\nReward as declared: {json.dumps(page['reward'], indent=2)}\n")
        rows = [[str(row[key]) for key in ("id", "name", "desc", "kind")] + [", ".join(row["environments"])]
                for row in page["expanded_actions"]]  # fmt: skip
        if rows:
            print_table("Expanded actions", ["id", "name", "appends", "kind", "legal in"], rows)
        show(f"Splits: {page['splits']}\n\nAn episode of the solver:\n\n{page['example']}")

    print_result(page, as_json, text)


@app.command("new")
def new_environment(
    name: Annotated[str, typer.Argument(help="The name of the class, in CamelCase: NumberGuess.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the new package (default: NAME-env, here).")] = None,
    family: Annotated[
        Path | None, typer.Option(help="Write a family of this project instead: agent_envs/envs/FAMILY in a checkout.")
    ] = None,
    expanded: Annotated[bool, typer.Option("--expanded", help="Write expanded actions, and a twin in text.")] = False,
) -> None:
    """Write an environment of your own: a small game that passes `check` (docs/adding_an_environment.md)."""
    from agent_envs.authoring import write_environment

    show("\n".join(write_environment(name, out, family, expanded)))


@app.command("export")
def export_to_hub(
    env_id: EnvId,
    hub: Annotated[str, typer.Option(help="verifiers (for the Environments Hub) or openenv.")],
    out: Annotated[Path, typer.Option(help="Folder of the package; no file there is overwritten.")],
    arg: Arguments = None,
) -> None:
    """Write a package of an environment for a hub to install (docs/integrations.md)."""
    from agent_envs.authoring import write_for_hub

    sys.path.insert(0, "")
    show("\n".join(write_for_hub(hub, env_id, out, named_values(arg, "--arg"))))


@app.command()
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Ids, your module:Class, or another package's gym:ID, openenv:URL, verifiers:ID.", metavar="ENV"
        ),
    ] = None,
    all_ids: Annotated[bool, typer.Option("--all", help="Test every registered id.")] = False,
    episodes: Annotated[int, typer.Option("-n", min=1, help="Number of tasks.")] = 8,
    hostile: Annotated[
        int | None, typer.Option(min=0, help="Number of hostile strings (default: 10,000; other packages' 500).")
    ] = None,
    solved: Annotated[
        float | None,
        typer.Option(help="Other packages': the return of a solved episode (default: Gymnasium's threshold)."),
    ] = None,
    as_json: Json = False,
    arg: Arguments = None,
) -> None:
    """Test environments against the contract; other packages' as far as they allow it.

    \b
    agent-envs check SearchQA                one of ours
    agent-envs check my_module:MyEnv         a TurnEnv of yours
    agent-envs check gym:CartPole-v1         an id of Gymnasium
    agent-envs check gym:module:Name-v0      one that a module registers
    agent-envs check openenv:http://127.0.0.1:8000
    agent-envs check verifiers:my_taskset    no model is asked

    Exit code 1 if a check fails. One that cannot be asked of an environment did not pass; the last line counts them.
    """  # noqa: D301 - \b keeps the lines of the examples apart
    from agent_envs.base.errors import MissingExtra, UsageError
    from agent_envs.checker import check_turn_env
    from agent_envs.checker.third_party import check_third_party
    from agent_envs.core.registry import env_ids
    from agent_envs.integrations.third_party import third_party_env

    names = env_ids() if all_ids else list(names or [])
    if not names:
        raise UsageError("check: name an id, or --all")
    reports, missing = [], []
    for name in names:
        tell = None if as_json else lambda what, name=name: show(f"{name}: {what} ...", file=sys.stderr)
        sys.path.insert(0, "")
        options: dict[str, Any] = {"episodes": episodes, "progress": tell}
        options |= {} if hostile is None else {"hostile": hostile}
        if (env := third_party_env(name, named_values(arg, "--arg"), solved)) is not None:
            reports.append(check_third_party(env, **options))
            continue
        try:
            reports.append(check_turn_env(_subject(name, arg), **options))
        except MissingExtra as reason:
            missing.append(f"{name}: {reason}")

    def text() -> None:
        """Print the reports one below the other, then the environments that were skipped."""
        show("\n".join(["\n\n".join(report.text() for report in reports), *(f"skipped {line}" for line in missing)]))

    print_result({"reports": [report.to_json() for report in reports], "skipped": missing}, as_json, text)
    if not all(report.ok for report in reports):
        raise typer.Exit(1)


def _subject(name: str, arguments: list[str] | None) -> Any:
    """Make the environment of an id, or of `module:Class`; UsageError where that fails."""
    from importlib import import_module

    from agent_envs.base.errors import UsageError
    from agent_envs.core.env import TurnEnv

    module, colon, cls = name.partition(":")
    if not colon or not cls.isidentifier():
        env = make_env(name, arguments)
        if not isinstance(env.unwrapped, TurnEnv):
            raise UsageError(
                f"check {name}: it is no TurnEnv; agent-envs check gym:{name} plays what any environment allows"
            )
        return env
    sys.path.insert(0, "")
    try:
        return getattr(import_module(module), cls)(**named_values(arguments, "--arg"))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"check {name}: {author_line(error) or error}") from error
