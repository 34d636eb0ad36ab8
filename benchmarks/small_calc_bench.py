"""`trainers/SmallCalcBench-v0` under the name of its module that settings and episodes of earlier runs hold."""

from trainers.tiny.small_calc_bench import SmallCalcBench

__all__ = ["SmallCalcBench"]
