"""Documents, mechanisms and outputs of notebook 04, with tiny models and tables of a few words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_generators import tiny_generator
from tiny_models import tiny_encoder

from textpriv import corpora, embeddings, generators, models, profiles
from textpriv.authors import by_rating, quoting
from textpriv.corpora import Documents
from textpriv.embeddings import Embedding, from_arrays
from textpriv.experiments import dp_prompt as experiment
from textpriv.experiments.dp_prompt import Material, Output, Sizes
from textpriv.generators import Generator
from textpriv.mechanisms import TEM, Madlib, Mahalanobis
from textpriv.mechanisms.prompt import Limits, learn_limits, paper_loss, tight_loss
from textpriv.mechanisms.sentences import (
    Box,
    DeepCandidate,
    TruncatedLaplace,
    learn_recoder,
)
from textpriv.models import Encoder
from textpriv.seeds import stream as named_stream
from textpriv.splits import shares_ngram
from textpriv.tokens import UNKNOWN, Tokenizer
from textpriv.vectors import embed

IntArray = NDArray[np.int64]

WORDS = ("cat", "dog", "fish", "the", "sat", "ran", "on", "mat")
SMALL = (*WORDS, "only", "small")
LARGE = ("mat", "huge", *WORDS[:-1])  # another order, another word
MANY, FEW = ("u7", "u2", "u5"), ("a1", "z9")  # authors under attack, and others
SIZES = Sizes(
    corpus="rented-clothes",
    encoder="tiny",
    generator="tiny",
    authors=3,
    documents=26,  # 8 of each author
    fewest_words=6,
    most_words=9,
    runs=3,
    public=30,
    word_epsilons=(0.1, 1e6),
    large_epsilons=(2.0,),
    whole_epsilons=(1e6,),
    sentence_epsilons=(1.0, 1e9),
    clusters=2,
    temperatures=(1.5, 3.0),
    clipped_temperatures=(1.5,),
    top_k=(2, 5),
    top_k_temperatures=(1.5,),
    tokens=4,
    limit_documents=3,
    batch=5,
    tuned=(),
    ledger=(),
    risks=(),
    repeats=(1,),
    repeated_epsilon=1.0,
    generated_repeats=1,
    repeated_temperature=1.0,
    compared=2,
    example_documents=1,
)


def stream(*keys: Any) -> np.random.Generator:
    return named_stream(5, *keys)


@pytest.fixture(scope="module", autouse=True)
def exact() -> Iterator[None]:
    """float32 throughout, so that two ways to the same number agree."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (models, generators):
            patch.setattr(module, "bfloat16_is_fast", lambda _: False)
        yield


@pytest.fixture(scope="module")
def encoder(exact: None, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"), longest=256)


@pytest.fixture(scope="module")
def generator(exact: None, tmp_path_factory: pytest.TempPathFactory) -> Generator:
    return tiny_generator(tmp_path_factory.mktemp("generator"), longest=256)


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


def table(name: str) -> Embedding:
    rng = np.random.default_rng(len(name))
    words, width = (SMALL, 3) if name == "glove-6b-50d" else (LARGE, 5)
    return from_arrays(name, list(words), rng.standard_normal((len(words), width)))


def gathered(
    encoder: Encoder, sizes: Sizes, seed: int = 5, documents: Documents | None = None
) -> Material:
    known = reviews() if documents is None else documents
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpora, "load", lambda name: {known.name: known}[name])
        patch.setattr(embeddings, "load", lambda name: {each: table(each) for each in TABLES}[name])
        return experiment.gather(encoder, sizes, lambda *keys: named_stream(seed, *keys))


TABLES = ("glove-6b-50d", "glove-840b-300d-34k")


@pytest.fixture(scope="module")
def material(encoder: Encoder) -> Material:
    return gathered(encoder, SIZES)


def close(found: Any, expected: Any) -> None:
    """But for what a vector owes to its batch."""
    np.testing.assert_allclose(found, expected, atol=1e-5)


