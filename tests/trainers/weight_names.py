"""The server of `forked` imports this: transformers' table of renamed weights, which it builds where a model is written."""

from transformers.conversion_mapping import get_checkpoint_conversion_mapping

get_checkpoint_conversion_mapping("llama")
