"""Python runs this as a process of a test begins: what the test did not ask for, its processes do not get either."""

import os

if "AGENT_ENVS_TESTS_GUARD" in os.environ:
    import unasked

    unasked.guard_this_process()
