"""Every test of tau2 may play the small tasks and their recorded sides."""

import tests.envs.tau2.recorded  # noqa: F401 - makes them known
