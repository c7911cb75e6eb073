"""Sizes live in profiles: one TOML file per profile, one table per notebook.

A notebook's experiment module states its sizes as a frozen pydantic model with
`extra="forbid"`; `load` fills it from the profile and the notebook's `overrides`. A key
that is unknown or of the wrong type is an error that names it, never a silent default.
Top-level keys say where the work runs (`Settings`). A profile that says
`inherits = "default"` states only what differs.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, Field, ValidationError

from textpriv.checks import described
from textpriv.errors import ProfileError

PROFILES = Path(__file__).parent / "experiments" / "profiles"

Model = TypeVar("Model", bound=BaseModel)


class Settings(BaseModel, frozen=True, extra="forbid"):
    """Where a profile's work runs: the keys at the top of its file."""

    device: Literal["cpu", "cuda", "mps", "auto"]
    cell_minutes: Annotated[float, Field(gt=0)] | None = None

    def here(self) -> Self:
        """The settings here: "auto" is a GPU that CUDA reaches, or else the processor."""
        if self.device != "auto":
            return self
        import torch  # late: listing what would run shall not wait for it

        return self.model_copy(update={"device": "cuda" if torch.cuda.is_available() else "cpu"})


def names() -> list[str]:
    """The profiles that exist."""
    return sorted(path.stem for path in PROFILES.glob("*.toml"))


def settings(profile: str, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Settings of a profile; `overrides` may replace them."""
    _check_overrides(overrides)
    top = {key: value for key, value in _read(profile).items() if not isinstance(value, dict)}
    chosen = {key: value for key, value in (overrides or {}).items() if key in _SETTINGS}
    return _fill(Settings, top | chosen, f"profile {profile!r}, top of the file")


def load(
    profile: str,
    notebook: str,
    model: type[Model],
    overrides: Mapping[str, Any] | None = None,
) -> Model:
    """Sizes of one notebook under one profile, as a pydantic model that knows its fields.

    A key of `overrides` is a field of `model` or of `Settings`, whose value in the profile it
    replaces. ProfileError names a wrong key, what was got, and the keys that are known.
    """
    _check_overrides(overrides)
    chosen = {key: value for key, value in (overrides or {}).items() if key not in _SETTINGS}
    known = [*model.model_fields, *_SETTINGS]
    for key in chosen:
        if key not in known:
            raise ProfileError(f"unknown override {key!r} {_suggest(key, known)}")
    values = table(profile, notebook)
    for_corpus = getattr(model, "for_corpus", None)  # of a notebook with tables by corpus
    if for_corpus and chosen.get("corpus"):
        values = for_corpus(values, chosen["corpus"])
    return _fill(model, values | chosen, f"profile {profile!r}, [{notebook!r}]")


def table(profile: str, notebook: str) -> dict[str, Any]:
    """The profile's own table of a notebook, as plain values (empty when it has none)."""
    return dict(_read(profile).get(notebook, {}))


_SETTINGS = list(Settings.model_fields)


def _check_overrides(overrides: object) -> None:
    if not (overrides is None or isinstance(overrides, Mapping)):
        raise ProfileError(
            f"overrides: got {described(overrides)}, expected a mapping such as {{'seed': 1}}"
        )


def _read(profile: str) -> dict[str, Any]:
    """A profile's file over the file that it inherits from."""
    if profile not in names():
        raise ProfileError(f"unknown profile {profile!r} {_suggest(profile, names())}")
    path = PROFILES / f"{profile}.toml"
    try:
        own = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{path} is not valid TOML: {error}") from error
    parent = own.pop("inherits", None)
    merged = {} if parent is None else _read(parent)
    for key, value in own.items():
        inherited = merged.get(key)
        both = isinstance(value, dict) and isinstance(inherited, dict)
        merged[key] = inherited | value if both else value
    return merged


def _fill(model: type[Model], values: Mapping[str, Any], where: str) -> Model:
    """Validate strictly: "5" is no number, 1.5 is no count; a list may fill a tuple."""
    try:
        return model.model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        known = list(model.model_fields)
        problems = [_explain(dict(problem), known) for problem in error.errors()]
        raise ProfileError(f"{where}: " + "; ".join(problems)) from error


def _explain(problem: Mapping[str, Any], known: Sequence[str]) -> str:
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key!r} {_suggest(key, known)}"
    if problem["type"] == "missing":
        return f"key {key!r} is missing"
    if not key:  # keys that do not fit each other: the message names them
        return str(problem["msg"]).removeprefix("Value error, ")
    return f"key {key!r}: {problem['msg']}, got {problem['input']!r}"


def _suggest(got: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(got, known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"({hint}known: {', '.join(known) or 'none'})"
