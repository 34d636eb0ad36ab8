"""The verb `play`: a person reads, names an action or a tool and gives its arguments, and is told at the end what it paid."""

import contextlib
import re
import shutil
import sys
import textwrap
from typing import Annotated, Any

import typer

from agent_envs.base.protocol import sound_json
from agent_envs.base.terminal import show, visible
from agent_envs.cli.options import Arguments, EnvId, make_env

MOST_COLUMNS = 110
FEW = 12  # names that stand below every turn; more stand below the first, and in /help
NO_BREAK = "\ue000"  # stands for a space at which no line is broken
COMMANDS = "/help lists what you can do; /quit, Ctrl-D or Ctrl-C leaves"
_INDENT = re.compile(r" {0,20}(?:[-*] |[0-9]{1,2}\. )?")


def play(
    env_id: EnvId,
    task: Annotated[int, typer.Option(help="Index of the task in its split.")] = 0,
    split: Annotated[str, typer.Option(help="Default: the first split that `show` lists.")] = "",
    arg: Arguments = None,
) -> None:
    """Play an episode yourself: type the name or number of an action or tool; it asks for the arguments.

    Any other text is a turn as a model writes it, up to an empty line. With expanded actions a line of /names or /ids takes
    these at once. The end tells the reward by its terms, the return and the gold.
    """
    from agent_envs.core.authors_code import author_line

    env = make_env(env_id, arg)
    if sys.stdin.isatty():
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - lines can be edited, and be longer than the 4,096 bytes of a terminal's own
    try:
        _play_episode(env, {"task": task, **({"split": split} if split else {})})
    except EOFError as end:
        show(f"\n{end.args[0] if end.args == ('bye',) else 'no more input; bye'}")
    except KeyboardInterrupt as stop:
        if author_line(stop):
            raise
        show("\nleft before the end; bye")
        raise typer.Exit(130) from None


def _play_episode(env: Any, options: dict[str, Any]) -> None:
    """Play an episode in the terminal from typed lines, and print its end; EOFError where a person leaves or input ends."""
    from agent_envs.integrations import tool_view
    from agent_envs.rollout.typed import TypedActions

    core, menu = env.unwrapped, TypedActions(env, tool_view)
    observation, info = env.reset(seed=0, options=options)
    show(fold_text(f"{core.env_id}, task {info['task_id']}; {COMMANDS}"))
    over, redraw = False, True
    while not over:
        if redraw:
            _show_state(core, observation)
        _show_menu(menu, info)
        line = _read_line("> ")
        if line.strip() == "/help":
            _show_help(menu)
            continue
        actions = menu.actions(line, _read_line)
        if line.strip() and not actions:
            show("nothing was done; /help lists what there is")
        redraw = bool(actions) or hasattr(core, "drawing")  # an empty line shows a game again
        for action in actions:
            observation, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            for event in info["events"]:
                show(fold_text(f"note: {event}"))
            if over:
                break
            if reward:
                terms = ", ".join(f"{name} {value:g}" for name, value in info["reward_terms"].items() if value)
                show(f"reward {reward:g} ({terms})")
        observation = core.history if menu.expanded else observation
    _show_state(core, observation)
    _tell_end(core, "solved" if info["success"] else f"not solved{', a limit was reached' if truncated else ''}")


def _show_state(core: Any, observation: str) -> None:
    """Print an environment's drawing for a terminal, where it has one, and the observation below it."""
    drawing = core.drawing() if hasattr(core, "drawing") else ""
    show(f"\n{drawing}\n\n{fold_text(observation)}\n" if drawing else f"\n{fold_text(observation)}\n")


def _show_menu(menu: Any, info: dict[str, Any]) -> None:
    """Print the turn, and the actions and tools by number, many only in turn 1; expanded actions by name, the legal ones."""
    show(f"--- turn {info['turn'] + 1}, {info['turns_left']} left ---")
    if menu.expanded:
        legal = " ".join(f"/{name}" for name, number in menu.expanded.items() if info["action_mask"][number])
        show(fold_text(f"in {info['active']}: {legal}{', or text' if info['active'] == 'language' else ''}"))
    elif len(menu.names) <= FEW or info["turn"] == 0:
        cells = (f"{number} {name}".replace(" ", NO_BREAK) for number, name in enumerate(menu.names, 1))
        show(fold_text("   ".join(cells)).replace(NO_BREAK, " "))


def _show_help(menu: Any) -> None:
    """Print a line on each action or tool with its number, and on how to type a turn."""
    from agent_envs.rollout.typed import TEXT

    for number, about in enumerate(menu.about, 1):
        show(fold_text(about if menu.expanded else f"{number:2}. {about}"))
    show(fold_text(f"\n{TEXT}\n{COMMANDS}."))


def _tell_end(core: Any, how: str) -> None:
    """Print the end of an episode: how it ended, the reward summed by its terms, the return, and the gold."""
    record, gold = core.trajectory, core.episode.task.gold
    sums = core.reward_spec.sums(record)
    show(f"The episode is over after turn {len(record.turns)}: {how}.\n")
    rows = [(f"reward, {name}", "-" if value is None else f"{value:g}") for name, value in sums.items()]
    rows += [("return, their sum", f"{record.total_reward:g}"), ("gold", " | ".join(gold) or "none: the state decides")]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        show(fold_text(f"{name:<{width}}  {value}"))


def fold_text(text: str, columns: int = 0) -> str:
    """Wrap a text for a terminal: words whole, lists indented, wide JSON laid out; unchanged if piped without `columns`.

    What is piped stays as it is, unless `columns` says how wide a line may be.
    """
    if not columns and not sys.stdout.isatty():
        return text
    columns = columns or max(30, min(shutil.get_terminal_size().columns, MOST_COLUMNS))
    lines: list[str] = []
    for line in visible(text).split("\n"):
        for row in _lay_out(line, columns).split("\n") if len(line) > columns else [line]:
            indent = " " * len(_INDENT.match(row)[0])  # type: ignore[index]  # it matches nothing, too
            lines += textwrap.wrap(row, columns, subsequent_indent=indent, break_on_hyphens=False) or [row]
    return "\n".join(lines)


def _lay_out(line: str, columns: int) -> str:
    """Return a JSON object or list laid out over several lines, and any other line unchanged."""
    from rich.pretty import pretty_repr

    try:
        return pretty_repr(sound_json(line), max_width=columns) if line[0] in "{[" else line
    except ValueError:
        return line


def _read_line(prompt: str) -> str:
    """Return the line that a person types, unstripped; raises EOFError at its end, with "bye" where the person leaves."""
    person = sys.stdin.isatty()
    try:
        line = input("" if prompt.endswith("... ") and not person else f"{fold_text(visible(prompt)).rstrip(' ')} ")
    except EOFError:
        raise EOFError(*(["bye"] if person else [])) from None  # a person leaves; the end of a pipe ends a turn, too
    if line.strip() == "/quit":
        raise EOFError("bye")
    return line
