"""The environments of tau2: an agent, a user, or an agent alone, in one of three domains."""

from collections.abc import Mapping
from importlib.resources import files
from textwrap import indent
from typing import Any, ClassVar

from agent_envs.chat import ChatModel, make_chat_model
from agent_envs.core import Episode, Outcome, Task, TurnEnv
from agent_envs.errors import UsageError
from agent_envs.external import CallSite, Recording
from agent_envs.judges import Judge
from agent_envs.messages import Message
from agent_envs.tau2.builtin import builtin_domain
from agent_envs.tau2.compat import Compat
from agent_envs.tau2.dialogue import Dialogue, Line, recording_of
from agent_envs.tau2.evaluation import Evaluation, Judging, evaluate, expectation_judge
from agent_envs.tau2.face import Face, errors_of
from agent_envs.tau2.machine import LIMITS, Rules, opened, other, replayed
from agent_envs.tau2.official import load_domain
from agent_envs.tau2.scoring import make_reward, result_of, succeeded
from agent_envs.tau2.task_rows import Tau2Task, read_task, tau2_task
from agent_envs.tau2.tasks import BuiltinSource, OfficialSource, RowSource
from agent_envs.tau2.toolkit import Side
from agent_envs.tau2.worlds import initial_world

TASKS = ("builtin", "official")
USERS = ("replay",)
SIDES: dict[str, Side] = {"agent": "assistant", "user": "user", "solo": "assistant"}
STAND_IN = (Line("user", "Hello, I need help with my account."),)
_PAGE = files(__package__).joinpath("page.md").read_text(encoding="utf-8").strip()


def _check(name: str, choices: Mapping[str, tuple[Any, tuple[str, ...]]], limits: Mapping[str, Any]) -> None:
    for argument, (value, known) in choices.items():
        if value not in known:
            raise UsageError(f"{name}: {argument}={value!r}; choose {' or '.join(known)}")
    for argument, number in limits.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise UsageError(f"{name}: {argument}={number!r}; give a whole number >= 1")


def user_turns(max_steps: int) -> int:
    """Return how many turns a user may take."""
    return (max_steps + 1) // 2


