"""Notebook 03: what a sentence classifier still achieves on manipulated text.

Two classifiers: a linear probe on the states of the frozen encoder, for every setting and with
repeated splits, and the encoder fine-tuned, for a few settings and on one split. Each in the two
scenarios of Harel et al. (2024, section 2): "test" is trained on plain text and asked about
manipulated text, "all" is trained on manipulated text as well.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from textpriv import parallel, stats
from textpriv.errors import InvalidInput
from textpriv.experiments.lossy import PLAIN, Material, Setting, Sizes, Tools, manipulate
from textpriv.models import BoolArray, Encoder, IntArray, LearningCurve, Training
from textpriv.seeds import stream
from textpriv.stats import Estimate
from textpriv.tokens import Corpus
from textpriv.utility import features, fine_tuned, probe

if TYPE_CHECKING:
    from textpriv.report.run import Run

States = NDArray[np.float32]

TEST, ALL = "test", "all"
COLUMNS = (
    *("corpus", "label", "kind", "window", "sigma", "eta", "scenario"),
    *("value", "low", "high", "n", "influence"),
    *("unchanged", "unchanged_low", "unchanged_high", "unchanged_influence", "seconds"),
)
MEASURED_AS = {"probe": "accuracy", "fine-tuned": "accuracy_tuned"}
LEARNING_RATE = 1e-4  # where the profile has none for the corpus
MARKS = 5  # points of a learning curve


# --- What is classified -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Task:
    """What a worker needs of a corpus.

    Parameters
    ----------
    corpus : all texts; of pairs the second ones behind the first ones, see `Material.texts`
    labels : (documents,)
    cluster : (documents,) see `Material.cluster`
    splits : document numbers of training and test, disjoint; the same for every setting
    longest : pieces that the encoder reads of a document, special ones included
    """

    name: str
    corpus: Corpus
    labels: IntArray
    cluster: IntArray
    splits: tuple[tuple[IntArray, IntArray], ...]
    longest: int

    def manipulated(self, setting: Setting, draw: int, tools: Tools, seed: int | None) -> Corpus:
        """The text of one draw, for the probe and the fine-tuned encoder alike."""
        rng = stream(seed, "03", "manipulate", self.name, setting.label, draw)
        return manipulate(setting, self.corpus, tools, rng)

    def unchanged(self, text: Corpus) -> Estimate:
        """Share of the pieces that stay as they are, with an interval by cluster."""
        same = text.ids == self.corpus.ids
        cluster = self.cluster[self.corpus.document % len(self.labels)]  # of pairs both texts
        return stats.clustered_share(same, cluster, sample=self.name)

    def read(self, text: Corpus, documents: IntArray) -> tuple[Corpus, Corpus | None]:
        """What a classifier reads of some documents: their texts, and their second ones if any."""
        is_pair = len(text) > len(self.labels)
        second = text.subset(len(self.labels) + documents) if is_pair else None
        return text.subset(documents), second

    def features(self, text: Corpus, encoder: Encoder) -> States:
        """What the frozen encoder makes of a text: (documents, width)."""
        first, second = self.read(text, np.arange(len(self.labels)))
        return features(encoder, first, second=second, longest=self.longest)


def _task(material: Material, encoder: Encoder, sizes: Sizes, seed: int | None) -> _Task:
    labels, cluster = material.labels, material.cluster
    splits = []
    for number in range(sizes.seeds):
        rng = stream(seed, "03", "split", material.name, number)
        splits.append(_split(labels, cluster, sizes.test_share, int(rng.integers(2**32))))
    texts = 1 if material.second is None else 2
    longest = texts * sizes.longest[material.name] + sum(map(len, encoder.framed(texts)))
    return _Task(material.name, material.texts, labels, cluster, tuple(splits), longest)


def _split(
    labels: IntArray, cluster: IntArray, test_share: float, random_state: int
) -> tuple[IntArray, IntArray]:
    """Documents to train and to test on: stratified, or with clusters kept on one side."""
    rows = np.arange(len(labels))
    if len(np.unique(cluster)) == len(rows):
        train, test = train_test_split(
            rows, test_size=test_share, stratify=labels, random_state=random_state
        )
    else:
        grouped = GroupShuffleSplit(1, test_size=test_share, random_state=random_state)
        train, test = next(grouped.split(rows, groups=cluster))
    return train, test


def _private(tools: Tools, corpus: str) -> Tools:
    """A corpus' tools without the public text, which no manipulation needs and no worker gets."""
    found = tools.of(corpus)
    return replace(found, public=found.public.subset(np.arange(0)))


