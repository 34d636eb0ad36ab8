from types import SimpleNamespace


class Score(SimpleNamespace):
    pass


def scorer(metrics, name=None):
    return lambda made: made


def mean():
    return None


def stderr():
    return None
