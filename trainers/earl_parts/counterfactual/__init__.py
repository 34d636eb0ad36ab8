"""Counterfactual policy optimisation (CPO, arXiv 2510.07581) plays failed episodes again with a routing action forced.

Modules, in reading order:
    optimisation: settings, the test of failed groups, the choice of position and routing action, the advantages R' - R.
    positions: log-weights of a routing action, or of a text, at each position of an episode's tokens.
    interventions: beginnings of episodes in which the routing action is forced, from snapshots or forks, played to their end.
"""
