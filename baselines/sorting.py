"""The reference sorting algorithms play Sort and SortExpA: EARL's Table 2 has optimal, insertion, GCC (`earl_star`) and others.

They ask no model. The algorithms belong to the environment's family, because its rewards and pages rest on their counts.
Differs from the paper: Algorithm 2 as printed is `earl_star_as_printed`; `earl_star` has the skip that gives the listed
4.833.
"""

from agent_envs.envs.expa.sorting.agent import SortingAgent

__all__ = ["SortingAgent"]
