"""Notebook 09: risk at equal utility by hand, who reads best, and what is said of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from textpriv import profiles, stats
from textpriv.attacks.base import NONE, Guesses, Observed, observe
from textpriv.attacks.bayes import Bayes
from textpriv.attacks.noisy_channel import Candidates
from textpriv.data.embeddings import Embedding, from_arrays
from textpriv.data.tokens import KEEP_UNKNOWN, Tokenizer
from textpriv.experiments import equal_utility as equal
from textpriv.experiments import equal_utility_findings as findings
from textpriv.experiments.equal_utility import AS_SENT, LEFT_OUT
from textpriv.experiments.mechanisms import RANDOM
from textpriv.mechanisms import TEM
from textpriv.mechanisms.registry import WORD_LEVEL
from textpriv.mechanisms.response import RandomizedResponse


@pytest.fixture(scope="module")
def embedding() -> Embedding:
    """Two crowds of words; which of them a word is of is all that its vector tells."""
    rng = np.random.default_rng(0)
    names = [f"{kind}{number}" for kind in ("good", "bad") for number in range(30)]
    side = np.repeat([1.0, -1.0], 30)
    vectors = np.column_stack([side, 0.01 * rng.standard_normal((60, 3))])
    return from_arrays("two crowds", names, vectors)


def coded(rng: np.random.Generator, words: slice, labels: np.ndarray, swap: bool) -> list[str]:
    """Texts of four words of the crowd that the label names, or of the other one."""
    crowds = np.array([[f"{kind}{number}" for number in range(30)] for kind in ("good", "bad")])
    which = labels if swap else 1 - labels
    return [" ".join(rng.choice(crowds[each, words], 4)) for each in which]


def test_near_words_are_read_by_who_averages_vectors(embedding: Embedding) -> None:
    """Clear text has the first ten words of a crowd, sanitized text the others: counts are lost."""
    rng, labels = np.random.default_rng(1), np.arange(200) % 2
    clear = coded(rng, slice(10), labels, swap=False)
    near = coded(rng, slice(10, 30), labels, swap=False)
    models = equal.cross_fitted(clear, labels, embedding, "clear text")
    reader, right = equal.best_read(equal.readers(models, near, labels), labels)
    assert right.mean() > 0.7 and right.shape == (200,)  # by counts alone one half
    assert reader == "averages vectors, learned from clear text"


def test_a_code_is_read_by_who_has_learned_from_it(embedding: Embedding) -> None:
    """Every word is sent as one of the other crowd: who learned from clear text is always wrong."""
    rng, labels = np.random.default_rng(2), np.arange(200) % 2
    clear = coded(rng, slice(10), labels, swap=False)
    swapped = coded(rng, slice(10), labels, swap=True)
    models = equal.cross_fitted(clear, labels, embedding, "clear text")
    assert equal.best_read(equal.readers(models, swapped, labels), labels)[1].mean() == 0
    models |= equal.cross_fitted(swapped, labels, embedding, "sanitized text")
    reader, right = equal.best_read(equal.readers(models, swapped, labels), labels)
    assert right.mean() == 1 and reader.endswith("learned from sanitized text")


def test_no_text_is_read_by_who_has_learned_from_it_or_was_chosen_by_it(
    embedding: Embedding,
) -> None:
    """Labels that mean nothing: no reader is above half, but for one who has seen the answers."""
    rng, shares = np.random.default_rng(3), []
    for _ in range(12):
        labels = rng.permutation(np.arange(100) % 2)
        texts = [" ".join(rng.choice(embedding.words, 6)) for _ in labels]
        models = equal.cross_fitted(texts, labels, embedding, "clear text")
        more = {name + " again": each for name, each in models.items()}
        shares.append(
            equal.best_read(equal.readers(models | more, texts, labels), labels)[1].mean()
        )
        counts = models["counts words, learned from clear text"]
        wrong = {"each fold read by a model that has learned from it": [*counts[1:], counts[0]]}
        assert equal.best_read(equal.readers(wrong, texts, labels), labels)[1].mean() > 0.8
    assert abs(np.mean(shares) - 0.5) < 3.3 * 0.5 / np.sqrt(12 * 100)  # one in a thousand


def test_a_receiver_reads_by_bayes_rule_as_worked_out_by_hand(embedding: Embedding) -> None:
    """Of 60 words one is kept with 1/2, or another drawn; word 0 is written nine times in ten."""
    mechanism = RandomizedResponse(embedding, epsilon=np.log(59))
    prior = np.full(60, 0.1 / 59)
    prior[0] = 0.9
    receiver = Bayes(mechanism, prior, name="receiver")
    # 3 was sent: it was written with 0.5 * 0.1 / 59, and drawn with 0.5 / 59 * (1 - 0.1 / 59).
    itself = 0.1 / (0.1 + 1 - 0.1 / 59)
    assert 0.05 < itself < 0.1
    sent = np.array([0, 3, 3])
    for reading, expected in (
        (equal.READINGS[0], [0, 3, 3]),
        (equal.Reading(False, 0.1), [0, 59, 59]),
        (equal.Reading(False, itself - 1e-9), [0, 3, 3]),
        (equal.Reading(True, 0.5), [0, 0, 0]),
        (equal.Reading(True, 0.9), [0, 59, 59]),
    ):
        assert equal.read_as(receiver, sent, reading, mark=59).tolist() == expected
    assert equal.read_as(receiver, sent[:0], equal.Reading(True, 0.9), mark=59).shape == (0,)


def test_what_cannot_have_been_sent_is_read_as_it_is_or_passed_over(embedding: Embedding) -> None:
    left_out = equal.LeftOut(embedding, epsilon=0.5, mark=5)
    receiver = Bayes(left_out, np.eye(60)[7], name="receiver")  # who expects word 7 alone
    sent = np.array([5, 7, 8])
    assert equal.read_as(receiver, sent, equal.READINGS[0], mark=5).tolist() == [5, 7, 8]
    assert equal.read_as(receiver, sent, equal.Reading(True, 0.0), mark=5).tolist() == [7, 7, 5]


def test_who_aims_at_near_words_names_what_is_near_the_most_likely() -> None:
    """Word 0 is the likeliest alone; 1 and 2 are near each other, and likelier together."""
    close = np.array([[0, 9], [1, 2], [2, 1], *[[row, row] for row in range(3, 10)]])
    guesses = Guesses(
        np.array([[0, 1, 2], [0, 1, NONE], [3, NONE, NONE]]),
        np.array([[0.4, 0.35, 0.25], [0.6, 0.4, -np.inf], [1.0, -np.inf, -np.inf]]),
    )
    assert equal.aimed_near(guesses, close).tolist() == [1, 0, 3]


def test_words_left_out_by_hand(embedding: Embedding) -> None:
    mechanism = equal.LeftOut(embedding, epsilon=0.3, mark=5)
    rows = np.exp(mechanism.log_rows(np.arange(60)))
    assert rows[7, 7] == pytest.approx(0.3) and rows[7, 5] == pytest.approx(0.7)
    assert np.allclose(rows.sum(1), 1) and rows[5, 5] == 1
    assert np.allclose(rows, np.exp(mechanism.log_columns(np.arange(60))).T)
    drawn = mechanism.sample(np.full(4000, 7), np.random.default_rng(0))
    assert {*drawn} == {5, 7} and abs((drawn == 7).mean() - 0.3) < 3.3 * np.sqrt(0.21 / 4000)
    prior = np.full(60, 1 / 60)
    words, _, _ = mechanism.likeliest_inputs(np.array([7]), prior, 1)
    assert words[0, 0] == 7  # what is sent is what was written


def test_what_is_left_out_is_not_sent(embedding: Embedding) -> None:
    tokenizer = Tokenizer(embedding.words, KEEP_UNKNOWN)
    corpus = tokenizer.encode(["good1, bad2 good3 stranger", "good3"])
    mark = int(embedding.ids(["good3"])[0])
    assert equal.leaving_out(corpus, mark, tokenizer) == ["good1 , bad2 stranger", ""]


def test_a_near_word_is_nearly_right() -> None:
    close = np.array([[4, 1, 2], [5, 3, 0]])
    assert equal.nearly(np.array([2, 4]), close).tolist() == [1, 0]


def test_how_often_the_truth_is_listed(embedding: Embedding) -> None:
    corpus = Tokenizer(embedding.words).encode(["good1 good2", "bad1"])
    seen = Observed(corpus, np.ones(3, dtype=bool))
    words = np.array([[5, 6], [7, NONE], [8, 9]])
    candidates = Candidates.from_targets(
        seen, corpus.ids, words, 0.5 * np.ones((3, 2)), 0.5 * np.ones((3, 2))
    )
    assert equal.listed(candidates, np.arange(3), np.array([6, 1, 9])) == pytest.approx(2 / 3)
    assert equal.listed(candidates, np.array([1]), np.array([7])) == 1


def test_words_in_clear_pass_every_mechanism(embedding: Embedding) -> None:
    """TEM at nearly no epsilon changes nearly all that it is given."""
    tokenizer = Tokenizer(embedding.words, KEEP_UNKNOWN)
    texts = ["good1, bad2 good1 stranger"] * 50
    corpus = equal.in_clear(tokenizer.encode(texts), embedding.ids(["good1"]), embedding.words)
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
    made = equal.point(setting, arrays, of_sentence, utility, np.random.default_rng(0))
    assert made.recovered.tolist() == [2, 1]
    rows = pd.DataFrame(made.rows).set_index("attack")
    assert rows["value"].tolist() == [0.25, 0.5, 0.75] and set(rows["n"]) == {4}
    assert (rows["meaning"] == 0.4).all() and (rows["accuracy"] == 0.5).all()
    points = equal.gathered([made, made], of_sentence)
    assert points.content.tolist() == [2, 2] and len(points.table) == 6
    assert points.utility["meaning"].shape == (2, 2)


@pytest.mark.parametrize("profile", ["smoke", "default", "full"])
def test_every_mechanism_of_a_profile_is_registered_and_goes_upwards(profile: str) -> None:
    chosen = profiles.load(profile, "09_equal_utility", equal.Sizes, {}).epsilons
    assert {LEFT_OUT, RANDOM} <= {*chosen} <= {*WORD_LEVEL, LEFT_OUT}
    assert all(list(each) == sorted({*each}) and len(each) > 1 for each in chosen.values())


def drawn_of(
    names: Sequence[str],
    utility: np.ndarray,
    recovered: np.ndarray,
    resamples: int = 200,
    rng: np.random.Generator | None = None,
) -> equal.Drawn:
    """Of settings of these mechanisms, on sentences of ten words each."""
    table = pd.DataFrame({"mechanism": list(names), "epsilon": np.arange(len(names), dtype=float)})
    content = np.full(utility.shape[1], 10.0)
    points = equal.Points(table, recovered, content, {"accuracy": utility})
    return equal.drawn_anew(points, rng or np.random.default_rng(0), resamples=resamples)


def test_what_is_recovered_is_compared_with_what_was_sent_in_pairs() -> None:
    """One word in a hundred more, of the same words: in pairs certain, apart far inside chance."""
    kept = np.random.default_rng(1).random(4000) < 0.4
    more = kept | (np.arange(4000) % 100 == 0)
    right = {AS_SENT: kept.astype(float), "bound": more.astype(float)}
    sentence, rng = np.arange(4000) // 10, np.random.default_rng(2)
    p_value = equal.p_as_sent(right, "bound", sentence, rng)
    assert p_value < 0.001
    alone = stats.clustered_share(right["bound"], sentence)
    assert alone.low < kept.mean()  # the interval of one share does not tell them apart
    assert equal.p_as_sent(right, AS_SENT, sentence, rng) == 1
    three = equal.p_as_sent({**right, "decoder": right[AS_SENT]}, "bound", sentence, rng)
    assert three == pytest.approx(2 * p_value)  # the better one of two was taken


def test_risk_at_equal_utility_by_hand() -> None:
    """Two mechanisms on one line of utility; the second gives away 0.2 more at each of its ends."""
    ones = np.ones((1, 40))
    utility = np.concatenate([0.0 * ones, ones, 0.0 * ones, ones])
    recovered = np.concatenate([0 * ones, 8 * ones, 2 * ones, 10 * ones])
    drawn = drawn_of("aabb", utility, recovered)
    table = equal.at_equal_utility(drawn)
    assert table["level"].tolist() == [0.25, 0.5, 0.75]
    assert np.allclose(table[["value", "low", "high"]], -0.2)
    assert (table["p"] < 0.05).all() and set(table["first"] + table["second"]) == {"ab"}
    # Where 0.4 of the words are recovered, the first leaves 0.5, the second 0.25.
    left = equal.at_equal_risk(drawn, [0.1, 0.4])
    assert left[["risk", "first", "second"]].to_numpy().tolist() == [[0.4, "a", "b"]]
    assert left["value"].tolist() == pytest.approx([0.25])
    read = equal.at_accuracy(drawn, 0.5)
    assert read["mechanism"].tolist() == ["a", "b"]
    assert read["value"].tolist() == pytest.approx([0.4, 0.6])


def test_risk_at_an_accuracy_is_not_extrapolated_and_covers_the_least_of_all() -> None:
    """Twenty mechanisms alike: the interval of the least contains the risk of each of them."""
    rng, covered = np.random.default_rng(4), 0
    names = [f"m{number // 2}" for number in range(40)]
    for _ in range(20):
        recovered = rng.binomial(10, np.tile([0.3, 0.7], 20)[:, None], size=(40, 300)) * 1.0
        right = rng.binomial(1, np.tile([0.6, 0.8], 20)[:, None], size=(40, 300)) * 1.0
        drawn = drawn_of(names, right, recovered, 2000, rng)
        least = equal.at_accuracy(drawn, 0.7).iloc[0]
        covered += least["low"] <= 0.5 <= least["high"]
        assert 0.25 < least["low"] and least["high"] < 0.75  # between the settings
    assert covered >= 17  # fewer of 20 at 95% by chance with probability below 0.3%


def test_pairs_of_all_mechanisms_can_be_decided() -> None:
    """Thirteen mechanisms: tests of certain differences, corrected for all of them."""
    names, ones = [f"m{number // 2}" for number in range(26)], np.ones((26, 40))
    utility = np.tile([0.0, 1.0], 13)[:, None] * ones
    recovered = 0.8 * np.arange(13).repeat(2)[:, None] * ones
    drawn = drawn_of(names, utility, recovered, 20_000)
    both = replace(drawn, utility={"meaning": drawn.utility["accuracy"], **drawn.utility},
                   counts={"meaning": 40, "accuracy": 40})  # fmt: skip
    table = equal.at_equal_utility(both)
    assert len(table) == 468 and (table["p"] < 0.05).all()


def test_mechanisms_are_compared_along_the_range_that_both_reach() -> None:
    ones = np.ones((1, 40))
    utility = np.concatenate([0.0 * ones, ones, 0.2 * ones, 0.6 * ones, 0.7 * ones, 0.9 * ones])
    drawn = drawn_of("aabbcc", utility, np.repeat(3 * ones, 6, axis=0))
    table = equal.at_equal_utility(drawn)
    levels = table.groupby("second")["level"].agg(list)
    assert {*table["first"]} == {"a"}  # the others have no range in common
    assert levels["b"] == pytest.approx([0.3, 0.4, 0.5]) and (table["p"] == 1).all()
    assert levels["c"] == pytest.approx([0.75, 0.8, 0.85])


def test_some_measures_are_of_the_first_sentences_alone() -> None:
    """Two of six sentences are attacked; their risk is what it is of these two alone."""
    content = np.array([10.0, 30, 0, 0, 0, 0])
    recovered = np.array([[5.0, 0, 0, 0, 0, 0]])
    table = pd.DataFrame({"mechanism": ["a"], "epsilon": [1.0]})
    utility = {"meaning": np.array([[0.2, 0.4]]), "accuracy": np.array([[1.0, 0, 0, 0, 0, 1]])}
    points = equal.Points(table, recovered, content, utility)
    drawn = equal.drawn_anew(points, np.random.default_rng(0), resamples=0)
    assert drawn.risk[0, 0] == pytest.approx(5 / 40)
    assert drawn.utility["meaning"][0, 0] == pytest.approx(0.3)
    assert drawn.utility["accuracy"][0, 0] == pytest.approx(1 / 3)
    assert drawn.counts == {"meaning": 2, "accuracy": 6}


def test_two_copies_of_one_mechanism_are_told_apart_as_often_as_stated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sentences differ much, the mechanisms not at all; in pairs little error is left.

    p that are not corrected tell them apart in 12%: more than 18 of 200 nine times in ten.
    """
    monkeypatch.setattr("gc.collect", int)  # half a second in each call of multipletests
    rng, told = np.random.default_rng(11), 0
    for _ in range(200):
        hard = rng.beta(1, 1, size=(1, 80))  # of a sentence, for both mechanisms
        recovered = rng.binomial(10, np.repeat(hard, 4, axis=0)).astype(float)
        utility = np.clip(np.array([[0.2], [0.8], [0.2], [0.8]]) + 0.1 * (hard - 0.5), 0, 1)
        drawn = drawn_of("aabb", utility, recovered, 300, rng)
        told += bool(equal.at_equal_utility(drawn)["p"].min() < 0.05)
    assert told <= 18  # of 200 at 5% by chance with probability below 1%