@dataclass(frozen=True, eq=False)
class _Answers:
    """How a classifier did on one text.

    Parameters
    ----------
    correct : (answers,)
    document : (answers,) the document that each is about, or its cluster
    unchanged : share of the text's pieces that stayed as they were
    seconds : what the answers took
    """

    corpus: str
    setting: Setting
    scenario: str
    correct: BoolArray
    document: IntArray
    unchanged: Estimate
    seconds: float


def _table(answers: Iterable[_Answers]) -> pd.DataFrame:
    """One row per corpus, setting and scenario, in which all draws and splits are pooled."""
    groups: dict[tuple[str, Setting, str], list[_Answers]] = {}
    for each in answers:
        groups.setdefault((each.corpus, each.setting, each.scenario), []).append(each)
    return pd.DataFrame([_row(*key, found) for key, found in groups.items()], columns=COLUMNS)


def _row(
    corpus: str, setting: Setting, scenario: str, answers: Sequence[_Answers]
) -> dict[str, Any]:
    accuracy = stats.clustered_share(
        np.concatenate([each.correct for each in answers]),
        np.concatenate([each.document for each in answers]),
        sample=corpus,
    )
    draws = [each.unchanged for each in answers]
    unchanged = stats.combined([1 / len(draws)] * len(draws), draws, bounds=(0.0, 1.0))
    return {
        "corpus": corpus,
        "label": setting.label,
        **asdict(setting),
        "scenario": scenario,
        **accuracy.columns(),
        "unchanged": unchanged.value,
        "unchanged_low": unchanged.low,
        "unchanged_high": unchanged.high,
        "unchanged_influence": unchanged.influence,
        "seconds": sum(each.seconds for each in answers),
    }


# --- A linear probe -----------------------------------------------------------------------------


def probes(
    materials: Mapping[str, Material],
    tools: Tools,
    settings: Sequence[Setting],
    sizes: Sizes,
    seed: int | None,
) -> pd.DataFrame:
    """Accuracy of a linear classifier on the frozen encoder's states, under every setting.

    It is fitted anew on each of `sizes.seeds` stratified splits, the same for all settings. Of a
    random setting there are as many draws, and each meets every split: a fit costs a fraction of
    the states. Jobs run side by side, one process per core.

    Columns: corpus, label, kind, window, sigma, eta, scenario ("test" or "all"), value, low,
    high, n, influence (accuracy over all draws and splits, 95% by document), unchanged (share of
    pieces that stay as they are; with unchanged_low, _high, _influence), seconds (of the
    manipulations, the states and the fits, which both scenarios share; the states of plain text,
    which all settings need, are left out).

    Notes
    -----
    The interval allows for which documents were asked about, and takes splits and random maps
    as they were drawn. On Rotten Tomatoes one draw of "2-random" differs from another by some 3
    points in scenario "test": the mean over few draws is less sure than the interval says.
    """
    light = {name: _private(tools, name) for name in materials}
    tasks = [_task(each, light[name].encoder, sizes, seed) for name, each in materials.items()]
    corpora = [(task, task.corpus, light[task.name].encoder) for task in tasks]
    plain = parallel.map(_Task.features, corpora, processes=-1, label="states of plain text")
    shards = [
        (task, setting, draw, states, light[task.name], seed)
        for task, states in zip(tasks, plain, strict=True)
        for setting in settings
        for draw in range(sizes.seeds if setting.is_random else 1)
    ]
    found = parallel.map(_probed, shards, processes=-1, label="probes")
    return _table(each for answers in found for each in answers)


