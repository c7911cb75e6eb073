"""What comes from elsewhere: pinned, every byte checked, never executed, never unpacked blindly.

- the registry: each asset by revision or version, hash and size; what is not is listed here
- one byte changed, added or cut, in a download or in the cache, is caught: 100 of 100
- an archive with a member that is absolute, leads outside, is a link or a device, or repeats a
  name is refused
- no source and no notebook loads what can run code (over the syntax tree, with names resolved)
"""

from __future__ import annotations

import ast
import os
import random
import re
import shutil
import stat
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import nbformat
import pytest
from killing import build
from test_house_rules import NOTEBOOKS, REPOSITORY, files, named
from tiny_assets import Tiny, fake_members, fetch_anew, files_below, real_members, write_wheel
from tools.notebooks import plain_python

from textpriv import assets
from textpriv.assets import store
from textpriv.data.corpora import read_table
from textpriv.errors import AssetCorrupt, InvalidInput

FLIPS = 100

# --- Pins -----------------------------------------------------------------------------------------

RAW: dict[str, Any] = tomllib.loads(assets.REGISTRY.read_text(encoding="utf-8"))["assets"]
EXACT_VERSION = re.compile(r"\d+(\.\d+)+")
REVISION = re.compile(r"[0-9a-f]{40}")

# Members whose hash was unknown when the registry was written, for the hub could not be asked:
# the revision pins them, a hash over the whole tree, which the client does not compute. They serve
# the paper profile alone. Their hashes are noted when they are fetched, and checked ever after.
BY_REVISION_ALONE = {
    "bert-base-uncased": 5, "bert-base-cased": 5, "roberta-base": 5, "roberta-large": 6,
    "all-mpnet-base-v2": 10, "gpt2": 6, "gpt2-xl": 6, "t5-small": 6, "t5-3b": 4, "flan-t5-xl": 9,
    "bart-large-cnn": 6, "falconsai-text-summarization": 7, "tinyllama-chat": 5,
    "llama-3-8b-instruct": 10, "qnli": 2, "yelp-polarity": 2, "multi-news": 6,
}  # fmt: skip
# Known by git's name for their bytes, a SHA-1 over the length and the bytes.
BY_GIT_BLOB = {
    "imdb-authors": 1, "yelp-authors": 1, "chatgpt-paraphrases-imdb": 1,
    "chatgpt-paraphrases-yelp": 1,
}  # fmt: skip
# With a hash, but of unknown size.
WITHOUT_SIZE = {"gpt2-xl": 1}


def pin_problems(entry: dict[str, Any]) -> list[str]:
    """What is not pinned by revision or version, hash and size."""
    found = []
    for source in entry["sources"]:
        if source["kind"] == "wheel":
            exact = EXACT_VERSION.fullmatch(source.get("version", ""))
            found += [] if exact else ["wheel without an exact version"]
            found += [f"wheel without {key}" for key in ("sha256", "size") if key not in source]
        elif not REVISION.fullmatch(source.get("revision", "")):
            found.append(f"{source['kind']} without a revision")
    for member in entry["members"]:
        if "sha256" not in member:
            found.append("by git blob" if "git_blob" in member else "by revision alone")
        elif "size" not in member:
            found.append("without size")
    return found


@pytest.mark.parametrize("asset_id", RAW)
def test_every_asset_is_pinned(asset_id: str) -> None:
    allowed = [
        *["by revision alone"] * BY_REVISION_ALONE.get(asset_id, 0),
        *["by git blob"] * BY_GIT_BLOB.get(asset_id, 0),
        *["without size"] * WITHOUT_SIZE.get(asset_id, 0),
    ]
    assert sorted(pin_problems(RAW[asset_id])) == sorted(allowed)


def test_exceptions_are_no_default() -> None:
    excepted = {*BY_REVISION_ALONE, *BY_GIT_BLOB, *WITHOUT_SIZE}
    assert excepted <= set(RAW) and not excepted & set(assets.defaults())
    for asset_id in BY_REVISION_ALONE:  # the data card says so
        assert "by revision alone" in assets.registry()[asset_id].flaws[0]


