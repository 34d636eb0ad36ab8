"""`python -m leaderboard` verifies submissions and registers agents."""

from leaderboard.command_line import main

if __name__ == "__main__":
    main()
