"""Agents of plain rules over the policy and the tools, one a domain; they never see a task's criteria."""

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
