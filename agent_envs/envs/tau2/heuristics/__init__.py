"""Heuristic agents act by plain rules over the policy and the tools, one a domain; they never see a task's criteria.

Modules, in reading order:
    reading: chat messages as turns, calls with their results, names, amounts, dates, yes and no.
    retail: the agent of the retail domain: identify, look up, check, ask for a yes, act.
    retail_desk, retail_plans, retail_wishes: its records and steps, how it serves each wish, its vocabulary of wishes.
    airline: the agent of the airline domain: cancellations, bags, passengers, compensation.
    airline_desk, airline_flights, airline_words: its look-ups, changed and new flights, its vocabulary of wishes.
    telecom: the agent of the telecom domain, in solo mode, too.
    telecom_desk, telecom_records, telecom_words: its turns, the customer's records, its vocabulary of wishes.
    telecom_phone: troubleshooting of the phone: service, mobile data, picture messages.
    customer: the user's side by rules, for a policy that plays the user.
    partner: a heuristic agent as the simulated other side.
"""

from importlib import import_module

from agent_envs.rollout.policy import Request

# A tool that only this domain's agent has, in solo mode, too.
_KNOWN_BY = {"get_order_details": "retail", "get_reservation_details": "airline", "get_customer_by_phone": "telecom"}


def act(request: Request) -> str:
    """Return what the rules of the side and the domain that a request shows say; the user's side has rules of its own."""
    names = {tool["function"]["name"] for tool in request.tools}
    domain = next((domain for tool, domain in _KNOWN_BY.items() if tool in names), "customer")
    action: str = import_module(f"{__name__}.{domain}").act(request)
    return action
