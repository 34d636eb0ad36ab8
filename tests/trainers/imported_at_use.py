"""The server of `forked` imports this: what each process of a run would import and build again at its first use."""

import tyro
from transformers.conversion_mapping import get_checkpoint_conversion_mapping

import trainers.engines.hf
import trainers.imitation.imitating
import trainers.tiny
import trainers.trained_agent

get_checkpoint_conversion_mapping("llama")
