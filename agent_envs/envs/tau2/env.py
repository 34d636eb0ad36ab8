"""The environments of tau2 let a policy play an agent, a user, or an agent alone, in one of three domains."""

from collections.abc import Callable, Mapping
from importlib.resources import files
from textwrap import indent
from typing import Any, ClassVar

from agent_envs.base.arguments import choice, whole_numbers
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.messages import Message
from agent_envs.base.serialization import digest
from agent_envs.core.env import Episode, Outcome, Task, TaskSource, TurnEnv
from agent_envs.envs.tau2.agent_view import SideView, errors_of
from agent_envs.envs.tau2.compat import Compat
from agent_envs.envs.tau2.dialogue import Dialogue
from agent_envs.envs.tau2.evaluation import Evaluation, Judging, evaluate, expectation_judge
from agent_envs.envs.tau2.gold_agent import oracle_plan
from agent_envs.envs.tau2.official import load_domain, user_guidelines
from agent_envs.envs.tau2.partners import make_partner, take_turn
from agent_envs.envs.tau2.scene import Partner, Scene
from agent_envs.envs.tau2.scoring import make_reward, progress_of, reached, result_of, succeeded
from agent_envs.envs.tau2.task_generator.source import GeneratedSource, generated_domain
from agent_envs.envs.tau2.task_schema import Tau2Task, read_task, tau2_task
from agent_envs.envs.tau2.task_states import initial_world
from agent_envs.envs.tau2.tasks import OfficialSource
from agent_envs.envs.tau2.toolkit import Domain, Side
from agent_envs.envs.tau2.turn_taking import LIMITS, Rules, opened, other
from agent_envs.envs.tau2.users.chat import ChatPartner
from agent_envs.envs.tau2.users.scripted import CONSENTS, VERSION, ScriptedUser
from agent_envs.services.chat import ChatModel
from agent_envs.services.chat.named import judge_model
from agent_envs.services.judges import Judge
from agent_envs.services.recording import CallSite, Recording, calls_again

# Tasks that are not generated, by the name that `tasks` gives them: from domain, compat, whether the policy is "workflow".
SOURCES: dict[str, Callable[[str, str, bool], tuple[Domain, TaskSource]]] = {
    "official": lambda domain, compat, workflow: (
        load_domain(domain, compat, workflow=workflow),
        OfficialSource(domain),
    ),
}
SIDES: dict[str, Side] = {"agent": "assistant", "user": "user", "solo": "assistant"}
POLICIES, PLANS, GUIDELINES = ("standard", "workflow"), ("none", "oracle"), ("own", "official")
_PAGE = files(__package__).joinpath("page.md").read_text(encoding="utf-8").strip()


def user_turns(max_steps: int) -> int:
    """Return the number of turns that a user may take."""
    return (max_steps + 1) // 2


