"""The first pass of the first crossings in one GPU kernel.

For a word x, directions u and all rows z, the pass asks for the largest
<u, z - x> / (|z - x|^2 / 2) = 1 / radius in every group of rows. As single steps (product,
division, maximum) it writes and reads each of the |V| numbers of a direction several times,
which costs more than the product. Here a tile of the product is divided and reduced where it
was computed, and only the maxima leave the chip.

The kernel returns an upper bound and no estimate. What rounding can lose (see
`textpriv.neighbors.table`) is a sum of products (something of the direction) x (something of
the row), so that it is added by a few more columns of the same product:

    row        [ z - c   . . 1 1   |z^|        |z - z^|   1     ]
    direction  [ u       0 0 s s   lost(u)     |u^|       floor ]

with s s the two parts of -<u, x - c>. The columns of errors are rounded up.
"""

from __future__ import annotations

from typing import Any

import torch

from textpriv.neighbors.table import FLOAT64, GroupedTable

try:  # comes with PyTorch for CUDA
    import triton
    import triton.language as tl
except ImportError:
    triton = None

FUSED_DIRECTIONS = 64  # per word, at least: a tile of the product belongs to one word
DIRECTION_TILE, ROW_TILE, DEPTH_TILE = 128, 256, 64  # the fastest of eight on an H200
STAGE_BYTES = 2 * (DIRECTION_TILE + ROW_TILE) * DEPTH_TILE  # of shared memory, per tile ahead
STAGES = 4  # tiles ahead, where the shared memory holds them
LEAST = torch.finfo(torch.float32).tiny  # what a rate above 0 is at least
UP = 1 + 2.0**-6  # a number times this is not below it once rounded to bfloat16