def pairs_of(*rows: tuple[str, str, float, float], quarter: int = 2) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["first", "second", "value", "p"])
    return table.assign(utility="meaning", quarter=quarter, level=0.5)


def test_only_decided_pairs_are_said() -> None:
    halfway = pairs_of(("tem", "madlib", 0.1, 0.04), ("tem", "clusant", -0.2, 0.06),
                       ("clusant", "madlib", 0.3, 0.01))  # fmt: skip
    other = pairs_of(("clusant", "tem", 0.3, 0.01), quarter=1)
    said = findings.said_of_pairs(pd.concat([halfway, other]))
    assert "2 of 3 pairs" in said and "over all 4 tests" in said
    assert "under MADLIB than under 2 others, more under CluSanT and TEM than under 1" in said
    none = findings.said_of_pairs(halfway.assign(p=0.06))
    assert "0 of 3 pairs" in none and "recovered" not in none
    assert findings.said_of_pairs(halfway[:0]).startswith("No two mechanisms")


def test_pairs_as_a_matrix_by_hand() -> None:
    table = pairs_of(("tem", "madlib", 0.1, 0.01), ("tem", "clusant", -0.2, 0.4))
    wide = findings.matrix(table, "meaning")
    assert list(wide.index) == list(wide.columns) == ["MADLIB", "TEM", "CluSanT"]
    assert wide.loc["TEM"].tolist() == ["+10*", "", "-20"]
    assert wide.loc["MADLIB", "TEM"] == "-10*" and wide.loc["MADLIB", "CluSanT"] == ""
    assert findings.matrix(table, "accuracy").empty


