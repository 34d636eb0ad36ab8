"""A level asks minigrid's generators for a world by name and seed; no other module knows minigrid.

`local` levels are the five kinds of BALROG's `MixedTrainLocal` (BabyAI-Text, arXiv 2302.02662), which PyPI's minigrid does not
have: built here on minigrid's level base. All others are minigrid's own, by name. Each world comes from a generator object of
its own, so that threads share nothing; rejected attempts print nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from agent_envs.base.errors import MissingExtra, UsageError
from agent_envs.envs.text_games.babyai.grid import CARRIED, EMPTY, NOWHERE, WALL, BabyThing, BabyWorld, mark
from agent_envs.envs.text_games.babyai.mission import BabyClause, BabyDesc, BabySequence, Instructions

KINDS = ("goto", "pickup", "open", "putnext", "pick_up_seq_go_to")
EXCLUDED = ("yellow box", "red key", "red door", "green ball", "grey door")  # no mission names one (held out for tests)
DOOR_COLORS = ("yellow", "green", "blue", "purple")
ROOM_SIZE = 8
MOST_DISTRACTORS = 12
MOST_ATTEMPTS = 1_000
PREFIX = "BabyAI-"
_MODULE = "minigrid.envs.babyai:"
_NEEDED = {"goto": 1, "pickup": 1, "open": 0, "putnext": 2, "pick_up_seq_go_to": 2}  # things that a mission names


@dataclass(frozen=True, slots=True)
class Level:
    """A level by its name.

    Attributes:
        name: one of KINDS, or minigrid's name without `BabyAI-` and version.
        make: returns a fresh generator object of minigrid.
    """

    name: str
    make: Callable[[], Any]

    def world(self, seed: int) -> BabyWorld:
        """Return the world that minigrid makes of a seed, >= 0; raises UsageError where no attempt gave a mission."""
        level = self.make()
        level.reset(seed=seed)
        return world_of(level)

    def most_turns(self) -> int:
        """Return the greatest limit that an episode of this level has: seed 0's, or by minigrid's rule for a whole sentence.

        A level that draws sentences of the whole language has one limit a sentence; the others have one.
        """
        level = self.make()
        if "action_kinds" not in vars(level):
            return self.world(0).limit
        clauses = 4 if "seq" in level.instr_kinds else 2 if "and" in level.instr_kinds else 1
        room_time = int(level.room_size**2 * level.num_rows * level.num_cols)
        return clauses * (2 if "putnext" in level.action_kinds else 1) * room_time


def local_level(kind: str, distractors: int = 0) -> Level:
    """Return one of the five kinds of local level, with so many distractors; MissingExtra without minigrid.

    Args:
        kind: one of KINDS.
        distractors: how many things beside those that the mission needs, up to MOST_DISTRACTORS.
    """
    quiet = _quiet_class(_minigrid().roomgrid_level.RoomGridLevel, _local_mission)
    columns = 2 if kind == "open" else 1

    def make() -> Any:
        """Make a generator of levels of this kind, with one room, or two for doors."""
        level = quiet(room_size=ROOM_SIZE, num_rows=1, num_cols=columns)
        level.kind, level.distractors = kind, distractors
        return level

    return Level(kind, make)


def named_level(name: str) -> Level:
    """Return a BabyAI level by its registered name, prefix and version optional; UsageError for others, MissingExtra."""
    spec = next((spec for spec in _registered_levels().values() if name in _spellings(spec)), None)
    if spec is None:
        raise UsageError(f"BabyAI: level={name[:80]!r} is not known; minigrid has {', '.join(_registered_levels())}")
    quiet = _quiet_class(getattr(_minigrid().babyai, spec.entry_point.removeprefix(_MODULE)), None)
    return Level(_shorten(spec), lambda: quiet(**spec.kwargs))


def world_of(level: Any) -> BabyWorld:
    """Return the moment that a level of minigrid is in, with things in boxes; its mission with nothing done yet."""
    things: list[Any] = []
    places: list[int] = []
    for place, thing in enumerate([*level.grid.grid, level.carrying]):
        if thing is None or thing.type == "wall":
            continue
        places.append(place if place < len(level.grid.grid) else CARRIED)
        things.append(thing)
        while thing.contains is not None:
            thing = thing.contains
            things.append(thing)
            places.append(NOWHERE)
    numbers = {id(thing): number for number, thing in enumerate(things)}
    cells = "".join(
        EMPTY if thing is None else WALL if thing.type == "wall" else mark(numbers[id(thing)])
        for thing in level.grid.grid
    )
    return BabyWorld(
        width=level.grid.width,
        height=level.grid.height,
        cells=cells,
        things=tuple(_thing(thing, place, numbers) for thing, place in zip(things, places, strict=True)),
        place=int(level.agent_pos[1]) * level.grid.width + int(level.agent_pos[0]),
        facing=int(level.agent_dir),
        carrying=-1 if level.carrying is None else numbers[id(level.carrying)],
        steps=int(level.step_count),
        limit=int(level.max_steps),
        instructions=_instructions(level.instrs, numbers, level.grid.width),
    )


def _thing(thing: Any, place: int, numbers: dict[int, int]) -> BabyThing:
    """Return minigrid's object as a thing: state "" but for a door, and the number of what a box holds or -1."""
    state = ""
    if thing.type == "door":
        state = "locked" if thing.is_locked else "open" if thing.is_open else "closed"
    return BabyThing(thing.type, thing.color, place, state, numbers.get(id(thing.contains), -1))


