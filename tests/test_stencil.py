"""Stencils: weights by hand, rows that sum to 1, a loop per token, known outputs, bad input.

`plain_weights` and `plain_distances` write the method a second time, one token after the other in
float64. Texts are strings of one letter per token: small letters are words, "S" is a special
token, "?" and "!" are tokens without an id.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from helpers import FloatArray, ids, refused
from hypothesis import given
from hypothesis import strategies as st

from textpriv.data.tokens import KEPT, UNKNOWN, Corpus
from textpriv.errors import InvalidInput
from textpriv.mechanisms import stencil as module
from textpriv.mechanisms.stencil import Measure, Stencil, TokenTable

both_forms = pytest.mark.parametrize("punctuated", [False, True])
both_measures = pytest.mark.parametrize("measure", ["cosine", "euclidean"])

LETTERS = "Sabcd"  # id 0 is special
NO_ID = {"?": UNKNOWN, "!": KEPT}


def corpus(*texts: str) -> Corpus:
    letters = "".join(texts)
    numbers = [NO_ID[each] if each in NO_ID else LETTERS.index(each) for each in letters]
    kept = {place: "Anna" for place, each in enumerate(letters) if each == "!"}
    return Corpus(ids(*numbers), np.cumsum([0, *map(len, texts)]), kept)


def read(sanitized: Corpus) -> list[str]:
    names = {number: letter for letter, number in NO_ID.items()}
    letters = [names.get(i) or LETTERS[i] for i in sanitized.ids.tolist()]
    bounds = sanitized.offsets.tolist()
    return ["".join(letters[a:b]) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def random_table(size: int, *, fixed: Any = (0,), seed: int = 0, **changed: Any) -> TokenTable:
    vectors = np.random.default_rng(seed).standard_normal((size, 3))
    return TokenTable(vectors, fixed=ids(*fixed), **changed)


@st.composite
def corpora(draw: st.DrawFn, size: int = 9) -> Corpus:
    """Documents of 0 to 14 tokens, some of them without an id; ids 0 and 4 may be special."""
    number = st.integers(-2, size - 1)
    documents = draw(st.lists(st.lists(number, max_size=14), max_size=5))
    flat = [i for document in documents for i in document]
    kept = {place: "Anna" for place, i in enumerate(flat) if i == KEPT}
    return Corpus(ids(*flat), np.cumsum([0, *map(len, documents)], dtype=np.int64), kept)


windows = st.sampled_from([3, 5, 7, 9, 11])
sigmas = st.sampled_from([1e-3, 0.2, 0.6, 0.8, 1.0, 50.0])


def plain_weights(
    text: Corpus, fixed: Any, window: int, sigma: float, punctuated: bool, share: str = "equal"
) -> FloatArray:
    """Dense weights; `share` says how the missing weight is shared: "proportion" is wrong."""
    weights, half = np.zeros((len(text.ids), len(text.ids))), window // 2
    raw = [float(np.exp(-0.5 * (o / sigma) ** 2)) for o in range(-half, half + 1)]
    kernel = [value / sum(raw) for value in raw]
    for document in range(len(text)):
        first, last = (int(each) for each in text.offsets[document : document + 2])
        replaced = {p for p in range(first, last) if text.ids[p] >= 0 and text.ids[p] not in fixed}
        for place in replaced:
            near = [o for o in range(-half, half + 1) if place + o in replaced]
            if punctuated and near != [0]:
                near.remove(0)
            held = [kernel[o + half] for o in near]
            if share == "equal":
                held = [value + (1 - sum(held)) / len(near) for value in held]
            else:
                held = [value / sum(held) for value in held]
            for o, value in zip(near, held, strict=True):
                weights[place, place + o] = value
    return weights


def plain_distances(
    text: Corpus,
    table: TokenTable,
    weights: FloatArray,
    punctuated: bool,
    change: bool | None = None,
) -> dict[int, FloatArray]:
    """Of every replaced token its mixture's distances to all; inf where no answer is allowed."""
    must = not punctuated if change is None else change
    distances = {}
    for place in np.flatnonzero(weights.sum(1)).tolist():
        others = np.flatnonzero(weights[place]).tolist()
        mixture = sum(weights[place, o] * table.vectors[text.ids[o]] for o in others)
        if table.measure == "euclidean":
            row = np.linalg.norm(mixture - table.vectors, axis=1)
        else:
            lengths = np.linalg.norm(mixture) * np.linalg.norm(table.vectors, axis=1)
            row = 1 - table.vectors @ mixture / lengths
        row[table.fixed] = np.inf
        if must or (punctuated and others == [place]):
            row[text.ids[place]] = np.inf
        distances[place] = row
    return distances