def test_rules_for_pins_bite() -> None:
    wheel = {"kind": "wheel", "version": "1.0", "sha256": "", "size": 1}
    hub = {"kind": "hub", "revision": "0" * 40}
    member = {"name": "a.txt", "sha256": "", "size": 1}
    assert pin_problems({"sources": [wheel, hub], "members": [member]}) == []
    for entry, key, value, problem in (
        (wheel, "version", ">=1", "wheel without an exact version"),
        (wheel, "version", "1", "wheel without an exact version"),
        (wheel, "sha256", None, "wheel without sha256"),
        (wheel, "size", None, "wheel without size"),
        (hub, "revision", "main", "hub without a revision"),
        (hub, "revision", "0" * 39, "hub without a revision"),
        (hub, "revision", None, "hub without a revision"),
        (member, "sha256", None, "by revision alone"),
        (member, "size", None, "without size"),
    ):
        bad = {name: each for name, each in {**entry, key: value}.items() if each is not None}
        sources, members = ([], [bad]) if entry is member else ([bad], [])
        assert pin_problems({"sources": sources, "members": members}) == [problem]


def test_the_lock_pins_the_wheels_of_the_registry() -> None:
    wheels = [s for entry in RAW.values() for s in entry["sources"] if s["kind"] == "wheel"]
    lines = {f"{s['package']}=={s['version']} --hash=sha256:{s['sha256']}" for s in wheels}
    assert set(assets.LOCK.read_text().splitlines()[1:]) == lines


# --- Changed bytes --------------------------------------------------------------------------------


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


def test_a_flipped_byte_in_a_cached_computation_is_mended(cache: Path) -> None:
    folder = assets.derived("table", key="1", build=build)
    content = files_below(folder)
    mended = 0
    for name, data in flipped(content, seed=3):
        (folder / name).write_bytes(data)
        store.forget()
        assert files_below(assets.derived("table", key="1", build=build)) == content
        mended += 1
    assert mended == FLIPS


@pytest.mark.parametrize(
    "change",
    [
        lambda path: append(path, b"\0"),
        lambda path: append(path, b"\n"),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
        lambda path: path.rename(f"{path}.bak"),
        lambda path: path.with_name("adapter_config.json").write_text("{}"),
        lambda path: path.with_name("pytorch_model.bin").touch(),
        lambda path: path.with_name("model.py").symlink_to(__file__),
        lambda path: path.with_name("more").symlink_to(path.parent),
        lambda path: path.with_name("gone.json").symlink_to(path.parent / "nowhere"),
    ],
    ids=["added", "added line", "cut", "emptied", "missing", "renamed", "extra", "beside", "link",
         "linked folder", "dead link"],
)  # fmt: skip
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


def append(path: Path, data: bytes) -> None:
    path.write_bytes(path.read_bytes() + data)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"wheel tiny==1.0"', b'"wheel tiny==2.0"'),
        (b'"source"', b'"sources"'),
        (b"{\n", b"{ \n"),
        (b"vocab.txt", b"vocab.tsv"),
    ],
)
def test_a_receipt_is_what_was_written(tiny: Tiny, old: bytes, new: bytes) -> None:
    tiny.serve(real_members(), "wheel")
    receipt = assets.fetch("tiny") / "receipt.json"
    assert old in receipt.read_bytes()
    receipt.write_bytes(receipt.read_bytes().replace(old, new, 1))
    for use in (assets.fetch, assets.provenance):
        with pytest.raises(AssetCorrupt, match=r"tiny: .*receipt\.json in .*fetch it again"):
            use("tiny")


# --- Archives -------------------------------------------------------------------------------------


def entry(name: str, mode: int = stat.S_IFREG) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (mode | 0o644) << 16
    return info


@pytest.mark.parametrize(
    ("unsafe", "says"),
    [
        (entry("/evil.txt"), "leads outside"),
        (entry("//evil.txt"), "leads outside"),
        (entry("\\evil.txt"), "leads outside"),
        (entry("../evil.txt"), "leads outside"),
        (entry("data/../../evil.txt"), "leads outside"),
        (entry("data\\..\\..\\evil.txt"), "leads outside"),
        (entry("data/.."), "leads outside"),
        (entry("C:/evil.txt"), "leads outside"),
        (entry("C:evil.txt"), "leads outside"),
        (entry("data/link.txt", stat.S_IFLNK), "a symbolic link"),
        (entry("data/tty", stat.S_IFCHR), "a device or a pipe"),
        (entry("data/disk", stat.S_IFBLK), "a device or a pipe"),
        (entry("data/pipe", stat.S_IFIFO), "a device or a pipe"),
        (entry("data/socket", stat.S_IFSOCK), "a device or a pipe"),
        (entry("data/vocab.txt"), "a repeated name"),
        (entry("data//vocab.txt"), "a repeated name"),
        (entry("data/./vocab.txt"), "a repeated name"),
        (entry("other.txt"), None),
        (entry("data/folder/", stat.S_IFDIR), None),
        (entry("data/from_windows.txt", 0), None),
        (entry("data/..hidden.."), None),
    ],
)
def test_unsafe_members_of_a_wheel_are_refused(
    tiny: Tiny, unsafe: zipfile.ZipInfo, says: str | None
) -> None:
    members = real_members()
    tiny.source.mkdir()
    if not unsafe.external_attr >> 28:
        unsafe.external_attr = 0
    with pytest.warns(UserWarning) if unsafe.filename == "data/vocab.txt" else nullcontext():
        write_wheel(tiny.wheel, members, (unsafe, members["vocab.txt"]))
    tiny.serve(members, "wheel")  # pinned with the unsafe member: the hash does not refuse it
    if says is None:
        assert set(files_below(assets.fetch("tiny"))) == {*members, "receipt.json"}
        return
    with pytest.raises(
        AssetCorrupt, match=f"tiny: wheel tiny==1.0: expected plain members.*{says}"
    ):
        assets.fetch("tiny")
    tiny.assert_nothing_kept()
    assert not [path for path in tiny.root.rglob("*") if "evil" in path.name]


