"""Author identification: F1 against scikit-learn, intervals and baselines against simulation."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import half_width, refused, share_fits
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from tiny_models import tiny_encoder

from textpriv.attacks import author, f1
from textpriv.attacks.author import (
    TrainingData,
    added_text_attack,
    embedding_attack,
    linear_attack,
    random_baseline,
    text_attack,
    tuned_attack,
)
from textpriv.attacks.f1 import f1_estimate, macro_f1, strongest
from textpriv.stats import Estimate, share


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_macro_f1_by_hand() -> None:
    """Class 0: TP 2, FP 1, FN 0: 4/5. Class 1: TP 1, FN 1: 2/3. Class 2 never occurs: 0."""
    assert macro_f1([0, 0, 1, 1], [0, 0, 1, 0], 3) == pytest.approx((4 / 5 + 2 / 3) / 3)
    assert macro_f1([0, 1, 2], [0, 1, 2], 3) == 1.0
    assert macro_f1([0, 1], [1, 0], 2) == 0.0


@given(st.integers(2, 6), st.integers(1, 40), st.integers(0, 999))
def test_macro_f1_equals_scikit_learn(classes: int, documents: int, seed: int) -> None:
    truth, guess = rng(seed).integers(classes, size=(2, documents))
    expected = f1_score(truth, guess, labels=range(classes), average="macro", zero_division=0)
    assert macro_f1(truth, guess, classes) == pytest.approx(expected)


def noisy(documents: int, right: float, seed: Any, runs: int = 1) -> tuple[Any, Any, Any]:
    """Truth, guesses and documents: `runs` guesses about each, whose difficulty they share."""
    draw = np.random.default_rng(seed)
    truth = draw.choice(3, size=documents, p=[0.5, 0.3, 0.2])
    easy = draw.beta(right / 5, (1 - right) / 5, size=documents)
    hits = draw.random((runs, documents)) < easy
    guess = np.where(hits, truth, draw.integers(3, size=(runs, documents)))
    return np.tile(truth, runs), guess.ravel(), np.tile(np.arange(documents), runs)


def test_an_estimate_surrounds_macro_f1() -> None:
    truth, guess, _ = noisy(200, 0.6, 0)
    estimate = f1_estimate(truth, guess, 3, rng())
    assert estimate.value == macro_f1(truth, guess, 3) and estimate.n == 200
    assert estimate.low < estimate.value < estimate.high and half_width(estimate) < 0.1
    assert estimate == f1_estimate(truth, guess, 3, rng())


def test_intervals_cover() -> None:
    """Of 250 intervals of 95% at least 88% cover the F1 of the population (a normal interval of a
    bent statistic falls a little short); a coverage of 0.945 fails this with probability 2e-5.

    With four runs on each document taken for four documents, which is the named wrong version,
    fewer than 85% do.
    """
    population = macro_f1(*noisy(100_000, 0.6, 99, 4)[:2], 3)
    covered = np.zeros(2)
    for seed in range(250):
        truth, guess, document = noisy(100, 0.6, seed, 4)
        for which, about in enumerate((document, None)):
            estimate = f1_estimate(truth, guess, 3, rng(seed), document=about, resamples=100)
            covered[which] += estimate.low <= population <= estimate.high
    assert covered[0] / 250 >= 0.88
    assert covered[1] / 250 < 0.85


def test_intervals_cover_where_guessing_is_blind() -> None:
    """Of 400 intervals from 80 documents by 10 authors at least 94% cover what guessing expects.

    A coverage of 0.975 fails this with probability 1e-4; a normal interval, the named wrong
    version, covers in less than 92%.
    """
    truth = np.arange(80) % 10
    expected, draw, covered = random_baseline(truth, 10), rng(), np.zeros(2)
    for _ in range(400):
        guess = draw.integers(10, size=80)
        estimate = f1_estimate(truth, guess, 10, draw, resamples=100)
        _, right, both = f1._counts(truth, guess, None, 10)
        reach = 1.96 * f1._resampled(right, both, draw, 100).std()
        covered += [
            estimate.low <= expected <= estimate.high,
            abs(estimate.value - expected) <= reach,
        ]
    assert covered[0] / 400 >= 0.94
    assert covered[1] / 400 < 0.92


def test_the_strongest_attacker_by_hand() -> None:
    """Of two, 2.2414 deviations in place of 1.96; the ends may be another attacker's."""
    estimates = {"weak": Estimate(0.2, 0.0, 0.4, 9), "sure": Estimate(0.3, 0.29, 0.31, 8)}
    who, most = strongest(estimates)
    factor = 2.241403 / 1.959964
    assert (who, most.value, most.n) == ("sure", 0.3, 8)
    assert most.low == pytest.approx(0.3 - 0.01 * factor)
    assert most.high == pytest.approx(0.2 + 0.2 * factor)
    assert strongest({"alone": estimates["weak"]})[1] == estimates["weak"]
    assert strongest({1: Estimate(1.0, 0.9, 1.0, 5), 2: Estimate(0.9, 0.1, 1.0, 5)})[1].high == 1
    every, none = share(200, 200), share(0, 200)  # Clopper and Pearson's at the smaller level
    assert strongest({1: every, 2: none})[1].low == pytest.approx(0.0125 ** (1 / 200))
    assert strongest({1: none, 2: none})[1].high == pytest.approx(1 - 0.0125 ** (1 / 200))


