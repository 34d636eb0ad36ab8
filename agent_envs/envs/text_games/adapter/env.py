"""`TextAdapter` makes a TurnEnv of any discrete Gymnasium environment, given words for observations and names for actions.

In process an episode is a live copy of the environment; as bytes it is the seed and the actions. See docs/text_games.md.
"""

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import index
from typing import Any

from gymnasium.spaces import Discrete

from agent_envs.base.arguments import display_value, whole_number
from agent_envs.base.errors import Unsolvable, UsageError
from agent_envs.base.serialization import digest, plain_value, state_type
from agent_envs.core.env import Episode, Task, TurnEnv
from agent_envs.datasets.seeded import SeededSource
from agent_envs.envs.text_games.adapter.replay_copies import Replayed
from agent_envs.envs.text_games.adapter.third_party import (
    FIRST,
    MOST_ACTIONS,
    MOST_SEED,
    AnyEnv,
    CopyEnv,
    Describe,
    LiveGame,
    Progress,
    Success,
    ThirdParty,
    maker,
    sharing,
    won,
)
from agent_envs.envs.text_games.game import Action, Game, Moved, TextGame, core_in_play
from agent_envs.envs.text_games.muted_stdout import muted_stdout

SEEDS: dict[str, Sequence[int]] = {
    "train": range(100_000), "dev": range(100_000, 100_500), "test": range(100_500, 101_000)
}  # fmt: skip
SLOTS = ("{actions}", "{format}")
MOST_COPIES = 20_000
_DEEP = sharing()


@state_type
@dataclass(frozen=True, slots=True)
class AdaptedState:
    """The state of an episode: its seed, a character for each action since, and the mark of the last observation."""

    seed: int
    actions: str
    mark: str


@dataclass(eq=False)
class AdaptedGame(Game):
    """The rules: what `Game` asks for is asked of a live copy. `native` bounds the environment's own reward in a step."""

    third_party: ThirdParty
    replays: Replayed[LiveGame, Moved]
    actions: tuple[Action, ...]
    default: int
    prompt: str
    goal_words: str | Describe
    picture_fn: Callable[[AnyEnv], str] | None
    drawing_fn: Callable[[AnyEnv], str] | None
    native: tuple[float, float]
    native_episode: tuple[float, float] = field(init=False)

    def __post_init__(self) -> None:
        """Bound the sum of rewards over an episode, which has one step at least."""
        low, high = self.native
        self.most_turns = self.third_party.most
        self.native_episode = (min(low, low * self.third_party.most), max(high, high * self.third_party.most))

    def begin(self, task: Task, limit: int) -> AdaptedState:
        """Return the start of a task's seed, `limit` unread; UsageError for a task of another source."""
        if type(task.hidden) is not int:
            raise UsageError(
                f"{self.third_party.name}: task {task.id!r} has no seed; take a task of this environment's source"
            )
        seed = task.hidden % MOST_SEED
        with self.replays.at(seed, "") as live:
            return AdaptedState(seed, "", live.mark())

    def limit(self, state: AdaptedState) -> int:
        """Return the turn limit."""
        return self.third_party.most

    def goal(self, state: AdaptedState) -> str:
        """Return the goal."""
        return self.goal_of(state.seed)

    def goal_of(self, seed: int) -> str:
        """Return the goal of a seed: the fixed words, or what a callable says at its start; UsageError if that is no text."""
        if isinstance(self.goal_words, str):
            return self.goal_words
        with self.replays.at(seed, "") as live:
            return self._text("goal", self.goal_words(live.env, live.observation, live.info))

    def move(self, state: AdaptedState, action: int) -> Moved:
        """Step the live copy."""
        code = chr(FIRST + action)
        moved = self.replays.step(state.seed, state.actions, code, state.mark)
        return replace(moved, state=AdaptedState(state.seed, state.actions + code, moved.state))

    def describe(self, state: AdaptedState) -> str:
        """Return the observation as text."""
        with self.replays.at(state.seed, state.actions, state.mark) as live:
            return live.text

    def picture(self, state: AdaptedState) -> str:
        """Return the caller's picture, "" without one."""
        return self._view_text("picture", state, self.picture_fn)

    def drawing(self, state: AdaptedState) -> str:
        """Return the caller's drawing, "" without one."""
        return self._view_text("drawing", state, self.drawing_fn)

    def _view_text(self, name: str, state: AdaptedState, look: Callable[[AnyEnv], str] | None) -> str:
        """Return a caller's picture or drawing of a state; "" without a function, UsageError if it gives no text."""
        if look is None:
            return ""
        with self.replays.at(state.seed, state.actions, state.mark) as live, muted_stdout():
            return self._text(name, look(live.env))

    def _text(self, name: str, value: str) -> str:
        """Return a text that the caller's function gave; UsageError, naming the function, for another type."""
        if not isinstance(value, str):
            raise UsageError(
                f"{self.third_party.name}: {name}(...) returned a {type(value).__name__}; it returns a text"
            )
        return value