def test_a_tar_is_no_wheel(tiny: Tiny) -> None:
    """No archive but ZIP is opened: hard links and devices of a tar are never looked at."""
    tiny.source.mkdir()
    with tarfile.open(tiny.wheel, "w") as archive:
        for kind in (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.REGTYPE):
            info = tarfile.TarInfo("data/vocab.txt")
            info.type, info.linkname = kind, "/etc/hostname"
            archive.addfile(info)
    tiny.serve(real_members(), "wheel")
    with pytest.raises(AssetCorrupt, match="tiny: .*expected a readable archive"):
        assets.fetch("tiny")
    tiny.assert_nothing_kept()


def test_an_archive_of_ones_own_is_read_and_never_unpacked(tmp_path: Path) -> None:
    """The table of a ZIP file: a link is not followed, a repeated name is refused."""
    secret = tmp_path / "secret.csv"
    secret.write_text("text\nnobody reads this\n")
    place = tmp_path / "inner"
    place.mkdir()
    path = place / "mine.zip"
    write_wheel(path, {}, (entry("table.csv", stat.S_IFLNK), str(secret).encode()))
    with pytest.raises(InvalidInput):
        read_table(path)
    write_wheel(path, {}, (entry("../../evil.csv"), b"text\nmine\n"))
    assert read_table(path).texts == ("mine",)
    with pytest.warns(UserWarning, match="Duplicate name"):
        write_wheel(path, {}, *[(entry("a.csv"), b"text\nmine\n")] * 2)
    with pytest.raises(InvalidInput, match="2 tables in an archive"):
        read_table(path)
    assert {each for each in tmp_path.rglob("*") if each.is_file()} == {secret, path}


# --- Sources --------------------------------------------------------------------------------------

FORBIDDEN_MODULES = {
    "pickle", "cPickle", "_pickle", "_compat_pickle", "dill", "cloudpickle", "jsonpickle",
    "marshal", "shelve", "tarfile",
}  # fmt: skip
FORBIDDEN = {
    "eval", "exec", "compile", "__import__", "builtins.eval", "builtins.exec", "builtins.compile",
    "builtins.__import__", "torch.load", "torch.save", "torch.jit.load", "torch.hub.load",
    "torch.package.PackageImporter", "joblib.load", "joblib.dump", "pandas.read_pickle",
    "yaml.load", "yaml.load_all",
    "yaml.unsafe_load", "yaml.unsafe_load_all", "yaml.full_load", "yaml.full_load_all",
    "runpy.run_path", "runpy.run_module", "shutil.unpack_archive", "os.system", "os.popen",
    "subprocess.getoutput", "subprocess.getstatusoutput",
}  # fmt: skip
FORBIDDEN_METHODS = {"read_pickle", "to_pickle", "extractall", "load_dataset", "snapshot_download"}
SAFE_LOADERS = {"yaml.SafeLoader", "yaml.CSafeLoader"}
FALSE_ONLY = {"allow_pickle", "trust_remote_code", "shell"}
NAMES_OF_MODELS = {"model", "model_name_or_path", "pretrained_model_name_or_path"}
HUB_CALLS = {"from_pretrained", "hf_hub_download", "SentenceTransformer", "pipeline"}


