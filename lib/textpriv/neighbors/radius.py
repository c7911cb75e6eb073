"""Every radius at once: the exact law of noise-then-nearest-word at every epsilon.

The mechanism adds r u to the vector of a word x (u a random direction, r a random radius)
and returns the nearest word. Seen along one fixed direction, word z beats x as soon as

    r <u, z - x>  >  |z - x|^2 / 2,

and in general the winner at radius r is the word of the highest line

    score_z(r) = r <u, z - x> - |z - x|^2 / 2 .

Lines in r: so x is kept up to the *first crossing* r*(u) = min over z with <u, z - x> > 0 of
|z - x|^2 / (2 <u, z - x>), and which word follows which is the *upper envelope* of the lines.
Neither knows epsilon. If r ~ Gamma(shape n, scale 1/epsilon), then for every epsilon

    P(x is kept | u) = GammaCDF(r*(u); n, 1/epsilon),

and every other word has the Gamma mass of its piece of the envelope. Only the direction is
left to sample; one direction serves all epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc, gammaincinv

from textpriv.channel import check_ids
from textpriv.checks import POSITIVE, checked
from textpriv.errors import InvalidInput
from textpriv.neighbors.exact import QUERY_CHUNK, ExactSearch, check_queries
from textpriv.neighbors.fused import FUSED_DIRECTIONS, LEAST, fused_rates
from textpriv.neighbors.table import (
    FLOAT64,
    GATHER_BYTES,
    LARGEST_ROW,
    FloatArray,
    IntArray,
    first_best,
    round_split,
)

PAIR_CHUNK = 1024  # (word, direction) pairs at once
FUSED_CHUNK = 1 << 15  # where one kernel makes the first pass


def random_directions(count: int, dimension: int, rng: np.random.Generator) -> FloatArray:
    """`count` independent uniform directions on the unit sphere: (count, dimension)."""
    gaussian = rng.standard_normal((count, dimension))
    return gaussian / np.linalg.norm(gaussian, axis=1, keepdims=True)


def radius_cdf(radius: ArrayLike, dimension: int, epsilon: ArrayLike) -> FloatArray:
    """P(r <= radius) for the noise's length r ~ Gamma(shape dimension, scale 1/epsilon)."""
    return gammainc(dimension, np.asarray(epsilon, dtype=np.float64) * np.asarray(radius))


def largest_radius(dimension: int, epsilon: float, *, tail: float = 1e-9) -> float:
    """Radius that the noise exceeds with probability `tail` at this (the smallest) epsilon."""
    return float(gammaincinv(dimension, 1 - tail) / epsilon)


@dataclass(frozen=True)
class Envelope:
    """Which word is the output at which radius, for some (word, direction) pairs.

    Segments are flat and ordered by pair, then by radius. Segment s gives the output
    `output[s]` for radii from `start[s]` to the next segment's start (the last segment of
    a pair is open: it was followed up to `max_radius`).
    """

    pair: IntArray
    start: FloatArray
    output: IntArray
    word: IntArray  # word of each pair
    dimension: int
    max_radius: float

    def segment_mass(self, epsilon: float) -> FloatArray:
        """Probability of each segment given its direction, at this epsilon."""
        reached = radius_cdf(self.start, self.dimension, epsilon)
        following = np.append(reached[1:], 1.0)
        following[np.append(self.pair[1:] != self.pair[:-1], True)] = 1.0
        return following - reached

    def law(self, epsilon: float, *, words: IntArray, size: int) -> scipy.sparse.csr_array:
        """P(output | word), averaged over the directions: (len(words), size), rows sum to 1.

        `words` are the distinct words wanted, each present in `self.word`.
        """
        row_of = {int(word): row for row, word in enumerate(words)}
        count = np.zeros(len(words))
        row = np.array([row_of.get(int(word), -1) for word in self.word], dtype=np.int64)
        np.add.at(count, row[row >= 0], 1)
        if (count == 0).any():
            missing = int(words[np.flatnonzero(count == 0)[0]])
            raise InvalidInput(f"words: got {missing}, expected words that the envelope holds")
        segment_row = row[self.pair]
        wanted = segment_row >= 0
        mass = self.segment_mass(epsilon)[wanted] / count[segment_row[wanted]]
        entries = (mass, (segment_row[wanted], self.output[wanted]))
        law = scipy.sparse.coo_array(entries, shape=(len(words), size)).tocsr()
        law.sum_duplicates()
        return law