def test_the_interval_of_the_strongest_covers() -> None:
    """Four equal attackers, 4,000 times: it covers in 97.5% (1 - (1 - 0.05 / 8)^4 below it).

    The interval that the strongest one has by itself, the named wrong version, covers in 90.4%.
    Both bounds are six deviations away.
    """
    drawn = 0.3 + 0.05 * rng().standard_normal((4000, 4))
    reach = 1.959964 * 0.05
    made = [{k: Estimate(v, v - reach, v + reach, 9) for k, v in enumerate(each)} for each in drawn]
    covered = np.mean([most.low <= 0.3 <= most.high for _, most in map(strongest, made)])
    alone = np.mean(np.abs(drawn.max(1) - 0.3) <= reach)
    assert covered > 0.96 and alone < 0.932


def test_an_interval_where_all_guesses_agree() -> None:
    """Clopper and Pearson's with documents as trials, which 3 runs do not make narrower."""
    truth = np.tile([0, 1], 30)
    assert f1_estimate(truth, truth, 2, rng()).low == pytest.approx(0.9404, abs=1e-4)
    pooled = f1_estimate(
        np.tile(truth, 3), np.tile(truth, 3), 2, rng(), document=np.tile(np.arange(60), 3)
    )
    assert pooled.low == pytest.approx(0.9404, abs=1e-4) and pooled.n == 180
    wrong = f1_estimate(truth, 1 - truth, 2, rng())
    assert (wrong.value, wrong.low) == (0, 0) and wrong.high == pytest.approx(0.0596, abs=1e-4)