def dangers(source: str, *, library: bool = False) -> list[str]:
    """What in a source can run code that came as data, by its resolved name, with its line."""
    tree = ast.parse(source)
    names = _imported_names(tree)
    found = set()
    for node in ast.walk(tree):
        found |= {(problem, node.lineno) for problem in _problems(node, names, library)}
    return [f"{problem}, line {line}" for problem, line in sorted(found)]


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """The full name behind each name that an import, wherever it stands, binds."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _full_name(node: ast.AST, names: dict[str, str]) -> str:
    """The dotted name of an expression with its import resolved; "" if it has none."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        before = _full_name(node.value, names)
        return f"{before}.{node.attr}" if before else f".{node.attr}"
    return ""


def _problems(node: ast.AST, names: dict[str, str], library: bool) -> Iterator[str]:
    for module in _modules(node):
        if FORBIDDEN_MODULES & set(module.split(".")) or module in FORBIDDEN:
            yield f"import {module}"
    if isinstance(node, ast.Name | ast.Attribute):  # also where it is not called but passed on
        name = _full_name(node, names)
        last = name.split(".")[-1]
        if name in FORBIDDEN and not name.startswith("yaml.load"):
            yield name
        elif name.split(".")[0] in FORBIDDEN_MODULES and name != last:
            yield name
        elif last in FORBIDDEN_METHODS and isinstance(node, ast.Attribute):
            yield f".{last}"
    if isinstance(node, ast.Call):
        yield from _call_problems(node, _full_name(node.func, names), names, library)
    if isinstance(node, ast.Dict):  # keywords that are passed on
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value in FALSE_ONLY and not _is_false(value):
                yield f"{key.value}={ast.unparse(value)}"


def _call_problems(
    call: ast.Call, name: str, names: dict[str, str], library: bool
) -> Iterator[str]:
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    last = name.split(".")[-1]
    for key in FALSE_ONLY & keywords.keys():
        if not _is_false(keywords[key]):
            yield f"{key}={ast.unparse(keywords[key])}"
    if name == "numpy.load" and len(call.args) > 2:
        yield "allow_pickle by position"
    if name in ("yaml.load", "yaml.load_all"):
        loader = keywords.get("Loader", call.args[1] if len(call.args) > 1 else None)
        if loader is None or _full_name(loader, names) not in SAFE_LOADERS:
            yield name
    if name in ("importlib.import_module", "importlib.__import__"):
        what = call.args[0] if call.args else keywords.get("name")
        if isinstance(what, ast.Constant) and str(what.value).split(".")[0] in FORBIDDEN_MODULES:
            yield f"import {what.value}"
    if name in ("builtins.getattr", "getattr") and len(call.args) > 1:
        what = call.args[1]
        if isinstance(what, ast.Constant) and what.value in ("eval", "exec", "__import__"):
            yield f"getattr {what.value}"
    if last in HUB_CALLS and not name.startswith("torch.nn."):
        # A path stands in a variable; a name of the hub, in a text.
        given = [*call.args[:1], *(keywords[key] for key in NAMES_OF_MODELS & keywords.keys())]
        named = any(isinstance(each, ast.Constant) for each in given)
        at_hand = keywords.keys() & {"revision", "local_files_only"}
        if (named or last == "hf_hub_download") and not at_hand:
            yield f"{last} without revision"
        if library and last == "from_pretrained" and "trust_remote_code" not in keywords:
            yield "from_pretrained without trust_remote_code=False"