class AllRadii:
    """First crossings and envelopes over one table of word vectors.

    Parameters
    ----------
    search : exact search over the table; its grouped table and its bounds are used here too
    """

    def __init__(self, search: ExactSearch) -> None:
        self.search, self.table = search, search.table
        self.size, self.dimension = search.size, search.dimension
        self._fused = fused_rates(self.table)

    def first_crossing(
        self, words: IntArray, directions: NDArray[np.floating]
    ) -> tuple[FloatArray, IntArray]:
        """Smallest radius at which another word is nearer, and that word.

        Parameters
        ----------
        words : (count,) row numbers
        directions : (count, k, dimension): k directions per word (of any length: the
            radius is then in units of that length)

        Returns
        -------
        radii : (count, k) float64, exact; inf where no word ever takes over, 0 where an
            identical row with a lower number always wins
        takers : (count, k) the word that takes over (the word itself where none does)
        """
        ids, units = self._check(words, directions)
        radii, takers = self._crossings(ids, self._first_rows(ids), torch.from_numpy(units))
        return radii.numpy(), takers.numpy()

    @checked(max_radius=POSITIVE)
    def envelope(
        self, words: IntArray, directions: NDArray[np.floating], *, max_radius: float
    ) -> Envelope:
        """Upper envelope of the words' lines from radius 0 to `max_radius`.

        Two neighbouring winners whose lines cross at r are joined there, unless a third
        word is nearest at r: then it lies between them, and both halves are searched in
        turn. Each exact search thus finds a new winner or proves a boundary.

        Parameters
        ----------
        words : (count,) row numbers, with (count, k, dimension) `directions`
        max_radius : > 0, see `largest_radius`
        """
        ids, units = self._check(words, directions)
        pair_word = np.repeat(ids, units.shape[1])
        unit = units.reshape(-1, self.dimension)
        origin = self._vectors(pair_word)

        def winner(pair: IntArray, radius: FloatArray) -> IntArray:
            queries = origin[pair] + radius[:, None] * unit[pair]
            return self.search.nearest(queries)[0][:, 0]

        def line(pair: IntArray, word: IntArray) -> tuple[FloatArray, FloatArray]:
            offset = self._vectors(word) - origin[pair]
            return (offset * unit[pair]).sum(1), (offset**2).sum(1) / 2

        # Words known to win at two radii: `left` at `low`, `right` at `high`.
        pair = np.arange(len(pair_word))
        low, high = np.zeros(len(pair)), np.full(len(pair), float(max_radius))
        left, right = winner(pair, low), winner(pair, high)
        pieces = [(pair, low, left, line(pair, left)[0])]
        while True:
            open_ = left != right
            pair, low, high, left, right = (a[open_] for a in (pair, low, high, left, right))
            if not len(pair):
                break
            (left_slope, left_cost), (right_slope, right_cost) = line(pair, left), line(pair, right)
            # Lines that agree to rounding may cross anywhere: the clip keeps what is known.
            steeper = np.where(right_slope > left_slope, right_slope - left_slope, np.inf)
            crossing = np.clip((right_cost - left_cost) / steeper, low, high)
            middle = winner(pair, crossing)
            slope, cost = line(pair, middle)
            gain = (slope * crossing - cost) - (left_slope * crossing - left_cost)
            size = cost + left_cost + (np.abs(slope) + np.abs(left_slope)) * crossing
            boundary = (gain <= 1e-12 * size) | (middle == left) | (middle == right)
            pieces.append(tuple(a[boundary] for a in (pair, crossing, right, right_slope)))
            pair, low, high, left, right = (
                np.concatenate([first[~boundary], second[~boundary]])
                for first, second in (
                    (pair, pair), (low, crossing), (crossing, high), (left, middle), (middle, right)
                )
            )  # fmt: skip
        pair, start, output, slope = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        segments = _in_order(pair, start, output, slope)
        return Envelope(*segments, pair_word, self.dimension, float(max_radius))

    def nearest_along(
        self, words: IntArray, directions: NDArray[np.floating], radii: ArrayLike
    ) -> IntArray:
        """Nearest word at some distances along one direction per word: (radii, words).

        Two passes over the table, however many radii there are. The first finds the winner at
        the largest radius, whose line crosses the word's own at some c. No line is above these
        two at either end, and on either side of c the higher one is straight: a line that is
        above somewhere in between is above at c. So the second pass asks for all rows above
        at c, a handful, and no others ever win.

        Parameters
        ----------
        words : (count,) row numbers
        directions : (count, dimension), of any length: a radius is in units of that length
        radii : (radii,) finite, > 0, at least one, in any order
        """
        ids, units = self._check(words, np.asarray(directions)[:, None])
        lengths = np.asarray(radii, dtype=np.float64)
        positive = (lengths > 0) & np.isfinite(lengths)
        if lengths.ndim != 1 or not len(lengths) or not positive.all():
            raise InvalidInput(f"radii: got {radii!r}, expected finite numbers > 0, at least one")
        check_queries(units[:, 0] * lengths.max(), self.dimension, what="noise")
        result = np.empty((len(lengths), len(ids)), dtype=np.int64)
        step = QUERY_CHUNK * self.table.room
        for start in range(0, len(ids), step):
            chunk = slice(start, start + step)
            own, unit = (
                torch.from_numpy(array).to(self.table.device)
                for array in (ids[chunk], units[chunk, 0])
            )
            result[:, chunk] = self._along(own, unit, lengths).cpu().numpy()
        return result

    @torch.inference_mode()
    def _along(self, own: torch.Tensor, unit: torch.Tensor, radii: FloatArray) -> torch.Tensor:
        """One chunk of `nearest_along`."""
        table, count, farthest = self.table, len(own), float(radii.max())
        origin, everyone = table.rows[own].double(), torch.arange(len(own), device=table.device)
        row, word = self.search.candidates(origin + farthest * unit)
        slope, cost = self._lines(row, word, origin, unit)
        last, _ = first_best(word, row, farthest * slope - cost, count)
        far_slope, far_cost = self._lines(last, everyone, origin, unit)

        moved = (far_slope > 0).nonzero()[:, 0]  # the others' own word, or its twin, wins all along
        corner = far_cost[moved] / far_slope[moved]
        points = origin[moved] + corner[:, None] * unit[moved]
        row, query = self.search.as_near(points, own[moved])
        word = moved[query]
        slope, cost = self._lines(row, word, origin, unit)
        above = corner[query] * slope >= cost * (1 - 1e-9)
        row, word, slope, cost = row[above], word[above], slope[above], cost[above]

        none = torch.zeros_like(far_cost)
        row, word = torch.cat([own, last, row]), torch.cat([everyone, everyone, word])
        slope, cost = torch.cat([none, far_slope, slope]), torch.cat([none, far_cost, cost])
        winners = [first_best(word, row, radius * slope - cost, count)[0] for radius in radii]
        return torch.stack(winners)

    def _lines(
        self, row: torch.Tensor, word: torch.Tensor, origin: torch.Tensor, unit: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Slope and cost of rows' lines, (rows,) float64: score_z(r) = r slope - cost."""
        slope, cost = (torch.empty(len(row), dtype=torch.float64, device=row.device) for _ in "12")
        step = max(1, GATHER_BYTES * self.table.gather_room // (8 * self.dimension))
        for start in range(0, len(row), step):
            part = slice(start, start + step)
            words = word[part]
            offset = self.table.rows.index_select(0, row[part]).double()
            offset -= origin.index_select(0, words)
            slope[part] = torch.linalg.vecdot(offset, unit.index_select(0, words))
            cost[part] = torch.linalg.vecdot(offset, offset) / 2
        return slope, cost

    def _check(
        self, words: IntArray, directions: NDArray[np.floating]
    ) -> tuple[IntArray, FloatArray]:
        ids = check_ids(words, self.size, what="words")
        units = np.asarray(directions, dtype=np.float64)
        if units.ndim != 3 or len(units) != len(ids) or units.shape[1] < 1:
            raise InvalidInput(
                f"directions: got shape {units.shape}, expected ({len(ids)}, k, {self.dimension})"
            )
        flat = units.reshape(-1, units.shape[2])
        check_queries(flat, self.dimension, what="directions", largest=LARGEST_ROW)
        return ids, units

    @property
    def _half_error(self) -> torch.Tensor:
        """Error of half a squared distance in float32; the second term keeps 1/it finite."""
        return 4 * self.table.accumulation * self.table.half_norm.max() + 2.0**-100

    def _vectors(self, ids: IntArray) -> FloatArray:
        return self.table.rows[torch.from_numpy(ids)].double().cpu().numpy()

    def _first_rows(self, ids: IntArray) -> torch.Tensor:
        """The lowest row identical to each word's: the word itself unless it has a twin."""
        distinct, inverse = np.unique(ids, return_inverse=True)
        step = QUERY_CHUNK * self.table.room
        parts = [
            self.search.nearest(self._vectors(distinct[start : start + step]))[0][:, 0]
            for start in range(0, len(distinct), step)
        ]
        return torch.from_numpy(np.concatenate([*parts, distinct[:0]])[inverse])

    @torch.inference_mode()
    def _crossings(
        self, ids: IntArray, first: torch.Tensor, units: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Radii and takers, (count, k) each, on the device that holds the units (words, k, n)."""
        table, (count, k, _) = self.table, units.shape
        radii = torch.empty(count, k, dtype=torch.float64, device=units.device)
        takers = torch.empty(count, k, dtype=torch.int64, device=units.device)
        pairs = FUSED_CHUNK if self._is_fused(k) else PAIR_CHUNK * table.room
        step = max(1, pairs // k)
        for start in range(0, count, step):
            chunk = slice(start, start + step)
            own = torch.from_numpy(ids[chunk]).to(table.device)
            radius, taker = self._first_crossing(own, units[chunk].to(table.device))
            twin = first[chunk].to(table.device)[:, None]  # an identical row may come first
            radius.masked_fill_(twin != own[:, None], 0.0)
            radii[chunk] = radius
            takers[chunk] = torch.where(twin != own[:, None], twin, taker)
        return radii, takers

    def _first_crossing(
        self, own: torch.Tensor, units: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """One chunk; pairs are numbered direction-major: pair = direction * words + word."""
        table, (words, k, n) = self.table, units.shape
        unit = units.transpose(0, 1).reshape(-1, n)
        candidates = self._fused_groups if self._is_fused(k) else self._candidate_groups
        row, pair = self._candidate_rows(own, unit, *candidates(own, unit))
        rate = torch.empty(len(row), dtype=torch.float64, device=table.device)  # 1 / radius
        step = max(1, GATHER_BYTES * table.gather_room // (8 * n))
        for start in range(0, len(row), step):
            part = slice(start, start + step)
            which = pair[part]
            offset = table.rows[row[part]].double() - table.rows[own[which % words]].double()
            rate[part] = (offset * unit[which]).sum(1) / ((offset**2).sum(1) / 2)
        # A stand-in of rate 0 for every pair: the word itself, which never takes over.
        rate = torch.where(rate > 0, rate, -torch.inf)
        everyone = torch.arange(words * k, device=table.device)
        takers, best = first_best(
            torch.cat([pair, everyone]),
            torch.cat([row, own.repeat(k)]),
            torch.cat([rate, torch.zeros_like(everyone, dtype=rate.dtype)]),
            words * k,
        )
        return (1 / best).view(k, words).T, takers.view(k, words).T

    def _is_fused(self, k: int) -> bool:
        """Whether one kernel makes the first pass: on a GPU, with many directions per word."""
        return k >= FUSED_DIRECTIONS and self._fused is not None

    def _fused_groups(
        self, own: torch.Tensor, unit: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """As `_candidate_groups`, from one kernel that keeps an upper bound per group.

        The group of the greatest bound is looked at first: what it surely attains sets the
        mark that the bounds of the others have to reach.
        """
        assert self._fused is not None
        table, words = self.table, len(own)
        k = len(unit) // words
        centered = table.rows[own].double() - table.center
        shift = (unit.view(k, words, -1) * centered).sum(2).view(-1)  # <u, x>
        half, half_error = table.half_norm, self._half_error
        half_squared = half + half[own, None] - table.rows[own] @ table.rows.T
        reciprocal = torch.where(
            half_squared > 2 * half_error, (1 + 2.0**-20) / (half_squared - half_error), torch.inf
        )
        reciprocal[:, self.size :] = 0.0
        reciprocal[torch.arange(words, device=table.device), own] = 0.0
        upper = self._fused.upper(unit, shift, reciprocal)  # (words, k, groups)
        pair = torch.arange(words * k, device=table.device)
        bound, top = upper.max(2)
        unknown = bound.isinf()  # a row too near to x for float32: another one sets the mark
        top[unknown] = upper[unknown].nan_to_num(posinf=-1.0).argmax(1)
        _, lower, _ = self._rate_bounds(own, unit, top.T.reshape(-1), pair)
        certain = lower.amax(1).clamp_min_(LEAST)  # rates above 0 count
        mark = certain.view(k, words).T
        word, direction, group = (upper >= mark[:, :, None]).nonzero(as_tuple=True)
        return group, direction * words + word

    def _candidate_groups(
        self, own: torch.Tensor, unit: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Pairs (group, pair) that may hold the first word to take over.

        Maximises <u, z - x> / (|z - x|^2 / 2) = 1 / radius. The numerator is one product
        with the rounded table, bounded as for the nearest neighbour; the denominator is
        float32 and serves all directions of a word.
        """
        table, n, words = self.table, self.dimension, len(own)
        k = len(unit) // words
        centered = table.rows[own].double() - table.center
        shift = (unit.view(k, words, n) * centered).sum(2).view(-1)  # <u, x>
        high, rest = round_split(shift, table.dtype)
        rounded, norm, lost = table.rounded_queries(unit, {2: -high, 3: -rest})

        point = table.rows[own].T.contiguous()
        half = table.half_norm
        half_error = self._half_error
        rate, inverse = table.group_maxima(k, words), table.group_maxima(words)
        for rows, groups in table.blocks():
            half_squared = half[rows, None] + half[own] - table.rows[rows] @ point
            reciprocal = 1 / half_squared.clamp_min(half_error)
            mine = (own >= rows.start) & (own < rows.stop)
            reciprocal[own[mine] - rows.start, mine.nonzero()[:, 0]] = 0.0
            inverse[groups] = reciprocal.view(-1, table.group, words).amax(1)
            numerator = (table.rounded[rows] @ rounded).view(-1, k, words).float()
            numerator.mul_(reciprocal[:, None])
            rate[groups] = numerator.view(-1, table.group, k, words).amax(1)

        length, extent = unit.norm(dim=1), table.extent
        floor = (2.0**-15 + 2 * table.accumulation) * shift.abs()
        floor += FLOAT64 * table.accumulation * extent * length
        floor += table.underflow * (1 + length + extent)
        one = torch.ones_like(table.group_norm)
        per_group = torch.stack([table.group_norm, table.group_residual, one], dim=1).float()
        per_pair = torch.stack([lost + 2 * table.accumulation * norm, norm, floor]).float()
        error = per_group @ per_pair
        relative = inverse * half_error  # of the denominator; beyond 1/4 nothing is certain
        growth = 1 / (1 - relative.clamp_max(0.25))
        error = error.view(-1, k, words) * ((inverse * growth) * (1 + 1e-4))[:, None]
        slack = (growth - 1 + 2 * table.output_rounding)[:, None]
        error.addcmul_(rate.abs(), slack.expand_as(rate))
        error.masked_fill_((relative > 0.25)[:, None].expand_as(error), torch.inf)
        certain = (rate - error).amax(0).clamp_min(0.0)
        group, direction, word = (rate + error >= certain).nonzero(as_tuple=True)
        return group, direction * words + word

    def _candidate_rows(
        self, own: torch.Tensor, unit: torch.Tensor, group: torch.Tensor, pair: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Pairs (row, pair) that may be the first to take over, by float32 rates."""
        upper, lower, ids = self._rate_bounds(own, unit, group, pair)
        certain = torch.zeros(len(unit), device=self.table.device)
        certain.scatter_reduce_(0, pair, lower.amax(1), "amax")
        which, position = (upper >= certain[pair, None]).nonzero(as_tuple=True)
        return ids[which, position], pair[which]

    def _rate_bounds(
        self, own: torch.Tensor, unit: torch.Tensor, group: torch.Tensor, pair: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Upper and lower bounds of every row's rate, from float32, and the rows' numbers."""
        table, words, half = self.table, len(own), self.table.half_norm
        origin = table.rows[own]
        both = torch.stack([unit.float(), origin.repeat(len(unit) // words, 1)], dim=2)
        upper = torch.empty(len(group), table.group, device=table.device)
        lower = torch.empty_like(upper)
        every = table.row_ids(group)
        # Errors of a float32 product with a unit vector and of half a squared distance.
        largest, length = half.max().double().mul(2).sqrt(), unit.norm(dim=1)
        along_error = 4 * table.accumulation * largest * length
        along_error = (along_error + 4 * table.underflow * (1 + length + largest)).float()
        half_error = self._half_error
        for batch, rows in table.gathered(group):
            owner, ids = pair[batch], every[batch]
            products = torch.bmm(rows, both[owner])
            along = products[:, :, 0] - (both[owner, :, 0] * both[owner, :, 1]).sum(1)[:, None]
            squared = half[ids] + half[own[owner % words], None] - products[:, :, 1]
            rate = along / squared
            error = (along_error[owner, None] + rate.abs() * half_error) / (squared - half_error)
            known = squared > 2 * half_error
            upper[batch] = torch.where(known, rate + error, torch.inf)
            lower[batch] = torch.where(known, rate - error, -torch.inf)
            invalid = (ids >= self.size) | (ids == own[owner % words, None])
            upper[batch].masked_fill_(invalid, -torch.inf)
            lower[batch].masked_fill_(invalid, -torch.inf)
        return upper, lower, every


def _in_order(
    pair: IntArray, start: FloatArray, output: IntArray, slope: FloatArray
) -> tuple[IntArray, FloatArray, IntArray]:
    """Segments of envelopes by pair, then by radius.

    Along a pair slopes increase; starts do too, but for the rounding of equal ones.
    """
    order = np.lexsort((start, slope, pair))
    pair, start = pair[order], start[order]
    while (late := (pair[1:] == pair[:-1]) & (start[1:] < start[:-1])).any():
        start[1:][late] = start[:-1][late]
    return pair, start, output[order]
