"""`python -m agent_envs` is `agent-envs`."""

from agent_envs.cli.app import main

main()
