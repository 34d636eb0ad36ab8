"""VEG's own parts are the settings of verbal feedback; no shared code imports them.

Modules, in reading order:
    feedback_settings: who gives feedback, how it is asked for, and what it may cost.
"""
