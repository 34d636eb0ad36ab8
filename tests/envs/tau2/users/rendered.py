"""Proposals are rendered from what a task expects: in several styles, as they should be, and with one value or the act altered.

`python -m tests.envs.tau2.users.rendered WORLD [--show]` counts those that the customer of generated tasks agrees to. A value
is altered only where the customer's script has it, so that the answer due is no matter of taste. Nothing here is taken from
what the reader knows: the words are those of the tools' arguments and of the records in the database.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from agent_envs.core.trajectory import Task
from agent_envs.envs.tau2.database import thawed
from agent_envs.envs.tau2.task_generator.source import GeneratedSource, generated_domain
from agent_envs.envs.tau2.task_schema import tau2_task
from tests.envs.tau2.users.desk import CITIES, Desk, day, listed
from tests.envs.tau2.users.proposals import kind_of
from tests.envs.tau2.users.scenes import Talk

# The styles, other words for a phrase's first ones, and what else an agent may offer, by the tool that would be right.
STYLES, SAID, OTHERS = json.loads(Path(__file__).with_name("rendered.json").read_text(encoding="utf-8")).values()


def turned(text: str) -> str:
    """Return a text with two different digits that stand together in the other order, "" where there are none."""
    places = [at for at in range(len(text) - 1) if text[at : at + 2].isdigit() and text[at] != text[at + 1]]
    return text[: places[-1]] + text[places[-1] + 1] + text[places[-1]] + text[places[-1] + 2 :] if places else ""


Alteration = tuple[str, dict[str, Any], tuple[str, str] | None]


def altered(call: dict[str, Any], desk: Desk, known: str, random: Random) -> Iterator[Alteration]:
    """Yield what is altered, the arguments, and a change of the finished text, as a pair of words."""
    for field in ("order_id", "reservation_id", "line_id", "address1", "address2", "zip"):
        value = call.get(field, "")
        value = desk.number(value) if field == "line_id" and value else value
        if value and value in known and turned(value):
            yield field, call, (value, turned(value))
    for field in ("payment_method_id", "payment_id"):
        if field in call and desk.means(call[field]).removeprefix("your ") in known:
            others = [one for one in desk.user["payment_methods"] if desk.means(one) != desk.means(call[field])]
            if others:
                yield "means", call | {field: random.choice(others)}, None
    if "gb_amount" in call and f"{call['gb_amount']:g} gigabyte" in known:
        yield "gb", call | {"gb_amount": call["gb_amount"] + 2}, None
    yield from _other_items(call, desk, known, random)
    yield from _other_flights(call, desk, known, random)
    yield from _other_passengers(call, desk, known)


def _other_items(call: dict[str, Any], desk: Desk, known: str, random: Random) -> Iterator[Alteration]:
    if len(call.get("item_ids", ())) > 1 and "all of it" not in known:
        yield (
            "fewer items",
            call | {field: call[field][:-1] for field in ("item_ids", "new_item_ids") if field in call},
            None,
        )
    if "new_item_ids" not in call or "cheapest" in known or "if that is not available" in known:
        return
    item = desk.items(call["order_id"], call["item_ids"][:1])[0]
    meant = {field: value for field, value in desk.variant(item, call["new_item_ids"][0]).items() if value in known}
    variants = desk.tables["products"][item["product_id"]]["variants"]
    others = [
        one for one in variants
        if any(variants[one]["options"][field] not in (value, item["options"][field]) for field, value in meant.items())
    ]  # fmt: skip
    if others:
        yield "option", call | {"new_item_ids": [random.choice(others), *call["new_item_ids"][1:]]}, None


def _other_flights(call: dict[str, Any], desk: Desk, known: str, random: Random) -> Iterator[Alteration]:
    booked = desk.tables.get("reservations", {}).get(call.get("reservation_id", ""), {})
    if "cabin" in call and call["cabin"].replace("_", " ") in known.lower():
        others = sorted({"economy", "business", "basic_economy"} - {call["cabin"], booked.get("cabin")})
        yield "cabin", call | {"cabin": random.choice(others)}, None
    before, flights = booked.get("flights", ()), call.get("flights", ())
    moved = [one for at, one in enumerate(flights) if not before or before[at]["date"] != one["date"]]
    if moved and day(date := moved[0]["date"]) in known:
        later = moved[0] | {"date": f"{date[:-2]}{int(date[-2:]) + 3:02}"}
        yield "date", call | {"flights": [later if one == moved[0] else one for one in flights]}, None
    if "total_baggages" in call:
        yield "bags", call | {"total_baggages": call["total_baggages"] + 1}, None
    if "insurance" in call:
        yield "insurance", call | {"insurance": {"yes": "no", "no": "yes"}[call["insurance"]]}, None
        others = sorted(set(CITIES) - {call["origin"], call["destination"]})
        yield "city", call | {"destination": random.choice(others)}, None


def _other_passengers(call: dict[str, Any], desk: Desk, known: str) -> Iterator[Alteration]:
    if "passengers" not in call or "reservation_id" not in call:
        return
    for place, old in enumerate(desk.tables["reservations"][call["reservation_id"]]["passengers"]):
        one = call["passengers"][place]
        if one != old:
            several = [dict(each) for each in call["passengers"]]
            several[place]["last_name"] = "Underhill"
            yield "passenger", call | {"passengers": several}, None
            if one["dob"] in known and turned(one["dob"]):
                yield "birth", call, (one["dob"], turned(one["dob"]))


def reworded(act: str, random: Random) -> str:
    """Return a phrase with other words for its first verb, or as it is."""
    for words, others in SAID.items():
        if act.startswith(words + " "):
            found = random.choice((words, *others))
            found = found if words != "add" or found != "put" or "data" not in act else words
            if found in ("swap out", "substitute", "take off"):
                return act.replace("replace", found, 1).replace(
                    " by ", {"substitute": " with "}.get(found, " and put in "), 1
                )
            return found + act.removeprefix(words)
    return act


def rendered(title: str, fields: dict[str, str], act: str, random: Random) -> Iterator[tuple[str, str]]:
    """Yield a proposal in each style."""
    for style, text in STYLES.items():
        said = reworded(act, random)
        yield style, text.format(
            title=title, act=said, act_first=said[0].upper() + said[1:],
            lines="\n".join(f"{field}: {value}" for field, value in fields.items()),
            bullets="\n".join(f"- **{field}:** {value}" for field, value in {"Action": title, **fields}.items()),
            table="\n".join(f"| {field} | {value} |" for field, value in fields.items()),
            pairs=", ".join(f"{field.lower()} {value}" for field, value in fields.items()),
            numbered="\n".join(f"{at}. {one}: {fields[one]}" for at, one in enumerate(fields, 1)),
        )  # fmt: skip


def proposals(domain_name: str, task: Task, domain: Any) -> Iterator[tuple[str, str, str, str]]:
    """Yield, of the first thing that a task expects of the agent, kind, what is altered, style, and words."""
    actions = tau2_task(task, domain.name).criteria.actions or ()
    call = next((one for one in actions if one.requestor == "assistant" and one.name in OTHERS), None)
    if call is None:
        return
    data, arguments = thawed(task.data), json.loads(call.arguments)
    known = json.dumps(data["user_scenario"]) + json.dumps(data.get("user_script"))
    desk, random = Desk(domain, _owner(domain, arguments)), Random(task.id)
    plain = desk.told(call.name, arguments)
    for style, text in rendered(*plain, random):
        yield "wanted", call.name, style, text
    for what, changed, pair in altered(arguments, desk, known, random):
        for style, text in rendered(*desk.told(call.name, changed), random):
            yield "unwanted", f"{call.name} {what}", style, text.replace(*pair) if pair else text
    order = next((value for key, value in plain[1].items() if key in ("Order", "Reservation", "Line")), "")
    items = desk.items(order, arguments["item_ids"]) if "item_ids" in arguments else []
    names = listed([item["name"].lower() for item in items])
    for other in OTHERS[call.name]:
        act = other.format(order=order, names=names)
        for style in ("prose", "polite", "question"):
            yield "unwanted", f"{call.name} other", style, STYLES[style].format(act=act)


def _owner(domain: Any, call: dict[str, Any]) -> str:
    if "user_id" in call:
        return str(call["user_id"])
    tables = domain.agent_database.tables
    for table, field in (("orders", "order_id"), ("reservations", "reservation_id")):
        if field in call:
            return str(tables[table][call[field]]["user_id"])
    return ""


def count(
    domain_name: str, world: int, kinds: tuple[str, ...] = ("easy",), tasks: int = 24, show: bool = False
) -> dict[str, Counter[str]]:
    """Return, of each kind, how often each answer came, by what was altered, on the first tasks of a world."""
    domain, found = generated_domain(domain_name, world=world), {"wanted": Counter[str](), "unwanted": Counter[str]()}
    for kind, place in product(kinds, range(tasks)):
        task = GeneratedSource(domain_name, world, kind).get("test", f"{kind}-test-{place}-w{world}")
        for sort, what, style, text in proposals(domain_name, task, domain):
            talk = Talk(thawed(task.data), "plain", domain=domain)
            wish = talk.answer
            got = kind_of(talk.say(text), wish, talk)
            found[sort][got] += 1
            if show and (got == "yes") != (sort == "wanted"):
                print(f"[{task.id}] {sort} {what} {style} -> {got}: {text!r}\n      {wish!r}\n      {talk.answer!r}")
    return found


def main() -> None:
    """Count on one world."""
    for name in ("retail", "airline", "telecom"):
        for sort, answers in count(name, int(sys.argv[1]), show="--show" in sys.argv).items():
            print(name, sort, dict(answers), f"yes {answers['yes'] / max(1, answers.total()):.3f}")


if __name__ == "__main__":
    main()
