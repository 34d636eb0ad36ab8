"""What every trainer shares around its loss: models, the forward pass, the optimiser, checkpoints, metrics, curves."""
