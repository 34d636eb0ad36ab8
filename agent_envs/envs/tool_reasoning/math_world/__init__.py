"""math_world generates problems over a fictional world with exact answers: some need code, some a search, some both.

Five subjects (algebra, number theory, counting, sequences, geometry), five levels. Tests hold every calculation against brute
force and against the code of its solution, which runs in a sandbox only.

Modules, in reading order:
    source: tasks by index and id, splits, needs, subjects, levels; read it first.
    questions: the text of a question, its accepted answers and its solution.
    problem: the parts of a problem generator (`Kind`): spans by level, solution, wordings.
    problems: the problem generators of each subject; the rest is in kinds.json.
    almanac: the fact world with sheets of figures, links and chains of look-ups; its words are in figures.json.
"""

from agent_envs.envs.tool_reasoning.math_world.almanac import Link, NumberWorld, number_world
from agent_envs.envs.tool_reasoning.math_world.problems import KINDS
from agent_envs.envs.tool_reasoning.math_world.source import SIZES, MathWorldSource

__all__ = ["KINDS", "SIZES", "Link", "MathWorldSource", "NumberWorld", "number_world"]
