"""Prompting-only tool use (ARPO's "TIR prompting"): instructions and one worked episode, no training.

The worked episode is `prompts/examples/*.md`, made by `python -m baselines.examples` from train tasks that it names, never
from test tasks. Differs from ARPO: its prompt is not printed in full; ours has one example, of the family that is played.
"""

from baselines.prompts import FOLDER, prompt
from baselines.tag_agent import TagAgent
from baselines.view import EpisodeView


class PromptedTools(TagAgent):
    """An agent with a worked episode in its prompt."""

    short = "prompted_tools"

    def instruction(self, view: EpisodeView) -> str:
        """Return the text of the system, with the example that has the tags of this environment."""
        return prompt("agent", "prompted_tools", example=example_for(view))


def example_for(view: EpisodeView) -> str:
    """Return the first worked episode whose verb the view has: legal, tools, search_qa, calculator; else "(no example)"."""
    for name, verb in (
        ("legal", "semantic"),
        ("tools", "browse"),
        ("search_qa", "search"),
        ("calculator", "calculator"),
    ):
        if verb in view.verbs:
            text = (FOLDER / "examples" / f"{name}.md").read_text(encoding="utf-8")
            return text.partition("\n\n")[2].strip()
    return "(no example)"
