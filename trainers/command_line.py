"""A trainer's command line reads presets from files, makes every setting an option, and resumes killed runs."""

import argparse
import contextlib
import dataclasses
import json
import os
import sys
import tomllib
import types
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from agent_envs.base.errors import AgentEnvsError, UsageError
from agent_envs.base.terminal import stop_on_sigterm
from trainers.training.metrics import METRICS_FILE

S = TypeVar("S")

PRESETS = Path(__file__).with_name("presets")
SETTINGS_FILE, RESULT_FILE = "settings.json", "result.json"


def parse(kind: type[S], argv: Sequence[str] | None = None, *, program: str) -> tuple[S, Path]:
    """Read settings (preset, options, `--resume`), write them into the run's folder, return both; UsageError for bad ones.

    `--preset NAME` starts from `trainers/presets/PROGRAM/NAME.toml`, or from a file; every other option changes one setting.
    `--resume DIR` goes on with the settings that the run began with; only those that `kind.ON_RESUME` names, if it has that,
    may be given anew, and hold from there on. A run that is finished prints its result again, and the process ends.

    Args:
        kind: the trainer's dataclass; it has the fields `preset`, `out` and `steps`.
        argv: None for the process's own.
        program: the trainer's name.

    Returns:
        The settings and the folder of the run.

    Raises:
        UsageError: no such preset, a setting in it that does not exist, or `--out` names a folder that holds a run.
    """
    import tyro

    words = list(sys.argv[1:] if argv is None else argv)
    if any(word.partition("=")[0] == "--resume" for word in words):
        return _resume(kind, words, program)
    default = load_preset(kind, program, option(list(words), "--preset", f"name: {', '.join(preset_names(program))}"))
    settings = tyro.cli(
        kind,
        args=words,
        default=default,
        prog=f"python -m trainers.{program}",
        description=teaching(kind, program),
        config=(tyro.conf.HelptextFromCommentsOff,),  # docstrings tell all; to read the sources took half of the time
    )
    out = Path(settings.out)  # type: ignore[attr-defined]
    if os.environ.get("RANK", "0") != "0":  # the first process of several looks after the folder
        return settings, out
    if (out / SETTINGS_FILE).exists() and (out / "checkpoints").exists():
        metrics = out / METRICS_FILE
        has_learnt = metrics.exists() and metrics.stat().st_size > 0
        hint = "" if has_learnt else " (no step of it is finished: delete it to begin anew)"
        raise UsageError(f"{out} holds a run: go on with --resume {out}, or name another folder with --out{hint}")
    write_settings(settings, out)
    return settings, out


def option(words: list[str], name: str, value_name: str = "value") -> str:
    """Take an option out of the words of a command line and return its value, the last one; "" where it is not given.

    Raises:
        UsageError: it has no value, but needs one, as is `value_name`.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument(name, dest="value", default="")
    try:
        values, words[:] = parser.parse_known_args(words)
    except argparse.ArgumentError:
        raise UsageError(f"{name} needs a {value_name}") from None
    return str(values.value)


def option_names(kind: type, above: str = "") -> set[str]:
    """Return the options that a trainer's dataclass makes: --max-cost, --env.id, --log.curves and --log.no-curves."""
    names, hints = set[str](), typing.get_type_hints(kind)
    for row in dataclasses.fields(kind):
        name, hint = row.name.replace("_", "-"), hints[row.name]
        if dataclasses.is_dataclass(hint):
            names |= option_names(typing.cast(type, hint), f"{above}{name}.")
            continue
        names.add(f"--{above}{name}")
        if hint is bool:
            names.add(f"--{above}no-{name}")
    return names


