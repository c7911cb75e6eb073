"""What a run would fetch and cost, before it starts: `./run_all.sh --profile paper --dry-run`.

    print(text(notebooks.find(), "paper"))

Cost is what was measured: a run of the same profile on this machine, else the committed results of
the default profile.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from textpriv import assets, paths, profiles
from textpriv.report import results
from tools.notebooks import Notebook, needed


class Size(NamedTuple):
    """Bytes to download, and how they are known: "", "about", "at least" or "unknown"."""

    bytes: int
    known: str

    def __str__(self) -> str:
        if self.known == "unknown":
            return "unknown size"
        return f"{self.known} {gb(self.bytes)}".strip()


def size(asset: assets.Asset) -> Size:
    """Pinned where it is pinned; else by the number of weights; else the members that are known."""
    if asset.download_size is not None:
        return Size(asset.download_size, "")
    pinned = sum(member.size or 0 for member in asset.members)
    if asset.weights is not None:
        return Size(max(pinned, asset.weights * asset.weight_bytes), "about")
    return Size(pinned, "at least") if pinned else Size(0, "unknown")


def is_here(asset_id: str) -> bool:
    """Whether nothing has to be downloaded: cached, or replaced by the user's own file."""
    return assets.local(asset_id) is not None or assets.is_cached(asset_id)


def total(asset_ids: Iterable[str]) -> str:
    """What is still to be downloaded of these, in words."""
    sizes = [size(assets.registry()[each]) for each in asset_ids if not is_here(each)]
    if not sizes:
        return "nothing to download"
    exact = all(each.known == "" for each in sizes)
    unknown = sum(each.known == "unknown" for each in sizes)
    amount = f"{'' if exact else 'about '}{gb(sum(each.bytes for each in sizes))} to download"
    return amount + (f", and {unknown} of unknown size" if unknown else "")


def gb(count: float) -> str:
    """Bytes for reading."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def text(chosen: Sequence[Notebook], profile: str) -> str:
    """The forecast of some notebooks under a profile, for reading."""
    device = profiles.settings(profile).here().device
    lines, everything = [f"profile {profile}, {device}"], set[str]()
    for notebook in chosen:
        ids = needed(notebook, profile)
        everything.update(ids)
        known = [assets.registry()[each] for each in ids]
        lines += ["", notebook.name, *(f"  {_described(asset)}" for asset in known)]
        lines += [f"  cost: {cost(notebook.name, profile)}", *_weights(known, device)]
    cache = paths.cache_directory()
    place = next(each for each in (cache, *cache.parents) if each.exists())
    free = gb(shutil.disk_usage(place).free)
    return "\n".join([*lines, "", f"in all: {total(everything)}; {free} free in the cache"])


def _described(asset: assets.Asset) -> str:
    gate = "gated (accept its licence at the hub, set HF_TOKEN)" if asset.gated else "not gated"
    licence = asset.data_licence.split(" (")[0]
    state = "here" if is_here(asset.id) else "to download"
    return " | ".join([asset.id, str(asset.sources[0]), str(size(asset)), licence, gate, state])


def _weights(models: Iterable[assets.Asset], device: str) -> Iterator[str]:
    largest = max(models, key=lambda each: each.weights or 0, default=None)
    if device != "cpu" and largest and largest.weights:
        yield f"  GPU: at least {gb(2 * largest.weights)} for the weights of {largest.id}"


def cost(notebook: str, profile: str) -> str:
    """Time and memory that were measured, and of what."""
    for measured in (profile, "default"):
        if run := results.load_if_present(notebook, measured):
            spent = f"{run.seconds / 60:.1f} min and {gb(run.peak_mb * 1e6)} on {run.device}"
            if measured == profile:
                return f"{spent}, measured"
            return f"not measured; the default profile, of other sizes, took {spent}"
    return "not measured"
