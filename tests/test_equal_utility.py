"""Notebook 09: risk at equal utility by hand, who reads best, and what is said of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from textpriv import profiles, stats
from textpriv.attacks.base import NONE, Observed, observe
from textpriv.attacks.noisy_channel import Candidates
from textpriv.data.embeddings import Embedding, from_arrays
from textpriv.data.tokens import KEEP_UNKNOWN, Tokenizer
from textpriv.experiments.equal_utility import (
    AS_SENT,
    CLEAR,
    SANITIZED,
    Points,
    Sizes,
    against,
    at_equal_utility,
    best_read,
    gathered,
    in_clear,
    listed,
    matrix,
    p_as_sent,
    point,
    risk,
    risk_at,
    said_against,
    said_of_pairs,
)
from textpriv.mechanisms import TEM
from textpriv.mechanisms.registry import WORD_LEVEL

# --- One setting ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def embedding() -> Embedding:
    """Two crowds of words; which of them a word is of is all that its vector tells."""
    rng = np.random.default_rng(0)
    names = [f"{kind}{number}" for kind in ("good", "bad") for number in range(30)]
    side = np.repeat([1.0, -1.0], 30)
    vectors = np.column_stack([side, 0.01 * rng.standard_normal((60, 3))])
    return from_arrays("two crowds", names, vectors)


def sizes(sentences: int, training: int, choosing: int) -> Sizes:
    counts = {"sentences": sentences, "training": training, "choosing": choosing}
    return profiles.load("smoke", "09_equal_utility", Sizes, counts)


def test_near_words_are_read_by_who_averages_vectors(embedding: Embedding) -> None:
    """Clear text has the first ten words of a crowd, sanitized text the others: counts are lost."""
    rng, labels = np.random.default_rng(1), np.arange(260) % 2
    drawn = rng.integers(10, size=(260, 4))
    words = np.array(embedding.words).reshape(2, 30)
    clear = [" ".join(words[1 - label, row]) for label, row in zip(labels, drawn, strict=True)]
    near = [" ".join(words[1 - label, 10 + row]) for label, row in zip(labels, drawn, strict=True)]
    split = sizes(60, 160, 40)
    reader, right = best_read(clear, near, labels, split, embedding)
    assert right.mean() == 1 and right.shape == (60,)
    assert reader != f"counts words, learned from {CLEAR}"  # who has seen none of these words


def test_a_code_is_read_by_who_has_learned_from_it(embedding: Embedding) -> None:
    """Every word is sent as one of the other crowd: who learned from clear text is always wrong."""
    rng, labels = np.random.default_rng(2), np.arange(260) % 2
    drawn = rng.integers(10, size=(260, 4))
    words = np.array(embedding.words).reshape(2, 30)
    clear = [" ".join(words[1 - label, row]) for label, row in zip(labels, drawn, strict=True)]
    swapped = [" ".join(words[label, row]) for label, row in zip(labels, drawn, strict=True)]
    reader, right = best_read(clear, swapped, labels, sizes(60, 160, 40), embedding)
    assert right.mean() == 1 and reader.endswith(f"learned from {SANITIZED}")


def test_the_reader_is_chosen_on_other_texts(embedding: Embedding) -> None:
    """Labels that mean nothing: a choice among four by the private texts would read above half."""
    rng, shares = np.random.default_rng(3), []
    for _ in range(12):
        labels = rng.permutation(np.arange(260) % 2)
        texts = [" ".join(rng.choice(embedding.words, 6)) for _ in labels]
        more = [" ".join(rng.choice(embedding.words, 6)) for _ in labels]
        shares.append(best_read(texts, more, labels, sizes(100, 120, 40), embedding)[1].mean())
    assert abs(np.mean(shares) - 0.5) < 3.3 * 0.5 / np.sqrt(12 * 100)  # one in a thousand


def test_how_often_the_truth_is_listed(embedding: Embedding) -> None:
    corpus = Tokenizer(embedding.words).encode(["good1 good2", "bad1"])
    seen = Observed(corpus, np.ones(3, dtype=bool))
    words = np.array([[5, 6], [7, NONE], [8, 9]])
    found = Candidates.of(seen, corpus.ids, words, 0.5 * np.ones((3, 2)), 0.5 * np.ones((3, 2)))
    assert listed(found, np.arange(3), np.array([6, 1, 9])) == pytest.approx(2 / 3)
    assert listed(found, np.array([1]), np.array([7])) == 1


def test_words_in_clear_pass_every_mechanism(embedding: Embedding) -> None:
    """TEM at nearly no epsilon changes nearly all that it is given."""
    tokenizer = Tokenizer(embedding.words, KEEP_UNKNOWN)
    texts = ["good1, bad2 good1 stranger"] * 50
    corpus = in_clear(tokenizer.encode(texts), embedding.ids(["good1"]), embedding.words)
    assert tokenizer.decode(corpus) == ["good1 , bad2 good1 stranger"] * 50
    seen = observe(TEM(embedding, epsilon=0.01), corpus, np.random.default_rng(0))
    sent = [text.split() for text in tokenizer.decode(seen.corpus)]
    assert all((each[0], each[3]) == ("good1", "good1") for each in sent)
    assert sum(each[2] == "bad2" for each in sent) < 10
    assert seen.sanitized.sum() == 50 and corpus.counts(60).sum() == 50


def test_a_point_by_hand() -> None:
    """Two sentences of two words; the decoder names three of four, the bound two."""
    of_sentence = np.array([0, 0, 1, 1])
    hits = {AS_SENT: [1, 0, 0, 0], "bound": [1, 1, 0, 0], "decoder": [1, 1, 1, 0]}
    arrays = {name: np.array(each, dtype=float) for name, each in hits.items()}
    utility = {"meaning": np.array([0.2, 0.6]), "accuracy": np.array([1.0, 0.0])}
    setting = {"mechanism": "tem", "epsilon": 2.0}
    made = point(setting, arrays, of_sentence, utility, np.random.default_rng(0))
    assert made.recovered.tolist() == [2, 1]
    rows = pd.DataFrame(made.rows).set_index("attack")
    assert rows["value"].tolist() == [0.25, 0.5, 0.75] and set(rows["n"]) == {4}
    assert (rows["meaning"] == 0.4).all() and (rows["accuracy"] == 0.5).all()
    points = gathered([made, made], of_sentence)
    assert points.content.tolist() == [2, 2] and len(points.table) == 6
    assert points.utility["meaning"].shape == (2, 2)


@pytest.mark.parametrize("profile", ["smoke", "default", "full"])
def test_every_mechanism_of_a_profile_is_registered_and_goes_upwards(profile: str) -> None:
    chosen = profiles.load(profile, "09_equal_utility", Sizes, {}).epsilons
    assert {*chosen} <= {*WORD_LEVEL} and "randomized-response" in chosen
    assert all(list(each) == sorted({*each}) and len(each) > 1 for each in chosen.values())


# --- In pairs ------------------------------------------------------------------------------------


def points_of(
    names: Sequence[str], utility: np.ndarray, recovered: np.ndarray, content: np.ndarray
) -> Points:
    table = pd.DataFrame({"mechanism": names, "epsilon": np.arange(len(names), dtype=float)})
    return Points(table, recovered, content, {"meaning": utility})


def test_what_is_recovered_is_compared_with_what_was_sent_in_pairs() -> None:
    """One word in a hundred more, of the same words: in pairs certain, apart far inside chance."""
    kept = np.random.default_rng(1).random(4000) < 0.4
    more = kept | (np.arange(4000) % 100 == 0)
    right = {AS_SENT: kept.astype(float), "bound": more.astype(float)}
    sentence, rng = np.arange(4000) // 10, np.random.default_rng(2)
    found = p_as_sent(right, "bound", sentence, rng)
    assert found < 0.001
    alone = stats.clustered_share(right["bound"], sentence)
    assert alone.low < kept.mean()  # the interval of one share does not tell them apart
    assert p_as_sent(right, AS_SENT, sentence, rng) == 1
    three = p_as_sent({**right, "decoder": right[AS_SENT]}, "bound", sentence, rng)
    assert three == pytest.approx(2 * found)  # the better one of two was taken


def test_risk_at_equal_utility_by_hand() -> None:
    """Two mechanisms on one line of utility; the second gives away 0.2 more at each of its ends."""
    ones = np.ones((1, 40))
    utility = np.concatenate([0.0 * ones, ones, 0.0 * ones, ones])
    recovered = np.concatenate([0 * ones, 8 * ones, 2 * ones, 10 * ones])
    points = points_of(["a", "a", "b", "b"], utility, recovered, np.full(40, 10.0))
    table = at_equal_utility(points, np.random.default_rng(0), resamples=200)
    assert table["level"].tolist() == [0.25, 0.5, 0.75]
    assert np.allclose(table[["value", "low", "high"]], -0.2)
    assert (table["p"] < 0.05).all() and set(table["first"] + table["second"]) == {"ab"}


def test_pairs_of_all_mechanisms_can_be_decided() -> None:
    """Twelve mechanisms, two utilities: 396 tests of certain differences, corrected for all."""
    names, ones = np.repeat([f"m{number}" for number in range(12)], 2), np.ones((24, 40))
    utility = np.tile([0.0, 1.0], 12)[:, None] * ones
    recovered = np.arange(12).repeat(2)[:, None] * ones
    made = points_of(names.tolist(), utility, recovered, np.full(40, 12.0))
    both = replace(made, utility={"meaning": utility, "accuracy": utility})
    table = at_equal_utility(both, np.random.default_rng(0))
    assert len(table) == 396 and (table["p"] < 0.05).all()


def test_what_no_setting_reaches_is_not_compared() -> None:
    ones = np.ones((1, 40))
    utility = np.concatenate([0.0 * ones, ones, 0.0 * ones, 0.6 * ones])
    points = points_of(
        ["a", "a", "b", "b"], utility, np.repeat(3 * ones, 4, axis=0), np.full(40, 10)
    )
    table = at_equal_utility(points, np.random.default_rng(0), resamples=100)
    assert table["quarter"].tolist() == [1, 2] and (table["p"] == 1).all()


def test_two_copies_of_one_mechanism_are_told_apart_as_often_as_stated() -> None:
    """Sentences differ much, the mechanisms not at all; in pairs little error is left."""
    rng, told = np.random.default_rng(11), 0
    for _ in range(60):
        hard = rng.beta(1, 1, size=(1, 80))  # of a sentence, for both mechanisms
        recovered = rng.binomial(10, np.repeat(hard, 4, axis=0)).astype(float)
        utility = np.clip(np.array([[0.2], [0.8], [0.2], [0.8]]) + 0.1 * (hard - 0.5), 0, 1)
        points = points_of(["a", "a", "b", "b"], utility, recovered, np.full(80, 10.0))
        table = at_equal_utility(points, rng, resamples=300)
        told += bool(table["p"].min() < 0.05)
    assert told <= 8  # of 60 at 5% by chance with probability below 1%


def pairs_of(*rows: tuple[str, str, float, float], quarter: int = 2) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["first", "second", "value", "p"])
    return table.assign(utility="meaning", quarter=quarter, level=0.5)


def test_only_decided_pairs_are_said() -> None:
    halfway = pairs_of(("tem", "madlib", 0.1, 0.01), ("tem", "clusant", -0.2, 0.4),
                       ("clusant", "madlib", 0.3, 0.01))  # fmt: skip
    other = pairs_of(("clusant", "tem", 0.3, 0.01), quarter=1)
    said = said_of_pairs(pd.concat([halfway, other]))
    assert "0.50, 2 of 3 pairs" in said and "over all 4 tests" in said
    assert "less is recovered under MADLIB than under 2 others" in said
    assert said.endswith("than under 1.") and "TEM" in said.partition("more under ")[2]
    none = said_of_pairs(halfway.assign(p=0.2))
    assert "0 of 3 pairs" in none and "recovered" not in none
    assert said_of_pairs(halfway[:0]).startswith("No two mechanisms")


def test_pairs_as_a_matrix_by_hand() -> None:
    table = pairs_of(("tem", "madlib", 0.1, 0.01), ("tem", "clusant", -0.2, 0.4))
    wide = matrix(table, "meaning")
    assert list(wide.index) == list(wide.columns) == ["MADLIB", "TEM", "CluSanT"]
    assert wide.loc["TEM"].tolist() == ["+10*", "", "-20"]
    assert wide.loc["MADLIB", "TEM"] == "-10*" and wide.loc["MADLIB", "CluSanT"] == ""
    assert matrix(table, "accuracy").empty


# --- Against random words -------------------------------------------------------------------------


def test_who_beats_random_words_by_hand() -> None:
    """The sign of a difference depends on who stands first."""
    table = pairs_of(
        ("tem", "random", -0.1, 0.01),  # less under TEM
        ("random", "tem", -0.2, 0.01),  # more under TEM
        ("random", "madlib", 0.2, 0.01),  # less under MADLIB
        ("madlib", "random", -0.2, 0.2),  # not decided
        ("santext+", "random", -0.2, 0.01),
        ("clusant", "random", -0.2, 0.3),
        ("tem", "madlib", 0.2, 0.01),  # about others
    )
    counts = against(table, "random")
    wide = counts.pivot(index="mechanism", columns="outcome", values="value")
    assert wide.loc["madlib"].to_dict() == {"less": 1, "more": 0, "undecided": 1}
    assert wide.loc["tem"].to_dict() == {"less": 1, "more": 1, "undecided": 0}
    title, said = said_against(counts)
    assert title.startswith("At equal meaning less is read back under 2 of 4 mechanisms")
    assert "fewer words under MADLIB and SanText+, more under none, either, by the level, " in said
    assert "under TEM. The probabilities of MADLIB are estimated" in said
    assert "By accuracy none is compared with random words" in said
    other = said_against(counts[counts["mechanism"] == "santext+"].assign(utility="accuracy"))
    assert other.title.startswith("At equal accuracy less is read back under 1 of 1")
    assert "estimated" not in other.text
    assert said_against(counts[:0]).title.startswith("Nothing was compared")


def test_risk_is_read_off_a_line_and_never_beyond_its_ends() -> None:
    utility, risk = np.array([[0.2, 0.6, 0.5, 1.0]]), np.array([[0.1, 0.3, 0.4, 0.9]])
    assert risk_at(utility, risk, 0.4) == pytest.approx([0.2])
    assert risk_at(utility, risk, 0.8) == pytest.approx([0.65])  # from 0.6, which stays
    assert np.isnan(risk_at(utility, risk, 0.1)).all()
    assert np.isnan(risk_at(utility, risk, 1.1)).all()


@pytest.mark.parametrize(("accuracy", "said"), [(0.76, "at least 40% of"), (0.6, "No setting")])
def test_risk_counts_what_is_as_useful_as_clean_text(accuracy: float, said: str) -> None:
    found = pd.DataFrame(
        {
            "mechanism": ["tem", "tem", "madlib"],
            "epsilon": [1.0, 2.0, 10.0],
            "value": [0.2, 0.5, 0.4],
            "low": [0.1, 0.4, 0.3],
            "high": [0.3, 0.6, 0.5],
            "n": 50,
            "attack": "noisy-channel",
            "meaning": 0.5,
            "meaning_low": 0.4,
            "meaning_high": 0.6,
            "accuracy": [0.5, accuracy + 0.01, accuracy],
        }
    )
    found = found.assign(
        accuracy_low=found["accuracy"] - 0.1, accuracy_high=found["accuracy"] + 0.1
    )
    assert said in risk(found, 0.8).get_suptitle()
