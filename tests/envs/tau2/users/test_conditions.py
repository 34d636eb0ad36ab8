"""A customer looks at the phone before it obeys a condition, and acts only where the condition holds and only if it changes."""

import json
from pathlib import Path

from agent_envs.envs.tau2.telecom_device import user_kit
from tests.envs.tau2.users.scenes import CALLER, Talk, row
from tests.rows import each_row

ROWS = json.loads(Path(__file__).with_name("device_conditions.json").read_text(encoding="utf-8"))
WANT = {"say": "My phone does not work as it should."}
HOME = {"topic": "location", "say": "I am at home, not abroad."}
ABROAD = {"topic": "location", "say": "I am currently abroad in France."}
SETUPS = {
    "calling": ("set_wifi_calling", {"enabled": True}),
    "abroad": ("set_user_location", {"abroad": True}),
    "no_storage": ("remove_app_permission", {"app_name": "messaging", "permission": "storage"}),
    "slow": ("set_network_mode_preference", {"mode": "2g_only"}),
}


def writes(said, setups):
    task = row(WANT, domain="telecom")
    task["user_script"]["facts"] = [*CALLER, ABROAD if "abroad" in setups else HOME]
    done = task["initial_state"]["initialization_actions"][:1]
    for setup in setups:
        name, arguments = SETUPS.get(setup, (setup, {}))
        done.append({"env_type": "user", "func_name": name, "arguments": arguments})
    task["initial_state"]["initialization_actions"] = done
    talk = Talk(task)
    talk.say(said)
    return [name for name in talk.calls if user_kit.tools[name].writes]


@each_row(("said", "setups", "due"), ROWS)
def test_a_condition_is_looked_at_and_then_obeyed(said, setups, due):
    assert writes(said, setups) == due
