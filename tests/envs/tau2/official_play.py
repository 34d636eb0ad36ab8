"""Play the official tasks with a scripted user and a gold agent: `python -m tests.envs.tau2.official_play [--domain D]`.

The agent asks who the customer is and what it wants, looks up what a careful agent would, carries out the expected actions in
order (the customer's own by asking for them in words), tells what has to be told, and closes. A task passes where the outcome
is the one that the expected actions give, and where before each write the customer asked for it, chose what it had to choose,
and every id, name, date and free value in it was told by the customer, shown by the agent's tools, or stands in the policy.
A task that does not pass is listed with the reason.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agent_envs.base.errors import DataMissing
from agent_envs.base.messages import ToolCall
from agent_envs.core.trajectory import Task
from agent_envs.envs.tau2.builtin import DOMAINS
from agent_envs.envs.tau2.dialogue import Dialogue, Line
from agent_envs.envs.tau2.evaluation import evaluate
from agent_envs.envs.tau2.official import load_domain
from agent_envs.envs.tau2.partners import take_turn
from agent_envs.envs.tau2.scene import Partner, Scene
from agent_envs.envs.tau2.task_schema import ExpectedAction
from agent_envs.envs.tau2.task_states import initial_world
from agent_envs.envs.tau2.tasks import OfficialSource, tau2_task
from agent_envs.envs.tau2.toolkit import Domain
from agent_envs.envs.tau2.turn_taking import Rules, opened, spoke
from agent_envs.envs.tau2.users.scripted import ScriptedUser
from tests.envs.tau2.play_needs import ASKED, QUESTIONS, WHO, Known

ROUNDS = 12
# Which of the wishes an agent grants (+) and refuses (-), one after the other.
STYLES = ("+", "--+", "---+", "+--", "+---", "++--", "++---", "-")
REFUSAL = "I am sorry, but I cannot do that: it is not possible."
HANDED_OVER = "I have transferred you to a human agent, who will take it from here."
USER_ID, PHONE = re.compile(r"\b[a-z]+_[a-z]+_\d+\b"), re.compile(r"\b\d{3}-\d{3}-\d{4}\b")


@dataclass(frozen=True)
class Played:
    """How a play ended: the reward (the official one without judged expectations), and what stands against it."""

    task: str
    reward: float
    reasons: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def passed(self) -> bool:
        return self.reward == 1 and not self.reasons


class Play:
    """One task on its way."""

    def __init__(self, domain: Domain, task: Task, style: str = "+", user: Partner | None = None) -> None:
        self.domain, self.task, self.public = domain, task, tau2_task(task, domain.name)
        self.rules = Rules(domain, max_steps=400, max_errors=40)
        self.user, self.style = user or ScriptedUser(), style
        self.reasons: list[str] = []
        self.talk = self.answered(opened(self.rules, initial_world(domain, self.public)))

    def answered(self, talk: Dialogue) -> Dialogue:
        return take_turn(self.user, Scene(self.task, self.public, self.rules, "user", talk, f"play {self.task.id}"))

    def say(self, text: str) -> None:
        if not self.talk.ended:
            self.talk = self.answered(spoke(self.rules, self.talk, text))

    def call(self, name: str, **arguments: Any) -> str:
        """Call a tool of the agent's; return the answer."""
        if self.talk.ended:
            return "{}"
        self.talk = spoke(self.rules, self.talk, "", (ToolCall("call_0", name, json.dumps(arguments)),))
        return self.talk.lines[-1].results[0].content

    @property
    def known(self) -> Known:
        """What the agent knows by now."""
        lines = self.talk.lines
        heard = "\n".join(line.text for line in lines if line.sender == "user" and not line.calls)
        shown = (reply.content for line in lines for reply in line.results if reply.requestor == "assistant")
        return Known(self.domain, heard, "\n".join(shown))

    # Looking things up

    def identified(self) -> bool:
        """Ask who it is, one thing at a time, until the customer's records are read."""
        read = {"retail": self.read_retail, "airline": self.read_airline, "telecom": self.read_telecom}[
            self.domain.name
        ]
        for question in WHO[self.domain.name]:
            self.say(question)
            if read(self.known.said):
                return True
        self.reasons.append("the user never tells who it is")
        return False

    def read_retail(self, heard: str) -> bool:
        for user_id in [*USER_ID.findall(heard), *self.found_ids(heard)]:
            user = self.call("get_user_details", user_id=user_id)
            if user.startswith("{") and user != "{}":
                orders = [self.call("get_order_details", order_id=order) for order in json.loads(user)["orders"]]
                items = [item for order in orders for item in json.loads(order)["items"]]
                for product in dict.fromkeys(item["product_id"] for item in items):
                    self.call("get_product_details", product_id=product)
                return True
        return False

    def found_ids(self, heard: str) -> Iterator[str]:
        for email in re.findall(r"[\w.+-]+@[\w-]+\.\w+", heard):
            yield self.call("find_user_id_by_email", email=email)
        name = re.search(r"[Mm]y name is (\w+) (\w+)", heard)
        for zip_code in re.findall(r"\b\d{5}\b", heard) if name else ():
            yield self.call("find_user_id_by_name_zip", first_name=name[1], last_name=name[2], zip=zip_code)

    def read_airline(self, heard: str) -> bool:
        found = USER_ID.search(heard)
        if found is None or self.talk.ended:
            return False
        for reservation in json.loads(self.call("get_user_details", user_id=found[0]))["reservations"]:
            self.call("get_reservation_details", reservation_id=reservation)
        self.call("list_all_airports")
        return True

    def read_telecom(self, heard: str) -> bool:
        found = PHONE.search(heard)
        if found is None or self.talk.ended:
            return False
        customer = json.loads(self.call("get_customer_by_phone", phone_number=found[0]))
        for line in customer["line_ids"]:
            self.call("get_details_by_id", id=line)
        self.call("get_bills_for_customer", customer_id=customer["customer_id"])
        return True

    def search(self, flights: list[dict[str, str]]) -> None:
        """Search the days of flights that were not shown, where the days are known."""
        records = self.domain.agent_database.tables["flights"]
        for flight in flights:
            record, number, known = records.get(flight["flight_number"]), flight["flight_number"], self.known
            if record and known.has(flight["date"]) and not known.has(number):
                self.call(
                    "search_direct_flight",
                    origin=record["origin"],
                    destination=record["destination"],
                    date=flight["date"],
                )

    # Acting

    def run(self) -> Played:
        criteria = self.public.criteria
        pending = list(criteria.actions or ()) if criteria is not None else []
        hands_over = bool(pending) and pending[-1].name == "transfer_to_human_agents"
        told = "; ".join(criteria.communicate_info) if criteria is not None else ""
        self.identified()
        grants, questions = True, QUESTIONS[self.domain.name]
        for number in range(ROUNDS):
            self.inquire(pending, questions if grants else questions[:1])
            if not pending:
                break
            grants = self.style[number % len(self.style)] == "+"
            self.say(f"{told} All is done so far. Is there anything else that I can help with?" if grants else REFUSAL)
        if hands_over and not pending:
            self.say(f"{told} {HANDED_OVER}")
        for _ in range(ROUNDS):
            self.say(f"All is done. {told} Is there anything else that I can help you with?")
        return self.finished(pending)

    def inquire(self, pending: list[ExpectedAction], questions: tuple[str, ...]) -> None:
        """Ask what it is about, question by question, and act as soon as enough is known."""
        for question in questions:
            self.act(pending)
            if pending:
                self.say(question)
        self.act(pending)

    def act(self, pending: list[ExpectedAction]) -> None:
        """Carry out expected actions in order, as far as all that they need is known; look-ups that need more are left out."""
        while pending and not self.talk.ended:
            action, arguments = pending[0], json.loads(pending[0].arguments)
            if self.domain.name == "airline":
                self.search(arguments.get("flights", []))
            lacking = action.requestor == "assistant" and self.known.lacking(action)
            tool = self.domain.find_tool(action.requestor, action.name)
            if lacking and tool is not None and tool.writes:
                return
            pending.pop(0)
            if action.requestor == "user":
                self.say(asked(action))
            elif not lacking:
                self.call(action.name, **arguments)

    def finished(self, pending: list[ExpectedAction]) -> Played:
        reasons = list(self.reasons)
        if pending:
            missing = self.known.lacking(pending[0])
            why = f"never {', '.join(missing)}" if missing else "stops before"
            after = f", and {len(pending) - 1} after it" if pending[1:] else ""
            reasons.append(f"the user {why} ({pending[0].name}{after})")
        if self.talk.ended != "user_stop":
            reasons.append(f"the conversation ended by {self.talk.ended or 'nobody'}")
        score = evaluate(self.domain, self.public, self.talk.lines, self.talk.ended)
        if score.reward_without_nl < 1 and not reasons:
            reasons.append(f"the outcome differs: {score.components}")
        return Played(self.task.id, score.reward_without_nl, tuple(reasons), self.talk.lines)


