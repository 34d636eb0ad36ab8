"""Texts that attack a page or its reader, an episode that says them everywhere, and a run of such episodes on disk."""

from collections.abc import Callable, Iterator
from pathlib import Path

from agent_envs.base.jsonl_log import Journal
from agent_envs.base.messages import Message, ToolCall, ToolResult
from agent_envs.base.protocol import Answer
from agent_envs.base.serialization import canonical_json
from agent_envs.core.trajectory import Header, Trajectory, Turn
from agent_envs.evaluation.runs.run_folder import Config, Identity, Run, open_run
from agent_envs.evaluation.suites.suite import Entry, Suite, seed_of, suite_text
from agent_envs.rollout.episode_runner import EpisodeResult

# Texts that must come out as they went in.
MARKUP = {
    "script": "</script><script>alert(1)</script>",
    "attribute": '"><img src=x onerror=alert(1)>',
    "handler": "' onmouseover='alert(1)' autofocus onfocus='alert(1)",
    "style": "</style><style>*{display:none}</style>",
    "title": "</title><meta http-equiv=refresh content='0;url=https://example.org/'>",
    "table": "</td></table></details><h1>forged</h1><!--",
    "template": "{{ 7 * 7 }}{% raw %}{# gone #}{% include '/etc/passwd' %}",
    "entities": "&lt;b&gt; &#60;b&#62; &amp;amp;",
    "svg": "]]><svg onload=alert(1)/><math><mi xlink:href='javascript:alert(1)'>",
    "javascript": "javascript:alert(1)",
    "data": "data:text/html,<script>alert(1)</script>",
    "css": "} body { background: url(https://example.org/x) } @import 'https://example.org/y'; .a { color: red",
    "form": "<form action=https://example.org><input name=q autofocus><button>go</button></form>",
    "frame": "<iframe srcdoc='<script>parent.alert(1)</script>'></iframe><base href=https://example.org/>",
    "link": "<a href=https://example.org/?x ping=https://example.org/>here</a><link rel=prefetch href=//example.org>",
    "markdown": "[here](javascript:alert(1)) ![](https://example.org/pixel.png) `x` | y |",
    "right_to_left": "\u0627\u0644\u0633\u0644\u0627\u0645 \u05e9\u05dc\u05d5\u05dd (1) <b>",
    "emoji": "\U0001f9d1\U0001f3fd\u200d\U0001f680 \U0001f1eb\U0001f1ee \u2764\ufe0f",
}
# Texts of which characters are taken away or named.
CONTROLS = {
    "bidi": "user\u202etxt.exe\u2066 \u2069\u061c\u200f",
    "zero_width": "pass\u200bword\u2060\ufeff\U000e0041\U000e0042",
    "nul": "before\x00after",
    "c0": "".join(map(chr, range(32))) + "\x7f",
    "c1": "".join(map(chr, range(0x80, 0xA0))),
    "ansi": "\x1b[31mred\x1b]0;title\x07\x1b[2J\x9b1m",
    "surrogate": "\ud800 lone \udfff",
    "noncharacter": "\ufdd0\uffff\ufffe",
}
# Texts that are too much.
LARGE = {
    "no_spaces": "x" * 1_000_000,
    "lines": "line\n" * 100_000,
    "combining": "Z" + "\u0301\u0338\u0489" * 3_000 + "algo",
    "wide": "\ufdfd" * 5_000,
    "quotes": "'\"<>&" * 100_000,
    "hiding": "\u200b" * 300_000,
    "tags": "<think>" * 40_000,
}
HOSTILE = {**MARKUP, **CONTROLS}
EVERYTHING = {**HOSTILE, **LARGE}


def episode(text: Callable[[str], str], header: Header | None = None, *, success: bool = True) -> Trajectory:
    """An episode with `text` applied to every field that a model, a tool, a user or an environment may write."""
    header = header or Header(text("env"), "d" * 64, text("task"), text("split"), "e" * 64, 7, "key")
    prompt = (Message("system", text("be brief"), "environment"), Message("user", text("who?"), "user"))
    shown = (
        Message("tool", text("found"), "tool", (), "call_0"),
        Message("user", text("go on"), text("feedback")),  # type: ignore[arg-type]
        Message("assistant", "", "user", (ToolCall("c", text("lookup"), text("{}")),)),
    )
    first = Turn(
        index=1,
        origin="key",
        action=text("first"),
        parsed=None,
        observation=shown,
        results=(ToolResult("c", text("lookup"), text("x"), True), ToolResult("c", text("search"), "", False, ("d1",))),
        reward=-0.25,
        terms=((text("format"), -0.25),),
        events=(text("malformed"),),
    )
    last = Turn(2, "key", 17, Answer("x"), (), reward=1.0, terminated=True, context="replace")
    return Trajectory(header, prompt, (first, last), success=success)