def _probed(
    task: _Task, setting: Setting, draw: int, plain: States, tools: Tools, seed: int | None
) -> list[_Answers]:
    """Both scenarios on one draw of a setting, over all splits."""
    start = time.perf_counter()
    text = task.manipulated(setting, draw, tools, seed)
    states = plain if setting.kind == PLAIN else task.features(text, tools.encoder)
    correct = {
        scenario: np.concatenate([_judged(task, train_on, states, *split) for split in task.splits])
        for scenario, train_on in ((TEST, plain), (ALL, states))
    }
    document = task.cluster[np.concatenate([test for _, test in task.splits])]
    unchanged, seconds = task.unchanged(text), time.perf_counter() - start
    return [
        _Answers(task.name, setting, scenario, right, document, unchanged, seconds)
        for scenario, right in correct.items()
    ]


def _judged(
    task: _Task, train_on: States, states: States, train: IntArray, test: IntArray
) -> BoolArray:
    """Whether a probe of some states is right about others: (len(test),)."""
    mixed = states.copy()
    mixed[train] = train_on[train]
    return probe(mixed, task.labels, train, test)


# --- The encoder fine-tuned ---------------------------------------------------------------------


def tuned(
    materials: Mapping[str, Material],
    tools: Tools,
    settings: Sequence[Setting],
    sizes: Sizes,
    seed: int | None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Accuracy of the fine-tuned encoder, and how it grew.

    For the settings whose label is in `sizes.tuned`, on the corpora with `sizes.tuned_steps` > 0,
    on the first split and the first draw of `probes`. One model learns plain text and is judged
    on every setting's test documents ("test"), one per setting learns manipulated text ("all").
    Models are trained side by side, one process per core, from the same start and on the same
    documents in the same order.

    Returns
    -------
    accuracies : the columns of `probes`; seconds are those of the training and of the answers,
        so that the rows of one model share most of them
    curves : columns corpus, label (what the model learns), step, accuracy (on the tenth of the
        training documents that is held out)

    Raises
    ------
    InvalidInput : a label in `sizes.tuned` that no setting has
    """
    plain = Setting(PLAIN)
    chosen = _chosen(settings, sizes)
    light = {name: _private(tools, name) for name in materials}
    tasks = [
        _task(material, light[name].encoder, sizes, seed)
        for name, material in materials.items()
        if sizes.tuned_steps.get(name, 0) > 0
    ]
    texts = _texts(tasks, chosen, light, seed)
    shards = [
        (
            task,
            learned,
            {each: texts[task.name, each] for each in (chosen if learned == plain else [learned])},
            light[task.name].encoder,
            _training(task.name, sizes),
            seed,
        )
        for task in tasks
        for learned in dict.fromkeys([plain, *chosen])
    ]
    found = parallel.map(_trained, shards, processes=-1, label="trainings")
    place = {key: number for number, key in enumerate(texts)}
    answers = [each for some, _ in found for each in some]
    answers.sort(key=lambda each: place[each.corpus, each.setting])  # stable: "test" comes first
    curves = [row for _, rows in found for row in rows]
    return _table(answers), pd.DataFrame(curves, columns=["corpus", "label", "step", "accuracy"])


def _chosen(settings: Sequence[Setting], sizes: Sizes) -> list[Setting]:
    """The settings for which the encoder is fine-tuned."""
    unknown = set(sizes.tuned) - {each.label for each in settings}
    if unknown:
        known = ", ".join(each.label for each in settings)
        raise InvalidInput(f"tuned: got {sorted(unknown)}, expected labels among {known}")
    return [each for each in settings if each.label in sizes.tuned]


def _texts(
    tasks: Sequence[_Task],
    settings: Sequence[Setting],
    tools: Mapping[str, Tools],
    seed: int | None,
) -> dict[tuple[str, Setting], Corpus]:
    """The first draw of every corpus and setting, which several models are asked about."""
    pairs = [(task, setting) for task in tasks for setting in settings]
    shards = [(task, setting, 0, tools[task.name], seed) for task, setting in pairs]
    made = parallel.map(_Task.manipulated, shards, processes=-1)
    return {(task.name, setting): text for (task, setting), text in zip(pairs, made, strict=True)}


def _training(corpus: str, sizes: Sizes) -> Training:
    rate = sizes.tuned_rates.get(corpus, LEARNING_RATE)
    return Training(steps=sizes.tuned_steps[corpus], learning_rate=rate, marks=MARKS)


def _trained(
    task: _Task,
    learned: Setting,
    texts: Mapping[Setting, Corpus],
    encoder: Encoder,
    training: Training,
    seed: int | None,
) -> tuple[list[_Answers], list[dict[str, Any]]]:
    """Train a model on the text of one setting and ask it about others: answers, its curve."""
    train, test = task.splits[0]
    start = time.perf_counter()
    first, second = task.read(task.corpus if learned.kind == PLAIN else texts[learned], train)
    model = fine_tuned(
        encoder,
        first,
        task.labels[train],
        second=second,
        training=training,
        longest=task.longest,
        seed=int(stream(seed, "03", "tuned", task.name).integers(2**31)),
    )
    trained = time.perf_counter() - start
    answers = []
    for about, text in texts.items():
        start = time.perf_counter()
        correct = model.predict(*task.read(text, test)) == task.labels[test]
        seconds = trained + time.perf_counter() - start
        answers += [
            _Answers(
                task.name,
                about,
                scenario,
                correct,
                task.cluster[test],
                task.unchanged(text),
                seconds,
            )
            for scenario in _scenarios(learned, about)
        ]
    return answers, _curve(task.name, learned.label, model.curve)


def _scenarios(learned: Setting, about: Setting) -> list[str]:
    """What it is called to learn one text and be asked about another; both where all is plain."""
    return [TEST] * (learned.kind == PLAIN) + [ALL] * (learned == about)


def _curve(corpus: str, label: str, curve: LearningCurve) -> list[dict[str, Any]]:
    return [
        {"corpus": corpus, "label": label, "step": step, "accuracy": accuracy}
        for step, accuracy in zip(curve.steps, curve.accuracy, strict=True)
    ]


# --- The two together ---------------------------------------------------------------------------


def ranks_alike(probed: pd.DataFrame, tuned: pd.DataFrame) -> pd.DataFrame:
    """Whether the probe ranks settings as the fine-tuned encoder does.

    Parameters
    ----------
    probed, tuned : tables of `probes` and `tuned`

    Returns
    -------
    Columns: corpus, scenario, spearman (rank correlation of the accuracies over the settings
    that both tables have; NaN where one table has a single accuracy), n (settings).
    """
    keys = ["corpus", "scenario", "label"]
    both = probed[[*keys, "value"]].merge(tuned[[*keys, "value"]], on=keys)
    rows = [
        {
            "corpus": corpus,
            "scenario": scenario,
            "spearman": _rank_correlation(found["value_x"], found["value_y"]),
            "n": len(found),
        }
        for (corpus, scenario), found in both.groupby(["corpus", "scenario"], sort=False)
    ]
    return pd.DataFrame(rows, columns=["corpus", "scenario", "spearman", "n"])


def _rank_correlation(first: pd.Series[float], second: pd.Series[float]) -> float:
    if min(first.nunique(), second.nunique()) < 2:
        return np.nan
    return float(spearmanr(first, second).statistic)


def record(run: Run, table: pd.DataFrame, classifier: Literal["probe", "fine-tuned"]) -> None:
    """Record a table of `probes` ("probe") or `tuned` ("fine-tuned").

    `accuracy.<label>.<corpus>.<test|all>` is always the probe, `accuracy_tuned...` always the
    fine-tuned encoder. `unchanged.<label>.<corpus>` comes from the probe's table, which has all
    settings and all draws.
    """
    for row in table.itertuples():
        where = f"{row.label}.{row.corpus}"
        name = f"{MEASURED_AS[classifier]}.{where}.{row.scenario}"
        run.record(name, row.value, row.low, row.high, row.n, influence=row.influence)
        if classifier == "probe" and row.scenario == TEST:
            found = row.unchanged, row.unchanged_low, row.unchanged_high
            run.record(f"unchanged.{where}", *found, influence=row.unchanged_influence)
