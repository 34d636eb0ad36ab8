r"""Mathematical answers are compared exactly, within a bound, without computer algebra and without running anything.

LaTeX, plain text and the usual Unicode signs may be mixed. Understood are numbers (separators, decimals, repeating decimals,
scientific, mixed), roots and powers, pi, e, i, expressions with variables, functions, equations and inequalities, plus-minus,
lists, sets, tuples, intervals and unions, matrices, numerals in other bases, choices and words. Decisions:

- Nothing is rounded: 0.5 is 1/2, 0.333 is not 1/3, 3.14 is not pi.
- Units, currency signs and % behind an answer are dropped, not compared: 5 cm is 5, 50% is 50 and not 1/2.
- "1,234" is a number, "1,2", "0,5" and "0,111" are lists, as roots are often written: no comma marks decimals. Between
  brackets every comma separates. "10 000" is no number.
- Lists, sets and unions have no order; a list may hold an item twice. A set of one is its item. Tuples have an order, and
  (1,2) is neither a list nor [1,2]; as a point and as an open interval it is the same.
- "x = 5" and "|AB| = 5" are 5, "|x| = 5" is not. Where several names get values, they count: "AB=4, CD=5" is not "4, 5",
  which is "5, 4", too. "y = 2x + 3" is 2x + 3, and the same line as "2x - y + 3 = 0". Simple inequalities are intervals.
- 2:4 is not 1:2, 101_2 is not 5, a column is not a row; each is compared as written, its parts by value.
- sqrt(x^2) is not x, functions of angles and logarithms are not evaluated beyond exact logarithms of numbers.
- What is no mathematics is compared as words, in lower case and without layout; so is what costs too much (`limits`).

Modules, in reading order:
    reading: `read_math`, `math_equal`, the last `\boxed{...}`: lists, sets, plus-minus, tuples, intervals, matrices.
    scanning, vocabulary: the tokenizer, and the LaTeX commands, Unicode signs, units and words that it knows.
    relations: equations, inequalities, and names such as the x of "x = 5".
    parsing: the recursive-descent parser of one expression: precedence, fractions, roots, functions.
    values: the values of answers and their equality.
    quotients, polynomials: exact fractions of sums, in one normal form.
    powers, functions: roots, exponents, logarithms, factorials, binomials, rounding.
    limits: the caps on characters, depth and digits, and the budget of steps, against hostile or costly answers.
"""

from agent_envs.grading.math.reading import boxed, math_equal, read_math
from agent_envs.grading.math.values import MathValue

__all__ = ["MathValue", "boxed", "math_equal", "read_math"]