if triton is not None:

    @triton.jit
    def _group_maxima(  # type: ignore[no-untyped-def]
        direction,
        row,
        reciprocal,
        upper,
        k,
        padded_k,
        groups,
        rows,
        LEAST: tl.constexpr,
        DEPTH: tl.constexpr,
        GROUP: tl.constexpr,
        DIRECTION_TILE: tl.constexpr,
        ROW_TILE: tl.constexpr,
        DEPTH_TILE: tl.constexpr,
    ):
        """Tiles of one word's directions by rows; neighbours in the first index share rows."""
        tiles = padded_k // DIRECTION_TILE
        word = (tl.program_id(0) // tiles).to(tl.int64)
        first_direction = (tl.program_id(0) % tiles) * DIRECTION_TILE
        first_row = tl.program_id(1) * ROW_TILE
        mine = first_direction + tl.arange(0, DIRECTION_TILE)
        those = first_row + tl.arange(0, ROW_TILE)
        depth = tl.arange(0, DEPTH_TILE)
        left = direction + (word * padded_k + mine[:, None]) * DEPTH + depth[None, :]
        right = row + those[None, :].to(tl.int64) * DEPTH + depth[:, None]
        score = tl.zeros((DIRECTION_TILE, ROW_TILE), dtype=tl.float32)
        for start in range(0, DEPTH, DEPTH_TILE):
            score = tl.dot(tl.load(left + start), tl.load(right + start), score)
        factor = tl.load(reciprocal + word * rows + those)
        # No product of 0 and infinity: a row that is not ahead of x never takes over. One that
        # is, however little, keeps a rate above 0.
        ahead = (score > 0) & (factor > 0)[None, :]
        rate = tl.where(ahead, tl.maximum(score * factor[None, :], LEAST), 0.0)
        rate = tl.reshape(rate, (DIRECTION_TILE, ROW_TILE // GROUP, GROUP))
        best = tl.max(rate, 2)
        group = first_row // GROUP + tl.arange(0, ROW_TILE // GROUP)
        place = (word * k + mine[:, None]) * groups + group[None, :]
        tl.store(upper + place, best, mask=(mine[:, None] < k) & (group[None, :] < groups))


def fused_rates(table: GroupedTable) -> FusedRates | None:
    """The kernel over this table, where device and table allow it; None elsewhere."""
    fits = table.precision == "bf16" and ROW_TILE % table.group == 0
    if not (table.is_on_gpu and fits) or triton is None:
        return None
    has_unit = torch.cuda.get_device_capability(table.device) >= (8, 0)  # for bfloat16
    return FusedRates(table) if has_unit else None


def _stages(device: str) -> int:
    """Tiles that the kernel loads ahead on this device."""
    if torch.device(device).type != "cuda":
        return STAGES
    properties: Any = torch.cuda.get_device_properties(device)
    shared = getattr(properties, "shared_memory_per_block_optin", 0)  # not everywhere
    return max(1, min(STAGES, shared // STAGE_BYTES))


class FusedRates:
    """Upper bounds of the rates 1 / radius over the groups of a table in bfloat16.

    Parameters
    ----------
    table : its group divides ROW_TILE
    """

    def __init__(self, table: GroupedTable) -> None:
        self.table = table
        count, width = table.rounded.shape
        self.depth = -(-(width + 3) // DEPTH_TILE) * DEPTH_TILE
        self.count = -(-count // ROW_TILE) * ROW_TILE
        self.rows = torch.zeros(self.count, self.depth, dtype=table.dtype, device=table.device)
        self.rows[:count, :width] = table.rounded
        for part in torch.arange(count).split(1 << 16):
            block = slice(int(part[0]), int(part[-1]) + 1)
            low = table.rounded[block, : table.dimension].double()
            exact = table.rows[block].double() - table.center
            self.rows[block, width] = low.norm(dim=1) * UP
            self.rows[block, width + 1] = (exact - low).norm(dim=1) * UP
            self.rows[block, width + 2] = 1.0
        self.accumulation = (self.depth + 4) * 2.0**-23
        self.stages = _stages(table.device)

    def upper(
        self, unit: torch.Tensor, shift: torch.Tensor, reciprocal: torch.Tensor
    ) -> torch.Tensor:
        """An upper bound of every group's largest rate: 0 where no row is ahead, else >= LEAST.

        Parameters
        ----------
        unit : (k * words, dimension) float64 directions, direction-major
        shift : (k * words,) float64 <u, x - c>
        reciprocal : (words, rows of the table) float32 upper bounds of 2 / |z - x|^2; inf
            where unknown, 0 for rows that do not count

        Returns
        -------
        (words, k, groups) float32
        """
        table, words = self.table, len(reciprocal)
        k = len(unit) // words
        low = unit.to(table.dtype)
        high = -shift.to(table.dtype).double()
        rest = (-shift - high).to(table.dtype)
        length, extent = unit.norm(dim=1), table.extent
        floor = (2.0**-15 + 2 * self.accumulation) * shift.abs()
        floor += FLOAT64 * table.accumulation * extent * length
        floor += table.underflow * (1 + length + extent)
        norm, lost = low.double().norm(dim=1), (unit - low.double()).norm(dim=1)
        # |<u,z> - <u^,z^>| <= |u - u^| |z^| + |u| |z - z^|, and the sums of products.
        columns = torch.stack(
            [high, rest.double(), (lost + 2 * self.accumulation * norm) * UP, length * UP,
             floor * UP], dim=1,
        )  # fmt: skip
        padded = -(-k // DIRECTION_TILE) * DIRECTION_TILE
        width = table.dimension + 2  # the two columns of half norms stay 0
        direction = torch.zeros(words, padded, self.depth, dtype=table.dtype, device=unit.device)
        direction[:, :k, : table.dimension] = low.view(k, words, -1).transpose(0, 1)
        direction[:, :k, width : width + 5] = (
            columns.to(table.dtype).view(k, words, -1).transpose(0, 1)
        )
        factor = torch.nn.functional.pad(reciprocal, (0, self.count - reciprocal.shape[1]))
        groups = len(table.rows) // table.group
        upper = torch.empty(words, k, groups, device=unit.device)
        self._launch(direction, factor.contiguous(), upper, padded)
        return upper

    def _launch(
        self, direction: torch.Tensor, factor: torch.Tensor, upper: torch.Tensor, padded: int
    ) -> None:
        words, k, groups = upper.shape
        grid = (words * (padded // DIRECTION_TILE), self.count // ROW_TILE)
        kernel: Any = _group_maxima[grid]
        kernel(
            direction,
            self.rows,
            factor,
            upper,
            k,
            padded,
            groups,
            self.count,
            LEAST=LEAST,
            DEPTH=self.depth,
            GROUP=self.table.group,
            DIRECTION_TILE=DIRECTION_TILE,
            ROW_TILE=ROW_TILE,
            DEPTH_TILE=DEPTH_TILE,
            num_warps=8,
            num_stages=self.stages,
        )