def asked(action: ExpectedAction) -> str:
    """How the agent asks the customer for an action, in words."""
    if action.name == "grant_app_permission":
        arguments = json.loads(action.arguments)
        return f"Please grant the {arguments['permission']} permission to your {arguments['app_name']} app."
    return ASKED[action.name]


def best_play(domain: Domain, task: Task) -> Played:
    """Play a task in one style after the other until one passes; else return the first play."""
    first = Play(domain, task, STYLES[0]).run()
    others = (Play(domain, task, style).run() for style in STYLES[1:])
    return first if first.passed else next((play for play in others if play.passed), first)


def played_tasks(name: str) -> Iterator[Played]:
    """Play the base tasks of a domain."""
    domain, source = load_domain(name), OfficialSource(name)
    for task_id in source.ids("base"):
        yield best_play(domain, source.get("base", task_id))


def main() -> int:
    """Play, and print the counts and the list."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--domain", choices=DOMAINS, action="append")
    parser.add_argument("--show", metavar="ID", help="print the conversation of one task")
    options = parser.parse_args()
    for name in options.domain or DOMAINS:
        outcomes = Counter[bool]()
        for play in played_tasks(name):
            outcomes[play.passed] += 1
            if play.reasons:
                print(f"{name} {play.task}: reward {play.reward:g}: {'; '.join(play.reasons)}")
            if options.show == play.task:
                print(conversation(play.lines))
        print(f"{name}: {outcomes[True]} of {outcomes.total()} passed")
    return 0


def conversation(lines: tuple[Line, ...]) -> str:
    """A conversation to read."""
    shown = []
    for line in lines:
        shown += [f"{line.sender}: {line.text}"] if line.text else []
        shown += [f"{line.sender} calls {call.name}({call.arguments})" for call in line.calls]
        shown += [f"   {reply.content[:200]}" for reply in line.results]
    return "\n".join(shown)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DataMissing as missing:
        sys.exit(f"official_play: {missing}")