class Seeds(SeededSource[Task]):
    """Tasks that are the given seeds of an environment. The seed is the hidden scenario."""

    bounded = True

    def __init__(self, name: str, seeds: Mapping[str, Sequence[int]], goal: Callable[[int], str], digest: str) -> None:
        """Take the seeds of each split, what tells the goal of a seed, and the digest of what else the tasks rest on."""
        super().__init__(name, {split: len(row) for split, row in seeds.items()}, cache_size=256)
        self.digest, self._seeds, self._goal = digest, seeds, goal

    def build(self, split: str, index: int) -> Task:
        """Return the task of a seed."""
        seed = int(self._seeds[split][index])
        return Task(self.task_id(split, index), split, self._goal(seed), hidden=seed)


class TextAdapter(TextGame):
    """A discrete Gymnasium environment as text: one turn is one action by its name, behind `ACTION:`.

    A subclass whose own arguments are JSON-able, with the callables in its code, can be registered, checked and packed. All
    have a sampler of actions; `register_companions(YourClass, solver=look_ahead())` adds a solver.
    """

    game: AdaptedGame

    def __init__(
        self,
        gym_env: str | Callable[..., AnyEnv] | AnyEnv,
        describe: Describe,
        actions: Sequence[str | Action] | Mapping[str | Action, Any],
        prompt: str,
        *,
        goal: str | Describe = "",
        default: str = "",
        success: Success = won,
        progress: Progress | None = None,
        seeds: Mapping[str, Sequence[int]] | None = None,
        max_turns: int | None = None,
        native: tuple[float, float] | None = None,
        reward: str = "binary",
        on_invalid: str = "default",
        prompt_role: str = "system",
        env_arguments: Mapping[str, Any] | None = None,
        picture: Callable[[AnyEnv], str] | None = None,
        drawing: Callable[[AnyEnv], str] | None = None,
        copy_env: CopyEnv | None = _DEEP,
        examples: int = 0,
        thoughts: str = "skip",
        strict: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Take the environment, and the words.

        Args:
            gym_env: an id, a callable that makes one, or an environment that can be copied; itself it is not stepped.
            describe: `describe(env, observation, info)` returns what the policy reads after the reset and each step.
            actions: names in the order of the environment's numbers, as texts or as `Action`s with a description and other
                names; or a mapping from names to the environment's actions: some of them, or those of another space.
            prompt: the instructions, with the slots `{goal}`, `{actions}` and `{format}`; the last two are added where
                neither is there.
            goal: a phrase that fits behind "Your goal is to", or `goal(env, observation, info)` after the reset.
            default: the action that stands in for an invalid one; by default the first.
            success: `success(env, reward, terminated, info)`, asked at the end; by default: terminated with a reward above 0.
            progress: `progress(env, info)`, from 0 to 1; by default 1 at success, else 0.
            seeds: split -> its seeds; by default 100,000 of `train`, and 500 others each of `dev` and `test`.
            max_turns: by default the `max_episode_steps` of the environment's spec.
            native: bounds of the environment's own reward in a step; `reward="native"` needs them.
            reward: `binary`, `native`, `format_penalty` or `format_penalty_released`.
            on_invalid: `default`: an invalid turn takes the default action; `end`: it ends the episode.
            prompt_role: who says the instructions, `system` or `user`.
            env_arguments: for the id or the callable.
            picture: `picture(env)` returns an SVG.
            drawing: `drawing(env)` returns lines for a terminal.
            copy_env: returns an independent copy (see `sharing`); None: never copied, forks are replayed from the seed.
            examples: worked turns before the task, 0 to 2.
            thoughts: `skip`, or `count`: text inside `<think>...</think>` is read like any other.
            strict: whether an action name that more words follow is invalid.
            render_mode: `ansi`, or `svg` where there is a picture.

        Raises:
            UsageError: an argument does not fit the environment; the message names both.
        """
        self.render_mode = render_mode
        self.take_form(examples, thoughts, strict)
        extra = dict(env_arguments or {})
        make, probe, name = maker(gym_env, extra)
        most = _most_turns(name, probe, max_turns)
        game_actions, values = _name_actions(name, actions, probe)
        third_party = ThirdParty(name, make, values, describe, success, progress, native, most, copy_env)
        copy, start, act = None if copy_env is None else third_party.copied, third_party.start, third_party.act
        replays = Replayed[LiveGame, Moved](name=name, start=start, act=act, copy=copy, mark=LiveGame.mark, every=64)
        if reward == "native" and native is None:
            raise UsageError(f'{name}: reward="native" needs native=(low, high), the bounds of a step\'s reward')
        text, first = _prompt(name, prompt, goal), _default(name, default, game_actions)
        self.game = AdaptedGame(
            third_party, replays, game_actions, first, text, goal, picture, drawing, native or (0.0, 1.0)
        )
        source = Seeds(
            name, _seeds(name, seeds or SEEDS), self.game.goal_of, _rests_on(name, extra, game_actions, text, goal)
        )
        self.play_game(self.game, source, max_turns=most, reward=reward, on_invalid=on_invalid, prompt_role=prompt_role)
        for number, action in enumerate(game_actions):
            if self.action_of(self.say(number))[0] != number:
                raise UsageError(
                    f"{name}: the action {display_value(action.name)} reads like another, or like none; rename it"
                )
        if picture is None:
            self.metadata = {**TextGame.metadata, "render_modes": ["ansi"]}  # type: ignore[misc]

    def _picture(self, episode: Episode) -> str:
        """Return the adapted environment's own picture; UsageError without a picture function."""
        return super()._picture(episode) if self.game.picture_fn else TurnEnv._picture(self, episode)


def look_ahead(same: Callable[[AnyEnv], Hashable] | None = None, most: int = MOST_COPIES) -> Callable[[AnyEnv], str]:
    """Return a solver that searches copies, breadth first, for the shortest way to success; it raises Unsolvable past `most`.

    Args:
        same: `same(env)` is equal for two environments only if their future is; by default those whose texts are equal after
            equally many actions, which is right where the text tells all.
        most: how many copies a search may make.
    """

    def solver(env: AnyEnv) -> str:
        """Return the turn of the first action of a plan to success; a plan is kept with the live copy and followed."""
        core = core_in_play(env, "TextAdapter")
        game: Any = core.game
        state = core.episode.state
        with game.replays.at(state.seed, state.actions, state.mark) as live:
            live.plan = live.plan or _way(game, live, same, most)
            return core.say(
                ord(live.plan[0]) - FIRST, f"This is the first of {len(live.plan)} actions that reach the goal."
            )

    return solver


def _way(game: AdaptedGame, live: LiveGame, same: Callable[[AnyEnv], Hashable] | None, most: int) -> str:
    """Return the shortest line of actions to success, searched over copies; Unsolvable without one within `most` copies."""
    third_party = game.third_party

    def state_key(moment: LiveGame) -> Hashable:
        """Return the key by which moments count as the same: turns and text, or the caller's own key of the environment."""
        return (moment.turns, moment.text) if same is None else same(moment.env)

    met, open_ends = {state_key(live)}, deque([(live, "")])
    while open_ends:
        moment, way = open_ends.popleft()
        for number in range(len(game.actions)):
            twin, longer = _copy_live(third_party, moment), way + chr(FIRST + number)
            moved, most = third_party.act(twin, longer[-1]), most - 1
            if moved.success:
                return longer
            if most <= 0:
                raise Unsolvable(f"{third_party.name}: the copies that a search may make led to no success")
            if not third_party.over(twin) and state_key(twin) not in met:
                met.add(state_key(twin))
                open_ends.append((twin, longer))
    raise Unsolvable(f"{third_party.name}: success cannot be reached any more")


def _copy_live(third_party: ThirdParty, live: LiveGame) -> LiveGame:
    """Return a copy of a live game; UsageError where copying raises anything."""
    try:
        return third_party.copied(live)
    except Exception as error:
        raise UsageError(
            f"{third_party.name}: look_ahead needs copies of it: {type(error).__name__}: {error}"
        ) from error


def _most_turns(name: str, probe: AnyEnv, max_turns: int | None) -> int:
    """Return the turn limit, the environment's own if None; UsageError if it is longer than that, or there is none."""
    own = probe.spec.max_episode_steps if probe.spec is not None else None
    if max_turns is None and own is None:
        raise UsageError(f"{name}: its spec has no max_episode_steps; give max_turns=...")
    most = whole_number(name, "max_turns", own if max_turns is None else max_turns, high=1_000_000)
    if own is not None and most > own:
        fix = f'give env_arguments={{"max_episode_steps": {most}}} too'
        raise UsageError(f"{name}: max_turns={most}, but it ends after {own} steps by itself; {fix}")
    return most


def _name_actions(
    name: str, actions: Sequence[str | Action] | Mapping[str | Action, Any], probe: AnyEnv
) -> tuple[tuple[Action, ...], tuple[Any, ...]]:
    """Return the actions, plain names added as aliases, and their values; UsageError where they do not fit the space."""
    space = probe.action_space
    if isinstance(actions, str) or not 0 < len(actions) <= MOST_ACTIONS:
        raise UsageError(f"{name}: actions={display_value(actions)}; give 1 to {MOST_ACTIONS} names")
    if isinstance(actions, Mapping):
        values = tuple(actions.values())
        for key, value in actions.items():
            if not space.contains(value):
                raise UsageError(
                    f"{name}: the action {display_value(key)} is {display_value(value)}, which is not in {space}"
                )
    elif not isinstance(space, Discrete):
        raise UsageError(
            f"{name}: its actions are {space}, not Discrete; give actions as a mapping from names to actions"
        )
    elif len(actions) != space.n:
        fix = "name each in their order, or give a mapping from names to numbers"
        raise UsageError(f"{name}: {len(actions)} names for {space.n} actions; {fix}")
    else:
        values = tuple(int(space.start) + number for number in range(len(actions)))
    game_actions = []
    for item in actions:
        if not isinstance(item, str | Action):
            raise UsageError(
                f"{name}: {display_value(item)} names no action; give texts or agent_envs.envs.text_games.adapter.Action"
            )
        action = Action(item, "") if isinstance(item, str) else item
        plain = " ".join(action.name.lower().replace("_", " ").split())
        game_actions.append(Action(action.name, action.doc, (plain, *action.aliases)))
    return tuple(game_actions), values


def _default(name: str, default: str, actions: tuple[Action, ...]) -> int:
    """Return the default action's number, 0 where none is named; UsageError for an unknown one."""
    names = [action.name for action in actions]
    if default and default not in names:
        raise UsageError(f"{name}: default={display_value(default)} is no action; name one of {', '.join(names)[:400]}")
    return names.index(default) if default else 0


def _prompt(name: str, prompt: str, goal: str | Describe) -> str:
    """Return the prompt, with actions and format added if it has no slot; UsageError for {goal} where no goal is given."""
    if "{goal}" in prompt and goal == "":
        raise UsageError(f"{name}: the prompt has the slot {{goal}}; give goal=..., a phrase or a callable")
    slots = any(slot in prompt for slot in SLOTS)
    return prompt if slots else f"{prompt.strip()}\n\nThe actions are:\n{{actions}}\n\n{{format}}"


def _seeds(name: str, seeds: Mapping[str, Sequence[int]]) -> Mapping[str, Sequence[int]]:
    """Return all splits' seeds; UsageError where a split's first or last is no whole number in range, or it is empty."""
    for split, row in seeds.items():
        try:
            sound = all(0 <= index(seed) < MOST_SEED for seed in (row[0], row[-1]))
        except (TypeError, LookupError):
            sound = False
        if not sound:
            raise UsageError(
                f"{name}: seeds[{split!r}] is {display_value(row)}; give whole numbers from 0 to {MOST_SEED - 1}"
            )
    return dict(seeds)


def _rests_on(name: str, arguments: Mapping[str, Any], game_actions: tuple[Action, ...], prompt: str, goal: Any) -> str:
    """Return the digest of what a subclass says in its code, so that snapshots and records know another by it."""
    actions = [[action.name, action.doc, list(action.aliases)] for action in game_actions]
    return digest([name, plain_value(dict(arguments)), actions, prompt, plain_value(goal)])
