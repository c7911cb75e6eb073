"""What there is: the registry `assets.toml`, its lock and data cards, and `assets.local.toml`."""

from __future__ import annotations

import difflib
import functools
import os
import tomllib
import urllib.parse
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, Literal, TypeVar

import pydantic
from pydantic import Field, PositiveInt

from textpriv.assets.store import digest_of, sha256
from textpriv.errors import AssetUnavailable, InvalidInput, UnknownAsset
from textpriv.paths import REPOSITORY

REGISTRY = Path(__file__).parents[1] / "assets.toml"

# Formats that hold data and nothing else. Pickles (.bin, .pkl, .pt) run code when loaded.
_DATA_FORMATS = {
    ".safetensors", ".gguf", ".npy", ".model", ".parquet", ".csv", ".tsv", ".jsonl", ".json",
    ".txt", ".cleaned", ".tgt", ".zip",
}  # fmt: skip
_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Sha1 = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
_T = TypeVar("_T")


class _Record(pydantic.BaseModel, frozen=True, extra="forbid"):
    pass


class Member(_Record):
    """A file of an asset: its pinned size and hash, as far as they are known.

    Without a hash (hub only) the revision alone pins the bytes: it is a hash over the whole tree,
    but the client that downloads a file does not compute it.
    """

    name: str  # path inside the source's folder
    size: PositiveInt | None = None  # bytes
    sha256: _Sha256 | None = None
    git_blob: _Sha1 | None = None  # what git calls the bytes, where no SHA-256 is known

    @property
    def pin(self) -> str | None:
        """The hash that decides about the bytes; None where the revision alone pins them."""
        return self.sha256 or self.git_blob

    @pydantic.field_validator("name")
    @classmethod
    def _plain_data(cls, name: str) -> str:
        if _leads_outside(name):
            raise ValueError(f"member {name!r}: expected a relative path without '..'")
        if PurePosixPath(name).suffix not in _DATA_FORMATS:
            raise ValueError(f"member {name!r}: expected one of {sorted(_DATA_FORMATS)}")
        return name


class _Source(_Record):
    kind: str
    folder: str
    licence: str


class WheelSource(_Source):
    """A wheel of the package index, used as an archive."""

    kind: Literal["wheel"]
    package: str
    version: Annotated[str, Field(pattern=r"^\d+(\.\d+)+$")]
    sha256: _Sha256
    size: PositiveInt

    def __str__(self) -> str:
        return f"wheel {self.package}=={self.version}"

    @property
    def requirement(self) -> str:
        """The line of a pip requirements file that pins the wheel."""
        return f"{self.package}=={self.version} --hash=sha256:{self.sha256}"


class _Repository(_Source):
    repo: str
    revision: _Sha1

    def __str__(self) -> str:
        return f"{self.kind} {self.repo}@{self.revision}"


class HubSource(_Repository):
    """A repository of the Hugging Face hub at an immutable revision."""

    kind: Literal["hub"]
    repo_type: Literal["model", "dataset"]


class GithubSource(_Repository):
    """A repository on GitHub at an immutable commit."""

    kind: Literal["github"]

    def url(self, path: str) -> str:
        """Where the bytes of the file `path` are served."""
        place = urllib.parse.quote(f"{self.repo}/{self.revision}/{path}")
        return f"https://raw.githubusercontent.com/{place}"


Source = WheelSource | HubSource | GithubSource


