"""Write a trained model as a model directory, in the files that engines and `transformers` read.

The chat template is not among them: it is written when an image is built (see micro.template).
"""

from __future__ import annotations

import json
from pathlib import Path

from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import Qwen3ForCausalLM

from micro import vocabulary
from micro.families import Family


def write(model: Qwen3ForCausalLM, tokenizer: Tokenizer, family: Family, directory: Path) -> int:
    """Write config, weights, tokenizer and generation defaults into `directory`; gives the number of weights."""
    directory.mkdir(parents=True, exist_ok=True)
    end = vocabulary.identifier(tokenizer, family.end)
    pad = vocabulary.identifier(tokenizer, family.pad)
    _json(directory / "config.json", family.configuration(vocabulary.rows(tokenizer), end, pad))
    _json(
        directory / "generation_config.json",
        {"bos_token_id": pad, "do_sample": True, "eos_token_id": end, "pad_token_id": pad, "temperature": 0.7},
    )
    vocabulary.save(tokenizer, family, directory)
    # Tied embeddings: the output layer is the same tensor and is not stored twice.
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    save_file(tensors, str(directory / "model.safetensors"), metadata={"format": "pt"})
    # save_file makes its file private; an engine runs as another user than the one who trained.
    (directory / "model.safetensors").chmod(0o644)
    return sum(tensor.numel() for tensor in tensors.values())


def _json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
