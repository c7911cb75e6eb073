"""An encoder trained to fill in masked words of public text, where it was not already."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_model, save_model

from textpriv import assets
from textpriv.channel import FloatArray, IntArray
from textpriv.checks import BoolArray, check_texts
from textpriv.errors import InvalidInput
from textpriv.files import canonical_json
from textpriv.models.encoders import Encoder
from textpriv.models.rows import SPACE, FastTokenizer, Rows, is_wordpiece
from textpriv.models.training import Training, fine_tune
from textpriv.seeds import stream

_FORMAT = "masked language model, 1"  # part of the cache key; raise it when the training changes
_FREQUENT = 200  # words that `rare_accuracy` leaves out


@dataclass(frozen=True, kw_only=True)
class MaskedSizes:
    """How a masked LM is trained.

    Parameters
    ----------
    training : steps over rows of `length` WordPieces
    length : > 2, at most the encoder's longest
    share : 0 < share < 1 of whole words that are masked, for words with a frequency of at most
        `frequent`
    frequent : 0 < frequent <= 1. A word of greater frequency f is masked less often, by the
        factor sqrt(frequent / f): the attacks ask for content words. 1 masks all alike, as BERT
        does.
    held_out : rows of text, never trained on, at which the accuracy is measured (always with a
        share of 0.15)
    """

    training: Training = Training(steps=400, learning_rate=3e-4, weight_decay=0.01)
    length: int = 64
    share: float = 0.4
    frequent: float = 1e-4
    held_out: int = 500


def masked_language_model(
    encoder: Encoder,
    texts: Sequence[str],
    sizes: MaskedSizes | None = None,
    *,
    seed: int = 0,
) -> Encoder:
    """The encoder, trained to fill in masked words; computed once and kept in the cache.

    Masked are whole words of a single piece, always by [MASK]: that is what an attacker asks.
    A start, no BERT: 400 steps on IMDb reviews (four minutes of one core with bfloat16) bring
    all-MiniLM-L6-v2 to 0.20 of all masked words and 0.03 of those outside the 200 most frequent.
    Weights depend, in their last digits, on the processor and the number of threads too.

    Parameters
    ----------
    texts : public: of no private or shadow document, and split into words the way that the
        attacked text is (`Tokenizer.words_of`). The last of them are held out. InvalidInput where
        they do not fill a row to train on and the held-out rows.
    """
    sizes = MaskedSizes() if sizes is None else sizes
    texts = check_texts(texts)
    key = canonical_json(
        [_FORMAT, encoder.name, encoder.digest, _digest(texts), asdict(sizes), int(seed)]
    )

    def build(folder: Path) -> None:
        trained, measured = _train_masked(encoder, texts, sizes, seed)
        save_model(trained.model, str(folder / "model.safetensors"))
        (folder / "measured.json").write_text(json.dumps(measured, indent=1) + "\n")

    folder = assets.derived(f"{encoder.name}-masked-lm", key=key, build=build)
    result = encoder.clone()
    load_model(result.model, str(folder / "model.safetensors"), device=str(encoder.device))
    measured = json.loads((folder / "measured.json").read_bytes())
    return replace(
        result,
        model=result.model.eval(),
        name=f"{encoder.name}-masked-lm",
        digest=assets.sha256(folder / "model.safetensors"),
        can_fill=True,
        accuracy=measured["accuracy"],
        rare_accuracy=measured["rare_accuracy"],
    )


def _train_masked(
    encoder: Encoder, texts: Sequence[str], sizes: MaskedSizes, seed: int
) -> tuple[Encoder, dict[str, float]]:
    training = sizes.training
    needed = training.steps * training.batch
    trained = encoder.clone(dropout=training.dropout)
    bias = trained.head.bias
    held, rows = _blocks(encoder, texts, sizes.length, sizes.held_out, needed)
    counts = np.bincount(rows.ravel(), minlength=len(encoder.table))
    whole = _WholeWords(encoder.tokenizer)
    frequency = (counts + 0.1) / (counts + 0.1).sum()
    shares = sizes.share * np.sqrt(np.minimum(1.0, sizes.frequent / frequency))
    if not encoder.can_fill:  # an untrained head starts from the frequencies of what is masked
        with torch.no_grad():
            bias.copy_(torch.from_numpy(np.log(frequency * shares)))
    held_mask = whole.draw(held, np.full(len(counts), 0.15), stream(seed, "masked LM", "held out"))
    order = stream(seed, "masked LM", "order").permutation(needed) % len(rows)
    hits: list[BoolArray] = []

    def loss(step: int) -> torch.Tensor:
        ids = rows[order[step * training.batch : (step + 1) * training.batch]]
        mask = whole.draw(ids, shares, stream(seed, "masked LM", step))
        scores = _fill_in(trained, ids, mask)
        right = torch.from_numpy(ids[mask]).to(scores.device)
        return F.cross_entropy(scores, right, reduction="sum") / max(1, len(right))

    def measure() -> float:
        hits[:] = [
            _fill_in(trained, ids, mask).argmax(1).cpu().numpy() == ids[mask]
            for ids, mask in zip(np.array_split(held, 8), np.array_split(held_mask, 8), strict=True)
            if mask.any()
        ]
        return float(np.concatenate(hits).mean())

    curve = fine_tune([trained.model], loss, training, seed=seed, measure=measure)
    rare = np.argsort(np.argsort(-counts, kind="stable"))[held[held_mask]] >= _FREQUENT
    return trained, {
        "accuracy": curve.accuracy[-1],
        "rare_accuracy": float(np.concatenate(hits)[rare].mean()) if rare.any() else 0.0,
    }


def _fill_in(encoder: Encoder, ids: IntArray, mask: BoolArray) -> torch.Tensor:
    """Scores of all pieces at the masked positions: (masked, pieces)."""
    hidden = np.where(mask, encoder.tokenizer.mask_token_id, ids)
    states = encoder.states(Rows(hidden, np.zeros_like(ids)))
    return encoder.logits(states[torch.from_numpy(mask)])


def _blocks(
    encoder: Encoder, texts: Sequence[str], length: int, held_out: int, needed: int
) -> tuple[IntArray, IntArray]:
    """Full rows of running text: those held out (of the last texts), and at most `needed`."""
    tokenizer, inner = encoder.tokenizer, length - 2

    def cut(documents: Sequence[str]) -> Iterator[IntArray]:
        for ids in tokenizer(list(documents), add_special_tokens=False, verbose=False)["input_ids"]:
            count = len(ids) // inner
            inside = np.array(ids[: count * inner], dtype=np.int64).reshape(count, inner)
            first = np.full((count, 1), tokenizer.cls_token_id)
            last = np.full((count, 1), tokenizer.sep_token_id)
            yield np.concatenate([first, inside, last], axis=1)

    def collect(documents: Sequence[str], wanted: int) -> tuple[IntArray, int]:
        parts, used, count = [np.empty((0, length), dtype=np.int64)], 0, 0
        step = min(256, 1 + len(texts) // 20)  # the texts from which rows are held out do not train
        while used < len(documents) and count < wanted:
            parts += cut(documents[used : used + step])
            used, count = used + step, sum(map(len, parts))
        return np.concatenate(parts)[:wanted], used

    held, used = collect(texts[::-1], held_out)
    rows, _ = collect(texts[: max(0, len(texts) - used)], needed)
    if not len(held) or not len(rows):
        raise InvalidInput(
            f"texts: got {len(texts)}, enough for {len(held)} held-out rows of {length} pieces "
            f"and {len(rows)} to train on, expected more or longer ones"
        )
    return held, rows


def _digest(texts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


class _WholeWords:
    """Finds the words of a text that are a single piece.

    Among pieces of bytes only a space opens a word: a full stop is part of the word before.
    """

    def __init__(self, tokenizer: FastTokenizer) -> None:
        names = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        if is_wordpiece(tokenizer):
            self.continues = np.array([name.startswith("##") for name in names])
        else:
            self.continues = np.array([not name.startswith(SPACE) for name in names])
        self.is_special = np.zeros(len(names), dtype=bool)
        self.is_special[list(tokenizer.all_special_ids)] = True
        self.continues[self.is_special] = False

    def draw(self, ids: IntArray, shares: FloatArray, rng: np.random.Generator) -> BoolArray:
        """Some of them, each with the share of its id, to be masked."""
        is_part = self.continues[ids]
        is_part[:, :-1] |= self.continues[ids[:, 1:]]
        return ~is_part & ~self.is_special[ids] & (rng.random(ids.shape) < shares[ids])
