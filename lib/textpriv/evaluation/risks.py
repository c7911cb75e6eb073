"""What attackers get back: words, whole texts, authors; each with its interval and its chance.

A risk is a row: what is found ("words", "texts", "authors"), the attack, what it knows, the share
that it finds with a 95% interval, and what guessing alone finds. Attacks on words that a mechanism
of ours has replaced know its probabilities; all others know pairs of texts alone, whatever made
them.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from sklearn.model_selection import StratifiedGroupKFold

from textpriv import stats
from textpriv.attacks import f1, likelihood, linkage
from textpriv.attacks.author import TrainingData, random_baseline, text_attack
from textpriv.attacks.base import Attack, Observed, is_input
from textpriv.attacks.bayes import Bayes
from textpriv.attacks.ngrams import Lexicon, NGrams
from textpriv.attacks.noisy_channel import NoisyChannel
from textpriv.attacks.pairs import WordPairs, words_of
from textpriv.attacks.simulated import channel_of, zipf
from textpriv.channel import Channel
from textpriv.checks import FloatArray, IntArray
from textpriv.data.embeddings import Embedding
from textpriv.data.tokens import KEEP_UNKNOWN, KEPT, PRIVATE, UNKNOWN, Corpus, Tokenizer, kind_of
from textpriv.errors import InvalidInput
from textpriv.evaluation.rehearsal import language_weight
from textpriv.mechanisms import Madlib, Mechanism
from textpriv.mechanisms.base import simulation
from textpriv.stats import Estimate

Scorer = Callable[[Sequence[str], Sequence[str]], FloatArray]

FOLDS = 3  # of the texts whose label is told
_FAR = 1e6  # beyond every score of a linkage attack
_PLACES = 1 << 24  # tokens of outputs against candidates that are looked at at once

AS_THEY_ARE = "kept as they are"
BY_RUNNING = "its probabilities by running it"
BY_FITTING = "its probabilities by a fit to its noise"
ANYWHERE = "kept, in any order"
FINDS = ("words", "texts", "authors")
COLUMNS = ("finds", "attack", "knows", "value", "low", "high", "n", "chance")

Risk = dict[str, Any]
"""What one attacker finds: COLUMNS by name.

