"""Exact nearest neighbours in Euclidean distance, faster than a plain scan.

    search = ExactSearch(embedding.vectors)
    ids, distances = search.nearest(queries, k=5)      # (queries, 5) each, nearest first

A first pass in low precision keeps the maximum of every group of rows. A bound on its rounding says
in which groups the nearest rows can be, and only these are computed again (`neighbors.table`).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from textpriv.checks import check_count
from textpriv.errors import InvalidInput
from textpriv.neighbors.table import (
    FLOAT64,
    GATHER_BYTES,
    LARGEST_QUERY,
    FloatArray,
    GroupedTable,
    IntArray,
    Precision,
    best_per_query,
    check_vectors,
    first_best,
    round_split,
)

QUERY_CHUNK = 1024
FEW = 8  # neighbours that the groups of the first pass always find
SCAN = 3000  # rows of the table for each neighbour asked for, below which one scan is cheaper
SCAN_BYTES = 32 << 20  # of the scores of a scan: some queries at a time
FAR = 4.0  # queries farther from the center than this many extents are ranked by score


def check_queries(
    queries: NDArray[np.floating],
    dimension: int,
    *,
    what: str = "queries",
    largest: float = LARGEST_QUERY,
) -> NDArray[np.floating]:
    """Finite queries of the table's dimension, or InvalidInput."""
    array = check_vectors(queries, what=what, largest=largest)
    if array.shape[1] != dimension:
        raise InvalidInput(
            f"{what}: got dimension {array.shape[1]}, expected the table's {dimension}"
        )
    return array


