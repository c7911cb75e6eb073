"""What a run would fetch and cost, before it starts: `./run_all.sh --profile paper --dry-run`.

    needed(["minilm-l6"], profiles.table("paper", "04_dp_prompt"))   ids of its data and models
    print(text(notebooks.find(), "paper"))                            the whole forecast

Every estimate says what it rests on: a run of the same profile on this machine, else the committed
results of the default profile or the rates in `benchmarks/gpu_*.json`, times the sizes of both.
Where nothing was measured it says so, and gives no number.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from textpriv import assets, paths, profiles
from textpriv.report import results
from tools.notebooks import Notebook

Table = Mapping[str, Any]

BENCHMARKS = paths.REPOSITORY / "benchmarks"
ADAM_BYTES = 16  # a trained weight in float32: itself, its gradient and two moments

# --- Data and models ------------------------------------------------------------------------

FIELDS = ("corpora", "corpus", "encoder", "encoders", "generator", "table", "small", "large")
"""Keys of a profile's tables whose texts name corpora, data sets and models."""


def needed(declared: Iterable[str], table: Table) -> list[str]:
    """Ids of the assets that a notebook declares or that a profile's table names for it.

    A name that is neither an asset nor a corpus is one of the notebook's own and is passed over.
    """
    known = assets.registry()
    found = set(declared)
    for name in named(table):
        if name in known:
            found.add(name)
        elif asset_id := _of_corpus(name):
            found.add(asset_id)
    return sorted(found)


def named(table: Table) -> list[str]:
    """Texts under `FIELDS`: a text itself, the items of a list, keys and values of a table."""
    found: list[Any] = []
    for field in FIELDS:
        value = table.get(field, [])
        if isinstance(value, Mapping):
            found += [*value, *value.values()]
        else:
            found += [value] if isinstance(value, str) else value
    return sorted({each for each in found if isinstance(each, str) and each})


def _of_corpus(name: str) -> str | None:
    from textpriv import corpora  # late: pandas is slow to import

    return corpora.asset_of(name) if name in corpora.names() else None


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


