"""Initial attention heads that copy.

A randomly initialised model of this size does not learn, within minutes, to copy a city out of the question into the
call; gradient descent finds the two-layer copy circuit only after a long plateau. So the circuit is given as a starting
point and trained like every other weight:

- layer 0, heads 0 and 1: attend one and two tokens back and write what stood there into two subspaces of the residual
  stream;
- layer 1, all heads: induction. A head attends to the position whose predecessor is like the present token, and raises
  the logit of what stands there; the two groups of heads copy through two value projections.

Nothing here knows the corpus: which tokens are worth copying is learned.
"""

# transformers and torch leave these calls untyped; everything that is ours is checked.
# mypy: disable-error-code="no-untyped-call,no-any-return"

from __future__ import annotations

import torch
from torch import Tensor
from transformers import Qwen3ForCausalLM

EMBEDDING = 0.12
"""Standard deviation of the embedding: tied embeddings are also the output layer, and the default of 0.02 gives logits
too small for a copied token to stand out."""
CONSTANT = 0.5
"""The one coordinate all tokens share: attention without bias needs it for keys that do not depend on the token."""
FAST_PAIRS = 4
"""Rotary pairs that turn fast enough to tell neighbouring positions apart."""
FAST_GAIN = 3.0
"""Query and key norm of these pairs: the score one position away is about seven below the best."""
COPY_GAIN = 1.6
"""Query and key norm of layer 1: sharp enough for one match among a thousand tokens, soft enough to be trained."""
WRITE = 1.0
"""How strongly the heads write into the residual stream, beside embeddings of about the same length."""


def initialise(model: Qwen3ForCausalLM, seed: int) -> None:
    """Set the initial weights of `model` in place: random, with the copy circuit in layers 0 and 1."""
    configuration = model.config
    generator = torch.Generator().manual_seed(seed)
    width, head = configuration.hidden_size, configuration.head_dim
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                deviation = EMBEDDING if "embed_tokens" in name else 0.02 if "down_proj" in name else width**-0.5 / 2
                weight.normal_(0.0, deviation, generator=generator)
            else:
                weight.fill_(1.0)
        embedding = model.model.embed_tokens.weight
        embedding[:, 0] = CONSTANT
        first, second = model.model.layers[0].self_attn, model.model.layers[1].self_attn

        # Keys and queries of the look-back heads depend on the constant coordinate alone.
        half = head // 2
        key = torch.zeros(head)
        key[:FAST_PAIRS] = 1.0
        first.k_proj.weight[:head].zero_()
        first.k_proj.weight[:head, 0] = key * 4
        for index in range(2):
            rows = slice(index * head, (index + 1) * head)
            query = torch.zeros(head)
            # A query turned back by n positions is most like the key n positions ago.
            angle = -(index + 1) * model.model.rotary_emb.inv_freq[:FAST_PAIRS]
            query[:FAST_PAIRS], query[half : half + FAST_PAIRS] = torch.cos(angle), torch.sin(angle)
            first.q_proj.weight[rows].zero_()
            first.q_proj.weight[rows, 0] = query * 4
        gain = torch.ones(head)
        gain[:FAST_PAIRS] = gain[half : half + FAST_PAIRS] = FAST_GAIN
        first.q_norm.weight.copy_(gain)
        first.k_norm.weight.copy_(gain)

        # What is matched: a random projection that reads tokens (queries) and the look-back subspaces (keys).
        read = _orthogonal(head, width, generator)
        first.v_proj.weight[:head] = read
        subspaces = [_orthogonal(head, width, generator), _orthogonal(head, width, generator)]
        slow = torch.ones(head)
        slow[: half // 2] = slow[half : half + half // 2] = 0.3  # fast pairs lose a match over distance
        for index, subspace in enumerate(subspaces):
            first.o_proj.weight[:, index * head : (index + 1) * head] = subspace.T * WRITE
        for group in range(2):
            rows = slice(group * head, (group + 1) * head)
            second.k_proj.weight[rows] = subspaces[0] * slow[:, None]
            copied = _orthogonal(head, width, generator)
            second.v_proj.weight[rows] = copied
            for index in (2 * group, 2 * group + 1):
                queries = slice(index * head, (index + 1) * head)
                second.q_proj.weight[queries] = read * slow[:, None] + 0.02 * torch.randn(
                    head, width, generator=generator
                )
                second.o_proj.weight[:, queries] = copied.T * WRITE
        second.q_norm.weight.fill_(COPY_GAIN)
        second.k_norm.weight.fill_(COPY_GAIN)


def _orthogonal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """`[rows, columns]` with orthonormal rows that ignore the constant coordinate."""
    random = torch.randn(columns, rows, generator=generator)
    random[0] = 0.0
    basis, _ = torch.linalg.qr(random)
    return basis.T.contiguous()