def assert_nearest(sanitized: Corpus, text: Corpus, distances: dict[int, FloatArray]) -> None:
    """Every output is nearest, up to the float32 of the table; what is not replaced stays."""
    for place, output in enumerate(sanitized.ids.tolist()):
        if place in distances:
            assert distances[place][output] <= distances[place].min() + 1e-6
        else:
            assert output == text.ids[place]


@given(
    corpora(),
    st.sampled_from(["cosine", "euclidean"]),
    st.sampled_from([(), (0,), (0, 4)]),
    windows,
    sigmas,
    st.booleans(),
    st.sampled_from([None, False, True]),
    st.integers(0, 1000),
)
def test_a_stencil_is_the_loop_per_token(
    text: Corpus,
    measure: Measure,
    fixed: Any,
    window: int,
    sigma: float,
    punctuated: bool,
    change: bool | None,
    seed: int,
) -> None:
    table = random_table(9, fixed=fixed, seed=seed, measure=measure)
    stencil = Stencil(table, window=window, sigma=sigma, punctuated=punctuated, change=change)
    weights = plain_weights(text, fixed, window, sigma, punctuated)
    np.testing.assert_allclose(stencil.weights(text).toarray(), weights, rtol=0, atol=1e-12)
    sanitized = stencil.sanitize_corpus(text)
    assert_nearest(sanitized, text, plain_distances(text, table, weights, punctuated, change))
    assert sanitized.offsets.tolist() == text.offsets.tolist() and sanitized.kept == text.kept


@both_measures
@both_forms
def test_a_larger_table_is_searched_as_the_loop_does(measure: Measure, punctuated: bool) -> None:
    rng = np.random.default_rng(7)
    vectors, fixed = rng.standard_normal((5000, 3)), (0, 17, 4999)
    table = TokenTable(vectors, fixed=ids(*fixed), measure=measure)
    text = Corpus(rng.integers(0, 5000, 800), ids(0, 90, 91, 800))
    weights = plain_weights(text, fixed, 9, 0.8, punctuated)
    distances = plain_distances(text, table, weights, punctuated)
    assert len(distances) > 790
    assert_nearest(Stencil(table, punctuated=punctuated).sanitize_corpus(text), text, distances)


# Window 5 and sigma 1: 1, e^-1/2 and e^-2 over their sum of 2.483732.
C, A, B = 0.402620, 0.244201, 0.054489


@pytest.mark.parametrize(
    ("text", "row", "plain", "punctuated"),
    [
        # Inside a text nothing is missing but, in the punctuated form, the centre.
        ("aaaaa", 2, [B, A, C, A, B], [B + C / 4, A + C / 4, 0, A + C / 4, B + C / 4]),
        # At an end.
        (
            "aaaaa",
            0,
            [C + (A + B) / 3, A + (A + B) / 3, B + (A + B) / 3, 0, 0],
            [0, A + (C + A + B) / 2, B + (C + A + B) / 2, 0, 0],
        ),
        # A token alone is its own neighbour in either form.
        ("a", 0, [1], [1]),
        # A special token takes no part, wherever it stands, and has an empty row.
        (
            "aaSaa",
            1,
            [A + (A + B) / 3, C + (A + B) / 3, 0, B + (A + B) / 3, 0],
            [A + (C + A + B) / 2, 0, 0, B + (C + A + B) / 2, 0],
        ),
        ("aaSaa", 2, [0] * 5, [0] * 5),
        ("aSSSa", 0, [1, 0, 0, 0, 0], [1, 0, 0, 0, 0]),  # the other one is out of the window
        # So do tokens without an id.
        ("?a!", 1, [0, 1, 0], [0, 1, 0]),
    ],
)
def test_weights_by_hand(text: str, row: int, plain: list[float], punctuated: list[float]) -> None:
    for form, expected in ((False, plain), (True, punctuated)):
        stencil = Stencil(random_table(5), window=5, sigma=1.0, punctuated=form)
        weights = stencil.weights(corpus(text)).toarray()[row]
        np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-5)
        np.testing.assert_array_equal(weights != 0, np.array(expected) != 0)


