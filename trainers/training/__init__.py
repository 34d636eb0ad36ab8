"""Every trainer shares this machinery around its loss: models, forward pass, optimiser, checkpoints, metrics.

Modules, in reading order:
    models: loading and saving of models and tokenizers, LoRA adapters, bfloat16, the reference model.
    forward, packing: log-probabilities and entropies of trained tokens; prefixes that rows share are computed once.
    heads: a further head beside the language head, as shared code knows it.
    updating: one gradient step over rows, for the loss that an algorithm brings.
    critic: a value model beside the policy, its loss, its explained variance.
    optimise: AdamW, learning rate schedule, gradient clipping, gradients summed over processes.
    checkpoints, folders: checkpoints that survive a kill, resuming, the best weights; folders written whole or not at all.
    metrics, pooling: metrics.jsonl, TensorBoard, trackio, Weights & Biases, the live table; means over processes.
    processes: the shares of several processes (GPUs), and sums over them.
"""
