"""Documents, outputs and parts of notebook 04, with tiny models and tables of a few words."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cells import function_of
from numpy.typing import NDArray
from sklearn.metrics import f1_score
from tiny_generators import tiny_generator
from tiny_models import tiny_encoder

from textpriv import profiles
from textpriv.attacks.f1 import f1_estimate
from textpriv.data import embeddings
from textpriv.data.authors import NEITHER, as_many_of_each, by_authors, by_rating
from textpriv.data.corpora import Documents
from textpriv.data.embeddings import Embedding, from_arrays
from textpriv.data.splits import shares_ngram
from textpriv.errors import ProfileError
from textpriv.experiments import dp_prompt as experiment
from textpriv.experiments.dp_prompt import Output, Sizes
from textpriv.mechanisms.prompt import (
    DPPrompt,
    Limits,
    learn_limits,
    paper_loss,
    sanitize_at,
    tight_loss,
)
from textpriv.mechanisms.sentences import DeepCandidate
from textpriv.models import Encoder
from textpriv.models.generators import Generator
from textpriv.models.vectors import embed
from textpriv.report.run import Run
from textpriv.seeds import stream
from textpriv.stats import Estimate, clustered_mean

IntArray = NDArray[np.int64]

NOTEBOOK = "04_dp_prompt"
WORDS = ("cat", "dog", "fish", "the", "sat", "ran", "on", "mat")
SMALL = (*WORDS, "only", "small")
LARGE = ("mat", "huge", *WORDS[:-1])  # another order, another word
TABLES = ("glove-6b-50d", "glove-840b-300d-34k")
MANY, FEW = ("u7", "u2", "u5"), ("a1", "z9")  # authors under attack, and others

pytestmark = pytest.mark.usefixtures("exact_throughout")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"), longest=256)


def test_scissors_keep_first_words_or_random_ones(encoder: Encoder) -> None:
    """Of 4,000 words 30% stay: all but 5 deviations, one test in a million is wrong."""
    sizes = profiles.load("smoke", NOTEBOOK, Sizes, {"first_words": [3], "kept_words": [0.01, 0.3]})
    texts = ["  one two\nthree four", *(" ".join(f"w{n}" for n in range(400)) for _ in range(10))]
    outputs = experiment.shortened(encoder, texts, sizes, np.random.default_rng(4))
    assert [*outputs] == ["first-words first3", "left-out kept0.01", "left-out kept0.3"]
    assert outputs["first-words first3"].texts == [["one two three", *["w0 w1 w2"] * 10]]
    runs = outputs["left-out kept0.3"].texts
    assert len(runs) == sizes.runs and runs[0] != runs[1]
    for text in runs[0][1:]:
        places = [int(word[1:]) for word in text.split()]
        assert places == sorted({*places})
    kept = sum(len(text.split()) for text in runs[0][1:])
    assert abs(kept - 1200) < 5 * np.sqrt(4000 * 0.3 * 0.7)
    assert outputs["left-out kept0.01"].texts[0][0] == "."  # nothing of four words was left
    named = [*(output.columns["setting"] for output in outputs.values()), "eps8", "t0.75", "plain"]
    shown = ["first 3", "kept 0.01", "kept 0.3", "ε 8", "T 0.75", "plain"]
    assert [*map(experiment.shown, named)] == shown


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Generator:
    return tiny_generator(tmp_path_factory.mktemp("generator"), longest=256)


@pytest.mark.parametrize("profile", ["smoke", "default", "full", "paper"])
def test_profiles_suit_the_comparisons(profile: str) -> None:
    sizes = profiles.load(profile, NOTEBOOK, Sizes)
    assert sizes.documents // sizes.authors >= 2 * sizes.runs
    # A cut is compared with the whole at the same temperature.
    assert set(sizes.top_k_temperatures) <= set(sizes.temperatures)
    assert min(sizes.repeats) <= sizes.generated_repeats <= max(sizes.repeats)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ledger": ["madlib eps9"]},
        {"tuned": ["clean", "dp-prompt t0.75"]},
        {"repeated_epsilon": 9},
        {"clipped_temperatures": [1.25]},
    ],
)
def test_an_output_that_is_not_made_is_noticed_at_the_start(wrong: dict[str, Any]) -> None:
    with pytest.raises(ProfileError, match="expected among"):
        profiles.load("smoke", NOTEBOOK, Sizes, wrong)


def reviews() -> Documents:
    """Twelve or more of each kind by three authors; of the others', ten quote an author's."""
    rng = np.random.default_rng(5)
    texts, users, ratings = [], [], []
    for position, user in enumerate(MANY):
        for number in range(24 + 4 * position):
            words = rng.choice(WORDS, size=rng.integers(10, 15))
            texts.append(" ".join(words[:5]) + ". " + " ".join(words[5:]).capitalize() + " !")
            users.append(user)
            ratings.append((10, 8, np.nan)[number % 2 if number % 12 else 2])
    for number in range(40):
        words = rng.choice(WORDS, size=12)
        quoted = " ".join(texts[7 * number].split()[:9]) if number < 10 else ""
        texts.append(quoted or " ".join(words))
        users.append(FEW[number % 2])
        ratings.append(10.0)
    columns = {"user_id": np.array(users, dtype=object), "rating": np.array(ratings)}
    return Documents("rented-clothes", tuple(texts), columns)


@pytest.mark.parametrize("has_others", [True, False])
def test_public_documents_quote_nothing(has_others: bool) -> None:
    """Where a corpus has no other authors, public are documents that are not drawn."""
    whole = reviews()
    whole = whole.subset(np.flatnonzero(np.isin(whole.columns["user_id"], MANY) | has_others))
    chosen = by_authors(whole, by_rating(whole.columns["rating"]), authors=3, fewest_words=6)
    private = as_many_of_each(chosen, 8, stream(5, "documents"))

    def drawn(public: int, seed: int) -> Documents:
        sizes: Any = SimpleNamespace(most_words=9, public=public)
        rng = stream(seed, "public")
        return experiment.public_documents(whole, "user_id", chosen, private, sizes, rng)

    public = drawn(30, 5)
    assert set(public.columns["user_id"]) == set(FEW if has_others else MANY)
    assert len(public) == 30 and len(drawn(12, 5)) == 12
    assert max(len(text.split()) for text in public.texts) == 9
    cut = experiment.first_words(private, 9)
    assert all(each.startswith(text) for each, text in zip(private.texts, cut.texts, strict=True))
    assert not shares_ngram(public.texts, cut.texts).any()
    if has_others:  # all of them are looked at, and those that quote a private one are missing
        others = whole.subset(np.flatnonzero(np.isin(whole.columns["user_id"], FEW)))
        quoting = shares_ngram(experiment.first_words(others, 9).texts, cut.texts)
        assert 0 < quoting.sum() <= 10 and len(others) - quoting.sum() >= 30
    assert drawn(30, 5).texts == public.texts != drawn(30, 6).texts


def test_films_are_asked_for_the_sentiment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    films = [f"film {number} {' '.join(WORDS)} {number % 7}" for number in range(30)]
    films += ["quoted " * 9 + str(number) for number in range(30)]  # share runs of words
    labels = np.arange(60) % 2
    corpus = Documents("films", tuple(films), {"label": labels})
    monkeypatch.setattr(experiment.corpora, "load", lambda name: corpus)
    columns = {"author": np.array([0, 1, 2]), "sentiment": np.array([1, 0, 1])}
    private = Documents("ours", ("one two", "three four", "five"), columns)
    public = Documents("ours", tuple(f"public {number}" for number in range(20)))
    settings = Run("04_dp_prompt", "smoke", 5, {}).sizes(experiment.Sizes)
    settings = settings.model_copy(update={"films": 10, "most_words": 40})
    mine, others = experiment.with_films(private, public, settings, stream(5, "films"))
    assert mine.texts[:3] == private.texts and len(mine) == 13
    assert mine.columns["author"].tolist() == [0, 1, 2] + [NEITHER] * 10
    truth = {text: label for text, label in zip(films, labels, strict=True)}
    assert mine.columns["sentiment"].tolist() == [NEITHER] * 3 + [truth[t] for t in mine.texts[3:]]
    drawn = [text for text in others.texts if text in truth]
    assert {*others.texts} >= {*public.texts[:10]} and len(drawn) == min(10, len(others) - 10)
    assert not shares_ngram(drawn, mine.texts[3:]).any()
    assert list(others.texts) != [*public.texts[:10], *drawn]  # mixed: limits learn on the first
    none = settings.model_copy(update={"films": 0})
    assert experiment.with_films(private, public, none, stream(5, "films")) == (private, public)
    short = settings.model_copy(update={"most_words": 3})  # cut as the others are
    mine, others = experiment.with_films(private, public, short, stream(5, "films"))
    assert max(len(text.split()) for text in mine.texts[3:] + others.texts) == 3


def table(name: str) -> Embedding:
    rng = np.random.default_rng(len(name))
    words, width = (SMALL, 3) if name == "glove-6b-50d" else (LARGE, 5)
    return from_arrays(name, list(words), rng.standard_normal((len(words), width)))


def test_tables_have_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "load", table)
    both = ("mat", *WORDS[:-1])  # in the order of the large one
    for shared, name, width in zip(experiment.shared_words(None), TABLES, (3, 5), strict=True):
        assert shared.words == both and shared.dimension == width
        whole = table(name)
        assert np.array_equal(shared.vectors, whole.vectors[whole.ids(both)])
    assert [each.words for each in experiment.shared_words(4)] == [both[:4]] * 2


def test_every_run_is_embedded_for_itself(encoder: Encoder) -> None:
    texts = {
        ("tem", 3.0): [["the cat", "a dog. The fish"], ["on the mat", ""]],
        ("dp-prompt", 0.75): [["dog", "cat cat"]],
    }
    outputs = experiment.embedded(encoder, texts)
    assert [(each.mechanism, each.level) for each in outputs] == list(texts)
    for output, runs in zip(outputs, texts.values(), strict=True):
        assert output.texts == runs
        assert output.vectors.shape == (len(runs), 2, encoder.width)
        for vectors, run in zip(output.vectors, runs, strict=True):
            expected = embed(encoder, run, longest=256).mean()
            # Other processes may multiply in bfloat16, which the tests' own does not.
            np.testing.assert_allclose(vectors, expected, atol=5e-3)


def test_whether_a_candidate_lies_inside(encoder: Encoder) -> None:
    """Weights e^(eps depth / 2) by hand; at a large epsilon it is whether there is one at all."""
    texts = reviews().texts
    public = embed(encoder, texts[40:80])
    documents = embed(encoder, [*texts[:20], *(f"the cat {word}" for word in WORDS)])

    def first_coordinate(vectors: Any) -> Any:
        return np.asarray(vectors, dtype=np.float64)[:, :1]

    mechanism = DeepCandidate(public, first_coordinate, epsilon=1.0)
    spans = pairwise(documents.offsets.tolist())
    depths = [mechanism.depth(documents.vectors[start:end]) for start, end in spans]
    weights = [np.exp(depth / 2) for depth in depths]
    inside = [
        each[depth > 0].sum() / each.sum() for each, depth in zip(weights, depths, strict=True)
    ]
    assert 0 < np.mean(inside) < 1
    certain = [float((depth > 0).any()) for depth in depths]
    for epsilon, expected in ((1.0, inside), (1e9, certain)):
        shares = experiment.drawn_inside(mechanism.with_epsilon(epsilon), documents)
        np.testing.assert_allclose(shares, expected, atol=1e-9)


def test_guarantees_and_what_clipping_changes(generator: Generator) -> None:
    public, private = reviews().texts[:3], reviews().texts[3:6]
    limits = learn_limits(generator, public, tokens=4, seed=0)
    tight = Limits(limits.low / 2, limits.high / 2)  # so that much is clipped
    prompts = {
        ("dp-prompt", 1.5): DPPrompt(generator, temperature=1.5, tokens=4),
        ("dp-prompt-clipped", 1.5): DPPrompt(generator, temperature=1.5, tokens=4, limits=tight),
        ("dp-prompt-top-k2", 2.0): DPPrompt(
            generator, temperature=2.0, tokens=4, top_k=2, ablation=True
        ),
    }
    table = experiment.guarantees(prompts)
    assert table["setting"].tolist() == ["t1.5", "t1.5", "t2"]
    assert table["tokens"].tolist() == [4] * 3
    numbers = table[["token_tight", "token_paper", "tight", "paper"]].to_numpy(dtype=float)
    losses = np.array([tight_loss(tight, 1.5), paper_loss(tight, 1.5)])
    np.testing.assert_allclose(numbers[1], [*losses, *(4 * losses)])
    assert np.isinf(numbers[[0, 2]]).all() and 0 < losses[0] < losses[1]
    assert table["withdrawn"].ne("").tolist() == [True, False, True]

    watch, steps = experiment.ClippingWatch(prompts), []

    def both(which: int, scores: Any, documents: IntArray) -> None:
        watch(which, scores, documents)
        if which == 1:
            steps.append((documents, *[*prompts.values()][1].moved_by_clipping(scores)))

    sanitize_at([*prompts.values()], private, seed=0, batch=5, watch=both)
    document, *shares = (np.concatenate(each) for each in zip(*steps, strict=True))
    seen = watch.tokens()
    assert [*seen] == [("dp-prompt-clipped", 1.5)]  # the one that has limits
    halves = [  # as of two chunks
        {key: [each[part] for each in tokens] for key, tokens in seen.items()}
        for part in (slice(0, 4), slice(4, None))
    ]
    traces = "logits_clipped", "probability_moved"
    rows = experiment.clipping_shares(halves)
    for row, trace, share in zip(rows, traces, shares, strict=True):
        named = row["mechanism"], row["setting"], row["trace"]
        assert named == ("dp-prompt-clipped", "t1.5", trace)
        assert Estimate.from_row(row) == clustered_mean(share, document, bounds=(0.0, 1.0))
        assert set(document) == {0, 1, 2} and 0 < row["value"] < 1


def test_chunks_and_runs_are_put_together_in_order() -> None:
    points = [{"number": number, "first": first} for number in (0, 1) for first in (0, 2)]
    chunks = [
        {("a", 1.0): ["a0", "a1"], ("b", 2.0): ["b0", "b1"]},
        {("a", 1.0): ["a2"], ("b", 2.0): ["b2"]},
        {("a", 1.0): ["A0", "A1"]},
        {("a", 1.0): ["A2"]},
    ]
    assert experiment.runs_of(chunks, points) == {
        ("a", 1.0): [["a0", "a1", "a2"], ["A0", "A1", "A2"]],
        ("b", 2.0): [["b0", "b1", "b2"]],
    }


NUMBER = np.arange(36)
AUTHOR, SENTIMENT, PART = NUMBER % 3, NUMBER // 3 % 2, NUMBER // 6 % 3


@pytest.mark.parametrize("asked", [36, 20])
def test_every_document_is_asked_about_once(asked: int) -> None:
    """Who is asked for nothing is in no fold; a tenth of 24 is 2, but validation needs all."""
    labels = np.where(asked > NUMBER, AUTHOR, NEITHER)
    made = experiment.folds(labels, PART, 3)
    assert [fold.number for fold in made] == [0, 1, 2]
    for fold in made:
        assert (PART[fold.test] == fold.number).all()
        whole = np.concatenate([fold.train, fold.validation, fold.test])
        assert sorted(whole) == list(range(asked))  # none in two of them
        assert all((np.diff(rows) > 0).all() for rows in (fold.train, fold.validation, fold.test))
        assert np.bincount(AUTHOR[fold.validation]).tolist() == [1, 1, 1]


def test_folds_have_a_tenth_for_validation_and_a_seed() -> None:
    number = np.arange(300)
    made = [experiment.folds(number % 10, number // 10 % 3, seed) for seed in (1, 1, 2)]
    for one, same, other in zip(*made, strict=True):
        assert np.bincount(one.validation % 10, minlength=10).tolist() == [2] * 10
        assert one.validation.tolist() == same.validation.tolist() != other.validation.tolist()


def test_answers_of_parts_are_pooled_and_kept_by_document() -> None:
    parts = experiment.folds(AUTHOR, PART, 3)[:2]
    answers = np.where(NUMBER % 5 == 0, (AUTHOR + 1) % 3, AUTHOR)
    rows = np.sort(np.concatenate([fold.test for fold in parts]))
    score = experiment.macro_f1_of([answers[fold.test] for fold in parts], parts, AUTHOR, 3)
    truth, guess = AUTHOR[rows], answers[rows]
    assert score["value"] == pytest.approx(f1_score(truth, guess, average="macro"))
    assert score["low"] < score["value"] < score["high"] and score["n"] == len(rows)
    influence = score["influence"]
    assert influence.sample == experiment.DOCUMENTS and influence.unit.tolist() == rows.tolist()
    by_document: Any = {"document": rows, "sample": experiment.DOCUMENTS}
    expected = f1_estimate(truth, guess, 3, np.random.default_rng(0), **by_document).influence
    assert expected is not None
    np.testing.assert_allclose(influence.effect, expected.effect)


CODES = {"clean plain": 0, "madlib eps8": 1, "truncated-laplace eps5": 2, "dp-prompt t0.75": 3}


def coded(name: str, runs: int) -> Output:
    """Whose vectors say which output, run and document they are, and whose texts say so too."""
    mechanism, setting = name.split()
    rows = [[(CODES[name], run, number) for number in range(36)] for run in range(runs)]
    texts = [[" ".join(map(str, row)) for row in run] for run in rows]
    level = float(setting.lstrip("epst")) if setting != "plain" else 0.0
    vectors = np.array(rows, dtype=float)
    return Output(mechanism, level, [] if "laplace" in mechanism else texts, vectors)


def triples(seen: Any) -> IntArray:
    rows = seen if isinstance(seen, np.ndarray) else [text.split() for text in seen]
    return np.array(rows).astype(float).astype(np.int64)


def test_attackers_learn_from_clean_text_from_an_output_from_both_or_from_every_run() -> None:
    """And each is asked about every document once, whose answers are pooled."""
    outputs = {
        name: coded(name, 3 if name.startswith(("madlib", "trunc")) else 1) for name in CODES
    }
    labels, calls = {"author": AUTHOR, "sentiment": SENTIMENT}, []

    def attack(training: Any, tests: Any, *, classes: int, seed: int) -> list[IntArray]:
        train, truth = training.train, training.train_labels
        validation, held = training.validation, training.validation_labels
        learned = np.concatenate([triples(train), triples(validation)])
        asked = [triples(each) for each in tests]
        calls.append((learned, np.concatenate([truth, held]), asked, classes, seed))
        target = AUTHOR if classes == 3 else SENTIMENT
        return [
            np.where(each[:, 2] % (2 + each[0, 0]) == 0, 0, target[each[:, 2]]) for each in asked
        ]

    folds = {target: experiment.folds(truth, PART, 3) for target, truth in labels.items()}
    space = {
        "outputs": outputs, "labels": labels, "folds": folds,
        "classes": {"author": 3, "sentiment": 2}, "experiment": experiment,
        "attackers": dict.fromkeys(("embedding", "text", "tuned"), attack),
        "asked_about": {"embedding": [*CODES], "tuned": ["clean plain", "dp-prompt t0.75"]},
        "private": SimpleNamespace(texts=outputs["clean plain"].texts[0]),
        "clean": outputs["clean plain"], "stream": stream, "seed": 3,
    }  # fmt: skip
    attacked = function_of(NOTEBOOK, "attacked", **space)
    clean, madlib, tuned = "clean plain", "madlib eps8", ["clean plain", "dp-prompt t0.75"]
    for access, target, kind, learned, asked, parts in (
        ("embedding", "author", "static", clean, [*CODES], folds["author"]),
        ("embedding", "sentiment", "adaptive", madlib, [madlib], folds["sentiment"]),
        ("embedding", "author", "informed", madlib, [madlib], folds["author"]),
        ("text", "author", "adaptive", madlib, [madlib], folds["author"]),
        ("text", "sentiment", "informed", madlib, [madlib], folds["sentiment"]),
        ("text", "author", "rehearsed", madlib, [madlib], folds["author"]),
        ("tuned", "author", "static", clean, tuned, folds["author"][:1]),
    ):
        calls.clear()
        rows = attacked(access, target, learned, kind)
        truth = labels[target]
        for fold, (seen, taught, tests, classes, _) in zip(parts, calls, strict=True):
            known = [learned, clean] if kind == "informed" else [learned]
            views = [(CODES[name], fold.number % len(outputs[name].vectors)) for name in known]
            if kind == "rehearsed":  # every run, beside clean text
                views = [(CODES[clean], 0), *((CODES[learned], number) for number in range(3))]
            taught_rows = [(*view, row) for rows in (fold.train, fold.validation)
                           for view in views for row in rows]  # fmt: skip
            assert [*map(tuple, seen)] == taught_rows
            assert taught.tolist() == truth[seen[:, 2]].tolist() and classes == truth.max() + 1
            for name, test in zip(asked, tests, strict=True):
                again = fold.number % len(outputs[name].vectors)
                assert {*map(tuple, test[:, :2])} == {(CODES[name], again)}
                assert test[:, 2].tolist() == fold.test.tolist()
        assert len({seed for *_, seed in calls}) == len(parts)
        documents = np.concatenate([fold.test for fold in parts])
        for name, row in zip(asked, rows, strict=True):
            assert experiment.name_of(row["mechanism"], row["level"]) == name
            assert (row["target"], row["access"]) == (target, access)
            assert row["attacker"] == kind
            guess = np.where(documents % (2 + CODES[name]) == 0, 0, truth[documents])
            assert row["value"] == pytest.approx(f1_score(truth[documents], guess, average="macro"))
            assert row["n"] == len(documents)
