class BaseTextEnv:
    def __init__(self):
        self.turns, self.max_turns = 0, 1

    def init(self, prompt):
        return prompt, {}

    def step(self, action):
        raise NotImplementedError

    def get_metrics(self):
        return {}

    def close(self):
        pass