@contextlib.contextmanager
def one_line_errors(program: str) -> Iterator[None]:
    """End the process with one line on stderr: code 2 for AgentEnvsError and FloatingPointError, 130 for Ctrl-C or SIGTERM."""
    stop_on_sigterm()
    try:
        yield
    except KeyboardInterrupt:
        print(f"{program}: stopped; go on with python -m trainers.{program} --resume DIR", file=sys.stderr)
        raise SystemExit(130) from None
    except (AgentEnvsError, FloatingPointError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        raise SystemExit(2) from error


def teaching(kind: type, program: str) -> str:
    """Return the head of `--help`: the trainer's purpose, its usage, and further reading."""
    first = (kind.__doc__ or "").partition("\n")[0]
    name = next(
        name for name in ("tiny-minute", "tiny-sort4", "tiny-searchqa", "") if name in (*preset_names(program), "")
    )
    return (
        f"{first}\n\nStart here: python -m trainers.{program} --preset {name} --seed 0 --out runs/{program}. "
        f"After a kill: python -m trainers.{program} --resume runs/{program}. "
        f"Presets: {', '.join(preset_names(program))}. Defaults below are bare ones; a preset sets what it needs. "
        f"docs/training.md and the head of trainers/{program}.py tell more."
    )


def load_preset(kind: type[S], program: str, name: str) -> S:
    """Return the settings of a preset, by name or .toml file; "" for the defaults; UsageError for unknown names.

    Raises:
        UsageError: no such preset, or it names a setting that does not exist.
    """
    if not name:
        return kind()
    path = Path(name) if name.endswith(".toml") else PRESETS / program / f"{name}.toml"
    if not path.is_file():
        names = ", ".join(preset_names(program))
        raise UsageError(f"no preset {name!r}; there are {names}, or give a .toml file")
    return _build(kind, {**_read_table(path), "preset": name}, str(path))


def _read_table(path: Path, above: Sequence[Path] = ()) -> dict[str, Any]:
    """Return a preset's settings, on top of those of the preset that it `extends`; UsageError for a circle or none there."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{path}: {error}") from None
    base, chain = table.pop("extends", ""), (*above, path.resolve())
    if not base:
        return table
    below = (path.parent / f"{base}.toml").resolve()
    if below in chain:
        raise UsageError(f"{path}: extends={base!r}, which extends this one")
    if not below.is_file():
        raise UsageError(f"{path}: extends={base!r}: there is no {below.name} beside it")
    return _merge(_read_table(below, chain), table)


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Merge two mappings, and mappings in both of them in turn; the values of `above` win."""
    inner = {name: _merge(below[name], value) for name, value in above.items() if isinstance(below.get(name), dict)}
    return {**below, **above, **inner}


def preset_names(program: str) -> list[str]:
    """Return the names of a trainer's presets."""
    return sorted(path.stem for path in (PRESETS / program).glob("*.toml"))


def write_settings(settings: Any, out: Path) -> None:
    """Write a run's settings to settings.json in its folder, made where missing; UsageError where it cannot be made."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}") from error
    write_json(dataclasses.asdict(settings), out / SETTINGS_FILE, sort_keys=True)


def write_json(value: dict[str, Any], path: Path, **layout: Any) -> None:
    """Write a JSON object as a file that is whole at any time, laid out as `json.dumps` is told."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(value, indent=1, **layout) + "\n", encoding="utf-8")
    part.replace(path)


def read_settings(kind: type[S], out: Path) -> S:
    """Read the settings that `write_settings` wrote; UsageError where there are none, or not of this trainer.

    Raises:
        UsageError: there is no run, or another trainer's.
    """
    return _build(kind, settings_table(out), str(out / SETTINGS_FILE))


def settings_table(out: Path) -> Any:
    """Read a run folder's settings as they stand there; UsageError where there are none.

    Raises:
        UsageError: the folder holds no run.
    """
    try:
        return json.loads((out / SETTINGS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{out} holds no run: {error}") from None


def _resume(kind: type[S], words: list[str], program: str) -> tuple[S, Path]:
    """Return a run's settings, new ones written, and its folder; exit if it is finished; UsageError for other options."""
    import tyro

    out = Path(option(words, "--resume"))
    options = [f"--{name.replace('_', '-')}" for name in getattr(kind, "ON_RESUME", ())]
    option_words = [word.partition("=")[0].replace("_", "-") for word in words if word.startswith("--") or not options]
    if odd := [word for word in option_words if word not in options]:
        but = f" but {' and '.join(options)}" if options else ""
        raise UsageError(f"--resume DIR takes nothing else{but}, and not {odd[0]}: a run goes on as it began")
    settings = read_settings(kind, out)
    _tell_if_finished(out, settings.steps)  # type: ignore[attr-defined]
    if words:
        settings = tyro.cli(kind, args=words, default=settings, prog=f"python -m trainers.{program}")
        if os.environ.get("RANK", "0") == "0":
            write_settings(settings, out)
    return settings, out


def _tell_if_finished(out: Path, steps: int) -> None:
    """Print a finished run's result once more and exit with 0; nothing where steps or the result are missing."""
    try:
        result = json.loads((out / RESULT_FILE).read_text(encoding="utf-8"))
        is_finished = result["planned_steps"] >= steps
    except (OSError, ValueError, KeyError, TypeError):  # a run that goes on writes it anew
        return
    if is_finished:
        if os.environ.get("RANK", "0") == "0":
            more = f"raise steps in {SETTINGS_FILE} to go on, delete {RESULT_FILE} to measure again"
            print(f"{out} is finished, after {result['steps']} steps; {more}", file=sys.stderr)
            print(json.dumps(result))
        raise SystemExit(0)


def _build(kind: Any, table: Any, where: str) -> Any:
    """Build a dataclass from nested tables; what they do not set keeps its default. UsageError: unknown names."""
    if not isinstance(table, dict):
        raise UsageError(f"{where}: a table of settings is needed, not {table!r}")
    hints = typing.get_type_hints(kind)
    unknown = sorted(set(table) - set(hints))
    if unknown:
        raise UsageError(f"{where}: no setting {', '.join(unknown)}; the settings are {', '.join(hints)}")
    return kind(**{name: _value(hints[name], value, f"{where}: {name}") for name, value in table.items()})


def _value(hint: Any, value: Any, where: str) -> Any:
    """Convert a preset's value to a setting's type: lists to tuples, tables to JSON; UsageError, with its name, if unfit."""
    if dataclasses.is_dataclass(hint):
        return _build(hint, value, where)
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        length = len(parts) if ... not in parts else None
        if not isinstance(value, list) or length not in (None, len(value)):
            raise UsageError(f"{where}={value!r}: a list {f'of {length} ' if length else ''}is needed")
        return tuple(_value(parts[0], item, where) for item in value)
    if origin is typing.Literal:
        if value not in parts:
            raise UsageError(f"{where}={value!r}: one of {', '.join(map(repr, parts))}")
        return value
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _value(parts[0], value, where)
    if hint is str and isinstance(
        value, dict | list
    ):  # arguments of environments are JSON texts, and tables in a preset
        return json.dumps(value, sort_keys=True)
    if hint is float and type(value) is int:
        return float(value)
    if isinstance(hint, type) and type(value) is not hint:
        raise UsageError(f"{where}={value!r}: {hint.__name__} is needed")
    return value