def test_who_beats_random_words_by_hand() -> None:
    """The sign of a difference depends on who stands first."""
    table = pairs_of(
        ("tem", RANDOM, -0.1, 0.01),  # less under TEM
        (RANDOM, "tem", -0.2, 0.01),  # more under TEM
        (RANDOM, "madlib", 0.2, 0.01),  # less under MADLIB
        ("madlib", RANDOM, -0.2, 0.2),  # not decided
        ("santext+", RANDOM, -0.2, 0.01),
        ("clusant", RANDOM, -0.2, 0.3),
        (LEFT_OUT, RANDOM, -0.2, 0.01),  # no mechanism
        ("tem", "madlib", 0.2, 0.01),  # about others
    )
    counts = findings.against(table, RANDOM)
    wide = counts.pivot(index="mechanism", columns="outcome", values="value")
    assert wide.loc["madlib"].to_dict() == {"less": 1, "more": 0, "undecided": 1}
    assert wide.loc["tem"].to_dict() == {"less": 1, "more": 1, "undecided": 0}
    assert LEFT_OUT not in wide.index
    title, said, _ = findings.said_against(counts, RANDOM)
    assert "meaning less is read back under 2 of 4 mechanisms than with random" in title
    assert "fewer under MADLIB and SanText+, more under none, fewer or more, by the level" in said
    assert "under TEM (1 undecided; fewer at every level compared under 1)." in said
    assert "By accuracy none is compared" in said and "MADLIB are estimated" in said
    assert findings.said_against(counts[:0], RANDOM).title.startswith("Nothing was compared")