def _instructions(instr: Any, numbers: dict[int, int], width: int) -> Instructions:
    """Convert minigrid's instruction to ours, a sequence or a clause; things are named by their numbers."""
    verifier = _minigrid().verifier
    if isinstance(instr, verifier.SeqInstr):
        orders = {verifier.BeforeInstr: "before", verifier.AfterInstr: "after", verifier.AndInstr: "and"}
        first, second = (_instructions(part, numbers, width) for part in (instr.instr_a, instr.instr_b))
        return BabySequence(orders[type(instr)], first, second, strict=bool(instr.strict))
    if isinstance(instr, verifier.PutNextInstr):
        thing, beside = _desc(instr.desc_move, numbers), _desc(instr.desc_fixed, numbers)
        return BabyClause("putnext", thing, beside, bool(instr.strict), _cells(instr.desc_fixed, width))
    thing = _desc(instr.desc, numbers)
    if isinstance(instr, verifier.GoToInstr):
        return BabyClause("goto", thing, places=_cells(instr.desc, width))
    verb = "open" if isinstance(instr, verifier.OpenInstr) else "pickup"
    return BabyClause(verb, thing, strict=bool(instr.strict))


def _desc(desc: Any, numbers: dict[int, int]) -> BabyDesc:
    """Return a description. A wall may fit `object`: it counts for the article, and can be no match."""
    matches = sorted(numbers[id(thing)] for thing in desc.obj_set if id(thing) in numbers)
    return BabyDesc(desc.type or "", desc.color or "", desc.loc or "", len(desc.obj_set) > 1, tuple(matches))


def _cells(desc: Any, width: int) -> tuple[int, ...]:
    """Return the cells where a description's objects stand, as sorted indices."""
    return tuple(sorted(int(y) * width + int(x) for x, y in desc.obj_poss))


def _local_mission(level: Any) -> None:
    """Make things and mission of a local kind in place; RejectSampling for what is unreachable or an excluded combination."""
    if level.kind == "open":
        level.instrs = _locked_door(level)
    else:
        level.place_agent()
        count = level.distractors + _NEEDED[level.kind]
        things = level.add_distractors(num_distractors=count, all_unique=False)
        level.instrs = _clauses(level, things)
    level.check_objs_reachable()
    if any(combination in level.instrs.surface(level) for combination in EXCLUDED):
        raise _minigrid().roomgrid_level.RejectSampling("an excluded combination")