`finds` is one of FINDS; `attack` and `knows` are its name and what it has to know, in words; then
the share found (macro F1 for authors), its 95% interval and its trials; and what guessing without a
look at the output finds.
"""


def _risk(finds: str, attack: str, knows: str, rate: Estimate, chance: float) -> Risk:
    named = {"finds": finds, "attack": attack, "knows": knows}
    return {**named, **rate.columns(), "chance": float(chance)}


def table(risks: Sequence[Risk]) -> pd.DataFrame:
    """One row per risk, the strongest attack on each thing first."""
    ordered = sorted(risks, key=lambda each: (FINDS.index(each["finds"]), -each["value"]))
    return pd.DataFrame(ordered, columns=list(COLUMNS))


# --- Whole texts --------------------------------------------------------------------------------


class Linker(NamedTuple):
    """An attack that says how well every candidate fits every sanitized text.

    `alone`: each sanitized text is scored without a look at the others, which a bound on epsilon
    needs.
    """

    label: str
    knows: str
    scores: Scorer
    alone: bool = True


LINKERS: dict[str, Linker] = {
    "bm25": Linker("linkage by words (BM25)", "the candidates", linkage.bm25),
    "letters": Linker("linkage by letters", "the candidates", linkage.letters),
    "shapes": Linker("linkage by shapes of words", "the candidates", linkage.shapes),
}
"""Attacks on whole texts, by name; `register_attack` adds to them."""


def vectors_of(embedding: Embedding, texts: Sequence[str], public: Sequence[str]) -> FloatArray:
    """Mean vectors of texts, each word weighted by how rare it is in `public`: (texts, width)."""
    tokenizer = Tokenizer(embedding.words, KEEP_UNKNOWN)
    known = tokenizer.encode(public)
    counts = known.counts(len(embedding))
    weight = 1e-3 / (1e-3 + counts / max(1, counts.sum()))  # Arora et al. 2017, smooth weights
    corpus = tokenizer.encode(texts)
    rows = np.flatnonzero(corpus.ids >= 0)
    ids, document = corpus.ids[rows], corpus.document[rows]
    shape = (len(texts), len(embedding))
    total = sparse.csr_matrix((weight[ids], (document, ids)), shape) @ embedding.vectors
    return total / np.maximum(np.bincount(document, weight[ids], len(texts)), 1e-12)[:, None]


def by_word_vectors(embedding: Embedding) -> Linker:
    """Linkage by the meaning of words, where the words themselves were replaced."""

    def scores(originals: Sequence[str], sanitized: Sequence[str]) -> FloatArray:
        known, seen = (vectors_of(embedding, each, originals) for each in (originals, sanitized))
        return linkage.by_vectors(known, seen)

    return Linker("linkage by word vectors", "the candidates, public word vectors", scores)


def by_probabilities(mechanism: Mechanism, channel: Channel) -> Linker:
    """Linkage by P(output | candidate) of a mechanism that replaces each word by itself.

    Of outputs under the policy PRIVATE; one that has another word than those of the vocabulary
    tells nothing.
    """

    def scores(originals: Sequence[str], sanitized: Sequence[str]) -> FloatArray:
        candidates = Tokenizer(mechanism.embedding.words, PRIVATE).encode(originals)
        index, result = mechanism.embedding.index, np.zeros((len(sanitized), len(originals)))
        read = [[index.get(word, -1) for word in put_out(text)] for text in sanitized]
        known = np.array([row for row, ids in enumerate(read) if -1 not in ids], dtype=np.int64)
        lengths = np.array([len(read[row]) for row in known], dtype=np.int64)
        alike = np.bincount(np.diff(candidates.offsets), minlength=lengths.max(initial=0) + 1)
        places = np.cumsum(alike[lengths] * lengths)  # candidates of another length cost nothing
        ends = np.searchsorted(places, np.arange(_PLACES, places.max(initial=0), _PLACES)) + 1
        for part in np.split(known, ends):
            ids = np.array([word for row in part for word in read[row]], dtype=np.int64)
            outputs = Corpus(ids, np.cumsum([0, *(len(read[row]) for row in part)]))
            law = likelihood.word_law(channel, mechanism.fallback, candidates, outputs)
            result[part] = linkage.by_likelihood(law)
        return result

    return Linker("linkage by likelihood", f"the candidates, {knowing(mechanism)}", scores)


def of_equal_length(linker: Linker, tokenizer: Tokenizer) -> Linker:
    """The same among candidates of as many words: a mechanism that replaces each shows how many.

    `tokenizer` has the policy PRIVATE, under which the output was made. All candidates of another
    length come after those of this one, in their own order.
    """

    def scores(originals: Sequence[str], sanitized: Sequence[str]) -> FloatArray:
        read, written = lengths_of(tokenizer, originals, sanitized)
        fits = np.asarray(linker.scores(originals, sanitized), dtype=np.float64)
        return np.where(written[:, None] == read, fits, fits - _FAR)

    return linker._replace(knows=f"{linker.knows}, the number of words", scores=scores)


def lengths_of(
    tokenizer: Tokenizer, originals: Sequence[str], sanitized: Sequence[str]
) -> tuple[IntArray, IntArray]:
    """How many words each text has for a mechanism, and each output: (originals,), (sanitized,)."""
    written = np.array([len(put_out(text)) for text in sanitized], dtype=np.int64)
    return np.diff(tokenizer.encode(originals).offsets), written


def put_out(text: str) -> list[str]:
    """The words of an output, as `Tokenizer.decode` joins them: some have other spaces inside."""
    return text.split(" ") if text else []


class Linked(NamedTuple):
    """What all linkage attacks found, and what follows for a pure epsilon per text.

    The attack `shown_by` rules out every epsilon below `epsilon_lower_bound` (0: none); so many
    texts could not show more than `largest_shown`.
    """

    risks: list[Risk]
    epsilon_lower_bound: float = 0.0
    shown_by: str = ""
    largest_shown: float = 0.0


def text_risks(
    originals: Sequence[str],
    sanitized: Sequence[str],
    linkers: dict[str, Linker],
    rng: np.random.Generator,
) -> Linked:
    """Who the sanitized texts can be linked to, and the epsilon per text that this rules out.

    Candidates are handed over in random order: nothing can be read off their places.
    """
    order = rng.permutation(len(originals))
    candidates, risks, shown = [originals[row] for row in order], [], []
    level = 1 - (1 - stats.CONFIDENCE) / max(1, len(linkers))  # all bounds hold together
    for name, each in linkers.items():
        shuffled = np.asarray(each.scores(list(candidates), list(sanitized)), dtype=np.float64)
        if shuffled.shape != (len(sanitized), len(originals)):
            raise InvalidInput(
                f"{name}: gave scores of shape {shuffled.shape}, expected "
                f"{(len(sanitized), len(originals))}"
            )
        scores = np.empty_like(shuffled)
        scores[:, order] = shuffled
        rate = linkage.linked(scores)
        risks.append(_risk("texts", each.label, each.knows, rate, 1 / len(originals)))
        if each.alone and len(originals) >= linkage.FEWEST:
            epsilon, _ = linkage.epsilon_lower_bound(scores, rng, confidence=level)
            shown.append((epsilon, each.label))
    if not shown:
        return Linked(risks)
    largest = linkage.largest_lower_bound(len(originals), confidence=level)
    return Linked(risks, *max(shown, key=lambda each: each[0]), largest)


# --- Words --------------------------------------------------------------------------------------


def pair_risks(
    originals: Sequence[str],
    sanitized: Sequence[str],
    taught: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> list[Risk]:
    """Content words that are kept, and that who has run the same tool reads back.

    Words in their places only where one text in ten has as many words after as before. The
    attacker learns from the other texts, and from what the tool made of those that are `taught`.
    """
    there, text = _still_there(originals, sanitized)
    if not len(there):
        return []
    by_chance = _still_there(originals, [*sanitized[1:], *sanitized[:1]])[0].mean()
    copies = _copies(originals)  # which are no further evidence
    anywhere = stats.clustered_share(there, copies[text])
    risks = [_risk("words", ANYWHERE, "nothing", anywhere, float(by_chance))]
    pairs = WordPairs.from_texts([*originals, *taught[0]], [*sanitized, *taught[1]])
    own = pairs.document < len(originals)
    level, content = len(np.unique(pairs.document[own])), pairs.content & own
    if level < max(2, len(originals) / 10) or not content.any():
        return risks
    document = copies[pairs.document[content]]

    def rate(guesses: IntArray) -> Estimate:
        return stats.clustered_share(pairs.hits(guesses)[content], document)

    part = "" if level == len(originals) else f" ({level} of {len(originals)} texts)"
    public = f", {len(taught[0]):,} public ones too" if taught[0] else ""
    knows, chance = f"other texts before and after{public}", rate(pairs.most_frequent()).value
    return [
        *risks,
        _risk("words", f"{AS_THEY_ARE}{part}", "nothing", rate(pairs.output), chance),
        _risk("words", f"learned from pairs{part}", knows, rate(pairs.learned()), chance),
    ]


def _still_there(
    originals: Sequence[str], sanitized: Sequence[str]
) -> tuple[NDArray[np.bool_], IntArray]:
    """Of every content word whether the output has it, as often as the text; and which text's."""
    there, text = [], []
    for number, (before, after) in enumerate(zip(originals, sanitized, strict=True)):
        left = Counter(words_of(after))
        for word in words_of(before):
            if word not in ENGLISH_STOP_WORDS:
                there.append(left[word] > 0)
                left[word] -= 1
                text.append(number)
    return np.array(there, dtype=bool), np.array(text, dtype=np.int64)


