def solver(name):
    return lambda made: made