# --- Sizes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["smoke", "default", "paper"])
def test_what_a_profile_names_is_there(profile: str) -> None:
    sizes = profiles.load(profile, "04_dp_prompt", Sizes)
    assert sizes.documents // sizes.authors >= 2 * sizes.runs
    words = [*experiment.WORD_LEVEL, *experiment.SENTENCE_LEVEL]
    levels = [*([sizes.word_epsilons] * 3), *([sizes.sentence_epsilons] * 2)]
    known = {"clean plain"} | {
        f"{name} eps{epsilon:g}"
        for name, epsilons in zip(words, levels, strict=True)
        for epsilon in epsilons
    }
    known |= {f"{name}-300d eps{each:g}" for name in words[:3] for each in sizes.large_epsilons}
    known |= {f"{experiment.WHOLE} eps{each:g}" for each in sizes.whole_epsilons}
    known |= {f"dp-prompt t{each:g}" for each in sizes.temperatures}
    known |= {f"dp-prompt-clipped t{each:g}" for each in sizes.clipped_temperatures}
    assert {*sizes.tuned, *sizes.ledger} <= known
    assert f"madlib eps{sizes.repeated_epsilon:g}" in known
    assert f"dp-prompt-clipped t{sizes.repeated_temperature:g}" in known
    # A cut is compared with the whole at the same temperature.
    assert set(sizes.top_k_temperatures) <= set(sizes.temperatures)
    assert min(sizes.repeats) <= sizes.generated_repeats <= max(sizes.repeats)


# --- Material -----------------------------------------------------------------------------------


def test_authors_are_equally_frequent_and_documents_are_cut(material: Material) -> None:
    private, whole = material.private, reviews()
    author, sentiment = material.labels("author"), material.labels("sentiment")
    assert np.bincount(author).tolist() == [8, 8, 8]
    names = np.asarray(private.columns["user_id"])
    assert set(names) == set(MANY) and len(set(zip(names, author, strict=True))) == 3
    rows = []
    for text in private.texts:
        assert len(text.split()) == SIZES.most_words
        (row,) = (n for n, each in enumerate(whole.texts) if each.startswith(text + " ")
                  and whole.columns["user_id"][n] in MANY)  # fmt: skip
        rows.append(row)
    assert rows == sorted(rows)
    assert names.tolist() == whole.columns["user_id"][rows].tolist()
    assert sentiment.tolist() == by_rating(whole.columns["rating"])[rows].tolist()
    assert set(sentiment) == {0, 1}
    assert author.dtype == sentiment.dtype == np.int64


def test_which_documents_are_chosen_is_random(encoder: Encoder, material: Material) -> None:
    again, other = gathered(encoder, SIZES), gathered(encoder, SIZES, seed=6)
    assert again.private.texts == material.private.texts
    assert again.public.texts == material.public.texts
    assert (again.part == material.part).all()
    assert other.private.texts != material.private.texts
    assert other.public.texts != material.public.texts


def test_public_documents_quote_nothing(material: Material, encoder: Encoder) -> None:
    public, whole = material.public, reviews()
    assert set(public.columns["user_id"]) == set(FEW)
    assert not shares_ngram(public.texts, material.private.texts).any()
    assert max(len(text.split()) for text in public.texts) == SIZES.most_words
    # All others are looked at: what is missing are those that quote a chosen document.
    others = [text for text, user in zip(whole.texts, whole.columns["user_id"], strict=True)
              if user in FEW]  # fmt: skip
    cut = [" ".join(text.split()[: SIZES.most_words]) for text in others]
    quoting = shares_ngram(cut, material.private.texts)
    assert 0 < quoting.sum() <= 10
    kept = {text for text, is_quoting in zip(cut, quoting, strict=True) if not is_quoting}
    assert set(public.texts) <= kept and len(public) == SIZES.public < len(kept)
    few = gathered(encoder, SIZES.model_copy(update={"public": 12}))
    assert len(few.public) == 12
    assert len(few.public_vectors) == 12


@pytest.mark.parametrize("has_others", [True, False])
def test_a_corpus_with_labels(encoder: Encoder, has_others: bool) -> None:
    """Of named authors and labels; where it has no other authors, public are those not drawn."""
    users, texts = np.asarray(reviews().columns["user_id"]), reviews().texts
    rows = np.flatnonzero(np.isin(users, MANY) | has_others)
    number, label = (
        np.unique(users[rows], return_inverse=True)[1] + 40,
        np.arange(len(rows)) // 2 % 2,
    )
    whole = Documents(
        "imdb-authors", tuple(texts[row] for row in rows), {"author": number, "label": label}
    )
    sizes = SIZES.model_copy(update={"corpus": "imdb-authors"})
    found = gathered(encoder, sizes, documents=whole)
    drawn = []
    for text in found.private.texts:
        (row,) = (n for n, each in enumerate(whole.texts) if each.startswith(text + " ")
                  and users[rows][n] in MANY)  # fmt: skip
        drawn.append(row)
    assert found.labels("sentiment").tolist() == label[drawn].tolist()
    assert len(set(zip(found.labels("author"), number[drawn], strict=True))) == 3
    assert np.bincount(found.labels("author")).tolist() == [8, 8, 8]
    public = set(found.public.columns["author"])
    mine = set(number[np.isin(users[rows], MANY)])
    assert not public & mine if has_others else public == mine
    assert len(found.public) == SIZES.public
    assert not shares_ngram(found.public.texts, found.private.texts).any()