def test_where_words_left_out_are_better_more_is_said_of_both_utilities() -> None:
    """At every level alike: nothing is said of levels."""
    table = pairs_of((LEFT_OUT, "tem", -0.1, 0.01), ("madlib", LEFT_OUT, 0.1, 0.01))
    accuracy = pairs_of((LEFT_OUT, "tem", 0.1, 0.01), ("madlib", LEFT_OUT, 0.1, 0.9))
    both = pd.concat([table, accuracy.assign(utility="accuracy")])
    title, said, _ = findings.said_against(findings.against(both, LEFT_OUT), LEFT_OUT)
    assert "more is read back under 2 of 2" in title and "levels" not in said
    assert title.endswith("than with words left out, at equal accuracy less under 1 of 2")
    # A stronger attacker would read back more still; and of no mechanism where none is decided.
    more = findings.said_against(findings.against(table, LEFT_OUT), LEFT_OUT)
    none = findings.said_against(findings.against(table.assign(p=0.5), LEFT_OUT), LEFT_OUT)
    assert "estimated" not in more.text and "under none (2 undecided)" in none.text


def test_what_the_model_adds_by_hand() -> None:
    """Two settings of four words in two sentences: 2 and 1 words more than the usual attack."""
    none, all_four = np.zeros(4), np.ones(4)
    hits = [
        {"model": all_four, "bayes": np.array([1.0, 1, 0, 0]), "decoder": none},
        {"model": np.array([1.0, 0, 0, 0]), "bayes": all_four, "decoder": none},
    ]
    more = equal.gain(hits, ["bayes", "decoder"], "model", np.array([0, 0, 1, 1]))
    assert more.value == pytest.approx(3 / 8) and more.n == 4
    assert more.low < 3 / 8 < more.high


