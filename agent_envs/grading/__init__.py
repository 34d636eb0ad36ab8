"""Grading compares a policy's answer with the gold answers: as normalised text, as a number, or as mathematics.

Modules, in reading order:
    dressed_numbers: numbers as language models dress them (`**$18.00**`), read by value.
    text_answers: exact match, token F1, abstention ("unknown"), numbers equal within a tolerance.
    dressed_numbers: numbers as models dress them, read by value, alone or in running text; boxes in other forms.
    arithmetic: the exact, safe evaluator of + - * / and brackets over decimal numbers, with its error messages.
    math/: equality of mathematical answers in LaTeX or plain text, and the last boxed answer of a solution.
"""
