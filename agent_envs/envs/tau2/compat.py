"""`Compat` holds one switch for each bug of the original that can be reproduced."""

from dataclasses import dataclass, fields

from agent_envs.base.errors import UsageError


@dataclass(frozen=True)
class Compat:
    """The original's bugs, one switch each; True reproduces the bug.

    Attributes:
        last_variant_for_all: retail's modify_pending_order_items gives every item the last new item's price and options.
        vpn_leak: telecom's default VPN record is shared, so that a broken VPN stays broken when connected anew.
        random_bill_id: telecom's refuel_data draws the id of a new bill, so that hashes differ between equal episodes.
        gold_without_sync: expected actions are executed without the synchronisation that live calls have.
        max_steps_overwrite: a stop on exactly the last allowed step counts as running out of steps.
        zero_argument_match: a call without arguments matches every expected action of its name.
        facts_as_text: what is to be told is looked for as text in a text, so that `1617` tells `61`; never of generated tasks.
    """

    last_variant_for_all: bool = True
    vpn_leak: bool = True
    random_bill_id: bool = True
    gold_without_sync: bool = True
    max_steps_overwrite: bool = True
    zero_argument_match: bool = True
    facts_as_text: bool = True

    @classmethod
    def from_name(cls, name: str) -> "Compat":
        """Return the switches of "tau2-1.0.1" (every bug) or "fixed" (none); UsageError for other names."""
        if name not in ("tau2-1.0.1", "fixed"):
            raise UsageError(f'compat={name!r}; choose "tau2-1.0.1" (the original, bugs included) or "fixed"')
        return cls(**{switch.name: name == "tau2-1.0.1" for switch in fields(cls)})


ORIGINAL = Compat()
