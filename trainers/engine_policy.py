"""A policy over an engine takes tokens in and gives tokens out, and never encodes again what was sampled."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import BudgetSpent, UsageError
from agent_envs.core.trajectory import CONTEXT_FULL, Trajectory
from agent_envs.rollout.episode_runner import EpisodeResult, Planned
from agent_envs.rollout.policy import Reply, Request, origin_of
from agent_envs.rollout.run_many import run_many
from agent_envs.services.run_services import Services
from trainers.contracts import Engine, Generated, Prefix, Sampling, TokenSequence
from trainers.expanded_actions import expanded_parts
from trainers.sampling import Player
from trainers.settings import RunSettings
from trainers.tokens import ChatTokenizer, Conversation
from trainers.training.forward import head_of
from trainers.training.models import compute_dtype, save_model
from trainers.training.packaged import model_place

TOLERANCES = {"float32": 1e-3, "bfloat16": 0.2}  # of an engine's logprobs after a sync


@dataclass(frozen=True)
class ForcedPrefix:
    """The tokens that a turn begins with, where it goes on from within another one.

    Attributes:
        sampled: the first tokens of that turn, as they were sampled.
        sampled_logprobs: of these.
        forced: what follows before the policy goes on.
        forced_logprobs: of these, under the policy.
        train_forced: whether they carry a gradient.
    """

    sampled: tuple[int, ...] = ()
    sampled_logprobs: tuple[float, ...] = ()
    forced: tuple[int, ...] = ()
    forced_logprobs: tuple[float, ...] = ()
    train_forced: bool = False

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens that the turn begins with."""
        return (*self.sampled, *self.forced)

    @property
    def logprobs(self) -> tuple[float, ...]:
        """The logprobs of these tokens, 0 where they carry no gradient."""
        forced = self.forced_logprobs if self.train_forced else (0.0,) * len(self.forced)
        return (*self.sampled_logprobs, *forced)


NO_PREFIX = ForcedPrefix()


