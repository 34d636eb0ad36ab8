"""Program of thought: the model writes a program, and what it prints is the answer (Chen et al. 2023, arXiv 2211.12588).

Where the environment has a `python` tool the program goes there, and the next turn answers with what it printed. Elsewhere it
runs in our Monty sandbox, and no call of the environment is used. Differs from the paper: no worked examples, and a program
that fails is not sampled again: its error is the answer, which is wrong.
"""

import re

from agent_envs.tools.sandbox import SandboxSpec, open_sandbox
from baselines.chat_agent import ChatAgent, TurnModel
from baselines.prompts import prompt, user
from baselines.view import EpisodeView

_PROGRAM = re.compile(r"<python>(.*?)(?:</python>|\Z)", re.S)
_FENCED = re.compile(r"```(?:python)?\n(.*?)```", re.S)


class ProgramOfThought(ChatAgent):
    """An agent that computes by a program."""

    short = "program_of_thought"

    def turn(self, view: EpisodeView, model: TurnModel) -> str:
        """Return a call of the model's program, its answer if it is run here, or, after evidence, the newest's last line."""
        if view.evidence or view.forced:
            return view.answer(_last_line(view.evidence[-1]) if view.evidence else "")
        program = self.program(view, model)
        return view.call("python", program) if "python" in view.verbs else view.answer(self.output(program))

    def program(self, view: EpisodeView, model: TurnModel) -> str:
        """Return the program that the model writes."""
        reply = model.ask([user(prompt("program_of_thought", "program", question=view.question))], ("</python>",))
        match = _PROGRAM.search(reply) or _FENCED.search(reply)
        return (match[1] if match else reply).strip()

    def output(self, program: str) -> str:
        """Return the last line that a program prints, its value where it prints nothing, or its error."""
        with open_sandbox(SandboxSpec()) as session:
            result = session.run(program)
        return _last_line(result.stdout) or result.value or result.error


def _last_line(text: str) -> str:
    """Return the last line with text, without the result tags and a final `.0`; empty where there is none."""
    lines = [line.strip() for line in re.sub(r"</?result>", "\n", text).splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    return last.removesuffix(".0")  # a division of Python's gives 54.0, and 54 is asked for
