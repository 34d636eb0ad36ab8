"""Of trl 1.16.0: what the adapters rest on. The trainer itself runs in test-integrations alone."""


class GRPOTrainer:
    def __init__(
        self, model, reward_funcs=None, args=None, train_dataset=None, eval_dataset=None, processing_class=None,
        tools=None, rollout_func=None, environment_factory=None,
    ): ...  # fmt: skip

    def _generate_single_turn(self, prompt_ids, images, multimodal_fields, num_generations): ...
