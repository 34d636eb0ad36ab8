"""Examples: complete scripts that run in minutes on one core, and two notebooks; each prints what came of it.

Modules, in reading order:
    own_environment: an environment of one's own, checked and evaluated.
    own_agent: an agent of one's own, evaluated and compared with a built-in one.
    grpo, veg, arpo, earl, verlog: a trainer each, success before and after.
    first_look.ipynb, first_curve.ipynb: notebooks.
"""
