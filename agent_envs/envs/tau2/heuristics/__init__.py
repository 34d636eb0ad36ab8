"""Heuristic agents act by plain rules over the policy and the tools, one a domain; they never see a task's criteria.

Modules, in reading order:
    reading: chat messages as words and calls with their results; words as names, payment methods, yes and no.
    desk: the loop that all domains share: the wish in hand, look-ups, questions, proposals that wait for a yes, refusals.
    retail: the shop's wishes, and how each is served.
    airline: the airline's: cancellations, bags, passengers, compensation, changed flights.
    telecom: the network's, in solo mode, too: lines, bills, data, and troubleshooting of the phone.

Beside them, `wishes.json` has the words that name each kind of wish, and `phone.json` the steps of troubleshooting.
"""

from importlib import import_module

from agent_envs.envs.tau2.heuristics.desk import Desk, DeskTurn
from agent_envs.envs.tau2.users import customer
from agent_envs.rollout.policy import Request

# A tool that only this domain's agent has, in solo mode, too.
_KNOWN_BY = {"get_order_details": "retail", "get_reservation_details": "airline", "get_customer_by_phone": "telecom"}


def act(request: Request) -> str:
    """Return the heuristic's turn by the domain that a request's tools show; without one, the customer's heuristic's."""
    tools = {tool["function"]["name"] for tool in request.tools}
    domain = next((domain for tool, domain in _KNOWN_BY.items() if tool in tools), "")
    if not domain:
        return customer.act(request)
    rules = import_module(f"{__name__}.{domain}")
    desk = Desk(request, rules.PLANS)
    try:
        rules.serve(desk)
        desk.close()
    except DeskTurn as turn:
        return str(turn)
