"""VEG's own parts are the settings of verbal feedback and what it costs; no shared code imports them.

Modules, in reading order:
    feedback_settings: who gives feedback, how it is asked for, and what it may cost.
    spending: cost of feedback models: calls, tokens and US dollars over all resumes.
"""
