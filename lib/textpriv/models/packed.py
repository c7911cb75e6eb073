"""A BERT without the work that nobody asks for: no padding, the last layer where it is read.

`states_at` gives what the model's own `forward` gives at some positions of some rows. Between
attentions a piece needs no other, so that the pieces of all rows stand in one table without
padding; and of the last layer only the positions that are asked for are computed, from the keys
and values of all. Sums may take another order.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F


def states_at(body: Any, inputs: dict[str, torch.Tensor], asked: torch.Tensor) -> torch.Tensor:
    """Hidden states of the last layer of a `BertModel` at some positions: (positions, width).

    Parameters
    ----------
    inputs : of the model, each (rows, length); "attention_mask" is false at the padding
    asked : distinct positions that are no padding, as row * length + column
    """
    is_text = inputs["attention_mask"].bool()
    pieces = is_text.flatten().nonzero()[:, 0]
    ids, types = (inputs[name].flatten()[pieces] for name in ("input_ids", "token_type_ids"))
    columns = pieces % is_text.shape[1]
    states = body.embeddings(ids[None], types[None], columns[None])[0]
    *layers, last = body.encoder.layer
    for layer in layers:
        states = _layer(layer, states, pieces, states, pieces, is_text)
    place = torch.searchsorted(pieces, asked)  # `pieces` ascend
    return _layer(last, states, pieces, states.index_select(0, place), asked, is_text)


def _layer(
    layer: Any,
    states: torch.Tensor,
    pieces: torch.Tensor,
    asking: torch.Tensor,
    asked: torch.Tensor,
    is_text: torch.Tensor,
) -> torch.Tensor:
    """One layer for the states `asking`, at the positions `asked`, which attend to all `states`."""
    own = layer.attention.self
    rows, length = is_text.shape

    def heads(vectors: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        grid = vectors.new_zeros(rows * length, vectors.shape[1]).index_copy(0, at, vectors)
        return grid.view(rows, length, own.num_attention_heads, -1).transpose(1, 2)

    query = heads(own.query(asking) * own.scaling, asked)
    key, value = heads(own.key(states), pieces), heads(own.value(states), pieces)
    padding = torch.zeros(is_text.shape, device=is_text.device).masked_fill(~is_text, -torch.inf)
    scores = query @ key.transpose(2, 3) + padding[:, None, None, :]  # float32 from here
    read = F.dropout(scores.softmax(-1), own.dropout.p, own.training) @ value
    read = read.transpose(1, 2).reshape(rows * length, -1).index_select(0, asked)
    result: torch.Tensor = layer.feed_forward_chunk(layer.attention.output(read, asking))
    return result
