"""Inversion of sentence vectors: a language model writes the sentence whose vector was released.

    attack = VectorInversion(generator, encode, public_sentences)
    attack.guess(released)                     # a sentence for every vector
    attack.nearest(released)                   # the public sentence that lies nearest: the baseline

The attacker has the encoder, or another one and a map between their vectors, and searches for a
sentence: a beam of beginnings grows token by token, each scored by the cosine of its own vector
with the released one. A language model proposes the tokens, and so do the public sentences that lie
nearest, whose words are about the same things.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from textpriv.channel import FloatArray
from textpriv.checks import COUNT, check_texts, checked
from textpriv.errors import InvalidInput
from textpriv.models.generators import Generator

Encode = Callable[[Sequence[str]], NDArray[np.floating]]
_ROWS = 64  # beginnings whose laws of the next token are held at once


@dataclass(frozen=True)
class _Beginning:
    """A text so far: its tokens, and the sum of their ln P under the language model."""

    tokens: tuple[int, ...]
    log_likelihood: float


class VectorInversion:
    """Beam search for sentences by the cosine of their vectors with released ones.

    Parameters
    ----------
    generator : a causal language model, the attacker's knowledge of what people write
    encode : the attacker's encoder: sentences to vectors (sentences, width), a fixed map
    public : sentences that the attacker has, at least one
    tokens : most tokens of a sentence
    vectors : of the public sentences, (sentences, width), where the attacker has them already

    References
    ----------
    After Morris et al. 2023 (vec2text), Text Embeddings Reveal (Almost) As Much As Text, who train
    a model that corrects its guess; nothing is trained here.
    """

    beam = 3  # beginnings that are kept of each sentence
    expansions = 8  # tokens that the model proposes for each, and as many of the public ones
    fluency = 0.02  # weight of the mean ln P of a token beside the cosine
    neighbors = 20  # nearest public sentences whose tokens are proposed
    patience = 4  # a search ends after so many tokens that have not raised its best score

    @checked(tokens=COUNT)
    def __init__(
        self,
        generator: Generator,
        encode: Encode,
        public: Sequence[str],
        *,
        tokens: int = 20,
        vectors: NDArray[np.floating] | None = None,
    ) -> None:
        generator.check_causal()
        self.public = check_texts(public, what="public")
        if not self.public:
            raise InvalidInput("public: got no sentence, expected at least one")
        self.generator, self.encode, self.tokens = generator, encode, tokens
        self._vectors = _directions(encode(self.public) if vectors is None else vectors)
        if len(self._vectors) != len(self.public):
            raise InvalidInput(
                f"vectors: got {len(self._vectors)}, expected one for each of {len(self.public)} "
                "public sentences"
            )

    def nearest(self, released: NDArray[np.floating]) -> list[str]:
        """The public sentence whose vector has the largest cosine with each released one."""
        return [self.public[row] for row in (_directions(released) @ self._vectors.T).argmax(1)]

    def guess(self, released: NDArray[np.floating]) -> list[str]:
        """The best sentence that was found for each released vector (vectors, width)."""
        goals = _directions(released)
        pools = self._pools(goals)
        beams = [[_Beginning((), 0.0)] for _ in goals]
        best, answers = np.full(len(goals), -np.inf), [""] * len(goals)
        age = np.zeros(len(goals), dtype=np.int64)  # tokens since the best score rose
        for _ in range(self.tokens):
            going = np.flatnonzero(age < self.patience)
            if not len(going):
                break
            made = self._grown([beams[goal] for goal in going], [pools[goal] for goal in going])
            for goal, (texts, longer, scores) in zip(
                going.tolist(), self._scored(made, goals[going]), strict=True
            ):
                order = np.argsort(-scores, kind="stable")[: self.beam]
                beams[goal], age[goal] = [longer[each] for each in order], age[goal] + 1
                if scores[order[0]] > best[goal]:
                    best[goal], answers[goal], age[goal] = scores[order[0]], texts[order[0]], 0
        return answers

    def _pools(self, goals: FloatArray) -> list[torch.Tensor]:
        """Tokens of the public sentences nearest to each goal."""
        near = np.argsort(-(goals @ self._vectors.T), axis=1)[:, : self.neighbors]
        device = self.generator.device
        pools = []
        for rows in near.tolist():
            tokens = self.generator.encode([f" {self.public[row]}" for row in rows])
            pools.append(torch.tensor(sorted({each for row in tokens for each in row})).to(device))
        return pools

    @torch.inference_mode()
    def _grown(
        self, beams: Sequence[Sequence[_Beginning]], pools: Sequence[torch.Tensor]
    ) -> list[list[_Beginning]]:
        """All beginnings with one more token, those that are proposed."""
        device, special = self.generator.device, list(self.generator.tokenizer.all_special_ids)
        flat = [(goal, each) for goal, beam in enumerate(beams) for each in beam]
        lengths = [len(each.tokens) for _, each in flat]
        ids = torch.full((len(flat), 1 + max(lengths)), self.generator.opening)
        for row, (_, each) in enumerate(flat):
            ids[row, 1 : 1 + len(each.tokens)] = torch.tensor(each.tokens)
        states = self.generator.states(ids.to(device))[range(len(flat)), lengths]
        head = self.generator.model.get_output_embeddings()
        laws = (
            torch.log_softmax(head(part.to(self.generator.dtype)).float(), dim=1)
            for part in states.split(_ROWS)
        )
        result: list[list[_Beginning]] = [[] for _ in beams]
        for (goal, each), law in zip(flat, (law for part in laws for law in part), strict=True):
            law[special] = -torch.inf
            likely = law.topk(min(self.expansions, len(law))).indices
            pool = pools[goal]
            known = pool[law[pool].topk(min(self.expansions, len(pool))).indices]
            for token in torch.cat([likely, known]).unique().tolist():
                gained = each.log_likelihood + float(law[token])
                if np.isfinite(gained):
                    result[goal].append(_Beginning((*each.tokens, token), gained))
        return result

    def _scored(
        self, made: Sequence[Sequence[_Beginning]], goals: FloatArray
    ) -> list[tuple[list[str], list[_Beginning], FloatArray]]:
        """Different texts of every goal, the likeliest beginning of each, and their scores."""
        said = iter(self.generator.say([each.tokens for beam in made for each in beam]))
        chosen: list[dict[str, _Beginning]] = []
        for beam in made:
            texts: dict[str, _Beginning] = {}
            for each in beam:
                text = next(said)
                known = texts.get(text)
                if known is None or each.log_likelihood > known.log_likelihood:
                    texts[text] = each
            chosen.append(texts)
        different = list(dict.fromkeys(text for texts in chosen for text in texts))
        row = {text: number for number, text in enumerate(different)}
        vectors = _directions(self.encode(different))
        result = []
        for texts, goal in zip(chosen, goals, strict=True):
            longer = list(texts.values())
            mean = np.array([each.log_likelihood / len(each.tokens) for each in longer])
            cosine = vectors[[row[text] for text in texts]] @ goal
            result.append((list(texts), longer, cosine + self.fluency * mean))
        return result


def _directions(vectors: NDArray[np.floating]) -> FloatArray:
    """Rows as vectors of length 1; 0 stays 0."""
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise InvalidInput(f"vectors: got shape {rows.shape}, expected finite rows")
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