class EnginePolicy:
    """An `agent_envs` policy that samples from an engine and keeps every conversation as tokens.

    Attributes:
        sampled_tokens: drawn so far, over all episodes.
        edited: turns whose text the environment recorded otherwise than it was sampled (lone surrogates, the length cap).
        services: what stands before the outside services of the environments that it plays.
        report: called with "episodes" and the share of a plan that is played.
    """

    can_prefill = True
    text_only = True
    gives_reasons = False  # of a reply's end; a full context then ends an episode, which in training goes on in silence

    def __init__(
        self, engine: Engine, chat: ChatTokenizer, sampling: Sampling, *, name: str = "engine", max_new_tokens: int = 512,
        max_context: int = 4096, max_episode_tokens: int = 0, batch: int = 64,
        within: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:  # fmt: skip
        """Take the engine, the tokenizer of conversations, how tokens are drawn, and limits.

        `max_new_tokens` is of a turn, `max_context` of a conversation; `max_episode_tokens` counts all that follows the prompt,
        whoever wrote it, and 0 is no limit. `within` is entered around every call of the engine: mixed precision, where the
        engine shares a trainer's model.
        """
        self._within = within
        self.name, self.batch = name, batch
        self.sampled_tokens = self.edited = 0
        self.services = Services()
        self.report: Callable[[str, float], None] = lambda stage, share: None
        self._engine, self._chat, self._sampling = engine, chat, sampling
        self._max_new_tokens, self._max_context = max_new_tokens, max_context
        self._max_episode_tokens = max_episode_tokens or math.inf
        self._histories: dict[str, TokenHistory] = {}
        self._forced_prefixes: dict[str, ForcedPrefix] = {}

    def play(self, plan: Sequence[Planned]) -> dict[str, EpisodeResult]:
        """Play a plan and return its results by key, faults among them; BudgetSpent where one was cut or is missing.

        Raises:
            BudgetSpent: nothing may be paid any more, so that episodes are missing.
        """
        pairs = run_many(plan, self, concurrency=self.batch, services=self.services)
        results = dict[str, EpisodeResult]()
        for item, result in pairs:
            results[item.key] = result
            self.report("episodes", len(results) / len(plan))
        cut = [result.fault for result in results.values() if result.status == "budget"]
        if cut or len(results) < len(plan):
            raise BudgetSpent(cut[0] if cut else "a limit on calls or dollars is reached")
        return results

    def force_prefix(self, origin: str, forced_prefix: ForcedPrefix) -> None:
        """Let the next turn of an episode or fork begin with these tokens."""
        self._forced_prefixes[origin] = forced_prefix

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return the next turn of each request, in their order; nothing is drawn where no room is left; rows are sorted."""
        order = sorted(range(len(requests)), key=lambda place: (requests[place].origin, requests[place].turn))
        turns = [self._begin(requests[place]) for place in order]
        open_turns = [turn for turn in turns if turn.prefix.max_new_tokens > 0]
        with self._within():
            samples = self._engine.generate([turn.prefix for turn in open_turns], self._sampling) if open_turns else []
        for turn, generated in zip(open_turns, samples, strict=True):
            turn.sample = generated
        replies: dict[int, Reply] = {place: self._end(turn) for place, turn in zip(order, turns, strict=True)}
        return [replies[place] for place in range(len(requests))]

    def sequences(self, origin: str) -> list[TokenSequence]:
        """Return the tokens of an episode or fork as they were sampled: one sequence, or more where contexts were replaced."""
        history = self._histories[origin]
        return [conversation.sequence() for conversation in history.conversations]

    def rebuild(self, trajectory: Trajectory) -> list[TokenSequence]:
        """Return the same tokens made from the record alone, up to the first turn without tokens; [] if that is the first."""
        turns = tuple(itertools.takewhile(lambda turn: turn.token_ids, trajectory.turns))
        if not turns:
            return []
        origin = origin_of(trajectory.header.episode_key, trajectory.header.branch)
        return self._chat.sequences(replace(trajectory, turns=turns), self._histories[origin].tools)

    def demonstration_tokens(
        self, trajectory: Trajectory, spec: str, tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[TokenSequence]:
        """Encode another agent's episode as tokens; `spec` is not read."""
        return self._chat.sequences(trajectory, tools)

    def fork(self, origin: str, new: str) -> None:
        """Let `new` begin as `origin` stands, caches too; nothing if that is unknown; UsageError if `new` is there already.

        Raises:
            UsageError: there is a conversation of that name already.
        """
        if new in self._histories:
            raise UsageError(f"fork to {new}: there is such a conversation already; give each fork a branch of its own")
        history = self._histories.get(origin)
        if history is not None:
            self._histories[new] = history.copy()
            self._engine.fork(origin, new)

    def newest(self, origin: str) -> Conversation:
        """Return the conversation that the newest turn stands in, as it grows."""
        return self._histories[origin].conversations[-1]

    def bootstrap_tokens(self, request: Request) -> tuple[int, ...]:
        """Return the tokens that the turn of a request would go on from. Nothing is sampled, and no conversation grows."""
        history = self._histories.get(request.origin)
        if history is None or request.turn == 1 or request.context == "replace":
            conversation = self._chat.open(request.messages, history.tools if history else request.tools)
        else:
            conversation = history.conversations[-1].copy()
            conversation.observe(request.messages_since(history.message_count)[1:])
        if request.prefill:
            conversation.prefill(request.prefill)
        return tuple(conversation.ids)

    def conversation_state(self, origin: str) -> dict[str, Any] | None:
        """Return the state of a conversation, as plain JSON; None where it has not begun."""
        history = self._histories.get(origin)
        if history is None:
            return None
        newest, prompt = history.conversations[-1], history.prompts[-1]
        rest = {"seen": history.message_count, "said": history.last_text, "replaced": history.contexts - 1}
        rest["spent_before"] = history.token_count - (len(newest.ids) - prompt)
        return {"tools": list(history.tools), "conversation": newest.to_json(), "prompt": prompt, **rest}

    def restore(self, origin: str, state: Mapping[str, Any] | None) -> None:
        """Restore a conversation from its `conversation_state`, None forgets it; contexts replaced before it are gone."""
        self._histories.pop(origin, None)
        if state is not None:
            newest = self._chat.resume(state["conversation"])
            rest = (state[name] for name in ("seen", "said", "replaced", "spent_before"))
            self._histories[origin] = TokenHistory(tuple(state["tools"]), [newest], [state["prompt"]], *rest)

    def drop(self, origin: str) -> None:
        """Forget one conversation."""
        self._histories.pop(origin, None)

    def forget(self) -> None:
        """Drop all conversations, and the engine's caches."""
        self._histories.clear()
        self._forced_prefixes.clear()
        self._engine.forget()

    def _begin(self, request: Request) -> "_Turn":
        """Prepare the next turn: new messages join the conversation, or a new one opens; forced tokens follow the prompt."""
        history = self._histories.get(request.origin)
        if history is None or request.turn == 1 or request.context == "replace":
            if history is None or request.turn == 1:
                history = self._histories[request.origin] = TokenHistory(tuple(request.tools))
            history.open(self._chat.open(request.messages, history.tools))
            history.message_count = len(request.messages)
        else:
            reply, *messages = request.messages_since(history.message_count)
            self.edited += reply["content"] != history.last_text
            history.conversations[-1].observe(messages)
            history.message_count += 1 + len(messages)
        conversation = history.conversations[-1]
        prefill_ids = conversation.prefill(request.prefill) if request.prefill else ()
        forced = self._forced_prefixes.pop(request.origin, NO_PREFIX)
        conversation.append_sampled(forced.sampled, forced.sampled_logprobs, request.turn)
        if forced.train_forced:
            conversation.append_sampled(forced.forced, forced.forced_logprobs, request.turn)
        else:
            conversation.append_context(forced.forced)
        room = int(min(self._max_context - len(conversation.ids), self._max_episode_tokens - history.token_count))
        budget = max(0, min(self._max_new_tokens - len(forced.ids), room))
        prefix = Prefix(
            tuple(conversation.ids), budget, tuple(request.stop), request.seed, request.origin,
            turn_text=self._turn_text(conversation, request, forced.ids),
        )  # fmt: skip
        return _Turn(history, prefix, prefill_ids, request.prefill, request.turn, forced_prefix=forced)

    def _turn_text(self, conversation: Conversation, request: Request, forced: Sequence[int]) -> str | None:
        """Return the turn's given beginning, else "<think>" where the template opens one, or ""; None if stops count in it."""
        if request.thoughts != "skip" or not request.stop:
            return None
        beginning = request.prefill + self._chat.decode(forced)
        return beginning or ("<think>" if self._chat.decode(conversation.ids[-8:]).rstrip().endswith("<think>") else "")

    def _end(self, turn: "_Turn") -> Reply:
        """Append the sampled tokens and return the reply; prefilled and untrained forced tokens are marked as not sampled."""
        sample, forced = turn.sample, turn.forced_prefix
        turn.history.conversations[-1].append_sampled(sample.ids, sample.logprobs, turn.number)
        text = turn.history.last_text = turn.prefill + self._chat.decode((*forced.ids, *sample.ids))
        self.sampled_tokens += len(sample.ids)
        zeros = (0.0,) * len(turn.prefill_ids)
        trained = (
            (True,) * len(forced.sampled) + (forced.train_forced,) * len(forced.forced) + (True,) * len(sample.ids)
        )
        return Reply(
            text,
            token_ids=(*turn.prefill_ids, *forced.ids, *sample.ids),
            logprobs=(*zeros, *forced.logprobs, *sample.logprobs),
            entropies=(*zeros, *(0.0,) * len(forced.ids), *sample.entropies),
            usage={"input": len(turn.prefix.ids), "output": len(sample.ids)},
            sampled=(*(False,) * len(turn.prefill_ids), *trained) if turn.prefill_ids or not all(trained) else (),
            **(self._ending(turn) if self.gives_reasons else {}),
        )

    def _ending(self, turn: "_Turn") -> dict[str, str]:
        """Return the finish reason and the outcome of a turn's reply; without any room the context was full."""
        if not (reason := turn.sample.finish):
            return {"finish_reason": f"{CONTEXT_FULL} {len(turn.prefix.ids)}/{self._max_context}", "outcome": "full"}
        return {"finish_reason": reason, "outcome": "cut" if reason == "length" else "acted"}


@dataclass
class TokenHistory:
    """The tokens of an episode: conversations, of which a new one starts where an observation replaces the context.

    `earlier_contexts` came before the first one here, with `earlier_tokens` behind their prompts.
    """

    tools: tuple[dict[str, object], ...]
    conversations: list[Conversation] = field(default_factory=list)
    prompts: list[int] = field(default_factory=list)  # their tokens
    message_count: int = 0
    last_text: str = ""
    earlier_contexts: int = 0
    earlier_tokens: int = 0

    def copy(self) -> "TokenHistory":
        """Return a copy that grows independently."""
        conversations = [*self.conversations[:-1], self.conversations[-1].copy()]
        return replace(self, conversations=conversations, prompts=list(self.prompts))

    @property
    def contexts(self) -> int:
        """The number of contexts so far."""
        return self.earlier_contexts + len(self.conversations)

    def open(self, conversation: Conversation) -> None:
        """Begin a conversation with its prompt."""
        self.conversations.append(conversation)
        self.prompts.append(len(conversation.ids))

    @property
    def token_count(self) -> int:
        """The number of tokens behind the prompts, whoever wrote them."""
        return self.earlier_tokens + sum(len(one.ids) for one in self.conversations) - sum(self.prompts)


@dataclass
class _Turn:
    """A turn that is being sampled: its prefix, its forced tokens, and what the engine drew, nothing where no room is left."""

    history: TokenHistory
    prefix: Prefix
    prefill_ids: tuple[int, ...]
    prefill: str
    number: int
    forced_prefix: ForcedPrefix = NO_PREFIX
    sample: Generated = Generated((), (), (), "")


def build_engine(settings: RunSettings, model: Any, chat: ChatTokenizer, accelerator: Any, out: Path) -> Engine:
    """Build the engine: hf over the model, or vLLM, not synced yet; UsageError for vLLM in several processes or for ExpA.

    Raises:
        UsageError: vLLM in several processes, or for expanded actions.
    """
    sampling, lora = settings.sampling, settings.model.lora_rank
    from trainers.engines.decode import end_ids

    ends = sorted({*chat.end_ids, *end_ids(None, model, chat.tokenizer)})
    if sampling.engine == "hf":
        from trainers.engines.hf import HFEngine

        names = ("batch", "cache_gb", "cache_share", "graphs")
        return HFEngine(model, chat.tokenizer, eos_ids=ends, **{name: getattr(sampling, name) for name in names})
    if head_of(model) is not None:
        raise UsageError("sampling.engine=vllm samples text alone; expanded actions are played with hf")
    if accelerator.num_processes > 1:
        raise UsageError("sampling.engine=vllm works in one process here; with several use hf")
    from trainers.engines.vllm import VLLMEngine

    folder = out / "engine"
    if lora:
        chat.tokenizer.save_pretrained(folder)
    else:
        save_model(model, chat.tokenizer, folder, template=chat.template)
    dtype = str(compute_dtype(settings.model)).removeprefix("torch.")
    return VLLMEngine(
        model_place(settings.model.name) if lora else folder,
        tokenizer=folder,
        batch=sampling.batch,
        eos_ids=ends,
        max_length=sampling.max_context,
        lora_rank=lora,
        dtype=dtype,
        tolerance=TOLERANCES[dtype],
        memory_share=sampling.memory_share,
    )


def build_policies(
    settings: RunSettings, model: Any, engine: Engine, chat: ChatTokenizer, env: gym.Env[Any, Any], within: Any
) -> tuple[Player, Player]:
    """Return (training, evaluation) players: expanded ones where `env` has expanded actions, else of text over the engine."""
    options = settings.sampling
    training = Sampling(options.temperature)
    evaluation = Sampling(options.eval_temperature, top_p=options.eval_top_p)
    longest = getattr(model.config, "max_position_embeddings", options.max_context)
    limits: dict[str, Any] = {
        "max_new_tokens": options.max_new_tokens,
        "max_context": min(options.max_context, longest),
        "batch": options.batch,
        "within": within,
    }
    modes = (("training", training), ("evaluation", evaluation))
    if (expanded := expanded_parts(env)) is not None:
        players = [expanded.ExpandedPlayer(model, chat, sampling, name=name, **limits) for name, sampling in modes]
        return players[0], players[1]
    limits |= {"max_episode_tokens": options.max_episode_tokens, "batch": options.episodes or options.batch}
    policies = [EnginePolicy(engine, chat, sampling, name=name, **limits) for name, sampling in modes]
    return policies[0], policies[1]