def hostile_run(folder: Path, texts: dict[str, str], *, trials: int = 2) -> Run:
    """Write the folder of a run in which one task a text says it everywhere; the last task of each entry is a fault."""
    names = [*texts, "fault"]
    joined = "".join(MARKUP.values())
    entries = tuple(
        _entry(place, tuple(f"{number} {_short(texts.get(name, joined))}" for number, name in enumerate(names)))
        for place in range(2)
    )
    suite = Suite(id="hostile", version="1.0", trials=trials, entries=entries)
    rows = (
        _row(key, entry, task, trial, texts.get(names[place // trials % len(names)], ""))
        for place, (key, entry, task, _, trial) in enumerate(suite.episodes())
    )
    return write_run(folder, suite, rows, agent=joined, options={joined: [joined]})


def plain_suite(tasks: int, trials: int = 1, entries: int = 1) -> Suite:
    """A suite of an environment that is not here."""
    return Suite(
        id="plain",
        version="1.0",
        trials=trials,
        entries=tuple(
            Entry(
                label=f"entry {number}",
                env_id="nowhere/Nothing-v0",
                arguments={},
                spec_digest="d" * 64,
                split="test",
                tasks=tuple((f"task-{task:05}", "e" * 64, f"c{task // 2}") for task in range(tasks)),
            )  # fmt: skip
            for number in range(entries)
        ),
    )


def plain_row(key: str, entry: Entry, task: str, success: bool, text: str = "") -> tuple[str, EpisodeResult]:
    """An episode of one turn."""
    header = Header(entry.env_id, entry.spec_digest, task, entry.split, "e" * 64, seed_of(key), key)
    turn = Turn(
        1, f"{key}/", f"<answer>{task}</answer>{text}", Answer(task), (), reward=float(success), terminated=True
    )
    prompt = (Message("user", f"What is {task}?", "environment"),)
    return key, EpisodeResult(Trajectory(header, prompt, (turn,), success=success), "terminated")


def write_run(
    folder: Path,
    suite: Suite,
    rows: Iterator[tuple[str, EpisodeResult]],
    *,
    agent: str = "nobody",
    options: dict[str, object] | None = None,
) -> Run:
    """Write the folder of a run from its episodes."""
    identity = Identity(
        agent=agent, agent_options=options or {}, agent_code="", package="0.0.0", suite=suite.name,
        suite_digest=suite.digest(), smoke=True,
    )  # fmt: skip
    config = Config(identity=identity, concurrency=1, max_cost_usd=None, price=None, prices_date="2026-01-01", pack="")
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(canonical_json(config.model_dump(mode="json")) + "\n", encoding="utf-8")
    (folder / "suite.json").write_text(suite_text(suite), encoding="utf-8")
    with Journal(folder / "journal.jsonl") as journal:
        journal.append({"identity": identity.model_dump(mode="json")})
        for key, result in rows:
            journal.append({
                "key": key, "status": result.status, "fault": result.fault, "usage": result.usage,
                "attempts": list(result.attempts), "seconds": result.seconds, "agent_seconds": result.agent_seconds,
                "trajectory": result.trajectory.to_json(),
            })  # fmt: skip
    return open_run(folder)


def _short(text: str) -> str:
    """The text as it can be a name in a suite's file, which is UTF-8."""
    return text[:180].encode("utf-8", "replace").decode()


def _entry(number: int, tasks: tuple[str, ...]) -> Entry:
    payload = "".join(MARKUP.values())[number : number + 180]
    env_id = f"hostile/{payload.replace(':', '')}"  # with one it would name a module
    return Entry(
        label=f"{number} {payload}", env_id=env_id, arguments={payload: payload}, spec_digest="d" * 64,
        split=payload, success="success" if number else "return>=0.5", tasks=tuple((t, "e" * 64, t) for t in tasks),
    )  # fmt: skip


def _row(key: str, entry: Entry, task: str, trial: int, payload: str) -> tuple[str, EpisodeResult]:
    header = Header(entry.env_id, entry.spec_digest, task, entry.split, "e" * 64, seed_of(key), key)
    usage = {"".join(MARKUP.values()): 3}
    joined = "".join(HOSTILE.values())
    if not payload:
        return key, EpisodeResult(Trajectory(header, (), ()), "fault", joined, usage, (joined, joined))
    play = episode(lambda word: word + payload, header, success=bool(trial))
    return key, EpisodeResult(play, "terminated", "", usage, (payload[:5_000],), 0.5, 0.25)