def _locked_door(level: Any) -> Any:
    """Lock the door between two rooms, agent, key and distractors in one; return the instruction to open it."""
    verifier = _minigrid().verifier
    home, color = level._rand_int(0, 2), level._rand_elem(DOOR_COLORS)
    level.add_door(0, 0, 0, color, locked=True)
    level.add_object(home, 0, "key", color)
    level.add_distractors(home, 0, num_distractors=level.distractors, all_unique=False)
    level.place_agent(home, 0)
    return verifier.OpenInstr(verifier.ObjDesc("door", level._rand_elem([None, color])))


def _clauses(level: Any, things: list[Any]) -> Any:
    """Draw the instruction of a local kind but `open` over its things; two things differ unless the first has twins."""
    verifier = _minigrid().verifier
    first = level._rand_elem(things)
    target = verifier.ObjDesc(first.type, first.color)
    if level.kind in ("goto", "pickup"):
        return (verifier.GoToInstr if level.kind == "goto" else verifier.PickupInstr)(target)
    twins = len(target.find_matching_objs(level)[0]) > 1
    second = level._rand_elem([thing for thing in things if twins or thing is not first])
    other = verifier.ObjDesc(second.type, second.color)
    if level.kind == "putnext":
        return verifier.PutNextInstr(target, other)
    take, go = verifier.PickupInstr(target), verifier.GoToInstr(other)
    return verifier.BeforeInstr(take, go) if level._rand_bool() else verifier.AfterInstr(go, take)


def _gen_grid(level: Any, width: int, height: int) -> None:
    """Generate a level in place as minigrid does, without its messages; UsageError after MOST_ATTEMPTS rejected missions."""
    for _ in range(MOST_ATTEMPTS):
        try:
            _minigrid().roomgrid.RoomGrid._gen_grid(level, width, height)
            level.gen_mission()
            level.validate_instrs(level.instrs)
        except (RecursionError, _minigrid().roomgrid_level.RejectSampling):
            continue
        level.mission = level.surface = level.instrs.surface(level)
        return
    raise UsageError(
        f"BabyAI: {MOST_ATTEMPTS} missions in a row were rejected; name another level or fewer distractors"
    )


@cache
def _quiet_class(base: Any, mission: Callable[[Any], None] | None) -> Any:
    """Return a subclass of a level class of minigrid that prints nothing, with our own mission if one is given; cached."""
    methods: dict[str, Any] = {"_gen_grid": _gen_grid}
    if mission is not None:
        methods["gen_mission"] = mission
    return type(f"Quiet{base.__name__}", (base,), methods)


@cache
def _registered_levels() -> dict[str, Any]:
    """Return minigrid's registered BabyAI levels by their short names, cached; MissingExtra without minigrid."""
    _minigrid()
    from gymnasium import registry

    ours = (
        spec for spec in registry.values() if spec.id.startswith(PREFIX) and str(spec.entry_point).startswith(_MODULE)
    )
    return {_shorten(spec): spec for spec in ours}


def _shorten(spec: Any) -> str:
    """Return a level's registered name without the common prefix."""
    return str(spec.name).removeprefix(PREFIX)


def _spellings(spec: Any) -> tuple[str, ...]:
    """Return the spellings by which a level may be named: with and without version, with and without prefix."""
    return spec.id, spec.name, _shorten(spec), spec.id.removeprefix(PREFIX)


def _minigrid() -> SimpleNamespace:
    """Import minigrid, and return those of its modules that are used; MissingExtra where it is not installed."""
    try:
        import minigrid.envs.babyai as babyai
    except ImportError:
        raise MissingExtra("minigrid", "babyai", "BabyAI") from None
    from minigrid.core import roomgrid
    from minigrid.envs.babyai.core import roomgrid_level, verifier

    return SimpleNamespace(babyai=babyai, roomgrid=roomgrid, roomgrid_level=roomgrid_level, verifier=verifier)
