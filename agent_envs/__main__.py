"""`agent-envs`, which `python -m agent_envs` is, too."""

import os
import sys

from agent_envs.cli.app import main


def entry() -> None:
    """Run the command line; end in silence, with exit code 1, where a reader such as `head` leaves."""
    try:
        try:
            main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered goes nowhere
        sys.exit(1)


if __name__ == "__main__":
    entry()