def _is_false(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


# Where a rule is broken on purpose: file, what, and why it may.
EXCEPTIONS = {
    "tests/test_supply_chain.py": {"tarfile": "makes the bad archive that has to be refused"},
    "tests/test_paper_profile.py": {"compile": "runs cells of this repository's own notebooks"},
    "tests/cells.py": {"compile": "runs functions of this repository's own notebooks"},
}


def unexcused(path: Path, problems: list[str]) -> list[str]:
    excused = EXCEPTIONS.get(path.relative_to(REPOSITORY).as_posix(), {})
    return [p for p in problems if not any(word in p for word in excused)]


@named(files(".py"))
def test_no_source_runs_what_it_reads(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert unexcused(path, dangers(source, library="lib" in path.parts)) == []


@named(NOTEBOOKS)
def test_no_notebook_runs_what_it_reads(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    code = "\n".join(plain_python(cell.source) for cell in cells if cell.cell_type == "code")
    assert dangers(code) == []


def test_exceptions_are_needed() -> None:
    for name, excused in EXCEPTIONS.items():
        path = REPOSITORY / name
        if path.exists():
            problems = dangers(path.read_text(encoding="utf-8"))
            assert all(any(word in p for p in problems) for word in excused), name


PLANTED = """\
import pickle
import pickle as harmless
import _pickle
import cPickle
import dill as d
import cloudpickle
import marshal
import shelve
import tarfile
def f(): import pickle
from pickle import loads
from pickle import loads as read
from multiprocessing.reduction import pickle
importlib.import_module('pickle')
from importlib import import_module; import_module('dill._dill')
from importlib import import_module as load; load(name='marshal')
__import__('os')
eval('1')
exec('1')
run = eval
list(map(exec, lines))
import builtins; builtins.eval('1')
import builtins as b; b.exec('1')
getattr(builtins, 'eval')('1')
compile(source, 'x', 'exec')
import torch; torch.load(p)
import torch; torch.load(p, weights_only=True)
import torch as t; t.load(p)
from torch import load; load(p)
from torch import load as weights; weights(p)
import torch; torch.save(x, p)
import torch; torch.jit.load(p)
import torch.hub as h; h.load('a/b', 'c')
import joblib; joblib.load(p)
from joblib import load
import joblib as jl; jl.dump(x, p)
import numpy as np; np.load(p, allow_pickle=True)
import numpy as np; np.load(p, allow_pickle=flag)
import numpy as np; np.load(p, None, True)
import numpy as np; np.load(p, **{'allow_pickle': True})
import pandas as pd; pd.read_pickle(p)
frame.to_pickle(p)
from pandas import read_pickle
AutoModel.from_pretrained(folder, trust_remote_code=True)
AutoModel.from_pretrained(folder, trust_remote_code=flag)
AutoModel.from_pretrained(folder, **{'trust_remote_code': 1})
AutoModel.from_pretrained('gpt2')
AutoModel.from_pretrained(pretrained_model_name_or_path='gpt2')
from transformers import pipeline; pipeline('summarization', model='x/y')
import transformers; transformers.pipeline('summarization')
from sentence_transformers import SentenceTransformer as S; S('all-mpnet-base-v2')
huggingface_hub.hf_hub_download(repo, name)
huggingface_hub.snapshot_download(repo)
datasets.load_dataset(name)
import yaml; yaml.load(text)
import yaml; yaml.load(text, Loader=yaml.Loader)
import yaml; yaml.load(text, yaml.UnsafeLoader)
from yaml import load; load(text)
import yaml; yaml.unsafe_load(text)
import yaml; yaml.full_load(text)
import subprocess; subprocess.run(line, shell=True)
from subprocess import Popen; Popen(line, shell=1)
import os; os.system(line)
from os import popen; popen(line)
archive.extractall(folder)
import shutil; shutil.unpack_archive(p)
import runpy; runpy.run_path(p)
"""


@pytest.mark.parametrize("source", PLANTED.splitlines())
def test_rules_for_sources_bite(source: str) -> None:
    assert dangers(source) != []
    assert dangers(f"class A:\n    async def f(self):\n        with x:\n            {source}") != []


def test_the_library_says_that_it_runs_no_remote_code() -> None:
    source = "AutoModel.from_pretrained(folder)"
    assert dangers(source) == []
    assert dangers(source, library=True) == [
        "from_pretrained without trust_remote_code=False, line 1"
    ]


@pytest.mark.parametrize(
    "source",
    [
        "model.eval()",
        "frame.eval('a + b')",
        "evaluate(x)",
        "re.compile('x')",
        "import re; re.compile('x')",
        "import numpy as np; np.load(p, allow_pickle=False)",
        "import numpy as np; np.load(p)",
        "from joblib import Parallel, delayed",
        "import json; json.load(file)",
        "import tomllib; tomllib.load(file)",
        "import yaml; yaml.safe_load(text)",
        "import yaml; yaml.load(text, Loader=yaml.SafeLoader)",
        "from safetensors.torch import load_model; load_model(model, path)",
        "AutoModel.from_pretrained(folder, trust_remote_code=False)",
        "AutoModel.from_pretrained('gpt2', revision=revision, trust_remote_code=False)",
        "import torch; torch.nn.Embedding.from_pretrained(rows)",
        "SentenceTransformer(folder)",
        "huggingface_hub.hf_hub_download(repo, name, revision=revision)",
        "import subprocess; subprocess.run(['ls'], shell=False)",
        "import zipfile; zipfile.ZipFile(p).open('x')",
        "text = 'import pickle'  # eval(x)",
    ],
)
def test_rules_for_sources_do_not_bite_at_random(source: str) -> None:
    assert dangers(source) == []