def test_a_sharp_punctuated_window_weighs_every_neighbour_alike() -> None:
    for sigma, expected in ((1e-300, [0, 0, 1, 0, 0]), (1e300, [0.2] * 5)):  # none overflows
        kernel = Stencil(random_table(5), window=5, sigma=sigma).kernel
        np.testing.assert_allclose(kernel, expected, rtol=0, atol=1e-15)
    # All the weight is at the centre, which is left out: eight equal parts, not two halves.
    stencil = Stencil(random_table(5), window=9, sigma=0.2, punctuated=True)
    weights = stencil.weights(corpus("a" * 9)).toarray()[4]
    np.testing.assert_allclose(weights, [*[1 / 8] * 4, 0, *[1 / 8] * 4], rtol=0, atol=5e-6)
    wrong = plain_weights(corpus("a" * 9), (0,), 9, 0.2, True, "proportion")[4]
    np.testing.assert_allclose(wrong[[3, 5]], 0.5, rtol=0, atol=1e-3)


@both_forms
def test_a_proportional_share_is_another_method(punctuated: bool) -> None:
    text, stencil = corpus("abcda"), Stencil(random_table(5), window=5, punctuated=punctuated)
    weights = stencil.weights(text).toarray()
    right, wrong = (
        plain_weights(text, (0,), 5, 0.8, punctuated, share) for share in ("equal", "proportion")
    )
    np.testing.assert_allclose(weights, right, rtol=0, atol=1e-12)
    assert np.abs(wrong - right).max(1)[[0, 4]].min() > 0.08  # the ends miss most
    # It shows in the output as well.
    many, table = Corpus(np.arange(1, 201), ids(*range(0, 201, 5))), random_table(400)
    ours = Stencil(table, window=5, punctuated=punctuated).sanitize_corpus(many).ids
    differs = plain_weights(many, (0,), 5, 0.8, punctuated, "proportion")
    theirs = [row.argmin() for row in plain_distances(many, table, differs, punctuated).values()]
    assert (ours != np.array(theirs)).mean() > 0.2


# S, a, b, c, d. Between a and b lies c by direction, but far from both.
PLANE = np.array([[9.0, 9.0], [1.0, 0.0], [0.0, 1.0], [3.0, 3.0], [-1.0, -1.0]])


@pytest.mark.parametrize(
    ("measure", "punctuated", "change", "text", "output"),
    [
        # Mixtures of "ab" by window 3 and sigma 1 are (0.59, 0.41) and (0.41, 0.59).
        ("cosine", False, None, "ab", "cc"),
        ("euclidean", False, None, "ab", "ba"),  # the nearest are a and b themselves
        ("euclidean", False, False, "ab", "ab"),
        # Without the centre each is where the other was.
        ("cosine", True, None, "ab", "ba"),
        # Equal neighbours: the punctuated form may return the input, the plain one may not.
        ("euclidean", False, None, "aaa", "bbb"),
        ("cosine", True, None, "aaa", "aaa"),
        ("cosine", True, True, "aaa", "ccc"),
        # A token alone: it must differ in both forms, but where the plain one may stay.
        ("cosine", False, None, "a", "c"),
        ("cosine", True, False, "a", "c"),
        ("cosine", False, False, "a", "a"),
        # Special tokens pass, and are no answer although nearest to c.
        ("cosine", True, None, "SaS", "ScS"),
        ("euclidean", False, None, "c", "a"),
        ("cosine", False, None, "aSb", "cSc"),
        # What has no id passes too.
        ("cosine", False, None, "?a!", "?c!"),
    ],
)
def test_outputs_by_hand(
    measure: Measure, punctuated: bool, change: bool | None, text: str, output: str
) -> None:
    table = TokenTable(PLANE, fixed=ids(0), measure=measure)
    stencil = Stencil(table, window=3, sigma=1.0, punctuated=punctuated, change=change)
    assert read(stencil.sanitize_corpus(corpus(text))) == [output]


