"""Exact nearest neighbours in Euclidean distance, faster than a plain scan."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from textpriv.errors import InvalidInput
from textpriv.neighbors.table import (
    FloatArray,
    GroupedTable,
    IntArray,
    Precision,
    best_per_query,
    check_vectors,
)

QUERY_CHUNK = 1024


def check_queries(queries: NDArray[np.floating], dimension: int) -> NDArray[np.floating]:
    """Finite queries of the table's dimension, or InvalidInput."""
    array = check_vectors(queries, what="queries")
    if array.shape[1] != dimension:
        raise InvalidInput(
            f"queries: got dimension {array.shape[1]}, expected the table's {dimension}"
        )
    return array


def check_k(k: int, size: int) -> None:
    """1 <= k <= size, or InvalidInput."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= size:
        raise InvalidInput(f"k: got {k!r}, expected an integer from 1 to {size} (the table's rows)")


class ExactSearch:
    """Nearest rows of a table, exact in float64 (see `textpriv.neighbors.table`).

    Nearest to q means largest <q,z> - |z|^2/2. Rows with equal distance are ranked by
    their number, so that identical rows give a well-defined answer.

    Parameters
    ----------
    vectors : (rows, dimension) float array, finite
    precision : precision of the first pass; never changes the answer
    device : torch device

    Raises
    ------
    InvalidInput : vectors not two-dimensional, not finite, or without rows
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
        self.half_norm = (self.table.rows.double() ** 2).sum(1).div(2).float()

    def nearest(self, queries: NDArray[np.floating], k: int = 1) -> tuple[IntArray, FloatArray]:
        """The k nearest rows to each query, nearest first.

        Parameters
        ----------
        queries : (count, dimension) float array, finite
        k : 1 to the number of rows

        Returns
        -------
        ids : (count, k) row numbers
        distances : (count, k) Euclidean distances
        """
        array = check_queries(queries, self.dimension)
        check_k(k, self.size)
        ids = np.empty((len(array), k), dtype=np.int64)
        distances = np.empty((len(array), k))
        for start in range(0, len(array), QUERY_CHUNK):
            chunk = slice(start, start + QUERY_CHUNK)
            ids[chunk], distances[chunk] = self._nearest(array[chunk], k)
        return ids, distances

    @torch.inference_mode()
    def _nearest(self, queries: NDArray[np.floating], k: int) -> tuple[IntArray, FloatArray]:
        exact = torch.from_numpy(np.array(queries, dtype=np.float64)).to(self.table.device)
        group, query = self._candidate_groups(exact - self.table.center, k)
        rows, query = self._candidate_rows(exact, group, query, k)
        offset = exact[query] - self.table.rows[rows].double()
        distance = offset.norm(dim=1).cpu().numpy()
        ids, nearness = best_per_query(
            query.cpu().numpy(), rows.cpu().numpy(), -distance, k=k, queries=len(exact)
        )
        return ids, -nearness

    def _candidate_groups(
        self, centered: torch.Tensor, k: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Pairs (group, query) that may hold one of the k nearest, by the rounding bound."""
        table = self.table
        rounded, norm, lost = table.rounded_queries(centered, {0: 1.0, 1: 1.0})
        maxima = torch.cat(
            [
                (table.rounded[block] @ rounded).view(-1, table.group, len(centered)).amax(1)
                for block in table.blocks()
            ]
        ).float()

        # Rounded query and row, float32 accumulation, the half norm in two parts; 1e-4 on top
        # for this very bound being computed in float32.
        half_error = (2.0**-15 + 2 * table.accumulation) * table.group_norm**2 / 2
        per_group = torch.stack([table.group_norm, table.group_residual, half_error], dim=1)
        per_query = torch.stack([lost + 2 * table.accumulation * norm, norm, torch.ones_like(norm)])
        error = per_group.float() @ per_query.float() * (1 + 1e-4)
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

    def _candidate_rows(
        self, exact: torch.Tensor, group: torch.Tensor, query: torch.Tensor, k: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Pairs (row, query) that may be among the k nearest, by float32 scores."""
        table = self.table
        single = exact.float()
        scores = torch.empty(len(group), table.group, device=table.device)
        for batch, rows in table.gathered(group):
            products = torch.bmm(rows, single[query[batch], :, None]).squeeze(2)
            scores[batch] = products - self.half_norm.view(-1, table.group)[group[batch]]
        ids = table.row_ids(group)
        scores[ids >= self.size] = -torch.inf

        top = torch.topk(scores, min(k, table.group), dim=1)
        owner = query[:, None].expand_as(top.values)
        _, ranked = best_per_query(
            owner.reshape(-1).cpu().numpy(),
            ids.gather(1, top.indices).reshape(-1).cpu().numpy(),
            top.values.reshape(-1).double().cpu().numpy(),
            k=k,
            queries=len(exact),
        )
        kth = torch.from_numpy(ranked[:, -1]).to(table.device)
        # One float32 dot product errs by at most accumulation * |q||z|; twice, for two rows.
        largest = self.half_norm.max().mul(2).sqrt()
        error = 4 * table.accumulation * (exact.norm(dim=1) * largest + largest**2)
        pair, position = (scores >= (kth - error)[query, None]).nonzero(as_tuple=True)
        return ids[pair, position], query[pair]
