"""Python runs this as a process of a test begins: what the test did not ask for, its processes do not get either."""

import os

if orders := os.environ.get("AGENT_ENVS_TESTS_GUARD"):
    import unasked

    unasked.guard_this_process(orders)
