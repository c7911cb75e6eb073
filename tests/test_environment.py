"""One list of dependencies: pyproject.toml, environment.yml and the lock say the same."""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
PROJECT, BUILD = PYPROJECT["project"], PYPROJECT["build-system"]
EXTRAS = PROJECT["optional-dependencies"]
CORE = PROJECT["dependencies"]
REPOSITORY_NEEDS = [*CORE, *EXTRAS["ann"], *EXTRAS["models"], *EXTRAS["notebooks"]]
LOCK = (REPOSITORY / "requirements.lock").read_text()
SITE_LOCK = (REPOSITORY / "requirements-site.lock").read_text()

PROVIDED = metadata.packages_distributions()

CONDA_NAMES = {"annoy": "python-annoy", "torch": "pytorch", "pyyaml": "pyyaml"}
"""Where conda-forge calls a package otherwise."""


def bounds(requirements: list[str]) -> dict[str, str]:
    """Version bounds by canonical name."""
    parsed = [Requirement(text) for text in requirements]
    return {canonicalize_name(r.name): str(r.specifier) for r in parsed}


def test_conda_repeats_pyproject() -> None:
    wanted = bounds(REPOSITORY_NEEDS + EXTRAS["gpu"] + EXTRAS["dev"])
    wanted = {CONDA_NAMES.get(name, name): bound for name, bound in wanted.items()}
    tools = [f"python{PROJECT['requires-python']}", "pip", *BUILD["requires"]]
    conda = yaml.safe_load((REPOSITORY / "environment.yml").read_text())["dependencies"]
    assert bounds(conda) == {**wanted, **bounds(tools)}
    assert len(bounds(conda)) == len(conda)
    container = (REPOSITORY / ".devcontainer" / "devcontainer.json").read_text()
    assert f"python:{PROJECT['requires-python'].removeprefix('>=')}-" in container


def pins(lock: str = LOCK) -> dict[str, str]:
    return {
        canonicalize_name(name): version
        for name, version in (line.split("==") for line in lock.splitlines())
    }


def test_lock_satisfies_pyproject() -> None:
    wanted = [*REPOSITORY_NEEDS, *EXTRAS["cpu"], *EXTRAS["dev"], "setuptools>=77"]
    site = {**pins(SITE_LOCK), **pins()}
    cases = [*((text, pins()) for text in wanted), *((text, site) for text in EXTRAS["site"])]
    for text, locked in cases:
        requirement = Requirement(text)
        version = locked.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in the lock"
        assert requirement.specifier.contains(version), f"{text}, locked {version}"


def test_lock_is_closed() -> None:
    """Whatever a locked package needs here is locked too (checked on what is installed)."""
    missing, every = set(), {**pins(SITE_LOCK), **pins()}
    for name in every:
        try:
            needed = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # not this environment's
        for requirement in map(Requirement, needed):
            marker = requirement.marker
            if (marker is None or marker.evaluate({"extra": ""})) and (
                canonicalize_name(requirement.name) not in (pins() if name in pins() else every)
            ):
                missing.add(f"{name} needs {requirement.name}")
    # Python 3.12 brings aiohttp through papermill, and torch's CUDA build its libraries
    assert not [text for text in missing if "aiohttp" not in text and "torch needs" not in text]


def test_everything_imported_is_declared() -> None:
    folders = [REPOSITORY / name for name in ("lib", "tests", "tools")]
    sources = [path for folder in folders for path in folder.rglob("*.py")]
    modules = {name for path in sources for name in imported(path)}
    declared = set(bounds([*CORE, *itertools.chain(*EXTRAS.values())]))
    # through declared ones: jupyter_client, zmq and IPython by ipykernel, PIL by matplotlib, triton
    # by torch's CUDA build, ...
    through = {"jupyter-client", "pyzmq", "ipython", "pillow", "packaging", "tokenizers", "triton"}
    own = {path.stem for path in (REPOSITORY / "tests").glob("*.py")}
    own |= {"textpriv", "tools", "benchmarks"}
    for module in sorted(modules - sys.stdlib_module_names - own):
        known = distributions_of(module) & (declared | through)
        assert known, f"{module} is imported, not declared"


