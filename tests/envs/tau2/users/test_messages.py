"""Two thousand messages of agents are put to customers of generated tasks, and device instructions under any condition.

`messages.txt` holds what agents said in tables of proposals, without what was right: whatever an agent says, the customer
says no plain yes, tells nothing that was not named, leaves nothing that asks, and changes nothing on a condition that it
does not understand.
"""

import re
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from agent_envs.envs.tau2.database import thawed
from agent_envs.envs.tau2.task_generator.source import GeneratedSource, generated_domain
from agent_envs.envs.tau2.telecom_device import user_kit
from agent_envs.envs.tau2.user_script import read_script
from agent_envs.envs.tau2.users.sentences import spoken_of
from agent_envs.envs.tau2.users.understanding import understood
from agent_envs.envs.tau2.users.wording import CONSENT
from tests.envs.tau2.users.scenes import Talk
from tests.examples import sample

PATH = Path(__file__).with_name("messages.txt")
MESSAGES = tuple(line.replace("\\n", "\n") for line in PATH.read_text(encoding="utf-8").splitlines())
DOMAINS = ("retail", "airline", "telecom")
TASKS = 24  # of a domain, that take turns
YES = re.compile(
    r"\W*(?:yes|yeah|yep|yup|sure|ok|okay|all right|alright|right|correct|of course|certainly|go ahead|please do|agreed|fine"
    r"|absolutely|definitely|by all means|do it|that works|sounds good|i agree|i confirm|i accept)\b",
    re.IGNORECASE,
)
FIGURES = re.compile(r"\d[\d.,-]*\d|\d")


@cache
def generated(name, place):
    return thawed(GeneratedSource(name, 7).get("test", place).data)


def talk_of(name, place, persona="task", **options):
    return Talk(generated(name, place), persona, domain=generated_domain(name, world=7), **options)


def figures(text):
    return set(FIGURES.findall(text))


def test_there_are_two_thousand_messages_in_less_than_two_hundred_kilobytes():
    assert len(set(MESSAGES)) == len(MESSAGES) > 1_900 and PATH.stat().st_size <= 200_000


@pytest.mark.parametrize("name", DOMAINS)
def test_whatever_is_said_first_gets_no_yes_and_no_more_than_it_names(name):
    faults = []
    for number, message in sample(list(enumerate(MESSAGES)), 500):
        talk = talk_of(name, number % TASKS)
        script = read_script(generated(name, number % TASKS)["user_script"])
        opening, answer, heard = talk.answer, talk.say(message), understood(message)
        named = {*spoken_of(message.lower()), *(("amount",) if re.search(r"(?i)\bgb\b|\bgig", message) else ())}
        facts = [fact for want in script.wants for fact in want.facts] + list(script.facts)
        known = figures(" ".join((opening, *(fact.say for fact in facts if fact.topic in named))))
        consent = CONSENT.search(answer)
        if YES.match(answer):
            faults.append(("yes", message, answer))
        if consent and figures(answer[consent.start() :]) - known:
            faults.append(("told", message, answer))
        fresh = {
            fact.say for want in script.wants for fact in want.facts if fact not in script.facts and fact.say in answer
        }
        if len({one for one in fresh if not figures(one) <= figures(opening) and one not in opening}) > 2:
            faults.append(("details", message, answer))
        if "###" in answer and (heard.asks or not (heard.closes or heard.refuses or heard.transfers)):
            faults.append(("stop", message, answer))
        if any(user_kit.tools[call].writes for call in talk.calls) and re.search(r"\b(?:if|unless|case)\b", message):
            faults.append(("phone", message, talk.calls))
    assert not faults, (len(faults), faults[:5])


@pytest.mark.parametrize("name", DOMAINS)
def test_nothing_that_asks_ends_a_conversation_in_which_something_was_changed(name):
    for number, message in sample(list(enumerate(MESSAGES[:: len(DOMAINS)])), 160):
        talk = talk_of(name, number % TASKS, "plain")  # who has patience
        heard = understood(message)
        answer = talk.say(message)
        if not talk.dialogue.ended and heard.asks:
            talk.say("I have done that for you.")
            assert talk.dialogue.ended or "###" not in talk.say(message), (message, answer)


INSTRUCTIONS = (
    "turn on airplane mode", "please turn off mobile data", "enable data roaming", "switch data saver on", "restart your phone",
    "reset your APN settings", "set the network mode to 3G only", "please reseat the SIM card", "disconnect the VPN",
    "grant the messaging app the SMS permission",
)  # fmt: skip
# {} is an instruction, {} {} two sentences of which the second is one.
CONDITIONS = (
    "If your phone has a green case, {}.", "{}, provided that your cat is asleep.", "In case of thunder, {}.",
    "{} as long as the moon is full.", "Should your phone be older than you, {}.", "Unless your neighbour objects, {}.",
    "{} in the event of a flood.", "Assuming that you live on the coast, {}.", "When your neighbour comes home, {}.",
    "Once the bell rings, {}.", "{} after your lunch.", "Wait until it rains and {}.", "{} if and only if it snows.",
    "{} (only for phones with a crack).", "Only do this if your screen is red: {}.", "Only if it is Tuesday. {}.",
    "{}. But only if you can see a unicorn.", "Is your phone red? Then {}.", "Is your phone red? If so, {}.",
    "Please check whether the lamp is on. If it is, {}.", "Look at the kettle. If it's off, {}.", "Suppose it rains. {}.",
    "For customers with a parrot: {}.", "{} - red phones only.", "Had you bought it in May, {}.", "{} except on Sundays.",
    "Falls Ihr Telefon rot ist, {}.", "{}, wenn Ihr Nachbar da ist.", "Si su teléfono es rojo, {}.", "{} si llueve.",
    "{} if airplane mode is on and your dog is asleep.", "If the TV is on, {}.", "If you like pizza, {}.",
    "{} given that it is hot.",
    "On condition that your aunt agrees, {}.", "{} the moment your bus leaves.", "Depending on the weather, {}.",
    'Our manual says: "{} now". We do not do that.', "They told a friend of mine to {}.", "This applies to tablets: {}.",
)  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_phone_stays_as_it_is_on_a_condition_that_is_not_understood(condition):
    for place, instruction in enumerate(INSTRUCTIONS):
        text = condition.format(instruction)
        talk = talk_of("telecom", place)
        answer = talk.say(text[:1].upper() + text[1:])
        assert [call for call in talk.calls if user_kit.tools[call].writes] == [], (text, answer)
        assert '"' in text or "###" not in answer


@pytest.mark.parametrize(
    ("frame", "instruction"), list(product(("{}.", "Thank you! Now {}.", "Could you {}?"), INSTRUCTIONS))
)
def test_the_same_instructions_without_one_are_carried_out(frame, instruction):
    talk = talk_of("telecom", 0)
    talk.say(frame.format(instruction.removeprefix("please ")).capitalize())
    assert talk.calls and "plainly" not in talk.answer


def test_what_is_not_understood_is_looked_at_and_asked_for_plainly():
    talk = talk_of("telecom", 0, "plain")
    answer = talk.say("If your phone has a green case, turn on airplane mode.")
    assert talk.calls == ["check_network_status"] and "Airplane Mode" in answer
    assert "Please tell me plainly what to switch." in answer
