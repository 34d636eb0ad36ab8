"""The scripted user needs no model: it follows a script of structured facts, tells what it is asked, and uses its tools.

It is a function of its script, its manners, what it keeps in mind, what it was shown, and the episode's key: equal
conversations have equal users, and a fork of a conversation forks its user.
"""

import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from agent_envs.base.messages import ToolCall
from agent_envs.base.process_cache import Uncopied
from agent_envs.envs.tau2.dialogue import Line
from agent_envs.envs.tau2.scene import Scene
from agent_envs.envs.tau2.task_schema import Tau2Task
from agent_envs.envs.tau2.user_script import UserScript, read_script
from agent_envs.envs.tau2.users import device
from agent_envs.envs.tau2.users.aims import abroad
from agent_envs.envs.tau2.users.mind import Mind, remembered, verdict
from agent_envs.envs.tau2.users.persona import Persona, mistyped, persona_of
from agent_envs.envs.tau2.users.reaction import Reaction, opening
from agent_envs.envs.tau2.users.sentences import LONGEST
from agent_envs.envs.tau2.users.shelf import shelf_of
from agent_envs.envs.tau2.users.understanding import understood

__all__ = ["Mind", "ScriptedUser"]
ScriptOf = Callable[[Tau2Task], UserScript]
_MOST_REQUESTS = 12  # of one message, that are carried out
_REMEMBERED = 512
_MAY_YOU = re.compile(
    r"(?:\w+,? ){0,2}?(?:would you mind|could you|can you|will you|please)\b|.*\b(?:try|would you mind (?!if))\b"
)


def _from_scenario(task: Tau2Task) -> UserScript:
    from agent_envs.envs.tau2.users.scenario import script_of

    return script_of(task)


class ScriptedUser(Uncopied):
    """Plays the user's side by its script; all that changes travels in the dialogue."""

    name, service = "scripted", ""

    def __init__(self, persona: str | Mapping[str, Any] = "task", fallback: ScriptOf = _from_scenario) -> None:
        """Choose the manners ("task": the script's own); `fallback` makes the script of a task that has none.

        Raises:
            UsageError: no such persona.
        """
        persona_of(persona)
        self._persona, self._fallback = persona, fallback
        self._known: dict[int, tuple[Any, UserScript, Persona]] = {}

    def speak(self, scene: Scene) -> tuple[Line | None, Any]:
        """Return the user's next line, and what it keeps in mind."""
        script, manners = self._of(scene)
        if scene.memory is None:
            random = _random(scene)
            text, mind = opening(script, manners, random)
            return Line("user", _typed(text, manners, random, script)), mind
        mind, call = _acting(scene, script, remembered(scene.memory, script))
        if call is not None:
            return call, mind
        random = _random(scene)
        said = _said(scene)
        before = said[-2][-LONGEST:].lower() if len(said) > 1 else ""
        heard = understood(_heard(scene))
        shelf = shelf_of(scene.rules.domain.agent_database)
        again = said[-1:] == said[-2:-1]
        reaction = Reaction(script, manners, random, mind, heard, repeated=again, before=before, shelf=shelf)
        look = reaction.look if scene.rules.domain.user is not None else None
        if look is not None:
            return _call(scene, device.Step(look.tool, look.arguments)), mind.but(checking=True)
        text, mind = reaction.answer()
        return Line("user", _typed(text, manners, random, script)), mind.but(reports=(), checked="")

    def _of(self, scene: Scene) -> tuple[UserScript, Persona]:
        """Return a task's script and its user's manners, read once."""
        data = scene.task.data
        known = self._known.get(id(data))
        if known is None:
            row = data.get("user_script")
            script = self._fallback(scene.public) if row is None else read_script(row)
            known = data, script, persona_of(self._persona, script.persona)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[id(data)] = known  # the data is kept with it, so that its identity stays its own
        return known[1:]


def _random(scene: Scene) -> Random:
    return Random(f"{scene.key}|{len(scene.dialogue.lines)}")


def _acting(scene: Scene, script: UserScript, mind: Mind) -> tuple[Mind, Line | None]:
    """Return the next call that the agent's words or the last answer ask for, or None where all is done."""
    news = scene.news
    answer = news[-1] if news and news[-1].results else None
    if answer is None:
        asked = device.requests(_asked(_heard(scene))) if scene.rules.domain.user is not None else ()
        asked = device.held(asked, abroad(script))
        mind = mind.but(queue=asked[:_MOST_REQUESTS], steps=(), reports=(), checking=False, checked="")
    else:
        mind = _answered(script, mind, answer.results[0].name, answer.results[0].content)
    if mind.steps:
        return mind, _call(scene, mind.steps[0])
    if not mind.queue:
        return mind, None
    steps = device.plan(mind.queue[0])
    mind = mind.but(queue=mind.queue[1:], steps=steps)
    return mind, _call(scene, steps[0])


def _answered(script: UserScript, mind: Mind, tool: str, content: str) -> Mind:
    """Return what is kept in mind of a call's answer."""
    check = script.wants[mind.want].check
    if mind.checking:
        passed = check is not None and check.passes.lower() in content.lower()
        return mind.but(checking=False, checked="passed" if passed else "failed")
    if not mind.steps:
        return mind
    told = device.told(tool, content, mind.steps[0].label)
    reports = mind.reports if told in mind.reports else (*mind.reports, told)
    return mind.but(
        steps=device.due(mind.steps[1:], content), reports=reports, checked=verdict(check, mind.steps[0], content)
    )


def _call(scene: Scene, step: device.Step) -> Line:
    made = sum(len(line.calls) for line in scene.dialogue.lines if line.sender == "user")
    return Line("user", calls=(ToolCall(f"call_{made}", step.tool, step.arguments),))


def _heard(scene: Scene) -> str:
    """Return the agent's last words, however many calls of the user's own lie between."""
    for line in reversed(scene.dialogue.lines):
        if line.sender == "assistant" and not line.calls:
            return line.text[-LONGEST:]
    return ""


def _asked(text: str) -> str:
    """Return an agent's words without the sentences in which it awaits a yes to what it would do itself."""
    for sentence in understood(text).awaiting:
        if not _MAY_YOU.match(sentence):
            text = re.sub(re.escape(sentence), " ", text, flags=re.IGNORECASE)
    return text


def _said(scene: Scene) -> list[str]:
    """Return the agent's last words, oldest first."""
    return [line.text for line in scene.dialogue.lines[-40:] if line.sender == "assistant" and not line.calls]


def _typed(text: str, manners: Persona, random: Random, script: UserScript) -> str:
    if not manners.typos:
        return text
    facts = [*script.facts, *(fact for want in script.wants for fact in want.facts)]
    return mistyped(text, manners.typos, random, frozenset(" ".join(fact.value for fact in facts).lower().split()))