THROUGH_OTHERS = {
    "accelerate": "transformers asks for it to read GGUF",
    "gguf": "transformers reads quantized models with it",
    "ipykernel": "Jupyter starts it to run notebooks",
    "jupyterlab": "the command that opens notebooks",
}


def test_everything_declared_is_imported_where_it_works() -> None:
    """By the library, the tools or a notebook; what only a test imports does no work."""
    sources = [path for name in ("lib", "tools") for path in (REPOSITORY / name).rglob("*.py")]
    modules = {name for path in sources for name in imported(path)}
    for path in (REPOSITORY / "notebooks").glob("*.ipynb"):
        modules |= set(re.findall(r'"\s*(?:import|from) (\w+)', path.read_text(encoding="utf-8")))
    used = set().union(*map(distributions_of, modules))
    assert set(bounds(REPOSITORY_NEEDS)) - used == set(THROUGH_OTHERS)


@functools.cache
def distributions_of(module: str) -> set[str]:
    """Canonical names of the packages that provide a module; the module's own where none does."""
    return {canonicalize_name(name) for name in PROVIDED.get(module, [module])}


@functools.cache
def imported(path: Path) -> frozenset[str]:
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            modules.add(node.module.split(".")[0])
    return frozenset(modules)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("setup.sh", "requirements.lock", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, tmp_path)
    return tmp_path


def set_up(folder: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Source setup.sh as run_all.sh does; it would print the interpreter that it chose."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHON", "TEXTPRIV_PYTHON")}
    return subprocess.run(
        ["bash", "-c", 'set -euo pipefail; source ./setup.sh; echo "chose $python"'],
        cwd=folder, env={**environment, **changes}, capture_output=True, text=True,
    )  # fmt: skip


def fake_venv(folder: Path) -> None:
    """A .venv that looks as if it had been installed from this lock; its pip only notes calls."""
    (folder / ".venv" / "bin").mkdir(parents=True)
    python = folder / ".venv" / "bin" / "python"
    python.write_text(
        '#!/bin/sh\nif [ "$1 $2" = "-m pip" ]; then echo "$@" >>pip.log; exit; fi\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    (folder / ".venv" / "textpriv.stamp").write_text(stamp(folder))


def stamp(folder: Path) -> str:
    names = ("requirements.lock", "pyproject.toml", "setup.sh")
    inputs = b"".join((folder / name).read_bytes() for name in names)
    return hashlib.sha256(inputs).hexdigest() + "\n"


def test_setup_keeps_a_current_environment(folder: Path) -> None:
    fake_venv(folder)
    done = set_up(folder, PYTHON="false")
    assert (done.returncode, done.stdout) == (0, "chose .venv/bin/python\n")
    assert not (folder / "pip.log").exists()


@pytest.mark.parametrize("name", ["requirements.lock", ".venv/textpriv.stamp"])
def test_setup_renews_an_outdated_environment(folder: Path, name: str) -> None:
    fake_venv(folder)
    with open(folder / name, "a") as file:
        file.write("\n# newer")
    done = set_up(folder, PYTHON="false")
    assert done.returncode == 0, done.stderr
    torch, annoy, *rest = (folder / "pip.log").read_text().splitlines()
    assert torch == "-m pip install -q torch==2.13.0"
    assert "--no-binary annoy annoy==" in annoy and "--no-cache-dir" in annoy
    assert rest == [
        "-m pip install -q -r requirements.lock",
        "-m pip install -q --no-deps --no-build-isolation -e .",
    ]
    assert (folder / ".venv" / "textpriv.stamp").read_text() == stamp(folder)