# --- Work -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """One kind of work of a notebook, and how much of it a profile asks for.

    Attributes
    ----------
    what : the unit, as the forecast names it
    amount : how many; None where the profile does not say
    rate : beginning of the name of a measurement in `benchmarks/gpu_*.json`; "" for work on the
        processor
    per : how many of the unit make one of the measurement's
    cost : how much dearer one is than what was measured
    model_cost : and how much dearer at most, because the model is larger: a step of a small model
        waits for the GPU's launches, and that of a larger one takes between as long and in
        proportion
    """

    what: str
    amount: float | None
    rate: str = ""
    per: float = 1
    cost: float = 1
    model_cost: float = 1


WORDS_840B, WORDS_6B = 33_860, 400_000  # rows of the two tables of GloVe
_N_W = "N_w, 1000 directions and 11 epsilons a word"
_TRAINED = "MiniLM's shape: fine-tuning, 32 x 64"  # pieces in a row
_WRITTEN = "SmolLM2-135M's shape: 64 new tokens after 32, batch "
_BATCHES = (32, 256, 1024)


def works(notebook: str, table: Table) -> list[Work]:
    """How much a notebook has to do under a profile; [] for one that is not known here."""
    return _WORKS[notebook](table) if notebook in _WORKS else []


def _mechanisms(table: Table) -> list[Work]:
    draws = table["words"] * table["draws"] * table["grid_points"]
    documents = table["test_documents"] * table["classifier_seeds"] + table["long_documents"]
    return [Work("draws of words", draws), Work("documents sanitized", documents)]


def _ann_vs_exact(table: Table) -> list[Work]:
    words = table.get("nw_words_glove840", WORDS_840B), table["nw_words_glove6b"]
    directions = table["nw_directions"]
    smaller = WORDS_6B * 50 / (319_774 * 300)
    return [
        Work("directions over GloVe 840B", min(words[0], WORDS_840B) * directions,
             f"{_N_W}, glove840b, 33,860 x 300, all words", 1000),
        Work("directions over GloVe 6B", min(words[1], WORDS_6B) * directions,
             f"{_N_W}, synthetic, 319,774 x 300, all words", 1000, smaller),
        Work("queries of Annoy", table["annoy_draws"]),
    ]  # fmt: skip


def _lossy(table: Table) -> list[Work]:
    models = len({"plain", *table["tuned"]})
    trained = [
        _training(
            f"training steps on {corpus}",
            models * steps,
            table.get("encoders", {}).get(corpus, table["encoder"]),
            table["longest"][corpus],
        )
        for corpus, steps in table["tuned_steps"].items()
        if corpus in table["corpora"]
    ]
    attacked = sum(
        count * table["longest"][corpus]
        for corpus, count in table["attacked"].items()
        if corpus in table["corpora"]
    )
    oracle = sum(count * table["oracle_longest"][each] for each, count in table["oracle"].items())
    return [
        *trained,
        Work("documents manipulated", sum(table["corpora"].values())),
        Work("tokens under attack", attacked),
        Work("tokens under the oracle's attack", oracle),
    ]


def _dp_prompt(table: Table) -> list[Work]:
    settings = len(table["temperatures"]) + len(table["clipped_temperatures"])
    settings += len(table["top_k"]) * len(table["top_k_temperatures"])
    written = (table["documents"] * settings + table["limit_documents"]) * table["tokens"]
    epsilons = sum(len(table[f"{each}_epsilons"]) for each in ("word", "large", "whole"))
    sanitized = table["documents"] * epsilons * table["runs"]
    return [
        _writing("tokens written", written, table["generator"], table["batch"]),
        Work("documents sanitized by word", sanitized),
    ]


def _reconstruction(table: Table) -> list[Work]:
    settings = len(table["corpora"]) * sum(map(len, table["model_focus"].values()))
    detectors = table["detector_steps"] * settings or None
    focus = {defense: len(epsilons) for defense, epsilons in table["model_focus"].items()}
    # Several trainings for each epsilon of CusText+, and of one more network at the headline's.
    trainings = table["inversion_seeds"] * (focus["custext"] + 1) + focus["santext"]
    inverters = table["inversion_steps"] * trainings
    attacked = sum(
        counts[corpus] * len(table[f"{defence}_epsilons"])
        for defence, counts in table["attacked"].items()
        for corpus in table["corpora"]
    )
    encoder = table["encoder"]
    return [
        _training("training steps of detectors", detectors, encoder, 64),
        _training("training steps of inverters", inverters, encoder, 64),
        Work("sentences under attack", attacked),
    ]


def _slm_utility(table: Table) -> list[Work]:
    versions = 1 + (len(table["shares"]) or len(table["grid"]))
    written = table["documents"] * versions * table["tokens"]
    batch = table.get("batch", _BATCHES[0])
    return [
        *(
            _writing(f"tokens written by the {which} model", written, table[which], batch)
            for which in ("small", "large")
            if table[which] in assets.registry()
        ),
        Work("tokens sanitized", table["documents"] * (versions - 1) * table["longest"]),
    ]


_WORKS: Mapping[str, Callable[[Table], list[Work]]] = {
    "01_mechanisms": _mechanisms,
    "02_ann_vs_exact": _ann_vs_exact,
    "03_lossy_and_stencil": _lossy,
    "04_dp_prompt": _dp_prompt,
    "05_reconstruction_attacks": _reconstruction,
    "06_slm_utility": _slm_utility,
}


def _training(what: str, steps: float | None, encoder: str, longest: int) -> Work:
    larger = _weights(encoder) / _weights("minilm-l6") * longest / 64
    return Work(what, steps, _TRAINED, model_cost=larger)


def _writing(what: str, tokens: float, generator: str, batch: int) -> Work:
    # Tokens a second grow a little less than the batch, so that the next larger one bounds them.
    measured = min([each for each in _BATCHES if each >= batch], default=_BATCHES[-1])
    larger = _weights(generator) / _weights("smollm2-135m-instruct")
    cost = max(1.0, measured / batch)
    return Work(what, tokens, f"{_WRITTEN}{measured}", cost=cost, model_cost=larger)


def _weights(model: str) -> int:
    weights = assets.look_up("model", model, assets.registry()).weights
    assert weights is not None, f"{model}: assets.toml does not say how many weights it has"
    return weights


# --- Hours ----------------------------------------------------------------------------------


class Estimate(NamedTuple):
    """Hours of a part of a notebook, at least and at most, and what they rest on.

    Both are None where nothing was measured.
    """

    part: str
    low: float | None
    high: float | None
    basis: str

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.part}: no basis ({self.basis})"
        return f"{self.part}: {span(self.low, self.high)}; {self.basis}"


def span(low: float, high: float) -> str:
    """Hours from `low` to `high`, for reading."""
    least, most = _duration(low), _duration(high)
    if least == most:
        return most
    return f"at most {most}" if low == 0 else f"{least} to {most}"


def _duration(hours: float) -> str:
    if hours < 1 / 60:
        return "under a minute"
    if hours < 1:
        return f"{60 * hours:.0f} min"
    return f"{hours:.1f} h" if hours < 10 else f"{hours:,.0f} h"


def estimates(
    notebook: str,
    profile: str,
    *,
    device: str,
    measured: results.Results | None,
    own: results.Results | None,
    rates: Mapping[str, tuple[float, str]],
) -> list[Estimate]:
    """Hours of a notebook's parts.

    Parameters
    ----------
    device : of the profile
    measured : results of the default profile
    own : results of this very profile, where it has run here
    rates : units per second by the name of the measurement, and where that was measured

    Returns
    -------
    the run itself where the profile has run; else on a GPU each part that a benchmark has by its
    own rate, and the rest as if all of the default profile's run had been the part that grows most
    """
    if own is not None:
        where = f"measured: the profile's own run on {own.device}"
        return [Estimate("the whole notebook", own.seconds / 3600, own.seconds / 3600, where)]
    table, default = profiles.table(profile, notebook), profiles.table("default", notebook)
    if measured is not None and table == default:
        hours = measured.seconds / 3600
        basis = f"the default profile's run on {measured.device}, whose sizes are the same"
        low = hours if device == measured.device else 0.0
        return [Estimate("the whole notebook", low, hours, basis)]
    usual = {each.what: each for each in works(notebook, default)}
    found, left = [], []
    for work in works(notebook, table):
        if work.amount is None:
            found.append(Estimate(work.what, None, None, "the sizes do not say how many"))
        elif device != "cpu" and work.rate:
            found.append(_on_gpu(work, rates))
        else:
            left.append(work)
    return [*found, _on_processor(left, usual, measured)]


def _on_gpu(work: Work, rates: Mapping[str, tuple[float, str]]) -> Estimate:
    if work.rate not in rates:
        return Estimate(work.what, None, None, f"nobody measured {work.rate!r}")
    assert work.amount is not None  # the caller's condition
    per_second, where = rates[work.rate]
    hours = work.amount * work.cost / (work.per * per_second) / 3600
    basis = (
        f"{work.amount:,.0f} of them, {per_second * work.per / work.cost:,.0f} a second by what "
    )
    basis += f"was {where}"
    if work.model_cost != 1:
        basis += f"; each 1 to {work.model_cost:.3g} times as dear (weights, pieces in a row)"
    low, high = sorted((1.0, work.model_cost))
    return Estimate(work.what, hours * low, hours * high, basis)


def _on_processor(
    left: Sequence[Work], usual: Mapping[str, Work], measured: results.Results | None
) -> Estimate:
    part = "the rest"
    if measured is None:
        return Estimate(part, None, None, "the default profile has no results")
    ratios, new = {}, []
    for work in left:
        before = _effort(usual[work.what]) if work.what in usual else 0
        if before:
            ratios[work.what] = _effort(work) / before
        else:
            new.append(work.what)
    if not ratios:
        return Estimate(part, None, None, "no size of it is known")
    what = max(ratios, key=ratios.__getitem__)
    basis = (
        f"{measured.seconds:,.0f} s of the default profile on {measured.device}, times "
        f"{ratios[what]:.3g} ({what})"
    )
    if new:
        basis += f"; without {', '.join(new)}"
    return Estimate(part, 0.0, measured.seconds / 3600 * ratios[what], basis)


def _effort(work: Work) -> float:
    return (work.amount or 0) * work.model_cost


@cache
def gpu_rates(folder: Path = BENCHMARKS) -> Mapping[str, tuple[float, str]]:
    """Units per second by the name of the measurement, from every `gpu_*.json` of a folder."""
    found = {}
    for path in sorted(folder.glob("gpu_*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        where = f"measured on {report['device']} ({path.name}: "
        for timed in report["timed"]:
            found[timed["what"]] = timed["per_second"], f"{where}{timed['what']})"
    return found


# --- Memory ---------------------------------------------------------------------------------


def memory(
    asset_ids: Iterable[str],
    table: Table,
    *,
    device: str,
    measured: results.Results | None,
    own: results.Results | None,
) -> list[str]:
    """Lines about memory: the processor's as it was measured, the GPU's by the weights."""
    lines = []
    if own is not None:
        lines.append(f"processor: {gb(own.peak_mb * 1e6)} (peak of the profile's own run)")
    elif measured is not None:
        lines.append(
            f"processor: at least {gb(measured.peak_mb * 1e6)} (peak of the default profile on "
            f"{measured.device}); how it grows with the sizes was not measured"
        )
    else:
        lines.append("processor: no basis")
    if device != "cpu":
        trained = {table.get("encoder"), *table.get("encoders", {}).values()}
        models = [assets.registry()[each] for each in asset_ids]
        needs = {
            each.id: each.weights * (ADAM_BYTES if each.id in trained else 2)
            for each in models
            if each.weights
        }
        if needs:
            largest = max(needs, key=needs.__getitem__)
            how = "in training" if largest in trained else "in bfloat16"
            lines.append(
                f"GPU: at least {gb(needs[largest])} (weights of {largest}, {how}); what texts "
                "take beside them was not measured"
            )
    return lines


# --- The forecast ---------------------------------------------------------------------------


def text(chosen: Sequence[Notebook], profile: str) -> str:
    """The forecast of some notebooks under a profile, for reading."""
    settings = profiles.settings(profile)
    everything: set[str] = set()
    lines = [f"profile {profile}, {settings.device}"]
    for notebook in chosen:
        ids = needed(notebook.declares.assets, profiles.table(profile, notebook.name))
        everything.update(ids)
        lines += ["", notebook.name, *_of_notebook(notebook.name, ids, profile, settings.device)]
    place = _existing(paths.cache_directory())
    free = shutil.disk_usage(place).free
    return "\n".join([*lines, "", f"in all: {total(everything)}; {gb(free)} free in the cache"])


def _of_notebook(name: str, ids: Sequence[str], profile: str, device: str) -> Iterator[str]:
    for asset_id in ids:
        yield f"  {_asset(assets.registry()[asset_id])}"
    usual = _results(name, "default")
    own = usual if profile == "default" else _results(name, profile)
    found = estimates(name, profile, device=device, measured=usual, own=own, rates=gpu_rates())
    yield f"  time: {summed(found)}"
    yield from (f"    {each}" for each in found)
    yield "  memory"
    table = profiles.table(profile, name)
    for line in memory(ids, table, device=device, measured=usual, own=own):
        yield f"    {line}"


def summed(parts: Sequence[Estimate]) -> str:
    """Hours of all parts together, and whether some of them have no basis."""
    known = [(each.low, each.high) for each in parts if each.low is not None and each.high]
    if not known:
        return "no basis"
    together = span(sum(low for low, _ in known), sum(high for _, high in known))
    return together + (", and what has no basis" if len(known) < len(parts) else "")


def _asset(asset: assets.Asset) -> str:
    gate = "gated (accept its licence at the hub, set HF_TOKEN)" if asset.gated else "not gated"
    licence = asset.data_licence.split(" (")[0]
    state = "here" if is_here(asset.id) else "to download"
    return " | ".join([asset.id, str(asset.sources[0]), str(size(asset)), licence, gate, state])


def _results(notebook: str, profile: str) -> results.Results | None:
    return results.load(notebook, profile) if results.file(notebook, profile).exists() else None


def _existing(place: Path) -> Path:
    """The folder itself, or the nearest one above it that is there."""
    return next(each for each in (place, *place.parents) if each.exists())
