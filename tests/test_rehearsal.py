"""What attackers of a known mechanism learn from public text: probabilities, weights, lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_evaluation import PUBLIC, TEXTS, VOCABULARY, WORDS, evaluated, own_attacks, vocabulary

import textpriv
from textpriv.attacks.ngrams import NGrams
from textpriv.data.embeddings import from_arrays
from textpriv.data.tokens import Corpus, Tokenizer
from textpriv.evaluation import evaluate as evaluation
from textpriv.evaluation import reading, rehearsal, risks
from textpriv.evaluation.risks import Linker
from textpriv.mechanisms import Madlib, SanText
from textpriv.mechanisms.vickrey import Vickrey

__all__ = ["own_attacks", "vocabulary"]  # fixtures; the small vocabulary is for every test here

RNG = np.random.default_rng(5)
TOKENIZER = Tokenizer(VOCABULARY.words)
NOISE = Madlib(VOCABULARY, epsilon=12.0)
VICKREY = Vickrey(NOISE, t=0.75)


def of_lengths(*lengths: int) -> Corpus:
    """Documents of so many tokens, numbered throughout."""
    return Corpus(np.arange(sum(lengths)), np.cumsum([0, *lengths]))


def test_words_behind_no_known_probabilities_are_attacked_by_running_the_mechanism() -> None:
    """A wrong version runs no attack on them, so that a mechanism looks private that is not."""
    assessment = textpriv.evaluate(TEXTS, mechanism=VICKREY, public=PUBLIC, seed=1)
    rows = assessment.risks.set_index("attack")
    assert {"kept as they are", "context-free Bayes", "noisy channel"} <= set(rows.index)
    by_law = rows.loc["linkage by likelihood"]
    assert by_law["value"] > 0.9 and by_law["value"] >= rows.loc["linkage by words (BM25)", "value"]
    for attack in ("noisy channel", "linkage by likelihood"):
        assert risks.BY_RUNNING in rows.loc[attack, "knows"]
    expected = (
        "which nobody has worked out: this one knows the mechanism (its probabilities by running"
    )
    assert expected in "; ".join(assessment.not_tried)
    known = evaluated()  # those of SanText are exact
    assert not known.risks["knows"].str.contains(risks.BY_RUNNING).any()
    assert "by running it" not in "; ".join(known.not_tried)


def test_without_public_text_the_mechanism_is_run_on_frequent_words() -> None:
    assessment = textpriv.evaluate(TEXTS, mechanism=VICKREY, public=None, seed=1)
    attacks = set(assessment.risks["attack"])
    assert {"context-free Bayes", "linkage by likelihood"} <= attacks
    assert "noisy channel" not in attacks


def test_one_text_is_read_back_by_who_has_run_the_mechanism(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wrong version takes the nearest words: as good as the words that were sent."""
    monkeypatch.setattr(reading, "embedding", lambda words=None: VOCABULARY)
    read_back = textpriv.Reader(PUBLIC).read(TEXTS[0], "vickrey", 9.0, np.random.default_rng(1))
    assert read_back.attack == "noisy-channel"


@pytest.mark.parametrize(
    ("lengths", "aside"),
    [
        ([], []),
        ([7], []),  # of one text nothing can be put aside
        ([3, 4], [3]),
        ([4] * 20, [4] * 2),  # a tenth
        ([4] * 100, [4, 4, 2]),  # of which ten tokens
        ([40, 4, 4], [10]),
    ],
)
def test_a_part_of_public_text_is_put_aside(
    lengths: list[int], aside: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal, "ASIDE", 10)
    read = of_lengths(*lengths)
    rest, part = rehearsal.parted(read)
    assert np.diff(part.offsets).tolist() == aside
    assert len(rest) == len(read) - len(aside)
    assert not set(rest.ids) & set(part.ids)
    assert set(part.ids) <= set(read.ids)


def weighed(public: list[str], aside: list[str]) -> float:
    mechanism = SanText(VOCABULARY, epsilon=5.0)
    model = risks.language(len(WORDS), TOKENIZER.encode(public))
    return rehearsal.language_weight(mechanism, mechanism, model, TOKENIZER.encode(aside))


def test_a_language_that_helps_weighs_more_than_one_that_does_not() -> None:
    """Sentences that repeat, and words at random, of which a model that has read them knows all.

    The wrong version rehearses with what its model has read, and trusts it in full.
    """
    sentence = " ".join(WORDS[::5])
    helpful, useless = weighed([sentence] * 20, [sentence] * 5), weighed(TEXTS[:40], TEXTS[40:])
    assert useless < 0.5 < helpful
    assert weighed(TEXTS[40:], TEXTS[40:]) >= 0.75