def _best(
    query: torch.Tensor, ids: torch.Tensor, scores: torch.Tensor, *, k: int, queries: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The k best candidates of every query, (queries, k): one on the device, more by sorting."""
    if k == 1:
        one_id, one_score = first_best(query, ids, scores, queries)
        return one_id[:, None], one_score[:, None]
    best = best_per_query(
        query.cpu().numpy(), ids.cpu().numpy(), scores.cpu().numpy(), k=k, queries=queries
    )
    best_ids, best_scores = (torch.from_numpy(array).to(query.device) for array in best)
    return best_ids, best_scores


class ExactSearch:
    """Nearest rows of a table, exact in float64 (see `textpriv.neighbors.table`).

    Nearest means of smallest distance in float64 or, for a query far outside the table, where
    distances no longer tell rows apart, of largest score <q - c, z - c> - |z - c|^2 / 2 (c is
    the table's mean). Rows with equal distance are ranked by their number, so that identical
    rows give a well-defined answer.

    Parameters
    ----------
    vectors : (rows >= 1, dimension) float array, finite
    precision : precision of the first pass; never changes the answer
    device : torch device
    """

    name = "exact"

    def __init__(
        self,
        vectors: NDArray[np.floating],
        *,
        precision: Precision = "auto",
        group: int | None = None,
        device: str = "cpu",
    ) -> None:
        self.table = GroupedTable(vectors, precision=precision, group=group, device=device)
        self.size, self.dimension = self.table.size, self.table.dimension

    def nearest(self, queries: NDArray[np.floating], k: int = 1) -> tuple[IntArray, FloatArray]:
        """The k nearest rows to each query, nearest first.

        Of (count, dimension) finite queries: ids and Euclidean distances, (count, k) each; k is
        1 to the number of rows.
        """
        array = check_queries(queries, self.dimension)
        check_count(k, 1, self.size, what="k")
        ids = np.empty((len(array), k), dtype=np.int64)
        distances = np.empty((len(array), k))
        step = QUERY_CHUNK * self.table.room
        for start in range(0, len(array), step):
            chunk = slice(start, start + step)
            ids[chunk], distances[chunk] = self._nearest(array[chunk], k)
        return ids, distances

    @torch.inference_mode()
    def candidates(self, queries: torch.Tensor, k: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
        """Aligned (rows, queries), among them the k nearest rows of every query, and few others.

        `queries` are (count, dimension) float64 on the table's device, some QUERY_CHUNK of them.
        """
        if k > max(FEW, self.size / SCAN) and not self.table.is_on_gpu:
            return self._scanned(queries, k)
        group, query = self._candidate_groups(queries - self.table.center, k)
        return self._candidate_rows(queries, group, query, k)

    @torch.inference_mode()
    def as_near(
        self, queries: torch.Tensor, than: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Aligned (rows, queries) of all rows at least as near as the row `than`, none twice.

        And few others, those that the first pass cannot tell from it; for `queries` see
        `candidates`, `than` is (count,).
        """
        table, centered = self.table, queries - self.table.center
        given = table.rows[than].double() - table.center
        mark = (centered * given).sum(1) - (given**2).sum(1) / 2
        high, rest = round_split(mark, table.dtype)
        # With the mark taken off, what is stored is small near the mark.
        extra: dict[int, torch.Tensor | float] = {0: 1.0, 1: 1.0, 2: -high, 3: -rest}
        rounded, norm, lost = table.rounded_queries(centered, extra)
        shifting = (2.0**-15 + 2 * table.accumulation) * mark.abs()
        per_group, per_query = self._score_error(centered, norm, lost, shifting)
        # Storing a result s changes it by at most 2 rounding |s|.
        least = per_group @ per_query * -(1 + 3 * table.output_rounding)
        pairs = []
        for rows, groups in table.blocks():
            scores = (table.rounded[rows] @ rounded).view(len(least[groups]), table.group, -1)
            group, query = (scores.amax(1) >= least[groups]).nonzero(as_tuple=True)
            reached = scores[group, :, query] >= least[groups][group, query, None]
            hit, place = reached.nonzero(as_tuple=True)
            pairs.append((rows.start + group[hit] * table.group + place, query[hit]))
        row, query = (torch.cat(part) for part in zip(*pairs, strict=True))
        return row[row < self.size], query[row < self.size]

    def _single_error(self, exact: torch.Tensor) -> torch.Tensor:
        """Bound on the error of the difference of two of a query's float32 scores: (queries,).

        One dot product errs by at most accumulation * |q||z|; twice, for two rows. The float64
        result and underflow are in the margin and at the end.
        """
        table = self.table
        largest, length = table.half_norm.max().double().mul(2).sqrt(), exact.norm(dim=1)
        error = 4 * table.accumulation * (length * largest + largest**2)
        return error + 4 * table.underflow * (1 + length + largest)

    @torch.inference_mode()
    def _nearest(self, queries: NDArray[np.floating], k: int) -> tuple[IntArray, FloatArray]:
        exact = torch.from_numpy(np.array(queries, dtype=np.float64)).to(self.table.device)
        rows, query = self.candidates(exact, k)
        centered = exact - self.table.center
        far = centered.norm(dim=1) > FAR * self.table.extent
        nearness = torch.empty(len(rows), dtype=torch.float64, device=self.table.device)
        # Many candidates where rows coincide: some at a time.
        step = max(1, GATHER_BYTES * self.table.gather_room // (8 * self.dimension))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            points, which = self.table.rows[rows[part]].double(), query[part]
            nearness[part] = -(exact[which] - points).norm(dim=1)
            (away,) = far[which].nonzero(as_tuple=True)
            points = points[away] - self.table.center
            score = (centered[which[away]] * points).sum(1) - (points**2).sum(1) / 2
            nearness[start + away] = score
        ids, _ = _best(query, rows, nearness, k=k, queries=len(exact))
        neighbors = self.table.rows[ids].double()
        return ids.cpu().numpy(), (exact[:, None] - neighbors).norm(dim=2).cpu().numpy()

    def _candidate_groups(
        self, centered: torch.Tensor, k: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Pairs (group, query) that may hold one of the k nearest, by the rounding bound."""
        table = self.table
        rounded, norm, lost = table.rounded_queries(centered, {0: 1.0, 1: 1.0})
        maxima = table.group_maxima(len(centered))
        for rows, groups in table.blocks():
            scores = table.rounded[rows] @ rounded
            maxima[groups] = scores.view(-1, table.group, len(centered)).amax(1)

        per_group, per_query = self._score_error(centered, norm, lost)
        error = per_group @ per_query
        error.add_(maxima.abs(), alpha=2 * table.output_rounding)
        lower = maxima - error
        if k == 1:
            certain = lower.amax(0)
        elif k <= len(maxima):
            certain = torch.topk(lower, k, dim=0).values[-1]
        else:  # fewer groups than neighbours asked for: look at all of them
            certain = torch.full_like(lower[0], -torch.inf)
        group, query = (maxima + error >= certain).nonzero(as_tuple=True)
        return group, query

    def _score_error(
        self,
        centered: torch.Tensor,
        norm: torch.Tensor,
        lost: torch.Tensor,
        shifting: torch.Tensor | float = 0.0,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Bound on the first pass's error but for storing its result, as a product.

        (groups, terms) and (terms, queries); `shifting` is what a shift of the scores adds.

        Rounded query and row, float32 accumulation, the half norm in two parts, underflow and
        the float64 result; 1e-4 on top for this very bound being computed in float32.
        """
        table = self.table
        half_error = (2.0**-15 + 2 * table.accumulation) * table.group_norm**2 / 2
        length, extent = centered.norm(dim=1), table.extent
        floor = shifting + FLOAT64 * table.accumulation * extent * (length + extent)
        floor += table.underflow * (1 + length + extent)
        one = torch.ones_like(half_error)
        per_group = torch.stack([table.group_norm, table.group_residual, half_error, one], dim=1)
        per_query = torch.stack(
            [lost + 2 * table.accumulation * norm, norm, torch.ones_like(norm), floor]
        )
        return per_group.float(), (per_query * (1 + 1e-4)).float()

    def _scanned(self, exact: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """As `_candidate_rows`, from the scores of all rows: for many neighbours."""
        table, error, pairs = self.table, self._single_error(exact), []
        rows, half_norm = table.rows[: self.size], table.half_norm[: self.size]
        step = max(1, SCAN_BYTES // (4 * self.size))
        for start in range(0, len(exact), step):
            part = slice(start, start + step)
            scores = torch.addmm(-half_norm, exact[part].float(), rows.T)
            kth = torch.topk(scores, k, dim=1).values[:, -1]
            query, row = (scores >= (kth - error[part])[:, None]).nonzero(as_tuple=True)
            pairs.append((row, start + query))
        row, query = (torch.cat(each) for each in zip(*pairs, strict=True))
        return row, query

    def _candidate_rows(
        self, exact: torch.Tensor, group: torch.Tensor, query: torch.Tensor, k: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Pairs (row, query) that may be among the k nearest, by float32 scores."""
        table = self.table
        single = exact.float()
        scores = torch.empty(len(group), table.group, device=table.device)
        for batch, rows in table.gathered(group):
            products = torch.bmm(rows, single[query[batch], :, None]).squeeze(2)
            scores[batch] = products - table.half_norm.view(-1, table.group)[group[batch]]
        ids = table.row_ids(group)
        scores.masked_fill_(ids >= self.size, -torch.inf)

        top = torch.topk(scores, min(k, table.group), dim=1)
        owner = query[:, None].expand_as(top.values)
        _, ranked = _best(
            owner.reshape(-1),
            ids.gather(1, top.indices).reshape(-1),
            top.values.reshape(-1).double(),
            k=k,
            queries=len(exact),
        )
        kth = ranked[:, -1]
        error = self._single_error(exact)
        pair, position = (scores >= (kth - error)[query, None]).nonzero(as_tuple=True)
        return ids[pair, position], query[pair]