class Tau2Env(TurnEnv):
    """Base of the three domains; `page.md` is the part of their pages that they share."""

    domain: ClassVar[str] = ""
    example_agent = "heuristic"
    outside_arguments = ("tasks", "user", "agent", "judge", "persona", "policy", "guidelines", "plan")
    source: TaskSource

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Complete the page."""
        super().__init_subclass__(**kwargs)
        cls.__doc__ = f"{cls.__doc__ or ''}\n\n{indent(_PAGE, '    ')}\n"

    def __init__(
        self,
        *,
        tasks: str = "generated",
        side: str = "agent",
        user: str | ChatModel = "scripted",
        agent: str | ChatModel = "scripted",
        persona: str | Mapping[str, Any] = "task",
        consent: str = "restate",
        difficulty: str = "mixed",
        world: int = 0,
        policy: str = "standard",
        plan: str = "none",
        guidelines: str = "own",
        compat: str = "tau2-1.0.1",
        reward: str = "official",
        judge: str | ChatModel = "",
        max_agent_turns: int = 100,
        max_steps: int = 200,
        max_errors: int = 10,
        examples: int = 0,
        thoughts: str = "skip",
        strict: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Set up the source, the rules, the other side and the reward; see the class for the arguments.

        Raises:
            UsageError: an argument is out of its range, or the domain has no such side; the message names it.
            DataMissing: the official data is not on this machine.
        """
        self.render_mode = render_mode
        self.take_form(examples, thoughts, strict)
        name = type(self).__name__
        choice(name, "tasks", tasks, ("generated", *SOURCES))
        choice(name, "side", side, SIDES)
        if policy == "workflow" and side == "user":
            raise UsageError(
                f"{name}: policy='workflow' is an agent's, and side={side!r} is not told it: leave one out"
            )
        choice(name, "plan", plan, PLANS)
        if plan == "oracle" and side != "agent":
            raise UsageError(f"{name}: plan='oracle' is an agent's, who talks with a user: leave side={side!r} out")
        limits = {"max_agent_turns": max_agent_turns, "max_steps": max_steps, "max_errors": max_errors}
        whole_numbers(name, **{argument: (limit, 1, None) for argument, limit in limits.items()})
        if judge and reward == "without_nl":
            raise UsageError(f"{name}: judge={judge!r} has no meaning with reward={reward!r}; leave it out")
        Compat.from_name(compat)
        self.reward, self.reward_spec = reward, make_reward(reward)
        self._model = judge_model(name, judge)
        self.partner = _partner(name, side, {"user": user, "agent": agent}, persona, guidelines)
        if consent != "restate":
            self.partner = _with_consent(name, consent, self.partner, persona)
        self._plan, self._guidelines = plan, guidelines
        # Last, so that a wrong argument is told wherever the official data lies.
        domain, self.source = self._world(tasks, policy, compat, difficulty, world)
        self.rules = Rules(domain, side == "solo", max_steps, max_errors, max_agent_turns)
        self._remote = isinstance(judge, str) and bool(judge)
        self._judge: tuple[Recording | None, Judge] | None = None
        # Every message of the user takes a second step: the agent's or the environment's.
        self.max_turns = user_turns(max_steps) if side == "user" else max_agent_turns
        self.face = SideView(self.rules, SIDES[side], self.max_turns)
        self.tools = self.face.tools
        self._seed: int | None = None
        self._views: tuple[Task, Tau2Task] | None = None

    def _world(self, tasks: str, policy: str, compat: str, difficulty: str, world: int) -> tuple[Domain, TaskSource]:
        """Return the domain and the source of tasks; UsageError for arguments that do not fit, DataMissing for absent data."""
        name, domain = type(self).__name__, self.domain
        choice(name, "policy", policy, POLICIES)
        if policy == "workflow" and tasks != "official":
            raise UsageError(f"{name}: policy='workflow' is a text of the official data; use tasks='official'")
        if tasks == "generated":
            source = GeneratedSource(domain, world, difficulty)  # first, as it looks at the arguments
            return generated_domain(domain, compat, world), source
        if (difficulty, world) != ("mixed", 0):
            raise UsageError(f"{name}: difficulty= and world= choose among generated tasks; leave them out")
        return SOURCES[tasks](domain, compat, policy == "workflow")

    @property
    def spec_digest(self) -> str:
        """The digest of `TurnEnv`; where a scripted user plays, with its version in it."""
        if not self._digest and isinstance(self.partner, ScriptedUser):
            self._digest = digest([super().spec_digest, "scripted user", VERSION])
        return super().spec_digest

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode; see `TurnEnv.reset`. All starts of one task and seed share the words before the first turn."""
        self._seed = seed
        return super().reset(seed=seed, options=options)

    def opened(self, task: Task) -> tuple[Tau2Task, Dialogue]:
        """Return the typed view of a task, its criteria left out, and its conversation at the start."""
        public = self._public(task)
        return public, opened(self.rules, initial_world(self.rules.domain, public), public.history)

    def scene(self, task: Task, dialogue: Dialogue, side: Side, key: str, branch: str = "") -> Scene:
        """Return the scene in which a simulated side speaks."""
        return Scene(task, self._public(task), self.rules, side, dialogue, key, branch, self.services.recording)

    def reached(self, task: Task, dialogue: Dialogue) -> float:
        """Return the fraction of the task's state changes that stand, as `dense` counts it; 0.0 for unreadable criteria."""
        try:
            return reached(self.rules.domain, tau2_task(task, self.domain), dialogue, self.rules.solo)
        except UsageError:
            return 0.0

    def score(self, task: Task, dialogue: Dialogue, site: CallSite) -> Evaluation:
        """Score a conversation; unreadable criteria give 0 with a note. Raises EnvFault where the judge failed."""
        judge = self._judge_now()
        judging = None if judge is None else Judging(judge, site)
        try:
            full = tau2_task(task, self.domain)
            return evaluate(self.rules.domain, full, dialogue.lines, dialogue.ended, self.rules.solo, judging)
        except UsageError as error:
            return Evaluation(0.0, 0.0, notes=(f"the criteria cannot be read: {error}",))

    @property
    def live_service(self) -> str:
        """The other side's model, else the judge's, that may be asked now; "" where all is in process, or replayed."""
        if self.services.replayed:
            return ""
        judge = self._model.name if self._model is not None and self._remote else ""
        return (self.partner.service if self.partner is not None else "") or judge

    def _judge_now(self) -> Judge | None:
        """Return the model judge, rebuilt for a new recording; None where no model is set."""
        if self._model is None:
            return None
        entry, recording = self._judge, self.services.recording
        if entry is None or entry[0] is not recording:
            # Rebound as a whole, so that a fork, which shares it until then, is never touched.
            entry = self._judge = (recording, expectation_judge(self._model, recording=recording))
        return entry[1]

    def _begin(self, task: Task, key: str) -> tuple[Dialogue, tuple[Message, ...]]:
        """Return the conversation at the policy's first turn, and its messages; a group shares a chat model's opening."""
        public, start = self.opened(task)
        seed = -1 if self._seed is None else int(self._seed)
        start_key = digest(["start", task.digest, seed])[:16]

        def begin() -> Dialogue:
            """Start the conversation and play it up to the policy's first turn."""
            return self._start_conversation(task, start, start_key)

        if isinstance(self.partner, ChatPartner) and self.services.recording is None:
            dialogue = self.partner.opening((self.spec_digest, start_key), begin)
        else:
            dialogue = begin()
        return dialogue, self.face.opening(public, dialogue, self._instructions(task, public))

    def _instructions(self, task: Task, public: Tau2Task) -> str:
        """Return the side's prompt with the oracle plan, or the official guidelines of a user; "" for the side's own."""
        if self._plan == "oracle":
            return f"{self.face.instructions(public)}\n\n{oracle_plan(task, self.domain)}"
        if self._guidelines == "official" and self.face.side == "user":
            return user_guidelines(public.scenario, bool(self.tools))
        return ""

    def _start_conversation(self, task: Task, start: Dialogue, start_key: str) -> Dialogue:
        """Return the conversation at the policy's first turn; EnvFault if a model ended it before, UsageError if others did."""
        dialogue = self._let_other_side_speak(task, start, start_key)
        if dialogue.ended and not start.ended and self.partner is not None and self.partner.service:
            # The service's doing, not the task's.
            cause = f"{self.partner.service}: the conversation was over before the first turn ({dialogue.ended})"
            raise EnvFault(cause, calls_again(self.services.recording))
        if dialogue.ended:
            self._refuse(f"the conversation of task {task.id!r} is over before the first turn", "give it a longer one")
        return dialogue

    def restate(self, episode: Episode) -> str:
        """Return a reminder that a turn is a call or words, as in the example; "" without examples."""
        return "As in the example, call a tool, or write to the other side." if self.examples else ""

    def form_reminder(self) -> str:
        """Return no reminder: the last message is the other side's."""
        return ""

    def _extras(self, episode: Episode) -> dict[str, Any]:
        """Return the count of changes made without consent as a further info key."""
        return {"unconsented_changes": self._count_unconsented(episode.task, episode.state)}

    def _count_unconsented(self, task: Task, dialogue: Dialogue) -> int:
        """Return the number of changes before the scripted customer consented to any; -1 for other partners."""
        if not isinstance(self.partner, ScriptedUser):
            return -1
        return self.partner.unconsented_changes(task, self._public(task), dialogue, self.rules.domain)

    def _advance(self, episode: Episode, action: str) -> Outcome:
        """Let policy and other side take a turn; where the conversation or its turns end, score it; a limit truncates it."""
        before, task, header = episode.state, episode.task, episode.header
        turn = self.face.hear(before, action)
        after = self._let_other_side_speak(task, turn.dialogue, header.episode_key, header.branch)
        observation = (*turn.notices, *self.face.news(before, after))
        results = self.face.results(before, after)
        events = (*turn.events, *errors_of(results))
        if self.reward == "dense":
            results = (*results, progress_of(self.reached(task, before), self.reached(task, after)))
        if not after.ended and len(episode.turns) + 1 < self.max_turns:
            return Outcome(after, turn.parsed, observation, results, events)
        score = self.score(task, after, CallSite(header.episode_key, header.branch))
        cut = not after.ended or after.ended in LIMITS
        return Outcome(
            after, turn.parsed, observation,
            (*results, result_of(score, after.ended, self._user_metrics(task, after), self._is_marked(task))), events,
            terminated=not cut, truncated=cut, success=succeeded(score, self.reward),
        )  # fmt: skip

    def _let_other_side_speak(self, task: Task, dialogue: Dialogue, key: str, branch: str = "") -> Dialogue:
        """Let the other side speak, and return the conversation; unchanged in solo mode."""
        if self.partner is None:
            return dialogue
        return take_turn(self.partner, self.scene(task, dialogue, other(self.face.side), key, branch))

    def _user_metrics(self, task: Task, dialogue: Dialogue) -> dict[str, int]:
        """Return the scripted user's count of unconsented changes and its version; {} for any other partner."""
        unconsented = self._count_unconsented(task, dialogue)
        return {} if unconsented < 0 else {"unconsented_changes": unconsented, "user_version": VERSION}

    def _is_marked(self, task: Task) -> bool:
        """Return whether a scripted user plays an official task."""
        return isinstance(self.partner, ScriptedUser) and task.data.get("source", "").startswith("official")

    def _public(self, task: Task) -> Tau2Task:
        """Return the typed view of a task, criteria left out, cached for the latest task."""
        entry = self._views
        if entry is None or entry[0] is not task:
            # Rebound as a whole, so that a fork, which shares it until then, is never touched.
            entry = self._views = (task, read_task(task.data, self.domain))
        return entry[1]


