"""Whether a notebook has to run again.

After a notebook has run, its key (what it depends on) and the hashes of what it wrote are
kept in `runs/<run>/state`. It is up to date while both still agree. The state is written
last, so an interrupted notebook keeps its old state and runs again.
"""

from __future__ import annotations

import ast
import hashlib
import json
import platform
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import textpriv
from textpriv import assets, paths, profiles
from textpriv.errors import RunError
from textpriv.files import canonical_json, write_atomic
from textpriv.report import claims, results
from tools.notebooks import Notebook, needed

PACKAGE = Path(textpriv.__file__).resolve().parent
LOCK = paths.REPOSITORY / "requirements.lock"


def key(notebook: Notebook, parameters: Mapping[str, Any]) -> dict[str, str]:
    """Digest of each thing that a notebook's outputs depend on."""
    profile, run = parameters["profile"], results.run_name(**parameters)
    own = [notebook.name, *notebook.declares.results]
    parts: dict[str, Any] = {
        "notebook": [notebook.code, notebook.declares.model_dump()],
        "parameters": dict(parameters),
        "library": {
            str(path.relative_to(PACKAGE)): assets.sha256(path) for path in reached(notebook)
        },
        "profile": [
            profiles.settings(profile, parameters["overrides"]).model_dump(),
            profiles.table(profile, notebook.name),
        ],
        "assets": {asset_id: _asset_digest(asset_id) for asset_id in needed(notebook, profile)},
        "results": {name: _measured(name, run) for name in notebook.declares.results},
        "claims": [claim.model_dump() for name in own for claim in claims.for_notebook(name)],
        "reads": {name: _content(name, run) for name in notebook.declares.reads},
        "environment": _environment(),
    }
    return {
        name: hashlib.sha256(canonical_json(part).encode()).hexdigest()
        for name, part in parts.items()
    }


def stale(key: Mapping[str, str], outputs: Iterable[Path], state: Path) -> str | None:
    """Why a notebook has to run; None when it is up to date."""
    try:
        known = json.loads(state.read_text(encoding="utf-8"))
        old, hashes = dict(known["key"]), dict(known["outputs"])
    except (OSError, ValueError, LookupError, TypeError):
        return "not run before"
    if changed := [name for name in key if old.get(name) != key[name]]:
        return f"changed: {', '.join(changed)}"
    for path in outputs:
        if not path.exists():
            return f"missing: {path.name}"
        if hashes.get(_shown(path)) != assets.sha256(path):
            return f"overwritten: {path.name}"
    return None


def remember(key: Mapping[str, str], outputs: Iterable[Path], state: Path) -> None:
    """Note that a notebook ran to its end and wrote these files."""
    known = {"key": key, "outputs": {_shown(path): assets.sha256(path) for path in outputs}}
    write_atomic(state, json.dumps(known, indent=1).encode())


def reached(notebook: Notebook) -> list[Path]:
    """Files of the library that a notebook's code imports, directly or through others.

    Imports are read and not executed; those inside functions count too. Beside a module
    its style file counts, because it decides how figures look.
    """
    files: set[Path] = set()
    try:
        queue = [path for source in notebook.code for path in _imported(source)]
    except SyntaxError as error:
        raise RunError(f"{notebook.name} is not valid Python: {error}: {error.text}") from error
    while queue:
        path = queue.pop()
        if path not in files:
            files.add(path)
            files.update(path.parent.glob("*.mplstyle"))
            queue += _imports(path, path.stat().st_mtime_ns)
    return sorted(files)


@cache
def _imports(path: Path, changed: int) -> list[Path]:
    return [*_imported(path.read_text(encoding="utf-8"))]


def _imported(source: str) -> Iterator[Path]:
    """Files of textpriv that a source imports, and those of the packages around them."""
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):  # relative ones are against the rules
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for parts in (name.split(".") for name in names if name.startswith(PACKAGE.name)):
            for depth in range(1, len(parts) + 1):
                place = PACKAGE.parent.joinpath(*parts[:depth])
                yield from (
                    each
                    for each in (place / "__init__.py", place.with_suffix(".py"))
                    if each.is_file()
                )


def _asset_digest(asset_id: str) -> str:
    """What the registry, or the user's replacement, says that the bytes are."""
    if replacement := assets.local(asset_id):
        return replacement.digest
    return assets.look_up("asset", asset_id, assets.registry()).digest


def _measured(notebook: str, run: str) -> list[dict[str, Any]] | None:
    """Another notebook's measurements, without what its run happened to cost."""
    other = results.load_if_present(notebook, run)
    if other is None:
        return None
    return [m.model_dump() for m in other.measurements if not m.name.startswith("run.")]


def _content(name: str, run: str) -> str | None:
    """Digest of a file that a notebook reads; figures are those of the run."""
    kind, _, file = name.partition("/")
    is_drawn = kind == "figures"
    path = paths.output_directory(run, kind) / file if is_drawn else paths.REPOSITORY / name
    return assets.sha256(path) if path.is_file() else None


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
