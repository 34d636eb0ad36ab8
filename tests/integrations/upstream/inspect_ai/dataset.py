class Sample:
    def __init__(self, input, choices=None, target="", id=None, metadata=None):
        self.input, self.id, self.metadata = input, id, metadata
