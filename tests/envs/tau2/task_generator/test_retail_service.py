"""The generated shop's customers, served in plain words by an agent that knows what the policy grants: each task can be won."""

import json

import pytest

from agent_envs.base.messages import ToolCall
from agent_envs.envs.tau2.evaluation import evaluate
from agent_envs.envs.tau2.partners import make_partner, take_turn
from agent_envs.envs.tau2.scene import Scene
from agent_envs.envs.tau2.task_generator.retail_tasks import draw_wishes
from agent_envs.envs.tau2.task_generator.source import DIFFICULTIES, GeneratedSource, generated_domain
from agent_envs.envs.tau2.task_generator.wishes import voiced
from agent_envs.envs.tau2.task_schema import read_task, tau2_task
from agent_envs.envs.tau2.turn_taking import Rules, opened, spoke

DOMAIN = generated_domain("retail")
RULES = Rules(DOMAIN)
WRITES = {name for name, tool in DOMAIN.assistant.tools.items() if tool.writes}
MORE = "Is there anything else I can do for you?"
NAME = "May I have your full name and zip code, please?"


class Clerk:
    """Grants each want when it is asked for, after a yes; refuses what no call grants, however often."""

    def __init__(self, effects):
        self.effects, self.served, self.proposed, self.knows = effects, set(), None, False

    def turn(self, text):
        """Return what is said, and the calls made before it."""
        if not self.knows:
            self.knows = "zip" in text.lower()
            if not self.knows:
                return NAME, ()
        if self.proposed is not None:
            return self._decided(text)
        for place, effect in enumerate(self.effects):
            if voiced(effect.say, True).lower() in text.lower() and place not in self.served:
                return self._asked(place, effect), ()
        return "What would you like me to do?", ()

    def _asked(self, place, effect):
        calls = self._calls(place)
        if effect.question:
            self.served.add(place)
            return f"That is {' '.join(effect.answers)}. {MORE}"
        if not calls:
            return f"I am sorry, but our policy does not allow that, so I cannot do it. {MORE}"
        self.proposed = place
        steps = "; ".join(f"{name.replace('_', ' ')} {given.get('order_id', '')}" for name, given in calls)
        return f"I would do this for you: {steps}. Shall I go ahead?"

    def _decided(self, text):
        place, self.proposed = self.proposed, None
        assert not text.lower().startswith("no"), (self.effects[place].say, text)
        self.served.add(place)
        return f"It is done. {' '.join(self.effects[place].answers)} {MORE}", self._calls(place)

    def _calls(self, place):
        return [action for action in self.effects[place].actions if action[0] in WRITES]


def served(split, number, difficulty):
    task = GeneratedSource("retail", difficulty=difficulty).get(split, number)
    public, user, memory = read_task(task.data, "retail"), make_partner("user", "scripted"), None
    clerk, dialogue = Clerk(draw_wishes(split, number, difficulty)[1]), opened(RULES)
    while not dialogue.ended:
        scene = Scene(task, public, RULES, "user", dialogue.replace(memory=memory), f"key {task.id}")
        dialogue = take_turn(user, scene)
        memory = dialogue.memory
        if not dialogue.ended:
            words, calls = clerk.turn(dialogue.lines[-1].text)
            for name, arguments in calls:
                dialogue = spoke(RULES, dialogue, "", (ToolCall("call_0", name, json.dumps(arguments)),))
            dialogue = spoke(RULES, dialogue, words)
    return task, dialogue, clerk


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
@pytest.mark.parametrize("split", ["train", "test"])
def test_whoever_follows_the_policy_in_plain_words_earns_everything(split, difficulty):
    for number in range(40):
        task, dialogue, clerk = served(split, number, difficulty)
        assert dialogue.ended == "user_stop" and clerk.served
        score = evaluate(DOMAIN, tau2_task(task, "retail"), dialogue.lines, dialogue.ended)
        assert score.reward == 1.0, (task.id, score.components)


def test_whoever_obeys_a_forbidden_wish_earns_nothing():
    """A stranger's order: the tools cancel it, and the score does not forgive that."""
    tempted = 0
    for number in range(120):
        case, effects = draw_wishes("train", number, "hard")
        orders = [
            fact.value for effect in effects if not effect.actions for fact in effect.facts if fact.topic == "order"
        ]
        foreign = [order_id for order_id in orders if order_id and order_id not in case.user["orders"]]
        if not foreign:
            continue
        tempted += 1
        task, dialogue, _ = served("train", number, "hard")
        arguments = {"order_id": foreign[0], "reason": "no longer needed"}
        call = ToolCall("call_0", "cancel_pending_order", json.dumps(arguments))
        obeyed = spoke(RULES, dialogue.replace(ended="", turn="assistant"), "", (call,))
        assert not obeyed.lines[-1].results[0].error
        assert evaluate(DOMAIN, tau2_task(task, "retail"), obeyed.lines, "user_stop").reward == 0.0
    assert tempted > 5
