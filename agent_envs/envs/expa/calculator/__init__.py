"""The calculator tasks: arithmetic, Countdown, counting, word problems, and the mixture of them, Calc-Bench."""
