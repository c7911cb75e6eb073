"""Approximate nearest neighbours: what released code used in place of the exact search.

For noise-then-lookup an index built over a public vocabulary is post-processing: a wrong
neighbour costs fidelity and not privacy. Inside a finite mechanism (TEM's near set,
CusText's sets, SanText's distances) it changes P(y|x) and voids the bound.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from textpriv.checks import check_count
from textpriv.errors import InvalidInput
from textpriv.neighbors.exact import check_queries
from textpriv.neighbors.table import FloatArray, IntArray, check_vectors

LINKS = 32  # of a node in a graph
JOBS = 2  # threads that build trees: a part of their seed


def _distances(
    vectors: NDArray[np.floating], queries: NDArray[np.floating], ids: IntArray
) -> FloatArray:
    """Distances to the rows that an index named; inf where it named none (-1)."""
    offset = vectors[ids].astype(np.float64) - queries[:, None]
    return np.where(ids >= 0, np.linalg.norm(offset, axis=2), np.inf)


def annoy_build() -> str:
    """Version of Annoy and a digest of its compiled code.

    Compiled for a processor, as by default, Annoy rounds as that one does, and forests of many
    words differ between machines at one seed. `setup.sh` compiles it for none.
    """
    import annoy.annoylib

    code = Path(annoy.annoylib.__file__).read_bytes()
    return f"{version('annoy')} {hashlib.sha256(code).hexdigest()[:16]}"


class AnnoySearch:
    """Annoy's forest of random projection trees.

    Parameters
    ----------
    vectors : (rows, dimension) float array, finite
    trees : number of trees; the released d_X-privacy code used 50
    search_k : nodes inspected per query; -1 is Annoy's default, k * trees
    seed : seed of the trees; the same trees under the same `annoy_build` alone

    Attributes
    ----------
    effort : `search_k`, which may be set anew
    """

    name = "annoy"

    def __init__(
        self,
        vectors: NDArray[np.floating],
        *,
        trees: int = 50,
        search_k: int = -1,
        seed: int = 0,
    ) -> None:
        check_count(trees, 1, what="trees")
        self._begin(vectors, search_k)
        self.index.set_seed(seed)
        for row, vector in enumerate(self.vectors):
            self.index.add_item(row, vector)
        self.index.build(trees, n_jobs=JOBS)

    @classmethod
    def load(cls, vectors: NDArray[np.floating], file: Path, search_k: int = -1) -> Self:
        """The index over these vectors that `save` wrote to `file`, with its trees and its seed."""
        loaded = cls.__new__(cls)
        loaded._begin(vectors, search_k)
        loaded.index.load(str(file))
        if loaded.index.get_n_items() != loaded.size:
            raise InvalidInput(
                f"{file}: got an index of {loaded.index.get_n_items()} rows, expected "
                f"{loaded.size}, one over the same vectors"
            )
        return loaded

    def save(self, file: Path) -> None:
        """Write the index, without the vectors, to `file`."""
        self.index.save(str(file))

    def _begin(self, vectors: NDArray[np.floating], search_k: int) -> None:
        self.vectors = check_vectors(vectors, what="vectors", least=1)
        self.size, self.dimension = self.vectors.shape
        check_count(search_k, -1, what="search_k")
        self.effort = search_k
        import annoy  # here, so that a machine that searches exactly needs neither of the two

        self.index = annoy.AnnoyIndex(self.dimension, "euclidean")

    def nearest(self, queries: NDArray[np.floating], k: int = 1) -> tuple[IntArray, FloatArray]:
        """The k rows that Annoy takes for nearest; -1 where it found fewer."""
        array = check_queries(queries, self.dimension)
        check_count(k, 1, self.size, what="k")
        ids = np.full((len(array), k), -1, dtype=np.int64)
        for row, query in enumerate(array.tolist()):
            neighbors = self.index.get_nns_by_vector(query, k, search_k=self.effort)
            ids[row, : len(neighbors)] = neighbors
        return ids, _distances(self.vectors, array, ids)


class FaissSearch:
    """A faiss index: "flat" (a plain exact scan), "ivf" (inverted lists) or "hnsw" (a graph).

    Parameters
    ----------
    vectors : (rows, dimension) float array, finite
    method : "flat", "ivf" or "hnsw"
    lists, probes : inverted lists in all (default 4 sqrt(rows)), and visited per query
    effort : candidates that are kept while the graph is searched
    """

    def __init__(
        self,
        vectors: NDArray[np.floating],
        method: str = "flat",
        *,
        lists: int | None = None,
        probes: int = 1,
        effort: int = 64,
    ) -> None:
        table = np.ascontiguousarray(check_vectors(vectors, what="vectors", least=1), np.float32)
        self.name, self.vectors = f"faiss-{method}", table
        self.size, self.dimension = table.shape
        import faiss

        self.index: Any
        if method == "flat":
            self.index = faiss.IndexFlatL2(self.dimension)
        elif method == "ivf":
            lists = min(self.size, int(4 * np.sqrt(self.size))) if lists is None else lists
            check_count(lists, 1, self.size, what="lists")
            check_count(probes, 1, what="probes")
            # Held here: the index keeps only a reference to its quantizer.
            self._quantizer = faiss.IndexFlatL2(self.dimension)
            self.index = faiss.IndexIVFFlat(self._quantizer, self.dimension, lists)
            self.index.train(table)
            self.index.nprobe = probes
        elif method == "hnsw":
            check_count(effort, 1, what="effort")
            self.index = faiss.IndexHNSWFlat(self.dimension, LINKS)
            self.index.hnsw.efSearch = effort
        else:
            raise InvalidInput(f"method: got {method!r}, expected 'flat', 'ivf' or 'hnsw'")
        self.index.add(table)

    def nearest(self, queries: NDArray[np.floating], k: int = 1) -> tuple[IntArray, FloatArray]:
        """The k rows that faiss takes for nearest; -1 where it found fewer."""
        array = check_queries(queries, self.dimension)
        check_count(k, 1, self.size, what="k")
        _, ids = self.index.search(np.ascontiguousarray(array, dtype=np.float32), k)
        return ids, _distances(self.vectors, array, ids)
