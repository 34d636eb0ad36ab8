"""A verified submission as a log of inspect_ai, which its reader reads back: every episode that was stepped again here.

A submission holds actions and digests: what stands in the log is what this installation's environments show for these actions.
Expanded actions stand by name in brackets, native calls in their canonical text; `score` is the suite's, which weighs entries.
"""

from pathlib import Path
from typing import Any

from agent_envs.base.errors import MissingExtra, UsageError
from agent_envs.base.terminal import visible
from agent_envs.core.env import core_of
from agent_envs.core.trajectory import Trajectory
from agent_envs.evaluation.submission.replaying import Checked, Place
from agent_envs.evaluation.suites.plan import entry_env
from agent_envs.evaluation.suites.suite import Suite
from leaderboard.standings import Entrant
from leaderboard.transcripts import replayed

ENDINGS = (".eval", ".json")


def write_inspect(entrant: Entrant, suite: Suite, out: Path) -> int:
    """Write a log with a sample for each played episode, and return their number; UsageError if one cannot be stepped again.

    Args:
        entrant: a verified submission, read from its folder.
        suite: that it played.
        out: the file; its ending chooses inspect_ai's form, `.eval` or `.json`.

    Raises:
        MissingExtra: inspect_ai is missing.
        UsageError: another ending, an episode that cannot be stepped again, or a folder that was changed.
    """
    if out.suffix not in ENDINGS or out.is_dir():
        raise UsageError(f"export: {out.name} is no file that ends in {' or '.join(ENDINGS)}")
    try:
        from inspect_ai import log
    except ImportError as error:
        raise MissingExtra("inspect_ai", "inspect", "export to inspect_ai") from error
    checked = {item.key: item for item in entrant.verdict.episodes if item.turns}
    plays, missing = replayed(entrant, suite, set(checked))
    if missing:
        raise UsageError(f"export: {missing[0]}")
    submission, score = entrant.submission, entrant.verdict.score
    assert score is not None
    model = f"agent-envs/{visible(submission.agent.name)}"
    created = f"{submission.date or '1970-01-01'}T00:00:00+00:00"
    names = {entry.label: [action.name for action in getattr(core_of(entry_env(entry)), "expanded_actions", ())]
             for entry in suite.entries}  # fmt: skip
    samples = [_sample(place, play, checked[place.header.episode_key], model, names) for place, play in plays]
    dataset = log.EvalDataset(
        name=suite.name, samples=len(samples), sample_ids=sorted({str(item.id) for item in samples})
    )
    spec = log.EvalSpec(
        eval_id=entrant.verdict.submission[:22], run_id=entrant.verdict.submission[:22], created=created, task=suite.name,
        task_id=entrant.verdict.submission[:22], dataset=dataset, model=model, config=log.EvalConfig(epochs=suite.trials),
        metadata={"submission": entrant.verdict.submission, "suite_digest": suite.digest()},
    )  # fmt: skip
    metrics = {name: log.EvalMetric(name=name, value=value)
               for name, value in (("score", score.value), ("low", score.low), ("high", score.high))}  # fmt: skip
    results = log.EvalResults(
        total_samples=len(entrant.verdict.episodes), completed_samples=len(samples),
        scores=[log.EvalScore(name="success", scorer="agent-envs replay", metrics=metrics)],
    )  # fmt: skip
    log.write_eval_log(log.EvalLog(status="success", eval=spec, results=results, samples=samples), str(out.resolve()))
    return len(samples)


def _sample(place: Place, play: Trajectory, checked: Checked, model: str, names: dict[str, list[str]]) -> Any:
    """Convert a replayed episode to a sample of Inspect's log, with success and return as scores."""
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageTool, ChatMessageUser, ModelOutput
    from inspect_ai.scorer import Score

    def chat_message(message: Any) -> Any:
        """Return a message in Inspect's form; roles other than system and tool become the user's."""
        kinds: dict[str, Any] = {"system": ChatMessageSystem, "tool": ChatMessageTool}
        return kinds.get(message.role, ChatMessageUser)(content=visible(message.content))

    messages: list[Any] = [chat_message(message) for message in play.prompt]
    question = messages[-1].content if messages else place.header.task_id
    for turn in play.turns:
        action_names = dict(enumerate(names[place.entry.label]))
        action = (
            turn.action
            if isinstance(turn.action, str)
            else f"[{action_names.get(turn.action, f'action {turn.action}')}]"
        )
        messages.append(ChatMessageAssistant(content=visible(action), model=model))
        messages += [chat_message(message) for message in turn.observation]
    reply = next(item.content for item in reversed(messages) if item.role == "assistant")
    keys = ("entry", "cluster", "episode_key", "status")
    values = (place.entry.label, place.cluster, place.header.episode_key, checked.status)
    return EvalSample(
        id=f"{place.entry.label} {place.header.task_id}", epoch=place.trial + 1, input=question, target="", messages=messages,
        output=ModelOutput.from_content(model, reply), metadata=dict(zip(keys, values, strict=True)),
        scores={"success": Score(value=float(checked.success)), "return": Score(value=checked.total)},
    )  # fmt: skip