@both_measures
def test_the_nearest_tokens_of_a_point(measure: Measure) -> None:
    table = TokenTable(PLANE, fixed=ids(0), measure=measure)
    nearest, distances = table.nearest(np.array([[2.0, 1.0]]), 9)  # as many as there are
    if measure == "cosine":
        assert nearest.tolist() == [[3, 1, 2, 4]]
        cosines = np.array([3 / np.sqrt(10), 2 / np.sqrt(5), 1 / np.sqrt(5), -3 / np.sqrt(10)])
        expected = np.sqrt(2 - 2 * cosines)
    else:
        assert nearest.tolist() == [[1, 2, 3, 4]]
        expected = np.sqrt([2.0, 4.0, 5.0, 13.0])
    np.testing.assert_allclose(distances[0], expected, rtol=1e-6)


@both_forms
@pytest.mark.parametrize("tokens", [1, 2, 7, 64, 10**6])
def test_the_answer_does_not_depend_on_the_parts(
    monkeypatch: pytest.MonkeyPatch, tokens: int, punctuated: bool
) -> None:
    rng = np.random.default_rng(2)
    numbers = rng.integers(-2, 60, 300)
    kept = {int(place): "Anna" for place in np.flatnonzero(numbers == KEPT)}
    # Empty documents, first and last among them.
    bounds = np.sort(np.concatenate([[0, 0, 300, 300], rng.integers(0, 300, 40)]))
    text = Corpus(numbers, bounds, kept)
    stencil = Stencil(random_table(60, fixed=(0, 7)), punctuated=punctuated)
    expected = stencil.sanitize_corpus(text)
    monkeypatch.setattr(module, "_TOKENS", tokens)
    sanitized = stencil.sanitize_corpus(text)
    np.testing.assert_array_equal(sanitized.ids, expected.ids)
    np.testing.assert_array_equal(sanitized.offsets, bounds)
    parts = list(module._parts(text))
    assert len(parts) == 1 if tokens == 10**6 else len(parts) > 1
    np.testing.assert_array_equal(np.concatenate([where for _, where in parts]), np.arange(300))


MOST_MB = 48  # of a text of 512 tokens, beyond a text of 8; all distances in float32 are 102 MB

MEASURE = """
import numpy as np
from textpriv.mechanisms.stencil import Stencil, TokenTable
from textpriv.report.provenance import peak_mb
from textpriv.data.tokens import Corpus

rng = np.random.default_rng(0)
table = TokenTable(rng.standard_normal((50_000, 16), dtype=np.float32))
stencil = Stencil(table)
text = Corpus(rng.integers(0, 50_000, 512), np.array([0, 512]))

stencil.sanitize_corpus(Corpus(text.ids[:8], np.array([0, 8])))
before = peak_mb()
stencil.sanitize_corpus(text)
print(peak_mb() - before)
"""


def test_memory_is_bounded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < MOST_MB


def test_a_mixture_without_direction_is_refused() -> None:
    opposite = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    table = TokenTable(opposite, fixed=ids(0))
    with pytest.raises(InvalidInput, match="has length 0 and no direction; use measure='euclid"):
        Stencil(table, window=3, punctuated=True).sanitize_corpus(corpus("acb"))
    table = TokenTable(opposite, fixed=ids(0), measure="euclidean")
    sanitized = Stencil(table, window=3, punctuated=True).sanitize_corpus(corpus("acb"))
    assert read(sanitized) == ["cac"]  # all but d are as near to the middle: the lowest id


ONES, FIVE, TEXT = np.ones((3, 2)), Stencil(random_table(5)), Corpus(ids(1, 5, 2), ids(0, 3))
HOLE = np.array([[1.0, 0.0], [np.nan, 1.0], [0.0, 1.0]])
table: Any = TokenTable

test_bad_input_is_named = refused(
    (lambda: Stencil(FIVE.table, window=4), "window: got 4, expected an odd number"),
    (lambda: Stencil(FIVE.table, sigma=0), "sigma: got 0, expected a finite number > 0"),
    (lambda: table(ONES, fixed=ids(0, 1)), "fixed: leaves 1 tokens, expected at least two"),
    (lambda: table(HOLE), "vectors: 1 of 3 rows hold NaN"),
    (lambda: table(np.diag([1.0, 0.0, 1.0])), "vectors: row 1 has length 0 and no direction; use"),
    (lambda: FIVE.sanitize_corpus(TEXT), "corpus: got id 5, expected 0..4"),
)