def test_vectors_are_those_of_the_cut_documents(material: Material, encoder: Encoder) -> None:
    for vectors, documents in (
        (material.vectors, material.private),
        (material.public_vectors, material.public),
    ):
        expected = embed(encoder, documents.texts, longest=256)
        assert vectors.offsets.tolist() == expected.offsets.tolist()
        close(vectors.vectors, expected.vectors)
    assert set(material.vectors.sizes) == {2}  # sentences


def test_tables_have_the_same_words(material: Material, encoder: Encoder) -> None:
    both = ("mat", *WORDS[:-1])  # in the order of the large one
    assert material.small.words == material.large.words == both
    assert (material.small.dimension, material.large.dimension) == (3, 5)
    for found, name in zip((material.small, material.large), TABLES, strict=True):
        whole = table(name)
        assert np.array_equal(found.vectors, whole.vectors[whole.ids(both)])
    assert material.whole.words == SMALL
    few = gathered(encoder, SIZES.model_copy(update={"vocabulary": 4}))
    assert few.small.words == few.large.words == few.whole.words == both[:4]


def test_described(material: Material) -> None:
    found = experiment.described(material)
    assert found.index.tolist() == [0, 1, 2]
    quotes = quoting(material.private, material.part)
    column = found.pop(("quoting", "eight words"))
    assert column.tolist() == [quotes[material.labels("author") == who].sum() for who in range(3)]
    assert found.to_numpy().sum() == 24
    for (part, sentiment), column in found.items():
        inside = (material.part == part) & (
            material.labels("sentiment") == (sentiment == "positive")
        )
        counts = np.bincount(material.labels("author")[inside], minlength=3)
        assert column.tolist() == counts.tolist()


# --- Outputs ------------------------------------------------------------------------------------


def test_labels() -> None:
    nothing: Any = ()
    assert Output("tem", 3.0, "eps", nothing, nothing).label == "tem eps3"
    assert Output("dp-prompt", 0.75, "t", nothing, nothing).label == "dp-prompt t0.75"
    assert Output("clean", 0.0, "", nothing, nothing).label == "clean plain"
    found = Output("tem", 3.0, "eps", nothing, nothing)
    assert np.isnan([found.epsilon, found.epsilon_paper]).all()


def test_clean(material: Material) -> None:
    found = experiment.clean(material)
    assert found.label == "clean plain" and found.texts == (material.private.texts,)
    (vectors,) = found.vectors
    assert np.array_equal(vectors, material.vectors.mean())


def test_runs_are_embedded_each_for_itself(encoder: Encoder) -> None:
    runs = [["the cat", "a dog. The fish"], ["on the mat"], ["dog", "cat", "cat"]]
    found = experiment.embedded(encoder, runs)
    assert [len(each) for each in found] == [2, 1, 3]
    for vectors, texts in zip(found, runs, strict=True):
        close(vectors, embed(encoder, texts, longest=256).mean())


@pytest.fixture(scope="module")
def words(material: Material) -> list[Output]:
    return experiment.word_level(material, SIZES, stream)


def test_word_level_settings(words: list[Output]) -> None:
    names = ("madlib", "mahalanobis", "tem")
    expected = [(name, epsilon, 3) for name in names for epsilon in (0.1, 1e6)]
    expected += [(f"{name}-300d", 2.0, 3) for name in names]
    expected += [("madlib-whole", 1e6, 1)]
    assert [(each.mechanism, each.level, len(each.texts)) for each in words] == expected
    for each in words:
        assert each.unit == "eps" and len(each.vectors) == len(each.texts)
        assert np.isnan(each.epsilon) and np.isnan(each.epsilon_paper)


def test_word_level_texts_and_vectors_belong_together(
    words: list[Output], material: Material, encoder: Encoder
) -> None:
    counts = [len(each) for each in Tokenizer(WORDS).encode(material.private.texts)]
    for output in words:
        for texts, vectors in zip(output.texts, output.vectors, strict=True):
            assert [len(text.split()) for text in texts] == counts
            close(vectors, embed(encoder, texts, longest=256).mean())
        if output.level < 1e6:
            assert len(set(output.texts)) == len(output.texts)  # every run draws anew