def test_the_usual_weight_where_there_is_nothing_to_rehearse_with() -> None:
    assert weighed(TEXTS, []) == weighed(TEXTS, ["nothing known"]) == rehearsal.LANGUAGE_WEIGHT


def test_the_model_has_not_read_what_it_rehearses_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first text, of a word of its own, is put aside."""
    rehearsed: list[tuple[NGrams, Corpus]] = []

    def recorded(mechanism: Any, channel: Any, model: NGrams, aside: Corpus) -> float:
        rehearsed.append((model, aside))
        return 0.1

    monkeypatch.setattr(evaluation, "language_weight", recorded)
    others = [" ".join(RNG.choice(WORDS[2:], 20)) for _ in range(9)]
    assessment = evaluated(public=[f"{WORDS[0]} {WORDS[0]}", *others])
    ((model, aside),) = rehearsed
    assert aside.ids.tolist() == [0, 0]
    assert model.unigram[0] == model.unigram[1]  # neither was read
    assert "noisy channel" in set(assessment.risks["attack"])


def test_candidates_of_another_length_come_last() -> None:
    """The wrong version takes the best of all: a text that no such output can come from."""
    candidates = [" ".join(WORDS[:count]) for count in (2, 3, 3)]
    fits = np.array([[3.0, 1.0, 2.0], [1.0, 3.0, 2.0]])
    linker = Linker("any", "the candidates", lambda known, seen: fits)
    masked = risks.of_equal_length(linker, TOKENIZER)
    scores = masked.scores(candidates, ["a b c", "a b c d"])
    assert fits[0].argmax() == 0 and scores[0].argsort().tolist() == [0, 1, 2]
    assert scores[1].argsort().tolist() == [0, 2, 1]  # no candidate is that long: as before
    assert masked.knows == "the candidates, the number of words"


def test_the_number_of_words_is_used_where_the_output_shows_it() -> None:
    varied = [" ".join(text.split()[: 3 + number % 10]) for number, text in enumerate(TEXTS)]

    def linked(mechanism: object = "santext", **options: Any) -> tuple[set[str], float]:
        settings = {"epsilon": 1.0, "public": None, "seed": 1, "attacks": ["bm25"]} | options
        assessment = textpriv.evaluate(varied, mechanism=mechanism, **settings)
        return set(assessment.risks["knows"]), float(assessment.risks["value"].max())

    knows, shown = linked()
    assert knows == {"the candidates, the number of words"}
    for others in (
        linked(policy="keep-unknown"),
        linked(mechanism=textpriv.sanitizer("santext", epsilon=1.0).sanitize, epsilon=None),
        linked(sanitized=[*varied[:-1], f"{varied[-1]} more"], epsilon=9.0),
    ):
        assert others[0] == {"the candidates"}
    hidden = textpriv.sanitizer("santext", epsilon=1.0).sanitize(varied, np.random.default_rng(1))
    blind = textpriv.evaluate(varied, hidden, attacks=["bm25"], seed=1)
    assert shown > 1.5 * blind.risks["value"].max()


def test_a_word_with_a_space_inside_is_one_word() -> None:
    """GloVe has some; a wrong version counts two, and tells nothing of a text with such an output.

    The space is one that does not break, so that `str.split` takes it for one between words.
    """
    words = [*WORDS[:-1], "at\xa0home"]
    table = from_arrays("spaced", words, VOCABULARY.vectors)
    mechanism, outputs = SanText(table, epsilon=6.0), [f"{WORDS[1]} at\xa0home", WORDS[0]]
    candidates = [WORDS[0], f"{WORDS[1]} {WORDS[2]}"]
    _, written = risks.lengths_of(Tokenizer(words), candidates, outputs)
    assert written.tolist() == [2, 1]
    fits = risks.by_probabilities(mechanism, mechanism).scores(candidates, outputs)
    assert fits.argmax(1).tolist() == [1, 0]
    assert fits[0, 1] > fits[0, 0]


def test_an_attack_of_ones_own_sees_all_candidates(own_attacks: None) -> None:
    textpriv.register_attack("alike", lambda known, seen: np.zeros((len(seen), len(known))))
    assert evaluated(attacks=["alike"]).risks["knows"].tolist() == ["the candidates"]
