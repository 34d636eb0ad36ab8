"""Every trainer shares this machinery around its loss: models, forward pass, optimiser, checkpoints, metrics.

Modules, in reading order:
    models: loading and saving of models and tokenizers, LoRA adapters, bfloat16; the reference model, and log-probabilities
        of sampled tokens under it and under the trainer's own.
    packaged: models whose weights come by pip, converted once into the cache folder.
    forward, packing: log-probabilities and entropies of trained tokens, with a further head beside the language head or
        without; prefixes that rows share are computed once.
    critic: a value model beside the policy, its loss, its explained variance.
    optimise: AdamW, its schedule, clipping; one gradient step over rows; sums, means and shares over processes (GPUs).
    checkpoints: checkpoints that survive a kill, resuming, the best weights; folders written whole or not at all.
    metrics: metrics.jsonl, TensorBoard, trackio, Weights & Biases, lines on the screen.
"""