def _copies(texts: Sequence[Any]) -> IntArray:
    """(texts,) the number of the text, the same for copies of one."""
    return pd.factorize(np.array(texts, dtype=object))[0].astype(np.int64)


def knowing(mechanism: Mechanism) -> str:
    """What an attacker knows who asks `channel_of`, in words."""
    if isinstance(mechanism, Channel):
        return "the mechanism"
    return f"the mechanism ({BY_FITTING if isinstance(mechanism, Madlib) else BY_RUNNING})"


def attack_for(
    mechanism: Mechanism,
    model: NGrams | None,
    *,
    words: IntArray | None = None,
    aside: Corpus | None = None,
) -> Attack:
    """An attack on a mechanism that replaces words (see `channel_of`), ready in seconds.

    With a model of public texts (see `language`) the noisy channel reads whole sentences; without,
    Bayes' rule takes each word by itself, with frequencies that fall along the vocabulary (Zipf's
    law), which is weaker.

    Parameters
    ----------
    words : see `channel_of`
    aside : public text that the model has not read, to rehearse its weight with, which takes a
        quarter of a minute; None: the usual weight
    """
    channel = channel_of(mechanism, words)
    if model is None:
        return Bayes(channel, zipf(channel), name="context-free")
    weight = language_weight(mechanism, channel, model, aside)
    return NoisyChannel(channel, model=model, weight=weight)