def test_resamples_are_drawn_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded, and the parts together are what one draw would be."""
    truth, guess, _ = noisy(50, 0.6, 0)
    whole = f1_estimate(truth, guess, 3, rng(), resamples=1000)
    monkeypatch.setattr(f1, "_CHUNK", 50 * 7)
    assert f1_estimate(truth, guess, 3, rng(), resamples=1000) == whole


def test_the_influence_leaves_each_document_out() -> None:
    """A loop over documents with three guesses each, under numbers with gaps, in any order."""
    truth, guess, document = noisy(7, 0.6, 0, 3)
    order, number = rng().permutation(21), np.array([4, 5, 9, 11, 30, 31, 2])
    truth, guess, document = truth[order], guess[order], number[document[order]]
    influence = f1_estimate(truth, guess, 3, rng(), document=document, sample="made up").influence
    assert influence is not None and influence.sample == "made up"
    assert influence.unit.tolist() == sorted(number)
    without = np.array(
        [macro_f1(truth[document != left], guess[document != left], 3) for left in influence.unit]
    )
    np.testing.assert_allclose(influence.effect, np.sqrt(6 / 7) * (without.mean() - without))
    assert np.ptp(without) > 0.05
    alone = f1_estimate([0], [0], 2, rng(), sample="made up").influence
    assert alone is not None and alone.error == 0


def test_a_named_sample_changes_neither_interval_nor_stream() -> None:
    truth, guess, _ = noisy(50, 0.6, 0)
    streams = rng(), rng()
    plain = f1_estimate(truth, guess, 3, streams[0])
    named = f1_estimate(truth, guess, 3, streams[1], sample="made up")
    assert plain.influence is None and plain == named
    assert streams[0].random() == streams[1].random()


def test_paired_errors_are_those_of_other_documents() -> None:
    """Over 300 samples of 100 documents, the mean error is the spread of the differences.

    Within 15%: 300 differences have a spread with an error of 4%, of which this is 3.7.
    """
    apart, errors, unpaired = [], [], []
    for seed in range(300):
        truth, first, _ = noisy(100, 0.5, seed)
        second = np.where(rng([seed, 1]).random(100) < 0.2, (truth + 1) % 3, first)
        estimates = [f1_estimate(truth, guess, 3, rng(), resamples=100, sample="made up")
                 for guess in (first, second)]  # fmt: skip
        one, other = (estimate.influence for estimate in estimates)
        assert one is not None and other is not None
        apart.append(estimates[0].value - estimates[1].value)
        errors.append((one - other).error)
        unpaired.append(np.hypot(one.error, other.error))
    assert np.mean(errors) == pytest.approx(np.std(apart), rel=0.15)
    assert np.mean(unpaired) > 1.4 * np.std(apart)


def test_the_baseline_by_hand() -> None:
    """One document of each of 2 classes: guesses 00, 01, 10, 11 give F1 1/3, 1, 0 and 1/3."""
    assert random_baseline([0, 1], 2) == pytest.approx((1 / 3 + 1 + 0 + 1 / 3) / 4)
    assert random_baseline([0], 2) == pytest.approx(1 / 4)  # right or wrong; class 1 is never right


@settings(max_examples=20)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=5))
def test_the_baseline_equals_the_mean_over_all_guesses(labels: list[int]) -> None:
    every = np.stack(np.meshgrid(*[range(3)] * len(labels)), -1).reshape(-1, len(labels))
    expected = np.mean([macro_f1(labels, guess, 3) for guess in every])
    assert random_baseline(labels, 3) == pytest.approx(expected)


def test_the_baseline_and_the_papers() -> None:
    """Many documents: 2 p / (classes p + 1). Few: less, and a simulation agrees with the exact."""
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    limit = (2 * shares / (4 * shares + 1)).mean()
    many = np.repeat(np.arange(4), (shares * 100_000).astype(int))
    assert random_baseline(many, 4) == pytest.approx(limit, abs=1e-5)
    few = np.repeat(np.arange(4), [4, 3, 2, 1])
    exact = random_baseline(few, 4)
    assert exact < limit - 0.01
    drawn = rng().integers(4, size=(20_000, 10))
    simulated = np.array([macro_f1(few, guess, 4) for guess in drawn])
    error = simulated.std() / np.sqrt(len(drawn))
    assert abs(simulated.mean() - exact) < 5 * error  # false alarm 6e-7
    assert abs(simulated.mean() - limit) > 10 * error


def groups(
    documents: int, seed: int, *, classes: int = 3, width: int = 6, away: float = 3.0
) -> Any:
    """Vectors around the corner of their class, and the classes."""
    draw = rng(seed)
    labels = draw.integers(classes, size=documents)
    vectors = draw.standard_normal((documents, width))
    vectors[np.arange(documents), labels] += away
    return vectors.astype(np.float32), labels


def on_vectors(
    train: Any, validation: Any, tests: Any, classes: int = 3, *, seed: int = 0, epochs: int = 10,
    hidden: int = 32,
) -> Any:  # fmt: skip
    known = TrainingData(*train, *validation)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(author, "EPOCHS", epochs)
        patch.setattr(author, "HIDDEN", hidden)
        return embedding_attack(known, tests, classes=classes, seed=seed)


def test_groups_are_told_apart() -> None:
    tests = [groups(200, 2), groups(100, 3)]
    guesses = on_vectors(groups(300, 0), groups(40, 1), [vectors for vectors, _ in tests])
    for guess, (_, truth) in zip(guesses, tests, strict=True):
        assert guess.dtype == np.int64 and guess.shape == truth.shape
        assert macro_f1(truth, guess, 3) > 0.9


def test_scale_and_place_do_not_matter() -> None:
    (train, labels), (held, held_labels), (asked, truth) = (
        groups(200, seed, away=4.0) for seed in range(3)
    )
    for scale, shift in ((1e-4, 0.0), (1.0, 50.0), (1e3, -5.0)):
        moved = [values.astype(np.float64) * scale + shift for values in (train, held, asked)]
        (guess,) = on_vectors((moved[0], labels), (moved[1], held_labels), [moved[2]], epochs=30)
        assert macro_f1(truth, guess, 3) > 0.9


def test_noise_gives_the_blind_guessers_hits() -> None:
    """Labels are uniform coins beside vectors, so hits are exactly binomial with 1/4.

    False alarm 1e-6. With the test documents in training, the named wrong version, far more hit.
    """
    draw = rng(5)
    vectors = draw.standard_normal((1500, 30)).astype(np.float32)
    labels = draw.integers(4, size=1500)
    train, held, asked = np.split(np.arange(1500), [400, 500])
    clean = (vectors[train], labels[train]), (vectors[held], labels[held])
    (guess,) = on_vectors(*clean, [vectors[asked]], classes=4, hidden=128)
    assert share_fits(int((guess == labels[asked]).sum()), 1000, 0.25)
    # The F1 of guesses without knowledge: the baseline, within 6 standard deviations of 0.0133.
    assert abs(macro_f1(labels[asked], guess, 4) - random_baseline(labels[asked], 4)) < 0.08
    leaked = np.concatenate([train, asked[:300]])
    (guess,) = on_vectors(
        (vectors[leaked], labels[leaked]), clean[1], [vectors[asked]], classes=4, hidden=128,
        epochs=30,
    )  # fmt: skip
    assert not share_fits(int((guess == labels[asked]).sum()), 1000, 0.25)


def test_what_is_passed_makes_an_attacker_static_or_adaptive() -> None:
    """The mechanism turns corner c into corner c + 1: static is always wrong, adaptive right.

    So that a static attack passed off as adaptive, or the reverse, would show.
    """
    clear, labels = groups(300, 0, width=3)
    held, held_labels = groups(60, 1, width=3)
    asked, truth = groups(200, 2, width=3)
    clear, held, asked = clear * 2, held * 2, asked * 2

    def sanitized(vectors: Any) -> Any:
        return np.roll(vectors, 1, axis=1)

    (static,) = on_vectors((clear, labels), (held, held_labels), [sanitized(asked)])
    (adaptive,) = on_vectors(
        (sanitized(clear), labels), (sanitized(held), held_labels), [sanitized(asked)]
    )
    assert macro_f1(truth, static, 3) < 0.1 and macro_f1(truth, adaptive, 3) > 0.9


def test_the_weights_of_the_best_epoch_are_copied() -> None:
    """Seven epochs measured by rule: the second is best, so its very guesses come back."""
    vectors, labels = groups(60, 0, away=0.5)
    values, truth = torch.from_numpy(vectors), torch.from_numpy(labels)
    for rule, best in (([1, 3, 2, 0, 1], 1), ([1, 3, 3, 0, 1], 2)):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = author._network(6, 8, 3)
            seen: list[torch.Tensor] = []

            def measure(model: Any = model, seen: Any = seen, rule: Any = rule) -> float:
                seen.append(model.eval()(values).detach().clone())
                return float(rule[len(seen) - 1])

            author._train(model, values, truth, measure, 5, rng())
        outputs = model.eval()(values)
        assert [torch.equal(outputs, output) for output in seen] == [
            row == best for row in range(5)
        ]


def test_one_seed_one_attack() -> None:
    """Whatever was trained in between."""
    train, held, (asked, _) = groups(90, 0, away=0.5), groups(30, 1, away=0.5), groups(500, 2)
    state = torch.random.get_rng_state()
    one, other, same = (
        on_vectors(train, held, [asked], seed=seed, epochs=2)[0] for seed in (1, 2, 1)
    )
    assert (one == same).all() and (one != other).any()
    assert torch.equal(state, torch.random.get_rng_state())


def test_equal_vectors_are_no_error() -> None:
    same = np.ones((6, 2), dtype=np.float32)
    (guess,) = on_vectors((same, np.arange(6) % 2), (same, np.arange(6) % 2), [same], classes=2)
    assert len(np.unique(guess)) == 1


WORDS = ["dress", "fit", "great", "size", "small", "wore", "color", "night"]


def styled(documents: int, seed: int, marks: Any = (".", "!", ";")) -> tuple[list[str], Any]:
    """Random words; the author shows in the mark that ends a text and in nothing else."""
    draw = rng(seed)
    labels = draw.integers(len(marks), size=documents)
    return [
        " ".join(draw.choice(WORDS, size=8)) + marks[label] for label in labels.tolist()
    ], labels


@pytest.mark.parametrize(
    "marks", [(".", "!", ";"), (" dress", " Dress", " DRESS"), ("  ", " ", " \n")]
)
def test_style_is_enough(marks: Any) -> None:
    """Punctuation, case and white space: what a bag of words in lower case does not see."""
    train, held, (asked, truth) = (styled(n, seed, marks) for seed, n in enumerate((150, 20, 100)))
    guess, again = text_attack(TrainingData(*train, *held), [asked, asked[:30]], classes=3)
    assert macro_f1(truth, guess, 3) > 0.9
    assert (again == guess[:30]).all() and guess.dtype == np.int64


def test_scores_of_several_outputs_add_up() -> None:
    """A text ends in its author's mark with probability 0.6, else in one of the two others.

    By one output 0.6 of 150 authors are named (standard error 0.04), by nine over 0.9 if its law
    were known; it is learned from 300 texts.
    """

    def outputs(labels: Any, seed: int) -> list[str]:
        other = rng(seed).choice(3, size=len(labels), p=[0.6, 0.2, 0.2])
        return [f"the dress {'.!;'[mark]}" for mark in (labels + other) % 3]

    truth = np.arange(150) % 3
    known = TrainingData(outputs(truth, 0), truth, outputs(truth, 1), truth)
    several = [outputs(truth, seed) for seed in range(2, 11)]
    once, often = added_text_attack(known, several, [1, 9], classes=3)
    assert (once == text_attack(known, several[:1], classes=3)[0]).all()
    assert np.mean(once == truth) < 0.75 and np.mean(often == truth) > 0.8


@pytest.mark.parametrize("seed", range(4))
def test_the_penalty_is_chosen_on_validation_rows_and_both_sets_train(seed: int) -> None:
    """By hand: the best of those that are fitted to the training rows, fitted to all of them."""
    draw, penalties = rng(seed), (1e-3, 1e-1, 1e1, 1e3)
    values = draw.normal(size=(90, 12))
    labels = (values[:, 0] + draw.normal(size=90) > 0.7).astype(np.int64)
    train, held = np.arange(60), np.arange(60, 90)
    reached = []
    for penalty in penalties:
        one = LogisticRegression(C=penalty, class_weight="balanced", max_iter=1000)
        guess = one.fit(values[train], labels[train]).predict(values[held])
        reached.append(macro_f1(labels[held], guess, 2))
    best = penalties[int(np.argmax(reached))]
    by_hand = LogisticRegression(C=best, class_weight="balanced", max_iter=1000).fit(values, labels)
    for kind in (np.asarray, sparse.csr_matrix):
        sets = kind(values[train]), labels[train], kind(values[held]), labels[held]
        fitted = author.best_regression(*sets, penalties)
        np.testing.assert_allclose(
            fitted.decision_function(kind(values)), by_hand.decision_function(values), atol=1e-3
        )


def test_a_line_through_vectors_finds_what_separates_and_takes_labels_from_both_sets() -> None:
    centres = 3 * rng(1).normal(size=(3, 8))
    truth = np.tile(np.arange(3), 40)
    vectors = centres[truth] + rng(2).normal(size=(120, 8))
    known = TrainingData(vectors[:60], truth[:60], vectors[60:80], truth[60:80])
    (guess,) = linear_attack(known, [vectors[80:]], classes=3)
    assert macro_f1(truth[80:], guess, 3) > 0.95
    shuffled = rng(3).permutation(truth)
    known = TrainingData(vectors[:60], shuffled[:60], vectors[60:80], shuffled[60:80])
    (guess,) = linear_attack(known, [vectors[80:]], classes=3)
    assert macro_f1(truth[80:], guess, 3) < 0.7  # nothing but the labels it is given


def test_texts_without_words_and_without_anything() -> None:
    train, held = styled(60, 0), styled(20, 1)
    (guess,) = text_attack(TrainingData(*train, *held), [["", "\U0001f600", "zzz"]], classes=3)
    assert guess.shape == (3,)
    assert text_attack(TrainingData(*train, *held), [], classes=3) == []
    only_marks = ["!!!", "???"] * 4  # no word stands in two texts, characters do
    (guess,) = text_attack(
        TrainingData(only_marks, [0, 1] * 4, ["!!!"], [0]), [["!!!!", "??"]], classes=2
    )
    assert guess.tolist() == [0, 1]


def test_a_tuned_encoder_learns_the_word_that_tells(tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path)
    marks = (" cat", " dog", " fish")

    def animals(documents: int, seed: int) -> tuple[list[str], Any]:
        texts, labels = styled(documents, seed, marks)
        return [
            " ".join("the" if word in WORDS else word for word in t.split()) for t in texts
        ], labels

    train, held, (asked, truth) = animals(120, 0), animals(20, 1), animals(60, 2)
    options: Any = {"classes": 3, "seed": 1, "epochs": 8, "learning_rate": 5e-3}
    guess, again = tuned_attack(encoder, TrainingData(*train, *held), [asked, asked[:9]], **options)
    assert macro_f1(truth, guess, 3) > 0.95 and (again == guess[:9]).all()


ROWS, TWO = np.eye(2, dtype=np.float32), np.array([0, 1])


def test_nothing_is_kept_between_calls() -> None:
    """A call gives what it gives alone, whatever was trained before."""
    train, held, (asked, _) = groups(90, 0), groups(30, 1), groups(200, 2)
    (alone,) = on_vectors(train, held, [asked], epochs=2)
    on_vectors((train[0], (train[1] + 1) % 3), held, [asked], epochs=2)
    (again,) = on_vectors(train, held, [asked], epochs=2)
    assert (alone == again).all()


three: Any = partial(f1_estimate, [0, 1, 1], [0, 1, 0], 2, rng())


def rows(**changed: Any) -> Any:
    known: Any = {"train": ROWS, "train_labels": TWO, "validation": ROWS, "validation_labels": TWO}
    given_ = known | {"tests": [ROWS], "classes": 2, "seed": 0} | changed
    return embedding_attack(TrainingData(**{name: given_.pop(name) for name in known}), **given_)


test_bad_input_is_named = refused(
    (lambda: macro_f1([0, 1], [0], 2), "guess: got 1 for 2 true classes"),
    (lambda: macro_f1(TWO[:0], TWO[:0], 2), "guess: got 0 for 0"),
    (lambda: macro_f1([0, 2], [0, 1], 2), "truth: got ids 0..2, expected 0..1"),
    (lambda: three(document=[0, 1]), r"document: got int64 of shape \(2,\), expected 3 integers"),
    (lambda: three(document=[0, 0, 1]), "document: got one with two true classes"),
    (lambda: rows(validation=ROWS * np.nan), "vectors: expected finite ones"),
    (lambda: rows(tests=[np.zeros((1, 1))]), "vectors: expected .* of one width"),
    (lambda: rows(train=ROWS[:1]), "labels: got 2 for 1 documents"),
    (lambda: rows(train_labels=[1, 1]), r"train_labels: got \[1\] alone, expected at least two"),
)
