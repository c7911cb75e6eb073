"""Maxima of inner products over a large table: computed in low precision, proven, then exact.

Exact nearest neighbours and the all-radii form both ask, for each query, which row of a
table attains the largest of some score. The scores of all rows are computed in bfloat16
(or float32 where the processor is faster at that) and only the maximum of every group
of rows is kept. A rigorous bound on the rounding error then says which groups can hold the
true maximum. Only these few are computed again, first in float32, and what is still in
question in float64. The answer is the float64 one whatever the precision of the first
pass, which decides the time and never the result.

The bound. Let hats mark rounded values. For a row z and a query q,
    |<q,z> - <q^,z^>| <= |q - q^| |z| + |q^| |z - z^|        (Cauchy-Schwarz),
where the residual norms |q - q^| and |z - z^| are measured, not estimated. Sums of m
products accumulated in float32 add at most m 2^-23 |q^| |z^|, in any order, and a result
stored in bfloat16 adds 2^-8 of its size. Numbers too small for float32 (`underflow`) and
the rounding of the float64 result itself (`FLOAT64`) have their own terms; numbers too
large for float32 are refused. This holds for IEEE arithmetic as processors have it. A GPU's
matrix unit cuts off where a processor rounds, which doubles the error of a sum: the bound
takes every sum twice. Reduced-precision accumulation is switched off there, and
tests/test_gpu_paths.py compares the results with float64 on whatever GPU there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from time import perf_counter
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from textpriv.checks import COUNT, FloatArray, IntArray, StrOptions, checked
from textpriv.errors import InvalidInput

Precision = Literal["auto", "bf16", "fp32"]

ROW_BLOCK = 2048  # table rows per matrix product: the scores of a block stay in the cache
GATHER_BYTES = 2 << 20  # rows gathered at once for the second pass: they stay in the cache
FLOAT64 = 2.0**-26  # rounding of a float64 result over that of a float32 one, with a margin
ROOM = 16  # times as much at once on a GPU, whose speed comes from few large products
GATHER_ROOM = 1024  # times as many bytes there: 2 GiB hold the rows of a chunk of directions
LARGEST_ROW, LARGEST_QUERY = 2.0**40, 2.0**70  # of any coordinate: products fit in float32


@cache
def bfloat16_is_fast(device: str = "cpu") -> bool:
    """Whether the device multiplies bfloat16 matrices faster than float32 ones.

    Of processors that have the instructions (avx512_bf16) some take half the time and some twice
    as long, so that products of both kinds are timed, in some 20 ms and once per process.
    """
    if torch.device(device).type != "cpu":
        return True
    capabilities = torch.cpu.get_capabilities()
    if not (capabilities.get("avx512_bf16") or capabilities.get("amx_bf16")):
        return False
    states, weights = torch.ones(256, 384), torch.ones(1536, 384)
    pairs = {
        kind: (states.to(kind), weights.to(kind).T) for kind in (torch.float32, torch.bfloat16)
    }
    seconds = dict.fromkeys(pairs, float("inf"))
    for _ in range(6):  # in turn, so that a busy moment strikes both; the first of each warms up
        for kind, (left, right) in pairs.items():
            began = perf_counter()
            torch.mm(left, right)
            seconds[kind] = min(seconds[kind], perf_counter() - began)
    return seconds[torch.bfloat16] < seconds[torch.float32]


def check_vectors(
    vectors: NDArray[np.floating], *, what: str, largest: float = LARGEST_ROW, least: int = 0
) -> NDArray[np.floating]:
    """A finite 2-d float array of `least` rows or more, without coordinates beyond `largest`."""
    array = np.asarray(vectors)
    if array.ndim != 2 or array.shape[1] < 1:
        raise InvalidInput(f"{what}: got shape {array.shape}, expected (rows, dimension)")
    if len(array) < least:
        raise InvalidInput(f"{what}: got {len(array)} rows, expected at least {least}")
    if not np.issubdtype(array.dtype, np.floating):
        raise InvalidInput(f"{what}: got dtype {array.dtype}, expected a float type")
    if not np.isfinite(array).all():
        bad = int((~np.isfinite(array).all(axis=1)).sum())
        raise InvalidInput(
            f"{what}: {bad} of {len(array)} rows hold NaN or infinity, expected finite "
            "numbers; drop or mend these rows"
        )
    size = max(float(array.max()), -float(array.min())) if array.size else 0.0
    if size > largest:
        raise InvalidInput(
            f"{what}: got a coordinate of size {size:.3g}, expected at most {largest:.3g}; "
            "scale the vectors (and epsilon) down"
        )
    return array


def round_split(values: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """High and low part of `values` in `dtype`: together they carry twice its precision."""
    high = values.to(dtype)
    return high, (values - high.double()).to(dtype)


class GroupedTable:
    """Rows of a table in groups, with a rounded copy and what the rounding loses.

    The rounded copy holds per row the columns [z - center, -h, -l, 1, 1], where h + l is
    |z - center|^2 / 2 in two parts: one matrix product then yields a whole affine score.

    Parameters
    ----------
    vectors : (rows, dimension) float array, finite; kept as float32
    precision : "bf16", "fp32", or "auto" (the faster one)
    group : rows per group; None balances the first pass against the second
    device : torch device of the products
    """

    @checked(precision=StrOptions({"auto", "bf16", "fp32"}), group=(None, COUNT))
    def __init__(
        self,
        vectors: NDArray[np.floating],
        *,
        precision: Precision = "auto",
        group: int | None = None,
        device: str = "cpu",
    ) -> None:
        table = check_vectors(vectors, what="vectors", least=1)
        if precision == "auto":
            precision = "bf16" if bfloat16_is_fast(device) else "fp32"
        self.precision = precision
        self.dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[precision]
        # Largest relative error of a result stored in `dtype`.
        self.output_rounding = 2.0**-8 if precision == "bf16" else 2.0**-23
        self.size, self.dimension = table.shape
        self.device = device
        self.is_on_gpu = torch.device(device).type == "cuda"
        self.room = ROOM if self.is_on_gpu else 1
        self.gather_room = GATHER_ROOM if self.is_on_gpu else 1
        # A second look at one group costs about as much as the first pass over 1/1000 of rows.
        wide = 32 if self.is_on_gpu else 16
        self.group = group or (wide if self.dimension > 128 else 128)
        if self.is_on_gpu:  # the bound asks for float32 accumulation
            torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
            torch.backends.cuda.matmul.allow_tf32 = False

        padding = -self.size % self.group
        rows = np.concatenate([table, np.repeat(table[-1:], padding, axis=0)])
        self.rows = torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32)).to(device)
        center = self.rows[: self.size].cpu().numpy().mean(0, dtype=np.float64)
        self.center = torch.from_numpy(center).to(device)
        self.accumulation = (self.dimension + 4) * 2.0**-23
        self.underflow = (self.dimension + 4) * 2.0**-124  # per unit of either factor
        self._round_rows()

    def _round_rows(self) -> None:
        count, n = len(self.rows), self.dimension
        self.rounded = torch.ones(count, n + 4, dtype=self.dtype, device=self.device)
        norms = torch.empty(count, dtype=torch.float64, device=self.device)
        residuals = torch.empty_like(norms)
        self.half_norm = torch.empty(count, device=self.device)  # |z|^2 / 2 of the rows as given
        for start in range(0, count, ROW_BLOCK):
            block = slice(start, start + ROW_BLOCK)
            exact = self.rows[block].double()
            self.half_norm[block] = (exact**2).sum(1) / 2
            exact -= self.center
            low = exact.to(self.dtype)
            norms[block] = exact.norm(dim=1)
            residuals[block] = (exact - low.double()).norm(dim=1)
            self.rounded[block, :n] = low
            high, rest = round_split(norms[block] ** 2 / 2, self.dtype)
            self.rounded[block, n], self.rounded[block, n + 1] = -high, -rest
        groups = (-1, self.group)
        self.group_norm = norms.view(groups).amax(1)
        self.group_residual = residuals.view(groups).amax(1)
        self.extent = self.group_norm.max()  # largest distance of a row from the center

    def rounded_queries(
        self, queries: torch.Tensor, extra: dict[int, torch.Tensor | float]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, (count, dimension) float64, as the rounded copy takes them, and what is lost.

        `extra` has values of the four columns after the vector (0 to 3); absent ones are 0. Returns
        the rounded queries, (dimension + 4, count), and the norms of these and of what was lost.
        """
        low = queries.to(self.dtype)
        columns = torch.zeros(len(queries), 4, dtype=self.dtype, device=self.device)
        for column, values in extra.items():
            columns[:, column] = values
        rounded = torch.cat([low, columns], dim=1).T.contiguous()
        exact = low.double()
        return rounded, exact.norm(dim=1), (queries - exact).norm(dim=1)

    def row_ids(self, groups: torch.Tensor) -> torch.Tensor:
        """Row numbers of the given groups: (len(groups), group)."""
        return groups[:, None] * self.group + torch.arange(self.group, device=self.device)

    def gathered(self, groups: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
        """Float32 rows of the given groups, some pairs at a time: (pairs, group, dimension)."""
        flat = self.rows.view(-1, self.group * self.dimension)
        step = max(1, GATHER_BYTES * self.gather_room // (4 * flat.shape[1]))
        for start in range(0, len(groups), step):
            batch = slice(start, start + step)
            rows = flat.index_select(0, groups[batch])
            yield batch, rows.view(-1, self.group, self.dimension)

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Slices of rows and of their groups; what is computed for one stays in the cache."""
        step = max(1, ROW_BLOCK * self.room // self.group)
        count = len(self.rows) // self.group
        for start in range(0, count, step):
            stop = min(start + step, count)
            yield slice(start * self.group, stop * self.group), slice(start, stop)

    def group_maxima(self, *shape: int) -> torch.Tensor:
        """Room for one maximum per group: (groups, *shape) float32.

        Made before the loop over blocks that fills it: small results kept between large
        passing ones would leave the memory in pieces.
        """
        return torch.empty(len(self.rows) // self.group, *shape, device=self.device)


def best_per_query(
    query: IntArray, ids: IntArray, scores: FloatArray, *, k: int, queries: int
) -> tuple[IntArray, FloatArray]:
    """The k best candidates of every query; ties go to the lowest id.

    `query`, `ids`, `scores` are flat and aligned; every query needs at least k candidates.
    Returns ids and scores of shape (queries, k), best first.
    """
    order = np.lexsort((ids, -scores, query))
    first = np.searchsorted(query[order], np.arange(queries))
    chosen = order[first[:, None] + np.arange(k)]
    return ids[chosen], scores[chosen]


def first_best(
    query: torch.Tensor, ids: torch.Tensor, scores: torch.Tensor, queries: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """`best_per_query` for k = 1, where the tensors are: ids and scores, (queries,) each."""
    best = torch.full((queries,), -torch.inf, dtype=scores.dtype, device=scores.device)
    best.scatter_reduce_(0, query, scores, "amax")
    # The lowest id among equals: all others get one that no row has.
    above = torch.iinfo(ids.dtype).max
    first = torch.full((queries,), above, dtype=ids.dtype, device=ids.device)
    first.scatter_reduce_(0, query, ids.masked_fill(scores != best[query], above), "amin")
    return first, best
