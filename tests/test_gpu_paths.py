"""What a GPU computes: the bounds of its first pass anywhere, and all of it where there is one."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks import gpu
from helpers import FloatArray, units
from tiny_generators import tiny_generator, write_tiny_generator
from tiny_models import tiny_encoder, write_tiny_model

from textpriv import models, study
from textpriv.data.embeddings import from_arrays
from textpriv.data.tokens import Corpus
from textpriv.mechanisms import Madlib
from textpriv.models import generators
from textpriv.models.classifiers import features
from textpriv.models.generators.sampling import draw
from textpriv.neighbors import AllRadii, ExactSearch, fused

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ("cpu", pytest.param("cuda", marks=needs_gpu))
DIRECTIONS = fused.FUSED_DIRECTIONS


def plain_maxima(
    self: fused.FusedRates,
    direction: torch.Tensor,
    factor: torch.Tensor,
    upper: torch.Tensor,
    padded: int,
) -> None:
    """What the kernel does, in three steps."""
    words, k, groups = upper.shape
    score = direction[:, :k].float() @ self.rows.float().T
    ahead = (score > 0) & (factor > 0)[:, None]
    rate = torch.where(ahead, (score * factor[:, None]).clamp_min(fused.LEAST), 0.0)
    upper[:] = rate.view(words, k, -1, self.table.group).amax(3)[:, :, :groups]


def with_kernel(table: FloatArray, device: str, group: int = 32) -> AllRadii:
    """With the kernel; on a processor with its plain form, since Triton needs a GPU."""
    search = ExactSearch(table, precision="bf16", group=group, device=device)
    radii = AllRadii(search)
    rates = fused.FusedRates(search.table)
    if device == "cpu":
        rates._launch = types.MethodType(plain_maxima, rates)  # type: ignore[method-assign]
    radii._fused = rates
    return radii


def awkward(size: int, dimension: int, scale: float = 1.0) -> FloatArray:
    """Far words, twins (the later one never wins), and words too near for float32."""
    table = np.random.default_rng(size).standard_normal((size, dimension)) * scale
    table[5] *= 20
    table[17] = table[3]
    table[40] = table[41] * (1 + 1e-6)
    return table


def true_rates(table: torch.Tensor, word: int, unit: torch.Tensor) -> torch.Tensor:
    """<u, z - x> / (|z - x|^2 / 2) in float64; 0 where z never overtakes: (k, rows)."""
    offset = table - table[word]
    rate = (unit @ offset.T) / ((offset**2).sum(1) / 2)
    rate[:, (offset == 0).all(1)] = 0.0
    return rate.clamp_min(0.0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("size", "dimension"), [(300, 2), (500, 50), (520, 300)])
def test_no_rate_is_above_its_bound_and_the_bound_is_near(
    size: int, dimension: int, device: str
) -> None:
    table = awkward(size, dimension)
    radii = with_kernel(table, device)
    made: list[torch.Tensor] = []
    assert radii._fused is not None
    upper = radii._fused.upper

    def spy(*arguments: Any) -> torch.Tensor:
        made.append(upper(*arguments))
        return made[-1]

    radii._fused.upper = spy  # type: ignore[method-assign]
    words = np.array([0, 5, 60])
    directions = units(3, 70, dimension)
    radii.first_crossing(words, directions)
    rows = torch.from_numpy(table.astype(np.float32)).double()
    (bound,) = (each.cpu().double() for each in made)
    for i, word in enumerate(words):
        rate = true_rates(rows, int(word), torch.from_numpy(directions[i]))
        padded = torch.nn.functional.pad(rate, (0, -size % 32)).view(70, -1, 32).amax(2)
        assert bound[i].shape == padded.shape
        assert (bound[i] >= padded).all()
        # Next to rates near 0 the floor is large, and too near for float32 is unknown.
        high = (padded > padded.amax(1, keepdim=True) / 2) & bound[i].isfinite()
        share = bound[i][high] / padded[high]  # bfloat16 loses 2^-9 of either factor
        assert share.median() < 1.1


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("group", [16, 128])
@pytest.mark.parametrize(
    ("size", "dimension", "scale"),
    [(300, 2, 1.0), (300, 3, 1e-12), (300, 3, 1e6), (700, 60, 1.0), (520, 300, 1.0)],
)
def test_crossings_are_the_same_by_either_first_pass(
    size: int, dimension: int, scale: float, group: int, device: str
) -> None:
    table = awkward(size, dimension, scale)
    words = np.array([0, 3, 5, 17, 40, 41, size - 1])
    directions = units(len(words), DIRECTIONS + 3, dimension)
    plain = AllRadii(ExactSearch(table, precision="fp32")).first_crossing(words, directions)
    radii = with_kernel(table, device, group)
    assert fused.fused_rates(AllRadii(ExactSearch(table, device="cpu")).table) is None
    assert radii._is_fused(DIRECTIONS) and not radii._is_fused(DIRECTIONS - 1)
    crossings = radii.first_crossing(words, directions)
    np.testing.assert_allclose(crossings[0], plain[0], rtol=1e-12)
    np.testing.assert_array_equal(crossings[1], plain[1])
    assert (crossings[0][3] == 0).all() and (crossings[1][3] == 3).all()  # the twin
    assert np.isinf(plain[0]).any() or dimension > 3


def test_few_groups_are_looked_at_again() -> None:
    table = awkward(2000, 40)
    radii = with_kernel(table, "cpu")
    looked: list[int] = []
    second = radii._candidate_rows

    def spy(own: Any, unit: Any, group: Any, pair: Any) -> Any:
        looked.append(len(group))
        return second(own, unit, group, pair)

    radii._candidate_rows = spy  # type: ignore[method-assign]
    words = np.array([0, 3, 5, 40, 41, 99])
    radii.first_crossing(words, units(6, 100, 40))
    assert sum(looked) < 3 * 600  # of 63 groups for each of 600


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("length", [1e-37, 1e-20, 1e9])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e6])
def test_directions_may_have_any_length(length: float, scale: float, device: str) -> None:
    """Rates below the normal float32 numbers count too: they are above 0."""
    table = awkward(300, 4, scale)
    words = np.array([0, 5, 60])
    directions = units(3, DIRECTIONS, 4) * length
    radii, takers = with_kernel(table, device).first_crossing(words, directions)
    rows = torch.from_numpy(table.astype(np.float32)).double()
    for i, word in enumerate(words):
        best = true_rates(rows, int(word), torch.from_numpy(directions[i])).max(1)
        np.testing.assert_allclose(radii[i], 1 / best.values, rtol=1e-9)
        wins = best.values > 0
        np.testing.assert_array_equal(takers[i][wins], best.indices[wins])


@needs_gpu
@pytest.mark.parametrize("precision", ["bf16", "fp32"])
@pytest.mark.parametrize(("size", "dimension"), [(5000, 300), (70_000, 50), (300, 3)])
def test_neighbours_are_those_of_the_processor(size: int, dimension: int, precision: Any) -> None:
    table = awkward(size, dimension)
    words = np.arange(500) % size
    queries = table[words] + np.random.default_rng(1).standard_normal((500, dimension)) / 2
    here = ExactSearch(table, precision="fp32")
    there = ExactSearch(table, precision=precision, device="cuda")
    for k in (1, 3):
        ours, theirs = there.nearest(queries, k), here.nearest(queries, k)
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-12)


@needs_gpu
@pytest.mark.parametrize("k", [1, 5, 200])
@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_crossings_are_those_of_the_processor(k: int, precision: Any) -> None:
    table = awkward(20_000, 300)
    words = np.array([0, 3, 5, 17, 40, 41, 19_999])
    directions = units(len(words), k, 300)
    here = AllRadii(ExactSearch(table, precision="fp32")).first_crossing(words, directions)
    there = AllRadii(ExactSearch(table, precision=precision, device="cuda"))
    assert there._is_fused(k) == (precision == "bf16" and k >= DIRECTIONS)
    crossings = there.first_crossing(words, directions)
    np.testing.assert_allclose(crossings[0], here[0], rtol=1e-12)
    np.testing.assert_array_equal(crossings[1], here[1])


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_sums_of_products_err_by_less_than_the_bound_says(dtype: torch.dtype) -> None:
    ExactSearch(np.ones((2, 2)), device="cuda")  # switches reduced precision off
    generator = torch.Generator("cuda").manual_seed(0)
    for spread in (0.0, 4.0):  # numbers of one size, and of very different ones
        left, right = (
            (
                torch.randn(4096, 304, device="cuda", generator=generator)
                * torch.exp(spread * torch.randn(304, device="cuda", generator=generator))
            ).to(dtype)
            for _ in range(2)
        )
        products = (
            torch.mm(left, right.T, out_dtype=torch.float32)
            if (dtype == torch.bfloat16)
            else left @ right.T
        )
        exact = left.double() @ right.double().T
        size = left.double().norm(dim=1)[:, None] * right.double().norm(dim=1)
        share = ((products.double() - exact).abs() / size).max() / (304 * 2.0**-23)
        assert share < 1  # and the bound takes it twice


@needs_gpu
def test_madlib_says_the_same() -> None:
    embedding = from_arrays("table", [f"w{i}" for i in range(3000)], awkward(3000, 20))
    ids = np.arange(3000)
    there, here = (
        Madlib(embedding, epsilon=4, search=ExactSearch(embedding.vectors, device=device))
        for device in ("cuda", "cpu")
    )
    ours, theirs = (m.sanitize_ids(ids, np.random.default_rng(0)) for m in (there, here))
    np.testing.assert_array_equal(ours, theirs)


@needs_gpu
def test_features_are_near_those_of_the_processor(tmp_path: Path) -> None:
    slow = tiny_encoder(tmp_path)
    folder = write_tiny_model(tmp_path / "there")
    fast = models.from_folder("tiny", folder, digest="tiny", device="cuda")
    corpus = Corpus(np.random.default_rng(0).integers(5, 16, 400), np.arange(0, 401, 20))
    ours, theirs = (features(each, corpus, longest=30) for each in (fast, slow))
    assert np.linalg.norm(ours - theirs) < 0.03 * np.linalg.norm(theirs)
    assert not np.array_equal(ours, theirs)


@needs_gpu
def test_likelihoods_are_near_those_of_the_processor(tmp_path: Path) -> None:
    slow = tiny_generator(tmp_path / "here")
    folder = write_tiny_generator(tmp_path / "there")
    fast = generators.from_folder("tiny", folder, digest="tiny", device="cuda")
    texts = ["the cat", "a dog sat", "cat cat cat"]
    ours, theirs = (each.log_likelihood(texts) for each in (fast, slow))
    np.testing.assert_allclose(ours, theirs, atol=0.6)


@needs_gpu
def test_draws_are_those_of_the_processor() -> None:
    weights = torch.from_numpy(np.random.default_rng(0).normal(scale=4.0, size=(200, 3000)))
    there, here = (
        draw(weights.float().to(device), [np.random.default_rng((1, row)) for row in range(200)])
        for device in ("cuda", "cpu")
    )
    assert (there == here).mean() > 0.99  # sums take another order


@needs_gpu
def test_an_encoder_reaches_other_processes(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "there")
    encoder = models.from_folder("tiny", folder, digest="tiny", device="cuda")
    corpus = Corpus(np.random.default_rng(0).integers(5, 16, 400), np.arange(0, 401, 20))

    def read(number: int) -> FloatArray:
        return features(encoder, corpus, longest=30) + number

    ours = read(0)
    for number, theirs in enumerate(study.measure(read, study.grid(number=range(2)), processes=2)):
        np.testing.assert_allclose(theirs - number, ours, atol=1e-3)


def test_the_benchmark_runs_anywhere() -> None:
    sizes = gpu.SMALL._replace(tables=((300, 5), (300, 20)), queries=8)
    marks = [mark for *_, mark in gpu.rows(sizes, "cpu")]
    assert marks.count("ok") == 12 and sum("of the product" in each for each in marks) == 3
    planted = np.array([1.0, np.nan])
    assert [row[-1] for row in gpu.checked("a", (planted,) * 2, (planted,) * 2)] == ["WRONG"] * 2