def test_the_ends_of_what_the_model_adds_are_said() -> None:
    names = ["tem", "madlib", "santext+", LEFT_OUT]
    usual = pd.DataFrame({"mechanism": names, "beside": "usual", "value": [0.04, 0.0, 0.09, -0.01]})
    gains = pd.concat([usual, usual.assign(beside="wider", value=0.02)])
    gains = gains.assign(low=gains["value"] - 0.01, high=gains["value"] + 0.01, n=80)
    said = findings.said_of_gain(gains)
    assert "SanText+ +9.0 (+8.0 to +10.0), of which the model +2.0 (+1.0 to +3.0); MADLIB" in said
    assert "words left out -1.0" in said and "TEM" not in said
    assert "words left out" in findings.said_of_gain(gains[gains["mechanism"] == LEFT_OUT])


def test_what_is_said_at_equal_risk() -> None:
    pairs = pairs_of(("tem", "madlib", 0.1, 0.04), ("tem", "clusant", 0.2, 0.06)).assign(risk=0.5)
    said = findings.said_at_risk(pairs)
    assert "50% of the words: 1 of 2 pairs; a higher accuracy is left under TEM" in said
    assert findings.said_at_risk(pairs[:0]).startswith("No two mechanisms")


def test_risk_is_read_off_a_line_and_never_beyond_its_ends() -> None:
    utility, risk = np.array([[0.2, 0.6, 0.5, 1.0]]), np.array([[0.1, 0.3, 0.4, 0.9]])
    assert equal.read_at(utility, risk, 0.4) == pytest.approx([0.2])
    assert equal.read_at(utility, risk, 0.8) == pytest.approx([0.65])  # from 0.6, which stays
    assert np.isnan(equal.read_at(utility, risk, 0.1)).all()
    assert np.isnan(equal.read_at(utility, risk, 1.1)).all()


def test_what_is_read_back_where_a_text_is_just_useful() -> None:
    names, risks = [LEFT_OUT, "tem", "madlib"], [0.1, 0.3, 0.5]
    table = pd.DataFrame({"mechanism": names, "value": risks, "low": 0.05, "high": 0.7})
    assert "30% (5% to 70%) under TEM to 50% (5% to 70%) under MADLIB" in findings.readable(table)
    assert findings.readable(table[:1]).startswith("No mechanism")
