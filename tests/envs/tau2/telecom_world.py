"""A small telecom company and phone for tests that need no official data."""

import tomllib

from agent_envs.envs.tau2.compat import Compat
from agent_envs.envs.tau2.telecom import telecom
from agent_envs.envs.tau2.telecom_tables import agent_records, user_records
from agent_envs.envs.tau2.toolkit import FRESH, Domain, DomainState, ToolOutcome, call, run_function

AGENT = """
[[plans]]
plan_id = "P1"
name = "Small"
data_limit_gb = 5
price_per_month = 40
data_refueling_price_per_gb = 2.5

[[customers]]
customer_id = "C1"
full_name = "Ada Byron"
date_of_birth = 1990-12-10
email = "ada@example.org"
phone_number = "555-0001"
account_status = "Active"
created_at = 2025-01-15T10:30:00
line_ids = ["L1", "L2"]
bill_ids = ["B1"]
[customers.address]
street = "1 Loop"
city = "Byte"
state = "CA"
zip_code = "90210"

[[customers]]
customer_id = "C2"
full_name = "Alan Mathison"
date_of_birth = "1912-06-23"
email = "alan@example.org"
phone_number = "555-0003"
account_status = "Active"
line_ids = ["L3"]
bill_ids = ["B2", "B3"]
[customers.address]
street = "2 Loop"
city = "Byte"
state = "CA"
zip_code = "90210"

[[lines]]
line_id = "L1"
phone_number = "555-1001"
status = "Active"
plan_id = "P1"
data_used_gb = 3.2

[[lines]]
line_id = "L2"
phone_number = "555-1002"
status = "Pending Activation"
plan_id = "P1"

[[lines]]
line_id = "L3"
phone_number = "555-1003"
status = "Active"
plan_id = "P1"

[[bills]]
bill_id = "B1"
customer_id = "C1"
period_start = "2025-02-01"
period_end = "2025-02-28"
issue_date = "2025-02-05"
total_due = 40
due_date = "2025-02-19"
status = "Issued"

[[bills]]
bill_id = "B2"
customer_id = "C2"
period_start = "2025-01-01"
period_end = "2025-01-31"
issue_date = "2025-01-05"
total_due = 12.5
due_date = "2025-01-19"
status = "Awaiting Payment"

[[bills]]
bill_id = "B3"
customer_id = "C2"
period_start = "2025-02-01"
period_end = "2025-02-28"
issue_date = "2025-02-05"
total_due = 20
due_date = "2025-02-19"
status = "Awaiting Payment"
"""

USER = """
[device.app_statuses.messaging]
app_name = "messaging"
[device.app_statuses.messaging.permissions]
sms = true
storage = true
phone = true

[device.app_statuses.browser]
app_name = "browser"
"""


def domain(**switches: bool) -> Domain:
    """Return the small domain; a switch not named reproduces the original's bug."""
    return telecom(agent_records(tomllib.loads(AGENT)), user_records(tomllib.loads(USER)), Compat(**switches))


class Line:
    """A live episode: plays calls on one state and remembers what they gave."""

    def __init__(self, of: Domain, state: DomainState = FRESH) -> None:
        self.domain, self.state = of, state

    def user(self, name: str, /, **arguments: object) -> str:
        """Call a tool of the user and return its text."""
        return self.play("user", name, arguments).content

    def agent(self, name: str, /, **arguments: object) -> str:
        """Call a tool of the agent and return its text."""
        return self.play("assistant", name, arguments).content

    def play(self, side: str, name: str, arguments: dict[str, object]) -> ToolOutcome:
        """Call a tool."""
        outcome, self.state = call(self.domain, self.state, side, name, arguments)
        return outcome

    def run(self, name: str, side: str = "user", /, **arguments: object) -> object:
        """Run an initial action or an assertion and return what it returned, or the text that it raised."""
        outcome, self.state = run_function(self.domain, self.state, side, name, arguments)
        return outcome.returned if outcome.raised is None else outcome.raised

    @property
    def phone(self) -> dict:
        """The phone's record."""
        changed = self.state.user.tables.get("device", {})
        return changed.get("", self.domain.user_database.tables["device"][""])

    @property
    def surroundings(self) -> dict:
        """What is around the phone."""
        changed = self.state.user.tables.get("surroundings", {})
        return changed.get("", self.domain.user_database.tables["surroundings"][""])


FIXED = domain(vpn_leak=False, random_bill_id=False, gold_without_sync=False)


def ada(of: Domain = FIXED) -> Line:
    """An episode of Ada's, whose line is L1; without any of the original's bugs unless said otherwise."""
    line = Line(of)
    line.run("set_user_info", name="Ada Byron", phone_number="555-1001")
    return line