def language(size: int, public: Corpus) -> NGrams:
    """Trigrams of public text."""
    return NGrams.train(Lexicon(size, [public]), [public], order=3)


def passing(mechanism: Mechanism, corpus: Corpus) -> NDArray[np.bool_]:
    """Tokens that go through the mechanism, those that its vocabulary lacks too: (tokens,)."""
    replaced = np.append(is_input(mechanism), True)  # the last stands for what is unknown
    return (corpus.ids != KEPT) & replaced[np.maximum(corpus.ids, UNKNOWN)]


def observed_of(
    mechanism: Mechanism, private: Corpus, sanitized: Sequence[str]
) -> tuple[Corpus, Observed, int]:
    """Sanitized strings as ids again, of the texts whose words stand one for one.

    What the mechanism and the token policy leave in clear has to stand there as it was: else the
    text was sanitized otherwise, and is left out.

    Returns
    -------
    the private texts that take part, what is seen of them, and how many texts were left out
    """
    index = mechanism.embedding.index
    through = passing(mechanism, private)
    outputs, level = [], []
    for number, text in enumerate(sanitized):
        words = put_out(text)
        own = private[number]
        ids = np.array([index.get(word, -1) for word in words], dtype=np.int64)
        first, last = private.offsets[number : number + 2].tolist()
        kept = np.flatnonzero(own == KEPT).tolist()
        spared = (own != KEPT) & ~through[first:last]
        if (
            len(words) == len(own)
            and (ids[own != KEPT] >= 0).all()
            and all(private.kept[first + at] == words[at] for at in kept)
            and (ids[spared] == own[spared]).all()
        ):
            outputs.append(np.where(own == KEPT, KEPT, ids))
            level.append(number)
    if not level:
        raise InvalidInput(
            f"sanitized: no text has as many words of the vocabulary as its original under "
            f"{mechanism.name}; give the mechanism and the token policy that made them"
        )
    part = private.subset(np.array(level))
    seen = Observed(part.with_ids(np.concatenate(outputs)), passing(mechanism, part))
    return part, seen, len(sanitized) - len(level)


