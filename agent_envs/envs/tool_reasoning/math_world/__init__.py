"""Problems over a fictional world, generated with exact answers: some need code, some a search, some both.

Five subjects (algebra, number theory, counting, sequences, geometry), five levels. Every answer is calculated in two ways
that share nothing before a task is given out; the code of its solution is a third, and runs in a sandbox only.
"""

from agent_envs.envs.tool_reasoning.math_world.almanac import Link, NumberWorld, number_world
from agent_envs.envs.tool_reasoning.math_world.source import KINDS, SIZES, SUBJECTS, MathWorldSource, documents, links

__all__ = ["KINDS", "SIZES", "SUBJECTS", "Link", "MathWorldSource", "NumberWorld", "documents", "links", "number_world"]