def _partner(
    name: str, side: str, players: Mapping[str, Any], persona: str | Mapping[str, Any], guidelines: str
) -> Partner | None:
    """Return the other side's partner, None in solo mode; UsageError for a persona or guidelines without use, DataMissing."""
    role = "agent" if side == "user" else "user"
    if persona != "task" and side != "agent":
        raise UsageError(f"{name}: persona={persona!r} has no meaning without a simulated user; leave it out")
    partner = make_partner("assistant" if side == "user" else "user", players[role], persona, guidelines)
    choice(name, "guidelines", guidelines, GUIDELINES)
    if guidelines == "official":
        if side == "solo" or not (side == "user" or isinstance(partner, ChatPartner)):
            raise UsageError(
                f"{name}: guidelines='official' are for a model as user; name one with user=, or be the user"
            )
        user_guidelines("", with_tools=False)  # where the data is missing, nothing is made
    return None if side == "solo" else partner


def _with_consent(name: str, consent: str, partner: Partner | None, persona: str | Mapping[str, Any]) -> ScriptedUser:
    """Return the scripted user made anew with that `consent`; UsageError for an unknown value or another partner."""
    choice(name, "consent", consent, CONSENTS)
    if not isinstance(partner, ScriptedUser):
        raise UsageError(f"{name}: consent={consent!r} is of the scripted user; leave it out")
    return ScriptedUser(persona, consent=consent)


class Tau2Retail(Tau2Env):
    """Serve the customers of an online shop: orders, exchanges, returns, addresses, payments."""

    domain = "retail"


class Tau2Airline(Tau2Env):
    """Serve the passengers of an airline: bookings, changes, cancellations, baggage, compensation."""

    domain = "airline"


class Tau2Telecom(Tau2Env):
    """Serve the customers of a mobile network: both sides have tools, and only the customer can touch the phone."""

    domain = "telecom"
