"""Counterfactual Policy Optimisation (arXiv 2510.07581).

`optimisation` has its settings, tests and advantages, `positions` how likely a routing action is at each position of an
episode, `interventions` the beginnings of episodes in which one is forced, and `playing` plays those to their end.
"""
