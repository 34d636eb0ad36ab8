"""Validator: the model that gives feedback in VEG plays itself, untrained (VEG, section 3.1 and Tables 1 and 2).

It sees the conversation as the agent does, and writes the turn instead of advice. Differs from the paper: whether the hint
itself or a turn behind it was played is not said there; here the model is asked for the turn, in the form that the
environment parses.
"""

from baselines.tag_agent import TagAgent


class Validator(TagAgent):
    """An agent that plays as the feedback model would advise."""

    short = "validator"
    section = "validator"
