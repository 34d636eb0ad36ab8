"""Stock phrases give a scripted user several ways of saying each thing that its script does not word."""

from random import Random

from agent_envs.envs.tau2.users.persona import Persona

STOP, TRANSFER = "###STOP###", "###TRANSFER###"
# Of each thing, the ways of a terse, a plain and a talkative user.
_WAYS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "greet": (
        ("Hi.", "Hello."),
        ("Hi!", "Hello!", "Hello there.", "Good day."),
        ("Hello, I hope you are well!", "Hi there, thank you for taking the time.", "Good day, I am glad somebody is there."),
    ),
    "yes": (
        ("Yes.", "Yes, do it."),
        ("Yes, please.", "Yes, please go ahead.", "Yes, that is right, please go ahead."),
        ("Yes, that sounds good to me, please go ahead.", "Yes, please do, that would be a great help."),
    ),
    "no": (("No.",), ("No, please do not do that.", "No, that is not what I want."), ("No, I would rather not, sorry.",)),
    "no_thanks": (("No.",), ("No, thank you.",), ("No, thank you, I would rather not.",)),
    "nothing_more": (
        ("Nothing else.",),
        ("No, nothing else on that.", "No, that is all for this."),
        ("No, there is nothing else that I would like to add to that.",),
    ),
    "thanks": (
        ("Thanks.", "OK, thanks."),
        ("Thank you.", "Great, thank you.", "Good, thanks."),
        ("That is great, thank you very much.", "Wonderful, you have been a real help."),
    ),
    "all": (
        ("That is all.",),
        ("That is all, thank you!", "That was everything. Thank you for your help!", "No, that is all. Thank you!"),
        ("That was everything that I needed, thank you so much for your help, and have a nice day!",),
    ),
    "give_up": (
        ("Never mind.",),
        ("I see. Then that is all.", "All right, then I leave it at that."),
        ("Well, that is a pity, but then there is nothing to be done, I suppose. Thank you anyway.",),
    ),
    "no_patience": (
        ("This leads nowhere.",),
        ("I am afraid that this leads nowhere. I will try another time.",),
        ("I am sorry, but we are going round in circles, so I will try again another time.",),
    ),
    "protest": (
        ("I really need this.", "Please try."),
        ("But I really need this. Is there no way?", "Please, can you make an exception?"),
        ("I understand that you have your rules, but this really matters to me. Please, is there no way at all?",),
    ),
    "accept": (("OK.",), ("I see.", "All right."), ("That is a pity, but I understand.",)),
    "wait": (("OK.",), ("Alright.", "Sure, take your time."), ("Of course, please take all the time that you need.",)),
    "still": (
        ("It still does not work.",),
        ("It still does not work.", "I have just tried, and it still does not work."),
        ("I have just tried it, and I am sorry to say that it still does not work.",),
    ),
    "works": (("It works now.",), ("It works now!", "Great, it works again."), ("How nice, it works again now!",)),
    "look_up": (
        ("I have to look that up.",),
        ("I have to look that up. One moment, please.", "Let me find that. One moment."),
        ("Oh, I do not have that in my head, I have to look it up first. Just a moment, please.",),
    ),
    "wrong": (("Sorry, wrong.",), ("I am sorry, I made a mistake.",), ("Oh dear, I am so sorry, I mixed that up.",)),
    "also": (
        ("Also:",),
        ("I also have another request.", "There is one more thing."),
        ("While we are at it, there is something else.",),
    ),
    "unsure": (("Not sure.",), ("I am not sure about that.",), ("I am afraid that I cannot tell you anything about that.",)),
    "unclear": (
        ("What exactly?", "Which do you mean?"),
        ("What exactly do you mean?", "Sorry, what exactly would you do?"),
        ("I am not sure that I follow you: what exactly would you do?",),
    ),
    "person": (
        ("OK.",),
        ("Yes, please connect me.", "Yes, then please transfer me."),
        ("Yes, then it is best to talk to somebody else.",),
    ),
}  # fmt: skip
_MANNERS = ("terse", "plain", "talkative")
# How a user names what it does not know, where that is more than "the" and the topic.
_UNKNOWN = {
    "email": "my e-mail address", "zip": "my zip code", "user_id": "my user id", "phone": "the phone number",
    "date_of_birth": "the date of birth", "customer_id": "my customer id", "order": "the order number",
    "items": "more about the items", "reservation": "the reservation id", "flight": "the flight number",
    "passengers": "more about the passengers", "location": "the place", "trip": "the kind of trip",
}  # fmt: skip
_OPEN = ("options", "payment", "cabin", "bags", "insurance", "trip", "amount")


def say(what: str, persona: Persona, random: Random) -> str:
    """Return one way of saying something."""
    return random.choice(_WAYS[what][_MANNERS.index(persona.words)])


def unknown(topics: tuple[str, ...]) -> str:
    """Return the sentences that say that a user does not know something, or does not mind."""
    names = {topic: _UNKNOWN.get(topic, f"the {topic}") for topic in topics if topic not in ("reason", "problem")}
    minded = [name for topic, name in names.items() if topic in _OPEN]
    known = [name for topic, name in names.items() if topic not in _OPEN]
    sentences = [f"I do not know {_joined(known)}."] if known else []
    sentences += [f"I have no preference about {_joined(minded)}."] if minded else []
    return " ".join([*sentences, *(["There is no particular reason."] if "reason" in topics else [])])


def _joined(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