def word_risks(
    private: Corpus,
    observed: Observed,
    attacks: dict[str, tuple[str, Attack]],
    words: Sequence[str],
) -> tuple[list[Risk], dict[str, IntArray]]:
    """Content words that attackers of a known mechanism name, those in clear counted as named.

    Words, names and numbers that the vocabulary lacks count too: named where they are passed on in
    clear, and not where something else stands in their place. Chance is the most frequent of the
    words.

    Parameters
    ----------
    attacks : by label: what each knows, and itself

    Returns
    -------
    the risks, and of every attack the word that it puts at each token
    """
    spared = np.array([word in ENGLISH_STOP_WORDS for word in words], dtype=bool)
    content = (private.ids >= 0) & ~np.append(spared, False)[private.ids]
    content |= private.ids == UNKNOWN
    kept = np.flatnonzero(private.ids == KEPT)
    content[kept] = [kind_of(private.kept[at]) != "punctuation" for at in kept.tolist()]
    if not content.any():
        return [], {}
    texts = np.split(private.ids, private.offsets[1:-1])
    document = _copies([each.tobytes() for each in texts])[private.document[content]]
    truth = private.ids
    read = {AS_THEY_ARE: ("nothing", observed.corpus.ids)}
    with simulation():
        for label, (knows, attack) in attacks.items():
            guessed = observed.corpus.ids.copy()
            guessed[observed.targets] = attack.guess(observed, top=1).words[:, 0]
            read[label] = knows, guessed
    chance = np.bincount(truth[content & (truth >= 0)], minlength=1).max() / content.sum()
    return [
        _risk(
            "words",
            label,
            knows,
            stats.clustered_share(((guess == truth) & (truth != UNKNOWN))[content], document),
            chance,
        )
        for label, (knows, guess) in read.items()
    ], {label: guess for label, (_, guess) in read.items()}


# --- Authors, and any other label ---------------------------------------------------------------


def guessed_labels(
    originals: Sequence[str],
    sanitized: Sequence[str],
    labels: IntArray,
    seed: int | None,
    *,
    adaptive: bool,
) -> IntArray:
    """The label that a classifier gives every sanitized text, having learned from other texts.

    Every text is asked about once, in one of `FOLDS`; a quarter of the others validates. `adaptive`
    says whether it has learned from sanitized texts, or from originals.
    """
    learned = np.array(sanitized if adaptive else originals, dtype=object)
    asked, classes = np.array(sanitized, dtype=object), int(labels.max()) + 1
    copies = _copies(originals)
    fewest = int(pd.Series(copies).groupby(labels).nunique().min())
    if fewest < FOLDS:
        raise InvalidInput(
            f"labels: got {fewest} different texts of one label, expected at least {FOLDS} of each"
        )
    guesses = np.empty(len(labels), dtype=np.int64)
    rng = np.random.default_rng(seed)

    def parts(rows: IntArray, count: int) -> Iterator[tuple[IntArray, IntArray]]:
        """Copies of a text stay together: who is asked about one has not read another."""
        folds = StratifiedGroupKFold(count, shuffle=True, random_state=int(rng.integers(2**31)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of labels with fewer texts than folds
            for rest, part in folds.split(rows, labels[rows], copies[rows]):
                yield rows[rest], rows[part]

    for rest, test in parts(np.arange(len(labels)), FOLDS):
        train, held = next(parts(rest, min(4, int(np.bincount(labels[rest]).max()))))
        known = TrainingData(
            learned[train].tolist(), labels[train], learned[held].tolist(), labels[held]
        )
        (guesses[test],) = text_attack(known, [asked[test].tolist()], classes=classes)
    return guesses


def author_risks(
    originals: Sequence[str], sanitized: Sequence[str], authors: IntArray, seed: int | None
) -> list[Risk]:
    """Macro F1 of naming the author, by who has read originals, and by who has read outputs."""
    classes, rng = int(authors.max()) + 1, np.random.default_rng(seed)
    chance = random_baseline(authors, classes)
    return [
        _risk(
            "authors", f"authorship, {kind}", knows,
            f1.f1_estimate(
                authors,
                guessed_labels(originals, sanitized, authors, seed, adaptive=kind == "adaptive"),
                classes, rng,
            ),
            chance,
        )
        for kind, knows in (
            ("static", "originals by the same authors"),
            ("adaptive", "sanitized texts by the same authors"),
        )
    ]  # fmt: skip


def strongest(risks: pd.DataFrame, finds: str) -> pd.Series[Any] | None:
    """The row of the strongest attack on one thing, its interval widened for having been chosen."""
    rows = risks[risks["finds"] == finds]
    if rows.empty:
        return None
    who, rate = f1.strongest({number: Estimate.from_row(row) for number, row in rows.iterrows()})
    best = rows.loc[who].copy()
    best["low"], best["high"] = rate.low, rate.high
    return best
