"""The shop's rule-based agent identifies the customer, looks everything up, checks one wish, asks for a yes, and acts.

It keeps no state: every turn is worked out anew from the messages.
"""

from agent_envs.envs.tau2.heuristics.reading import Talk, agrees, calling, calling_all, emails, names, talk_of, zips
from agent_envs.envs.tau2.heuristics.retail_desk import CLOSING, GO_AHEAD, Desk, Step, Unclear
from agent_envs.envs.tau2.heuristics.retail_plans import PLANS
from agent_envs.rollout.policy import Request

_FINDERS = ("find_user_id_by_email", "find_user_id_by_name_zip")
_MOST_TRIES = 6


def act(request: Request) -> str:
    """Return the agent's next turn."""
    talk = talk_of(request)
    desk = Desk(talk)
    return _identify(talk) or _look_up(talk, desk) or _report(talk) or _spoken(talk, desk, _step(desk))


def _identify(talk: Talk) -> str:
    """Return the turn that finds out who the customer is, "" once that is known."""
    if talk.named(*_FINDERS):
        return ""
    said = "\n".join(talk.user)
    tries = [(_FINDERS[0], {"email": email}) for email in emails(said)]
    tries += [
        (_FINDERS[1], {"first_name": first, "last_name": last, "zip": code})
        for code in reversed(zips(said)) for first, last in names(said)[:3]
    ]  # fmt: skip
    untried = [one for one in tries if talk.tried(one[0], **one[1]) is None]
    if untried and len(talk.calls) < _MOST_TRIES:
        return calling(untried[0][0], **untried[0][1])
    if len(talk.own) > _MOST_TRIES:
        return f"I am sorry, I cannot find you, and so I cannot help you. {CLOSING}"
    if talk.calls:
        return (
            "I did not find anybody with these details. Please check your name, your zip code and your e-mail address."
        )
    return "I am glad to help. Please tell me your e-mail address, or your first and last name and your zip code."


def _look_up(talk: Talk, desk: Desk) -> str:
    """Return the turn that shows the customer and all orders, "" once they are known."""
    if desk.user is None:
        return calling("get_user_details", user_id=talk.named(*_FINDERS)[-1].content)
    unseen = [order_id for order_id in desk.user["orders"] if order_id not in desk.orders]
    return calling_all([("get_order_details", {"order_id": order_id}) for order_id in unseen]) if unseen else ""


def _report(talk: Talk) -> str:
    """Return what the customer is told after a change, "" where none was made just now."""
    last = talk.calls[-1] if talk.calls else None
    if talk.awaiting or last is None or last.name.split("_")[0] not in ("cancel", "modify", "return", "exchange"):
        return ""
    if last.failed:
        return f"I am sorry, I cannot do that: {last.content.removeprefix('Error: ')}. {CLOSING}"
    return f"It is done. {CLOSING}"


def _step(desk: Desk) -> Step:
    try:
        return PLANS[desk.wish.kind](desk)
    except Unclear as unclear:
        return unclear.step


def _spoken(talk: Talk, desk: Desk, step: Step) -> str:
    """Return a step as a turn."""
    if step.kind == "look":
        return calling_all(step.calls)
    if step.kind == "tell":
        return f"{step.text} {CLOSING}"
    text = f"{step.text} {GO_AHEAD}" if step.kind == "act" else step.text
    if step.kind == "act" and talk.said == text and agrees(talk.last):
        return calling(step.calls[0][0], **step.calls[0][1])
    asked = sum(own == text for own, before in zip(talk.own, talk.spoken, strict=True) if before > desk.start)
    if step.kind == "refuse" or asked >= 2:
        return (
            f"I am sorry, I cannot do that: {step.text if step.kind == 'refuse' else 'I lack the details.'} {CLOSING}"
        )
    return text
