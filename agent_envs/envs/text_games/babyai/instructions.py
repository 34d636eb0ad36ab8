"""A BabyAI mission is judged after every step: what is done of it, and whether the step ends it.

A clause (go to, pick up, open, put next to) or a sequence of clauses (before, after, and) is judged after every step as
minigrid's verifier does it, its habits included: which things a description means is fixed at the start, and where they stand
is looked up again only when the action was `drop`.
"""

from dataclasses import replace

from agent_envs.envs.text_games.babyai.grid import (
    DROP,
    EMPTY,
    OFFSET,
    PICK_UP,
    TOGGLE,
    WALL,
    BabyWorld,
    in_front,
    moved,
)
from agent_envs.envs.text_games.babyai.mission import BabyClause, BabyDesc, BabySequence, Instructions

CONTINUE, SUCCESS, FAILURE = "continue", "success", "failure"


def play_action(world: BabyWorld, action: int) -> tuple[BabyWorld, str]:
    """Return the world after an action with the mission's progress, and `continue`, `success` or `failure`."""
    after = moved(world, action)
    instructions, status = update(world.instructions, action, after)
    return (after if instructions is world.instructions else replace(after, instructions=instructions)), status


def update(instructions: Instructions, action: int, world: BabyWorld) -> tuple[Instructions, str]:
    """Return the mission after an action that led to `world`, and `continue`, `success` or `failure`."""
    if action == DROP:
        instructions = _locate(instructions, world)
    return _update_part(instructions, action, world)


def located(desc: BabyDesc, world: BabyWorld) -> tuple[int, ...]:
    """Return the cells where things that a description means stand; what is carried or in a box stands nowhere."""
    return tuple(world.things[number].place for number in desc.matches if world.things[number].place >= 0)


def _locate(instructions: Instructions, world: BabyWorld) -> Instructions:
    """Return a mission with its clauses' places as the goals' cells in this world; clauses without a place stay."""
    if isinstance(instructions, BabySequence):
        first, second = _locate(instructions.first, world), _locate(instructions.second, world)
        return replace(instructions, first=first, second=second)
    desc = instructions.thing if instructions.verb == "goto" else instructions.beside
    return instructions if desc is None else replace(instructions, places=located(desc, world))


def _update_part(instructions: Instructions, action: int, world: BabyWorld) -> tuple[Instructions, str]:
    """Return a part of a mission after an action, and `continue`, `success` or `failure`: a clause, an `and`, or in order."""
    if isinstance(instructions, BabyClause):
        return _update_clause(instructions, action, world)
    return (_update_both if instructions.order == "and" else _update_in_order)(instructions, action, world)


def _update_both(mission: BabySequence, action: int, world: BabyWorld) -> tuple[Instructions, str]:
    """Judge an `and`: success once both parts are done, in any order, else `continue`, also where a strict clause fails."""
    first, first_done = mission.first, mission.first_done
    second, second_done = mission.second, mission.second_done
    if not first_done:
        first, status = _update_part(first, action, world)
        first_done = status == SUCCESS
    if not second_done:
        second, status = _update_part(second, action, world)
        second_done = status == SUCCESS
    now = _with_parts(mission, first, second, first_done, second_done)
    return now, SUCCESS if first_done and second_done else CONTINUE


def _update_in_order(mission: BabySequence, action: int, world: BabyWorld) -> tuple[Instructions, str]:
    """Judge a `before` or `after`: lead, then later part, in one step even; strict, the later one done first is a failure."""
    swapped = mission.order == "after"
    lead, later = (mission.second, mission.first) if swapped else (mission.first, mission.second)
    lead_done = mission.second_done if swapped else mission.first_done
    status = CONTINUE
    if not lead_done:
        lead, status = _update_part(lead, action, world)
        lead_done = status == SUCCESS
        if not lead_done and status == CONTINUE and mission.strict:
            later, early = _update_part(later, action, world)
            status = FAILURE if early == SUCCESS else CONTINUE
    later_done = False
    if lead_done:
        later, status = _update_part(later, action, world)
        later_done = status == SUCCESS
    parts = (later, lead, later_done, lead_done) if swapped else (lead, later, lead_done, later_done)
    return _with_parts(mission, *parts), status


def _with_parts(
    mission: BabySequence, first: Instructions, second: Instructions, first_done: bool, second_done: bool
) -> BabySequence:
    """Return the mission with its parts and what is done; the same object where nothing changed."""
    done = (first_done, second_done)
    if first is mission.first and second is mission.second and done == (mission.first_done, mission.second_done):
        return mission
    return BabySequence(mission.order, first, second, first_done, second_done, mission.strict)


def _update_clause(clause: BabyClause, action: int, world: BabyWorld) -> tuple[BabyClause, str]:
    """Return a clause with what the agent carries now, and the verdict: goto, open, pickup or putnext."""
    if clause.verb == "goto":
        return clause, SUCCESS if in_front(world) in clause.places else CONTINUE
    if clause.verb == "open":
        return clause, _judge_open(clause, action, world)
    before = clause.held
    now = clause if before == world.carrying else replace(clause, held=world.carrying)
    judge = _judge_pickup if clause.verb == "pickup" else _judge_put_next
    return now, judge(clause, action, world, before)


def _judge_open(clause: BabyClause, action: int, world: BabyWorld) -> str:
    """Judge an `open`: success if a toggle leaves a matching door open, failure (strict) at any other door, else `continue`."""
    content = world.cells[in_front(world)]
    if action != TOGGLE or content in (EMPTY, WALL):
        return CONTINUE
    number = ord(content) - OFFSET
    if number in clause.thing.matches and world.things[number].state == "open":
        return SUCCESS
    return FAILURE if clause.strict and world.things[number].kind == "door" else CONTINUE


def _judge_pickup(clause: BabyClause, action: int, world: BabyWorld, before: int) -> str:
    """Judge a `pickup`: success if free hands took a match, failure (strict) for any other load, else `continue`."""
    if action != PICK_UP or world.carrying < 0:
        return CONTINUE
    if before < 0 and world.carrying in clause.thing.matches:
        return SUCCESS
    return FAILURE if clause.strict else CONTINUE


def _judge_put_next(clause: BabyClause, action: int, world: BabyWorld, before: int) -> str:
    """Judge a `putnext`: success if a match is dropped beside a goal, failure (strict) at a pickup, else `continue`."""
    if clause.strict and action == PICK_UP and world.carrying >= 0:
        return FAILURE
    if action != DROP or before not in clause.thing.matches or world.things[before].place < 0:
        return CONTINUE
    y, x = divmod(world.things[before].place, world.width)
    near = any(abs(y - row) + abs(x - column) == 1 for row, column in (divmod(p, world.width) for p in clause.places))
    return SUCCESS if near else CONTINUE
