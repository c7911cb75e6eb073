"""Whether a notebook has to run again.

After a notebook has run, its key (what it depends on) and the hashes of what it wrote are
kept in `runs/<run>/state`. It is up to date while both still agree. The state is written
last, so an interrupted notebook keeps its old state and runs again.
"""

from __future__ import annotations

import ast
import hashlib
import platform
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

import textpriv
from textpriv import paths, profiles
from textpriv.errors import RunError
from textpriv.files import canonical_json, write_atomic
from textpriv.report import claims, results
from tools.notebooks import Notebook, needed

PACKAGE = Path(textpriv.__file__).resolve().parent
LOCK = paths.REPOSITORY / "requirements.lock"


class State(BaseModel):
    """What is remembered of a notebook's last complete run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: dict[str, str]
    outputs: dict[str, str]


def key(notebook: Notebook, parameters: Mapping[str, Any]) -> dict[str, str]:
    """Digest of each thing that a notebook's outputs depend on."""
    profile, run = parameters["profile"], results.run_name(**parameters)
    wanted = needed(notebook, profile)
    parts: dict[str, Any] = {
        "notebook": [notebook.code, notebook.declares.model_dump()],
        "parameters": dict(parameters),
        "library": {str(path.relative_to(PACKAGE)): _sha256(path) for path in reached(notebook)},
        "profile": [
            profiles.settings(profile, parameters["overrides"]).model_dump(),
            profiles.table(profile, notebook.name),
        ],
        "assets": {asset_id: _asset_digest(asset_id) for asset_id in wanted},
        "results": {name: _measured(name, run) for name in notebook.declares.results},
        "claims": [
            claim.model_dump()
            for name in (notebook.name, *notebook.declares.results)
            for claim in claims.of(name)
        ],
        "reads": {name: _content(name, run) for name in notebook.declares.reads},
        "environment": _environment(),
    }
    return {name: _digest(canonical_json(part).encode()) for name, part in parts.items()}


def stale(key: Mapping[str, str], outputs: Iterable[Path], state: Path) -> str | None:
    """Why a notebook has to run; None when it is up to date."""
    try:
        known = State.model_validate_json(state.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return "not run before"
    changed = [name for name in key if known.key.get(name) != key[name]]
    if changed:
        return f"changed: {', '.join(changed)}"
    for path in outputs:
        if not path.exists():
            return f"missing: {path.name}"
        if known.outputs.get(_shown(path)) != _sha256(path):
            return f"overwritten: {path.name}"
    return None


def remember(key: Mapping[str, str], outputs: Iterable[Path], state: Path) -> None:
    """Note that a notebook ran to its end and wrote these files."""
    hashes = {_shown(path): _sha256(path) for path in outputs}
    write_atomic(state, State(key=dict(key), outputs=hashes).model_dump_json(indent=1).encode())


def reached(notebook: Notebook) -> list[Path]:
    """Files of the library that a notebook's code imports, directly or through others.

    Imports are read and not executed; those inside functions count too. Beside a module
    its style file counts, because it decides how figures look.
    """
    found: set[Path] = set()
    queue = [path for source in notebook.code for path in _imported(source, "", notebook.name)]
    while queue:
        path = queue.pop()
        if path not in found:
            found.add(path)
            found.update(path.parent.glob("*.mplstyle"))
            queue += _imported(path.read_text(encoding="utf-8"), _package(path), path.name)
    return sorted(found)


def _imported(source: str, package: str, where: str) -> Iterator[Path]:
    """Files of textpriv that a source imports; `package` is where it lies itself."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise RunError(f"{where} is not valid Python: {error}: {error.text}") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) - node.level + 1] if node.level else []
            module = ".".join([*base, *(node.module.split(".") if node.module else [])])
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            yield from _files(name)


def _files(module: str) -> Iterator[Path]:
    """The file of a module of textpriv and of each package around it."""
    root, *parts = module.split(".")
    if root != PACKAGE.name:
        return
    for depth in range(len(parts) + 1):
        place = PACKAGE.joinpath(*parts[:depth])
        for path in (place / "__init__.py", place.with_suffix(".py")):
            if path.is_file() and path.is_relative_to(PACKAGE):
                yield path


def _package(path: Path) -> str:
    return ".".join([PACKAGE.name, *path.relative_to(PACKAGE).parts[:-1]])


def _asset_digest(asset_id: str) -> str:
    """What the registry, or the user's replacement, says that the bytes are."""
    from textpriv import assets

    if replacement := assets.local(asset_id):
        return replacement.digest
    if asset_id not in assets.registry():
        raise RunError(f"a notebook declares the asset {asset_id!r}, which nobody has registered")
    return assets.registry()[asset_id].digest


def _measured(notebook: str, run: str) -> list[dict[str, Any]] | None:
    """Another notebook's measurements, without what its run happened to cost."""
    if not results.file(notebook, run).exists():
        return None
    found = results.load(notebook, run).measurements
    return [m.model_dump() for m in found if not m.name.startswith("run.")]


def _content(name: str, run: str) -> str | None:
    """Digest of a file that a notebook reads; figures are those of the run."""
    folder = paths.output_directory(run) if name.startswith("figures/") else paths.REPOSITORY
    path = folder / name
    return _sha256(path) if path.is_file() else None


def _environment() -> list[str]:
    """Python and the installed version of every library that the lock names."""
    locked = [line.split("==")[0] for line in LOCK.read_text().splitlines() if "==" in line]
    installed = [f"{name}=={_version(name)}" for name in locked]
    return [platform.python_version(), platform.machine(), *installed]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None  # an environment of the user's own


def _shown(path: Path) -> str:
    return path.relative_to(paths.REPOSITORY).as_posix()


def _sha256(path: Path) -> str:
    return _digest(path.read_bytes())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
