"""The scripted user needs no model: it follows a script of structured facts, tells what it is asked, and uses its tools.

It is a function of its script, its manners, what it keeps in mind, what it was shown, and the episode's key: equal
conversations have equal users, and a fork of a conversation forks its user.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from agent_envs.base.arguments import choice
from agent_envs.base.caches import Uncopied
from agent_envs.base.messages import ToolCall
from agent_envs.core.trajectory import Task
from agent_envs.envs.tau2.dialogue import Dialogue, Line
from agent_envs.envs.tau2.scene import Scene
from agent_envs.envs.tau2.task_schema import Tau2Task
from agent_envs.envs.tau2.toolkit import Domain
from agent_envs.envs.tau2.user_script import UserScript, read_script
from agent_envs.envs.tau2.users import device
from agent_envs.envs.tau2.users.consent import abroad, names_known
from agent_envs.envs.tau2.users.mind import Mind, remembered, unconsented
from agent_envs.envs.tau2.users.persona import Persona, mistyped, persona_of
from agent_envs.envs.tau2.users.reaction import Reaction, opening
from agent_envs.envs.tau2.users.sentences import LONGEST
from agent_envs.envs.tau2.users.understanding import understood
from agent_envs.envs.tau2.users.wording import say

__all__ = ["CONSENTS", "VERSION", "Mind", "ScriptedUser"]
VERSION = 2  # of the customer: what it says decides what an agent scores
CONSENTS = ("restate", "plain")
ScriptOf = Callable[[Tau2Task], UserScript]
_MOST_REQUESTS = 12  # of one message, that are carried out
_REMEMBERED = 512


def _from_scenario(task: Tau2Task) -> UserScript:
    """Return a script made from the task's scenario: the fallback for a task without a script of its own."""
    from agent_envs.envs.tau2.users.scenario import script_of

    return script_of(task)


class ScriptedUser(Uncopied):
    """Plays the user's side by its script; all that changes travels in the dialogue."""

    name, service = "scripted", ""

    def __init__(
        self, persona: str | Mapping[str, Any] = "task", fallback: ScriptOf = _from_scenario, consent: str = "restate"
    ) -> None:
        """Take its manners, the source of scripts, and the way in which it consents.

        Args:
            persona: its manners; "task" for the script's own.
            fallback: makes the script of a task that has none.
            consent: "restate", or "plain": "Yes." stands before a consent that the agent's message proposes itself.

        Raises:
            UsageError: no such persona, or no such consent.
        """
        persona_of(persona)
        choice("tau2", "consent", consent, CONSENTS)
        self._persona, self._fallback, self._plain = persona, fallback, consent == "plain"
        self._scripts: dict[int, tuple[Any, UserScript, Persona]] = {}

    def speak(self, scene: Scene) -> tuple[Line | None, Any]:
        """Return the user's next line, never None, and its memory: the opening, a call on the device, a check, or an answer."""
        script, manners = self._read(scene.task, scene.public)
        lines, changes = scene.dialogue.lines, changes_made(scene.dialogue, scene.rules.domain)
        random = Random(f"{scene.key}|{len(lines)}")
        if scene.memory is None:
            text, mind = opening(script, manners, random)
            return Line("user", _mistype(text, manners, random, script)), mind.replace(seen=changes, counted=changes)
        texts = [line.text for line in lines[-40:] if line.sender == "assistant" and not line.calls]  # oldest first
        text = texts[-1][-LONGEST:] if texts else ""
        mind, call = _act_on_device(scene, script, remembered(scene.memory, script), text)
        if call is not None:
            return call, mind
        mind = mind.replace(unconsented=unconsented(script, mind, changes), counted=changes)
        reaction = Reaction(
            script, manners, random, mind, understood(text), text=text, repeated=texts[-1:] == texts[-2:-1], changes=changes,
            unclear=scene.rules.domain.user is not None and device.read_requests(text, names_known(script))[1],
            names_details=scene.task.data.get("user_script") is not None, plain=self._plain,
        )  # fmt: skip
        look = reaction.look if scene.rules.domain.user is not None else None
        if look is not None:
            return _call_line(scene, device.Step(look.tool, look.arguments)), mind.replace(checking=True)
        text, mind = reaction.answer()
        return Line("user", _mistype(text, manners, random, script)), mind.replace(reports=(), checked="")

    def unconsented_changes(self, task: Task, public: Tau2Task, dialogue: Dialogue, domain: Domain) -> int:
        """Return the number of the agent's changes before the customer consented to any open want; 0 before it has spoken."""
        if dialogue.memory is None:  # it has not spoken
            return 0
        script = self._read(task, public)[0]
        return unconsented(script, remembered(dialogue.memory, script), changes_made(dialogue, domain))

    def _read(self, task: Task, public: Tau2Task) -> tuple[UserScript, Persona]:
        """Return a task's script and its user's manners, cached by the task's data."""
        data = task.data
        entry = self._scripts.get(id(data))
        if entry is None:
            row = data.get("user_script")
            script = self._fallback(public) if row is None else read_script(row)
            entry = data, script, persona_of(self._persona, script.persona)
            if len(self._scripts) >= _REMEMBERED:
                self._scripts.clear()
            self._scripts[id(data)] = entry  # the data is kept with it, so that its identity stays its own
        return entry[1:]


