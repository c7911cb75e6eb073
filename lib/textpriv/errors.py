"""The errors that textpriv raises: each says what, got, expected, and what to do."""

from __future__ import annotations


class TextprivError(Exception):
    """Base of every error that the library raises on purpose."""


class InvalidInput(TextprivError, ValueError):
    """A parameter or an input lies outside its documented range."""


class AssetError(TextprivError):
    """A data set or model could not be provided; the message names it and a way out."""


class UnknownAsset(AssetError, KeyError):
    """The registry has no asset of that name."""

    __str__ = Exception.__str__  # KeyError would print the message quoted


class AssetCorrupt(AssetError):
    """Bytes differ from the pinned hash or size."""


class AssetUnavailable(AssetError):
    """No source of the asset could be reached."""


class StorageError(AssetError, OSError):
    """The cache cannot be written: full, read-only, or not permitted."""


class ProfileError(TextprivError, ValueError):
    """A profile, an override or a notebook parameter is unknown or mistyped."""


class MissingPackage(TextprivError, ImportError):
    """A package of an extra is not installed; the message names the extra."""


class RunError(TextprivError):
    """A notebook failed, or did not make what it declares."""


class SeededOutput(UserWarning):
    """A mechanism draws from a generator or a seed that was passed in, outside an experiment."""