class Tau2Env(TurnEnv):
    """Base of the three domains; `page.md` is the part of their pages that they share."""

    domain: ClassVar[str] = ""
    source: RowSource

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Complete the page."""
        super().__init_subclass__(**kwargs)
        cls.__doc__ = f"{cls.__doc__ or ''}\n\n{indent(_PAGE, '    ')}\n"

    def __init__(
        self,
        *,
        tasks: str = "builtin",
        side: str = "agent",
        user: str = "replay",
        agent: str = "replay",
        compat: str = "tau2-1.0.1",
        reward: str = "official",
        judge: str | ChatModel = "",
        max_agent_turns: int = 100,
        max_steps: int = 200,
        max_errors: int = 10,
        render_mode: str | None = None,
    ) -> None:
        """Set up the source, the rules and the reward; see the class for the arguments.

        Raises:
            UsageError: an argument is out of its range, or the domain has no such side; the message names it.
            DataMissing: the official data is not on this machine.
        """
        self.render_mode = render_mode
        name = type(self).__name__
        choices = {
            "tasks": (tasks, TASKS),
            "side": (side, tuple(SIDES)),
            "user": (user, USERS),
            "agent": (agent, USERS),
        }
        limits = {"max_agent_turns": max_agent_turns, "max_steps": max_steps, "max_errors": max_errors}
        _check(name, choices, limits)
        if tasks == "official" and side == "user":
            raise UsageError(f"{name}: tasks='official' holds no words of an agent to replay; use tasks='builtin'")
        if judge and reward != "official":
            raise UsageError(f"{name}: judge={judge!r} has no meaning with reward={reward!r}; leave it out")
        official = tasks == "official"
        Compat.named(compat)
        domain = load_domain(self.domain, compat) if official else builtin_domain(self.domain, compat)
        self.rules = Rules(domain, side == "solo", max_steps, max_errors, max_agent_turns)
        self.source = OfficialSource(self.domain) if official else BuiltinSource(self.domain)
        self.reward, self.reward_spec = reward, make_reward(reward)
        self._model = make_chat_model(judge) if isinstance(judge, str) and judge else judge or None
        self._remote = isinstance(judge, str) and bool(judge)
        self._judge: tuple[Recording | None, Judge] | None = None
        # Every message of the user takes a second step: the agent's or the environment's.
        self.max_turns = user_turns(max_steps) if side == "user" else max_agent_turns
        self.face = Face(self.rules, SIDES[side], self.max_turns)
        self.tools = self.face.tools
        self._script: tuple[Task, tuple[Line, ...]] | None = None

    def opened(self, task: Task) -> tuple[Tau2Task, Dialogue]:
        """Return the typed view of a task, its criteria left out, and its conversation at the start."""
        public = read_task(task.data, self.domain)
        return public, opened(self.rules, initial_world(self.rules.domain, public), public.history)

    def score(self, task: Task, dialogue: Dialogue, site: CallSite) -> Evaluation:
        """Return what a conversation earns; criteria that cannot be read are met by none.

        Raises:
            EnvFault: the judge failed.
        """
        judge = self._judge_now()
        judging = None if judge is None else Judging(judge, site)
        try:
            full = tau2_task(task, self.domain)
            return evaluate(self.rules.domain, full, dialogue.lines, dialogue.ended, self.rules.solo, judging)
        except UsageError as error:
            return Evaluation(0.0, 0.0, notes=(f"the criteria cannot be read: {error}",))

    @property
    def live_service(self) -> str:
        """The judge that the end of an episode would ask now; "" where it is in process, or replayed."""
        replayed = self.recording is not None and self.recording.mode == "replay"
        return self._model.name if self._model is not None and self._remote and not replayed else ""

    def _judge_now(self) -> Judge | None:
        if self._model is None:
            return None
        made, recording = self._judge, self.recording
        if made is None or made[0] is not recording:
            # Rebound as a whole, so that a fork, which shares it until then, is never touched.
            made = self._judge = (recording, expectation_judge(self._model, recording=recording))
        return made[1]

    def _begin(self, task: Task, key: str) -> tuple[Dialogue, tuple[Message, ...]]:
        public, dialogue = self.opened(task)
        dialogue = self._answered(task, dialogue)
        if dialogue.ended:
            self._refuse(f"the conversation of task {task.id!r} is over before the first turn", "give it a longer one")
        return dialogue, self.face.opening(public, dialogue)

    def _advance(self, episode: Episode, action: str) -> Outcome:
        before: Dialogue = episode.state
        heard = self.face.hear(before, action)
        after = self._answered(episode.task, heard.dialogue)
        shown = (*heard.told, *self.face.news(before, after))
        results = self.face.results(before, after)
        events = (*heard.events, *errors_of(results))
        if not after.ended and len(episode.turns) + 1 < self.max_turns:
            return Outcome(after, heard.parsed, shown, results, events)
        score = self.score(episode.task, after, CallSite(episode.key, episode.header.branch))
        cut = not after.ended or after.ended in LIMITS
        return Outcome(
            after, heard.parsed, shown, (*results, result_of(score, after.ended)), events,
            terminated=not cut, truncated=cut, success=succeeded(score, self.reward),
        )  # fmt: skip

    def _answered(self, task: Task, dialogue: Dialogue) -> Dialogue:
        """Return the conversation once the other side has said what it says."""
        if self.rules.solo:
            return dialogue
        return replayed(self.rules, dialogue, other(self.face.side), self._script_of(task))

    def _script_of(self, task: Task) -> tuple[Line, ...]:
        """Return what the other side says in a task; of a user without a recording, a word that tells nothing."""
        made = self._script
        if made is None or made[0] is not task:
            partner = other(self.face.side)
            lines = tuple(line for line in recording_of(task.data.get("recording", ())) if line.sender == partner)
            # Rebound as a whole, so that a fork, which shares it until then, is never touched.
            made = self._script = (task, lines or (STAND_IN if partner == "user" else ()))
        return made[1]


class Tau2Retail(Tau2Env):
    """Serve the customers of an online shop: orders, exchanges, returns, addresses, payments."""

    domain = "retail"


class Tau2Airline(Tau2Env):
    """Serve the passengers of an airline: bookings, changes, cancellations, baggage, compensation."""

    domain = "airline"


class Tau2Telecom(Tau2Env):
    """Serve the customers of a mobile network: both sides have tools, and only the customer can touch the phone."""

    domain = "telecom"