def _act_on_device(scene: Scene, script: UserScript, mind: Mind, text: str) -> tuple[Mind, Line | None]:
    """Return the memory and the next call on the device, by the agent's requests or the last answer; None if none is left."""
    news = scene.news
    answer = news[-1] if news and news[-1].results else None
    if answer is None:
        requests = device.requests(text, names_known(script)) if scene.rules.domain.user is not None else ()
        requests = device.feasible(requests, abroad(script))
        mind = mind.replace(queue=requests[:_MOST_REQUESTS], steps=(), reports=(), checking=False, checked="")
    else:
        mind = _take_answer(script, mind, answer.results[0].name, answer.results[0].content)
    if mind.steps:
        return mind, _call_line(scene, mind.steps[0])
    if not mind.queue:
        return mind, None
    steps = device.plan(mind.queue[0])
    mind = mind.replace(queue=mind.queue[1:], steps=steps)
    return mind, _call_line(scene, steps[0])


def _take_answer(script: UserScript, mind: Mind, tool: str, content: str) -> Mind:
    """Return the memory after a call's answer: a report, the steps left, and "passed" or "failed" if it was the check."""
    check = script.wants[mind.want].check
    outcome = "passed" if check is not None and check.passes.lower() in content.lower() else "failed"
    if mind.checking:
        return mind.replace(checking=False, checked=outcome)
    if not mind.steps:
        return mind
    step = mind.steps[0]
    report = device.report(tool, content, step.label)
    reports = mind.reports if report in mind.reports else (*mind.reports, report)
    own = check is not None and (check.tool, check.arguments) == (step.tool, step.arguments)
    return mind.replace(steps=device.due(mind.steps[1:], content), reports=reports, checked=outcome if own else "")


def _call_line(scene: Scene, step: device.Step) -> Line:
    """Return the user's line that calls a step's tool; its id counts the user's calls so far."""
    count = sum(len(line.calls) for line in scene.dialogue.lines if line.sender == "user")
    return Line("user", calls=(ToolCall(f"call_{count}", step.tool, step.arguments),))


def changes_made(dialogue: Dialogue, domain: Domain) -> int:
    """Count the agent's calls, without error, of tools that write."""
    count = 0
    for line in dialogue.lines:
        for reply in line.results:
            if reply.requestor == "assistant" and not reply.error:
                tool = domain.find_tool("assistant", reply.name)
                count += tool is not None and tool.writes
    return count


def _mistype(text: str, manners: Persona, random: Random, script: UserScript) -> str:
    """Return a text with the mistakes of the user's manners, unchanged without; words of facts and consents are spared."""
    if not manners.typos:
        return text
    facts = [*script.facts, *(fact for want in script.wants for fact in want.facts)]
    spared = " ".join((say("consent", manners, random), *(fact.value for fact in facts)))
    return mistyped(text, manners.typos, random, frozenset(spared.lower().split()))
