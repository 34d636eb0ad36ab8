"""Tasks are taken from all over a source where few are taken: neighbours share a world, and its words."""

from agent_envs.core.trajectory import TaskSource

STRETCH = 256


def spread_task(source: TaskSource, split: str, number: int) -> int:
    """Return the index of the `number`-th task when few are taken of each stretch: words come from many worlds so.

    A source without end is asked beyond its size, where its next tasks lie; one that ends starts again.
    """
    size = source.size(split)
    stretch = min(STRETCH, size)
    index = number // stretch * size + number % stretch
    return index if has_task(source, split, index) else number % size


def has_task(source: TaskSource, split: str, index: int) -> bool:
    """Return whether a split has a task at an index: sources without end have, beyond their size too."""
    try:
        source.get(split, index)
    except (KeyError, IndexError):
        return False
    return True
