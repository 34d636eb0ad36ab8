"""`early` and `unwarranted` find users who stop too early, or accept a transfer of which nobody spoke."""

import re
from collections.abc import Iterator

from agent_envs.envs.tau2.dialogue import Line
from agent_envs.envs.tau2.task_schema import Tau2Task
from agent_envs.envs.tau2.turn_taking import USER_STOPS
from agent_envs.envs.tau2.user_script import Want
from agent_envs.envs.tau2.users.understanding import Understood, understood
from benchmarks.user_faults.claims import LONGEST

_TRANSFER = USER_STOPS[1]
_HANDS = re.compile(
    r"\btransfer|\bhuman\b|\bescalat|\bsupervisor|\bspecialist|\bcolleague|\brepresentative|\bconnect(?:ing)? you\b"
)
_NOT = re.compile(r"\b(?:not|no|cannot|can't|unable|won't|never|without|don't)\b")
_SENTENCE = re.compile(r"[.!?\n;]+\s*")
_YES = re.compile(
    r"\b(?:yes|yeah|yep|yup|sure|please do|go ahead|correct|that works|sounds good|confirm(?:ed)?|proceed|agreed|absolutely"
    r"|definitely)\b"
)
_NO = re.compile(
    r"\b(?:no|not|never ?mind|nothing|that(?:'s| is| was) (?:all|everything)|instead|bye|goodbye|rather)\b|n't\b"
)
_GIVES_UP = re.compile(
    r"\b(?:never ?mind|forget (?:about )?it|give up|leads nowhere|in circles|(?:another|some other) time|leave it"
    r"|try (?:again )?later|waste of time|call back|elsewhere|nothing to be done|without (?:it|that|them))\b"
)
_WORD = re.compile(r"[a-z]{4,}|[a-z]*\d[a-z0-9]*")
_COMMON = frozenset(
    "about after again agent also because been before call called calling could does from have having help into just know like "
    "make more much need only other please some than that their them then there these they this want wants what when where "
    "which will with would your yours you're able tell told issue customer service contact contacting".split()
)
_ENOUGH_ASKED, _STEM, _TOLD = 3, 5, 0.3


def unwarranted(lines: tuple[Line, ...], last: int) -> bool:
    """Return whether a user's last message accepts a transfer though the agent neither made nor spoke of one."""
    return _TRANSFER in lines[last].text and not _handed(lines[:last])


def early(task: Tau2Task, lines: tuple[Line, ...], last: int) -> Iterator[str]:
    """Yield why a user's last message, which ends the conversation, comes too early.

    Args:
        task: what the user was told.
        lines: the conversation.
        last: the place of that message.
    """
    before = lines[:last]
    first = next((place for place, line in enumerate(lines) if line.sender == "user"), last)
    if not any(line.sender == "assistant" for line in lines[first:last]):
        yield "ends the conversation before the agent has answered"
        return
    if _handed(before):
        return
    words = _bare(lines[last].text)
    gives_up = bool(_GIVES_UP.search(words))
    question = "" if gives_up else _open_question(before, words)
    if question:
        yield question
    said = " ".join(_bare(line.text) for line in lines if line.sender == "user" and not line.calls)
    if task.script is None:
        if not _told(_reason(task), said, 0.0):
            yield "ends the conversation and never said why it called"
    elif not gives_up and _progressed(lines[first:last]):
        untold = [want for want in task.script.wants if not want.only_if_refused and not _want_told(want, said)]
        for want in untold:
            yield f"ends the conversation and never asked for this: {want.say[:100]}"


def _open_question(before: tuple[Line, ...], words: str) -> str:
    """Return what is wrong with stopping on an agent's last message, or ""."""
    place = max((at for at, line in enumerate(before) if line.sender == "assistant" and not line.calls), default=-1)
    if place < 0 or any(line.sender == "user" for line in before[place:]):  # it did on the phone what it was asked for
        return ""
    asked = understood(before[place].text)
    if asked.closes or asked.probes or asked.transfers or asked.offers_transfer:
        return ""
    if asked.confirms:
        agrees = not words or (bool(_YES.search(words)) and not _NO.search(words))
        return "ends the conversation with the yes for which the agent waits before it acts" if agrees else ""
    if asked.topics and not asked.refuses and not _pestered(before, asked):
        return f"ends the conversation while the agent asks for {', '.join(asked.topics)}"
    return ""


def _pestered(before: tuple[Line, ...], asked: Understood) -> bool:
    heard = [understood(line.text) for line in before if line.sender == "assistant" and not line.calls]
    return sum(set(one.topics) >= set(asked.topics) for one in heard) >= _ENOUGH_ASKED


def _handed(lines: tuple[Line, ...]) -> bool:
    for line in lines:
        if line.sender != "assistant":
            continue
        if any("transfer" in call.name for call in line.calls):
            return True
        for sentence in _SENTENCE.split(line.text[:LONGEST].lower()):
            if not line.calls and _HANDS.search(sentence) and not _NOT.search(sentence):
                return True
    return False


def _progressed(lines: tuple[Line, ...]) -> bool:
    """Return whether the agent ever brought something about, refused something, or asked whether there is more."""
    heard = (understood(line.text) for line in lines if line.sender == "assistant" and not line.calls)
    return any(one.completes or one.closes or one.refuses for one in heard)


def _reason(task: Tau2Task) -> str:
    return task.instructions if isinstance(task.instructions, str) else task.instructions.reason_for_call


def _want_told(want: Want, said: str) -> bool:
    return _told(want.say, said, _TOLD)


def _told(text: str, said: str, share: float) -> bool:
    """Return whether more than a share of a text's words of meaning were said; a text with few of them counts as told."""
    wanted = _stems(text)
    return len(wanted) < 3 or len(wanted & _stems(said)) > share * len(wanted)


def _stems(text: str) -> set[str]:
    return {word[:_STEM] for word in _WORD.findall(text[:LONGEST].lower()) if word not in _COMMON}


def _bare(text: str) -> str:
    for stop in USER_STOPS:
        text = text.replace(stop, " ")
    return text[:LONGEST].lower().replace("\u2019", "'").strip()