class Asset(_Record):
    """A data set, an embedding or a model: its members, its card, its sources in order."""

    id: str
    title: str
    kind: Literal["embedding", "model", "dataset"]
    contents: str
    reference: str
    data_licence: str
    redistribution: Literal["yes", "no", "unclear"]
    redistribution_why: str
    flaws: tuple[str, ...]
    otherwise: str
    gated: bool = False  # served only after its licence has been accepted at the hub
    weights: PositiveInt | None = None  # of a model: how many numbers it consists of
    weight_bytes: PositiveInt = 4  # of each of them, as stored
    members: Annotated[tuple[Member, ...], Field(min_length=1)]
    sources: Annotated[
        tuple[Annotated[Source, Field(discriminator="kind")], ...], Field(min_length=1)
    ]

    @pydantic.model_validator(mode="after")
    def _pinned(self) -> Asset:
        kinds = {source.kind for source in self.sources}
        if "wheel" in kinds and any(m.sha256 is None or m.size is None for m in self.members):
            raise ValueError(f"{self.id}: a wheel's members need sha256 and size")
        if "github" in kinds and any(m.pin is None for m in self.members):
            raise ValueError(f"{self.id}: members from GitHub need sha256 or git_blob")
        if len({m.name for m in self.members}) < len(self.members):
            raise ValueError(f"{self.id}: member names repeat")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 over the names and pinned hashes of the members."""
        return digest_of({m.name: m.pin or str(self.sources[0]) for m in self.members})

    @property
    def download_size(self) -> int | None:
        """Bytes that the first source transfers; None where the registry does not know."""
        first = self.sources[0]
        return first.size if isinstance(first, WheelSource) else self.size

    @property
    def size(self) -> int | None:
        """Bytes of all members; None where the registry does not know."""
        sizes = [m.size for m in self.members if m.size is not None]
        return sum(sizes) if len(sizes) == len(self.members) else None

    def member(self, name: str) -> Member:
        """Return the member called `name`; UnknownAsset when there is none."""
        return look_up(f"member of {self.id}", name, {m.name: m for m in self.members})


def registry() -> Mapping[str, Asset]:
    """All registered assets by id, in the order of `assets.toml`."""
    return _parsed(REGISTRY)


@functools.lru_cache(maxsize=8)
def _parsed(path: Path) -> Mapping[str, Asset]:
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    assets = {key: Asset(id=key, **fields) for key, fields in document["assets"].items()}
    return MappingProxyType(assets)


def find(asset_id: str) -> Asset:
    return look_up("asset", asset_id, registry())


def look_up(what: str, name: str, known: Mapping[str, _T]) -> _T:
    """The entry of that name; UnknownAsset suggests close ones when there is none."""
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else f"choose one of {', '.join(known)}"
    raise UnknownAsset(f"no {what} is called {name!r}: {hint}")


def _leads_outside(path: str) -> bool:
    parts = path.replace("\\", "/").split("/")
    return path.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or "\0" in path


def lock_text() -> str:
    """Contents of `assets.lock`: every wheel of the registry, as pip requirements with hashes."""
    sources = (source for each in registry().values() for source in each.sources)
    lines = sorted({s.requirement for s in sources if isinstance(s, WheelSource)})
    return "\n".join(["# Made by: python -m textpriv.assets", *lines, ""])


def card(asset_id: str) -> str:
    """Render the data card of an asset as Markdown."""
    shown = find(asset_id)
    size = f"{shown.size:,} bytes" if shown.size else "size not pinned"
    lines = [
        f"## {shown.title}\n",
        f"`{shown.id}`, {shown.kind}, {size}. {one_line(shown.contents)}\n",
        f"- **Reference:** {shown.reference}",
        f"- **Licence of the data:** {shown.data_licence}",
        f"- **Redistribution:** {shown.redistribution}; {shown.redistribution_why}",
        *(f"- **Source:** {source}; licence: {source.licence}" for source in shown.sources),
        "- **Known flaws:**",
        *(f"  - {flaw}" for flaw in shown.flaws),
        f"- **Should the sources vanish:** {one_line(shown.otherwise)}\n",
        "| member | bytes | SHA-256 |",
        "| --- | --- | --- |",
    ]
    for m in shown.members:
        pin = f"git blob {m.git_blob}" if m.git_blob else m.sha256 or "by revision"
        lines.append(f"| {m.name} | {m.size or ''} | `{pin}` |")
    return "\n".join([*lines, ""])


def one_line(text: str) -> str:
    return " ".join(text.split())


class Local(_Record):
    """A user's own file or folder in place of an asset.

    `text` and `columns` name the columns of a table: `columns` maps the names that the corpus
    uses to the names in the table.
    """

    asset_id: str
    path: Path
    text: str | None = None
    columns: Mapping[str, str] | None = None

    def file(self, name: str) -> Path:
        """Return the file itself, or the file `name` of the folder."""
        path = self.path / name if self.path.is_dir() else self.path
        if not path.is_file():
            raise AssetUnavailable(
                f"{self.asset_id}: expected the file {name} in the local folder {self.path}, "
                f"found {', '.join(sorted(os.listdir(self.path))) or 'nothing'}; "
                f"add it, or correct {local_registry()}"
            )
        return path

    @property
    def digest(self) -> str:
        """SHA-256 over the names and contents of the files."""
        if self.path.is_file():
            return digest_of({self.path.name: sha256(self.path)})
        files = (p for p in self.path.rglob("*") if p.is_file())
        return digest_of({p.relative_to(self.path).as_posix(): sha256(p) for p in files})


def local(asset_id: str) -> Local | None:
    """Return the user's replacement of an asset, or None.

    Replacements stand in `assets.local.toml` at the root of the repository, or in the TOML file
    that `TEXTPRIV_LOCAL_ASSETS` names: `[sst2]`, then `path = "/data/sst2.tsv"` and optionally
    `text = "sentence"` and `columns = {label = "polarity"}`. Relative paths start at the TOML file.
    """
    where = local_registry()
    if not where.is_file():
        if "TEXTPRIV_LOCAL_ASSETS" not in os.environ:
            return None
        raise AssetUnavailable(
            f"{asset_id}: TEXTPRIV_LOCAL_ASSETS names {where}, which is not a file; "
            "correct or unset it"
        )
    try:
        entries = tomllib.loads(where.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{where}: expected TOML in UTF-8, got: {error}") from error
    for known in entries:
        look_up(f"asset (in {where})", known, registry())
    if asset_id not in entries:
        return None
    try:
        replacement = Local.model_validate({"asset_id": asset_id, **entries[asset_id]})
    except (TypeError, pydantic.ValidationError) as error:
        raise InvalidInput(
            f"{where}, [{asset_id}]: expected path, and optionally text and columns = {{name = "
            f'"name in the table"}}, got {entries[asset_id]!r}'
        ) from error
    path = where.parent / replacement.path.expanduser()
    if not path.exists():
        raise AssetUnavailable(
            f"{asset_id}: {where} names {path}, which does not exist; correct the path, "
            f"or remove [{asset_id}] to download the asset"
        )
    return replacement.model_copy(update={"path": path})


def local_registry() -> Path:
    return Path(os.environ.get("TEXTPRIV_LOCAL_ASSETS") or REPOSITORY / "assets.local.toml")