def kept(texts: tuple[str, ...], others: tuple[str, ...]) -> float:
    """Share of words that are the same in both."""
    one, other = (" ".join(each).split() for each in (texts, others))
    return float(np.mean([new == old for new, old in zip(one, other, strict=True)]))


def test_words_stay_where_there_is_no_noise(words: list[Output], material: Material) -> None:
    expected = tuple(Tokenizer(WORDS).words_of(material.private.texts))
    still = {each.mechanism: each.texts for each in words if each.level == 1e6}
    assert len(still) == 4
    for name, runs in still.items():
        # TEM's event outside its radius has a probability that no epsilon changes.
        assert all(kept(texts, expected) >= (0.95 if name == "tem" else 1) for texts in runs)
    # Elsewhere many words are others, and each mechanism has its own.
    noisy = {each.texts[0] for each in words if each.level != 1e6}
    assert len(noisy) == 6
    assert max(kept(texts, expected) for texts in noisy) < 0.9


def test_what_is_swept(material: Material, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables, numbers of runs, epsilons and a stream of its own for each mechanism."""
    asked: list[tuple[Any, ...]] = []

    def fake(mechanism: Any, ids: IntArray, epsilons: Any, rng: Any) -> IntArray:
        asked.append((type(mechanism), mechanism.embedding, len(ids), tuple(epsilons), rng))
        return np.tile(np.where(ids == UNKNOWN, 0, ids), (len(epsilons), 1))

    monkeypatch.setattr(experiment, "sweep", fake)

    def keys(*given: Any) -> Any:
        return given

    sizes = SIZES.model_copy(update={"whole_epsilons": ()})
    found = experiment.word_level(material, sizes, keys)
    tokens = len(Tokenizer(WORDS).encode(material.private.texts).ids)
    kinds = (Madlib, Mahalanobis, TEM)
    names = ("madlib", "mahalanobis", "tem")
    assert asked == [
        (kind, given, 3 * tokens, epsilons, ("words", name + suffix))
        for given, epsilons, suffix in (
            (material.small, (0.1, 1e6), ""),
            (material.large, (2.0,), "-300d"),
        )
        for kind, name in zip(kinds, names, strict=True)
    ]
    assert "madlib-whole" not in {each.mechanism for each in found}
    asked.clear()
    experiment.word_level(material, SIZES, keys)
    assert asked[-1][:4] == (Madlib, material.whole, tokens, (1e6,))


@pytest.fixture(scope="module")
def sentences(material: Material) -> list[Output]:
    return experiment.sentence_level(material, SIZES, stream)


def test_sentence_level_settings(sentences: list[Output]) -> None:
    assert [(each.mechanism, each.level, each.unit) for each in sentences] == [
        ("truncated-laplace", 1.0, "eps"),
        ("truncated-laplace", 1e9, "eps"),
        ("deep-candidate", 1.0, "eps"),
        ("deep-candidate", 1e9, "eps"),
    ]
    assert [len(each.texts) for each in sentences] == [0, 0, 3, 3]
    for each in sentences:
        assert len(each.vectors) == 3
        # Runs differ.
        assert np.abs(each.vectors[0] - each.vectors[1]).max() > 0


def test_laplace_noise_is_added_to_the_clipped_mean(
    sentences: list[Output], material: Material
) -> None:
    box = Box.learn(material.public_vectors)
    mechanism = TruncatedLaplace(box, epsilon=1e9)
    mean = mechanism.clipped_mean(material.vectors)
    weak, strong = sentences[:2]
    for vectors in strong.vectors:
        close(vectors, mean)
    scale = mechanism.with_epsilon(1.0).scale(material.vectors)
    noise = np.array([vectors - mean for vectors in weak.vectors]) / scale
    # |Laplace| is exponential with mean and deviation 1: six deviations of the mean of n.
    assert np.abs(noise).mean() == pytest.approx(1, abs=6 / np.sqrt(noise.size))


def test_deep_candidates_are_public_documents(sentences: list[Output], material: Material) -> None:
    """Texts as they are, vectors as the recoder sees the mean of their sentences."""
    public, seed = material.public, int(stream("recoder").integers(2**31))
    recoder = learn_recoder(material.public_vectors, clusters=SIZES.clusters, seed=seed)
    recoded = recoder(material.public_vectors.mean())
    chosen = set()
    for output in sentences[2:]:
        for texts, vectors in zip(output.texts, output.vectors, strict=True):
            assert len(texts) == len(material.private)
            rows = [public.texts.index(text) for text in texts]
            close(vectors, recoded[rows])
            chosen |= set(rows)
    assert len(chosen) > 10


def test_whether_a_candidate_lies_inside(sentences: list[Output], material: Material) -> None:
    """Weights e^(eps depth / 2) by hand; at a large epsilon it is whether there is one at all."""
    seed = int(stream("recoder").integers(2**31))
    recoder = learn_recoder(material.public_vectors, clusters=SIZES.clusters, seed=seed)
    candidate = DeepCandidate(material.public_vectors, recoder, epsilon=1, seed=seed)
    spans = pairwise(material.vectors.offsets.tolist())
    depths = [candidate.depth(material.vectors.vectors[start:end]) for start, end in spans]
    for output in sentences[2:]:
        (trace,) = output.traces.values()
        assert trace.document.tolist() == list(range(len(depths)))
        expected = [
            float((depth > 0).any()) if output.level > 1
            else np.exp(depth / 2)[depth > 0].sum() / np.exp(depth / 2).sum()
            for depth in depths
        ]  # fmt: skip
        np.testing.assert_allclose(trace.value, expected, atol=1e-9)
    assert not any(each.traces for each in sentences[:2])


def test_every_run_has_its_epsilon_and_its_stream(
    material: Material, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, float]] = []
    keys: list[tuple[Any, ...]] = []
    for kind in (TruncatedLaplace, DeepCandidate):

        def sanitize(self: Any, vectors: Any, rng: Any, own: Any = kind.sanitize) -> Any:
            asked.append((self.name, self.epsilon))
            return own(self, vectors, rng)

        monkeypatch.setattr(kind, "sanitize", sanitize)

    def named(*given: Any) -> np.random.Generator:
        keys.append(given)
        return stream(*given)

    monkeypatch.setattr(experiment, "learn_recoder", lambda *_, **__: as_they_are)
    experiment.sentence_level(material, SIZES, named)
    names = ("truncated-laplace", "deep-candidate")
    assert asked == [(name, each) for name in names for each in (1.0, 1e9) for _ in range(3)]
    assert len(set(keys)) == len(keys) == 1 + len(asked)


def as_they_are(vectors: Any) -> Any:
    return np.asarray(vectors, dtype=np.float64)


# --- DP-Prompt ----------------------------------------------------------------------------------


def test_limits_are_learned_on_public_documents(generator: Generator, material: Material) -> None:
    found = experiment.limits_of(generator, material, SIZES, stream)
    seed = int(stream("limits").integers(2**31))
    options: dict[str, Any] = {"tokens": 4, "batch": 5, "seed": seed}
    expected = learn_limits(generator, material.public.texts[:3], **options)
    assert found.digest == expected.digest
    assert found.digest != learn_limits(generator, material.public.texts[:4], **options).digest
    assert len(np.unique(found.high - found.low)) > 10  # one pair per token id


@pytest.fixture(scope="module")
def limits(generator: Generator, material: Material) -> Limits:
    return experiment.limits_of(generator, material, SIZES, stream)


def test_prompts(generator: Generator, limits: Limits) -> None:
    found = experiment.prompts(generator, limits, SIZES)
    assert [(name, m.temperature, m.limits, m.top_k) for name, m in found] == [
        ("dp-prompt", 1.5, None, None),
        ("dp-prompt", 3.0, None, None),
        ("dp-prompt-clipped", 1.5, limits, None),
        ("dp-prompt-top-k2", 1.5, None, 2),
        ("dp-prompt-top-k5", 1.5, None, 5),
    ]
    assert {m.tokens for _, m in found} == {4}
    assert {m.generator for _, m in found} == {generator}


def test_guarantees(generator: Generator, limits: Limits) -> None:
    table = experiment.guarantees(experiment.prompts(generator, limits, SIZES))
    assert list(table.columns) == [
        *("mechanism", "setting", "temperature", "tokens", "token_tight", "token_paper"),
        *("tight", "paper", "withdrawn"),
    ]
    assert table["setting"].tolist() == ["t1.5", "t3", "t1.5", "t1.5", "t1.5"]
    assert (table["tokens"] == 4).all()
    tight, paper = tight_loss(limits, 1.5), paper_loss(limits, 1.5)
    row = table.iloc[2]
    assert row["withdrawn"] == "" and row["temperature"] == 1.5
    assert (row["token_tight"], row["token_paper"]) == pytest.approx((tight, paper))
    assert (row["tight"], row["paper"]) == pytest.approx((4 * tight, 4 * paper))
    assert 0 < tight < paper < np.inf
    rest = table.drop(index=2)
    numbers = rest[["token_tight", "token_paper", "tight", "paper"]].to_numpy()
    assert np.isinf(numbers).all()
    why = rest["withdrawn"].tolist()
    assert ["not clipped" in each for each in why] == [True, True, False, False]
    assert [each.startswith("top_k = ") for each in why] == [False, False, True, True]


def test_prompted(generator: Generator, limits: Limits, material: Material) -> None:
    mechanisms = experiment.prompts(generator, limits, SIZES)
    found = experiment.prompted(mechanisms, material, SIZES, stream)
    seed = int(stream("prompt").integers(2**31))
    assert len(found) == len(mechanisms)
    for output, (name, mechanism) in zip(found, mechanisms, strict=True):
        assert (output.mechanism, output.level, output.unit) == (name, mechanism.temperature, "t")
        (texts,), (vectors,) = output.texts, output.vectors
        assert list(texts) == mechanism.sanitize(material.private.texts, seed=seed)
        close(vectors, embed(material.encoder, texts, longest=256).mean())
        guarantee = mechanism.guarantee
        assert output.epsilon == guarantee.epsilon
        assert output.epsilon_paper == guarantee.epsilon_paper
    assert len({output.texts for output in found}) == len(found)
    bounded = [np.isfinite(output.epsilon) for output in found]
    assert bounded == [False, False, True, False, False]
    # What clipping changed is known where there are limits, of every document.
    assert [sorted(output.traces) for output in found] == [
        ["logits_clipped", "probability_moved"] if each else [] for each in bounded
    ]
    for trace in found[2].traces.values():
        assert set(trace.document) == set(range(len(material.private)))
        assert ((trace.value >= 0) & (trace.value <= 1)).all()


# --- Again and again ----------------------------------------------------------------------------

ROWS = np.array([20, 3, 11])


def test_words_again(material: Material, encoder: Encoder) -> None:
    rng = np.random.default_rng
    still = experiment.words_again(material, 1e9, ROWS, 2, rng(0))
    texts = Tokenizer(WORDS).words_of([material.private.texts[row] for row in ROWS.tolist()])
    assert len(still) == 2
    for vectors in still:
        close(vectors, embed(encoder, texts, longest=256).mean())
    noisy = experiment.words_again(material, 0.1, ROWS, 4, rng(0))
    assert [each.shape for each in noisy] == [(3, encoder.width)] * 4
    for first in range(4):
        for second in range(first):
            assert (np.abs(noisy[first] - noisy[second]).max(axis=1) > 1e-6).all()
    again = experiment.words_again(material, 0.1, ROWS, 4, rng(0))
    for one, same in zip(noisy, again, strict=True):
        np.testing.assert_array_equal(one, same)


def test_prompts_again(material: Material, encoder: Encoder) -> None:
    asked: list[tuple[Any, ...]] = []

    def sanitize(texts: Any, *, seed: int, batch: int, progress: bool) -> list[str]:
        asked.append((list(texts), seed, batch))
        return [f"{text} {WORDS[number // 3]}" for number, text in enumerate(texts)]

    mechanism: Any = SimpleNamespace(sanitize=sanitize)
    found = experiment.prompts_again(mechanism, material, ROWS, 4, 7, np.random.default_rng(2))
    given = [material.private.texts[row] for row in ROWS.tolist()]
    assert asked == [(given * 4, int(np.random.default_rng(2).integers(2**31)), 7)]
    assert len(found) == 4
    for number, vectors in enumerate(found):
        texts = [f"{text} {WORDS[number]}" for text in given]
        close(vectors, embed(encoder, texts, longest=256).mean())


def test_paraphrases_of_one_document_differ(
    generator: Generator, limits: Limits, material: Material
) -> None:
    """As many as are asked for, each drawn for itself."""
    _, mechanism = experiment.prompts(generator, limits, SIZES)[2]
    rng = np.random.default_rng(2)
    found = np.array(experiment.prompts_again(mechanism, material, ROWS, 5, 8, rng))
    assert found.shape == (5, 3, material.encoder.width)
    for document in range(3):
        assert len(np.unique(found[:, document].round(4), axis=0)) > 1
