"""`python -m leaderboard` runs a board of verified submissions."""

from leaderboard.command_line import main

if __name__ == "__main__":
    main()
