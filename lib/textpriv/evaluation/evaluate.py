"""One call: sanitize, attack, measure what is left, and say it.

result = evaluate(texts, mechanism="custext+", epsilon=2)
result = evaluate(before, after)                    # pairs of any tool
result.risks, result.utility, result.examples, result.statement
result.figure(); result.card(); result.page("report.html")
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from textpriv import __version__, stats
from textpriv.attacks import linkage
from textpriv.attacks.base import Attack
from textpriv.attacks.bayes import Bayes
from textpriv.attacks.noisy_channel import NoisyChannel
from textpriv.attacks.simulated import channel_of, zipf
from textpriv.channel import Channel
from textpriv.data.splits import sentences_of, shares_ngram
from textpriv.data.tokens import KEPT, PRIVATE, Corpus, Tokenizer, TokenPolicy
from textpriv.errors import AssetError, InvalidInput, UnknownAsset
from textpriv.evaluation import page
from textpriv.evaluation import risks as measured
from textpriv.evaluation.reading import Reading, readings
from textpriv.evaluation.rehearsal import language_weight, parted
from textpriv.evaluation.risks import LINKERS, Linker, Risk
from textpriv.evaluation.sanitizers import Sanitizer, embedding, sanitizer
from textpriv.evaluation.texts import column_of, pairs_of, texts_of
from textpriv.mechanisms import Mechanism
from textpriv.mechanisms.base import simulation
from textpriv.privacy.statement import Attacked, document_statement
from textpriv.seeds import stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLIC = "imdb"  # what the attacker has read by default: film reviews
PUBLIC_TEXTS = 4000
MOST_TEXTS = 4000  # linkage compares all with all
CARD = "textpriv card, version 1"
NEAR = 0.95  # of what so many texts can show: a bound above says little of where epsilon is

TAUGHT, FIRST = 2000, 40  # public sentences that who attacks a function has it sanitize, at most;
PATIENCE = 60.0  # seconds that this may take, going by the first ones
NEVER_TRIED = (
    "a large language model as the attacker",
    "what is hidden in letter case, spacing, invisible characters or an encoding",
    "an attacker who sees one text sanitized several times, or knows part of it",
    "an attacker who has read more public text than this, texts like yours, or your language",
    "attackers who know more of these authors, or of the people in the texts, than is said here",
)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What was found about some texts and a sanitizer.

    Attributes
    ----------
    name, setting, epsilon : of the sanitizer
    risks : a row per attack (see `evaluation.risks.Risk`), the strongest on each thing first
    epsilon_lower_bound : of a pure epsilon per text, as far as was shown; 0: nothing was
    shown_by : the attack that shows it
    largest_shown : what so many texts could show at all
    utility : a row per measure: what is left, its interval, the same of the text in clear, and what
        guessing the most frequent label gives
    examples : original, sanitized, and read_back by the strongest attack on words; first texts only
    readings : of these, word by word, what the attacker took each for
    statement : what the guarantee means for these texts, where there is one
    not_tried : what no attack here stands for, and what could not be run and why
    texts : how many were evaluated
    """

    name: str
    label: str
    setting: str
    epsilon: float | None
    risks: pd.DataFrame
    epsilon_lower_bound: float
    shown_by: str
    largest_shown: float
    utility: pd.DataFrame
    examples: pd.DataFrame
    statement: str
    not_tried: tuple[str, ...]
    texts: int
    readings: tuple[Reading, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    def strongest(self, finds: str = "words") -> pd.Series[Any] | None:
        """The strongest attack on "words", "texts" or "authors"; None where none was run."""
        return measured.strongest(self.risks, finds)

    def __str__(self) -> str:
        lines = [f"{self.label} ({self.setting}), {self.texts:,} texts."]
        for finds, said in page.SAID.items():
            if (best := self.strongest(finds)) is not None:
                if best["attack"] == measured.ANYWHERE:
                    said = "{:.0%} of the content words stand in the output; more may be recovered"
                lines.append(
                    f"{said.format(best['value'])} (95% interval {best['low']:.0%} to "
                    f"{best['high']:.0%}; guessing {best['chance']:.1%}): {best['attack']}, which "
                    f"knows {best['knows']}."
                )
        if self.epsilon_lower_bound > 0:
            lines.append(self.ruled_out)
        for row in self.utility.itertuples():
            beside = {"in clear": row.clear, "guessing": row.guessing}
            beside_it = [
                f"{name} {each:.2f}" for name, each in beside.items() if not np.isnan(each)
            ]
            interval = f"{row.measure}: {row.value:.2f} ({row.low:.2f} to {row.high:.2f}"
            lines.append("; ".join([interval, *beside_it]) + ").")
        lines.append(self.statement)
        lines.append("Not tried: " + "; ".join(self.not_tried) + ".")
        return "\n".join(line for line in lines if line)

    @property
    def ruled_out(self) -> str:
        """The epsilon per text that cannot be true, in a sentence."""
        linked = self.strongest("texts")
        texts = f"{self.texts if linked is None else linked['n']:,} texts"
        most = (
            f"about the most that {texts} can show"
            if self.epsilon_lower_bound > NEAR * self.largest_shown
            else f"where {texts} can show at most {_rounded_down(self.largest_shown):g}"
        )
        return (
            f"The {self.shown_by} shows with 95% confidence: an epsilon per text (with delta 0) "
            "that covers any two of these texts, whatever their lengths, each of them sanitized "
            f"by itself, is at least {_rounded_down(self.epsilon_lower_bound):g}, {most}."
        )

    def card(self) -> dict[str, Any]:
        """All of it but the texts, as JSON values."""
        return {
            "format": CARD,
            "mechanism": self.name,
            "label": self.label,
            "setting": self.setting,
            "epsilon": self.epsilon,
            "texts": self.texts,
            "risks": self.risks.to_dict("records"),
            "epsilon_lower_bound_per_text": self.epsilon_lower_bound,
            "largest_shown": self.largest_shown,
            "shown_by": self.shown_by,
            "utility": self.utility.astype(object)
            .where(self.utility.notna(), None)
            .to_dict("records"),
            "statement": self.statement,
            "not_tried": list(self.not_tried),
            "versions": dict(self.versions),
        }

    def figure(self) -> Figure:
        """Each attack with its interval, and what guessing finds."""
        return page.drawn(self)

    def page(self, path: str | Path | None = None) -> str:
        """One HTML page that works offline, written to a file where one is named."""
        return page.written(self, path)

    def _repr_html_(self) -> str:
        return page.fragment(self)


def evaluate(
    original: object,
    sanitized: object = None,
    *,
    mechanism: object = None,
    epsilon: float | None = None,
    policy: str | TokenPolicy = PRIVATE,
    attacks: Sequence[str] | None = None,
    labels: Iterable[object] | None = None,
    authors: Iterable[object] | None = None,
    public: object = PUBLIC,
    column: str = "text",
    examples: int = 5,
    seed: int | None = None,
) -> Evaluation:
    """Attack sanitized texts, and say what they are still worth.

    Parameters
    ----------
    original : a list, a column of pandas or datasets, or the path of a file
    sanitized : the same for what a tool made of them, in the same order; None: sanitized here
    mechanism : by which they are, or were, sanitized: a name, an object or a function (see
        `sanitizer`); None: unknown, so that attacks know the pairs alone
    epsilon, policy : of the mechanism
    attacks : names of the attacks to run (see `textpriv ls attacks`); None: all that apply
    labels : of each text, which a classifier shall still tell from the sanitized text
    authors : who wrote each, whom an attacker shall not tell
    public : what attackers of a mechanism of ours have read: texts, a corpus' name, or a file; None
        for nothing. Texts that share eight words in a row with an original are left out. Of a
        function attackers see what it makes of public sentences: it is called on TAUGHT of them, or
        on as many as take about a minute
    column : of files, the column of the texts
    examples : how many texts the result quotes
    seed : of the sanitized texts (a simulation: who knows the seed can undo it), of splits and
        pairs; None: fresh entropy
    """
    if callable(sanitized):
        raise InvalidInput("sanitized: got a function, expected texts; give it as mechanism=...")
    if sanitized is None:
        before = texts_of(original, column=column, what="original")
    else:
        before, after = pairs_of(original, sanitized, column=column)
        if mechanism is None and epsilon is not None:
            raise InvalidInput(f"epsilon: got {epsilon} and no mechanism, expected both or neither")
    if len(set(before)) < 2:
        raise InvalidInput("original: got one text, expected at least two different ones")
    if len(before) > MOST_TEXTS:
        raise InvalidInput(
            f"original: got {len(before):,} texts, expected at most {MOST_TEXTS:,}, since all are "
            "compared with all; take a sample"
        )
    who, told = (
        None if each is None else column_of(each, len(before), what=what, fewest=measured.FOLDS)
        for what, each in (("authors", authors), ("labels", labels))
    )
    known = list(described_attacks())
    if isinstance(attacks, str):
        raise InvalidInput(f"attacks: got {attacks!r}, expected a list, [{attacks!r}]")
    if unknown := sorted(set(attacks or ()) - set(known)):
        raise InvalidInput(f"attacks: got {unknown}, expected some of {known}")
    made = None if mechanism is None else sanitizer(mechanism, epsilon=epsilon, policy=policy)
    if sanitized is None:
        if made is None:
            raise InvalidInput("sanitized, mechanism: got neither, expected at least one of them")
        rng = None if seed is None else stream(seed, "evaluation", "sanitize")
        with simulation():  # what comes out is attacked, and not released
            after = made.sanitize(before, rng)
    run = _Run(
        before, after, made, tuple(known if attacks is None else attacks), seed, examples,
        sanitized is not None, public, column,
    )  # fmt: skip
    run.link()
    run.read_words()
    if who is not None:
        run.risks += measured.author_risks(before, after, who, seed)
    run.measure_utility(told)
    return run.result()


# --- Attacks by name ----------------------------------------------------------------------------

ON_WORDS = {
    "context-free": "Bayes' rule word by word; knows the mechanism and word frequencies",
    "noisy-channel": "whole sentences; knows the mechanism and public text",
}
OWN_VECTORS, LIKELIHOOD = "word-vectors", "likelihood"


def described_attacks() -> dict[str, str]:
    """Every attack that `evaluate` can run, by name, with what it does and knows."""
    texts = {name: f"{each.label}; knows {each.knows}" for name, each in LINKERS.items()}
    own = {
        OWN_VECTORS: "linkage by word vectors; knows the candidates, public word vectors",
        LIKELIHOOD: "linkage by likelihood; knows the candidates, the mechanism",
    }
    return texts | own | {"pairs": "words learned from other texts before and after"} | ON_WORDS


def register_attack(
    name: str, scores: Any = None, *, label: str | None = None, knows: str = "the candidates"
) -> Any:
    """Give an attack on whole texts a name; as a decorator, or with both arguments.

    Parameters
    ----------
    name : not one of ours
    scores : a function of the candidates, in random order, and the sanitized texts that says how
        well each fits each: (sanitized, candidates)
    label, knows : what tables call it, and what it has to know
    """
    if scores is None:
        return lambda decorated: register_attack(name, decorated, label=label, knows=knows)
    if name in described_attacks() and name not in _REGISTERED:
        raise InvalidInput(f"name: {name!r} is an attack of this package; take another")
    if not callable(scores):
        raise InvalidInput(f"{name}: expected a function of originals and sanitized texts")
    _REGISTERED.add(name)
    LINKERS[name] = Linker(label or name, knows, scores, alone=False)
    return scores


_REGISTERED: set[str] = set()


# --- One evaluation -----------------------------------------------------------------------------


@dataclass
class _Run:
    """What has been found so far."""

    before: list[str]
    after: list[str]
    made: Sanitizer | None
    attacks: tuple[str, ...]
    seed: int | None
    quoted: int
    from_elsewhere: bool
    public: object
    column: str
    risks: list[Risk] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    utility: list[dict[str, Any]] = field(default_factory=list)
    linked: measured.Linked = field(default_factory=lambda: measured.Linked([]))
    read_back: list[str] | None = None
    readings: tuple[Reading, ...] = ()

    @property
    def mechanism(self) -> Mechanism | None:
        return None if self.made is None else self.made.mechanism

    @property
    def tokenizer(self) -> Tokenizer:
        """Of a mechanism of ours, with the token policy that it was run under."""
        assert self.made is not None and self.mechanism is not None
        return Tokenizer(self.mechanism.embedding.words, self.made.policy or PRIVATE)

    @cached_property
    def read(self) -> list[str] | None:
        """Public texts that share no run of eight words with an original."""
        if self.public is None:
            return None
        try:
            texts = public_texts(self.public, self.column)
        except UnknownAsset:  # a slip of the pen must not weaken the attack
            raise
        except AssetError as error:
            self.missed.append(f"attackers who have read public text ({error})")
            return None
        apart = ~shares_ngram(texts, self.before)
        return [texts[row] for row in np.flatnonzero(apart)] or None

    @cached_property
    def public_words(self) -> Corpus | None:
        """The same as words of the mechanism's vocabulary."""
        words = None if self.read is None else self.tokenizer.encode(self.read)
        return None if words is None or not len(words.ids) else words

    @cached_property
    def channel(self) -> Channel | None:
        """P(y|x) of the mechanism or an estimate, None where there is none; both are said."""
        mechanism, public = self.mechanism, self.public_words
        assert mechanism is not None
        try:
            channel = channel_of(mechanism, None if public is None else public.ids)
        except InvalidInput as error:
            self.missed.append(f"attacks by the mechanism's probabilities ({error})")
            return None
        if not isinstance(mechanism, Channel):
            self.missed.append(
                f"an attacker who knows the probabilities of {mechanism.name}, which nobody has "
                f"worked out: this one knows {measured.knowing(mechanism)}"
            )
        return channel

    def link(self) -> None:
        """Attacks on whole texts, each once: nobody can or need tell copies of one apart."""
        linkers = {name: each for name, each in LINKERS.items() if name in self.attacks}
        if OWN_VECTORS in self.attacks:
            try:
                linkers[OWN_VECTORS] = measured.by_word_vectors(embedding())
            except AssetError as error:
                self.missed.append(f"linkage by word vectors ({error})")
        if self.made is not None and self.mechanism is not None:
            private = self.made.policy == PRIVATE
            if private and np.array_equal(  # as a mechanism of ours makes them
                *measured.lengths_of(self.tokenizer, self.before, self.after)
            ):
                own = linkers.keys() - _REGISTERED  # nobody knows what a stranger's attack knows
                linkers |= {
                    name: measured.of_equal_length(linkers[name], self.tokenizer) for name in own
                }
            if LIKELIHOOD in self.attacks and not private:
                self.missed.append("linkage by likelihood (only under the token policy 'private')")
            elif LIKELIHOOD in self.attacks and self.channel is not None:
                linkers[LIKELIHOOD] = measured.by_probabilities(self.mechanism, self.channel)
        if linkers:
            rng = stream(self.seed, "evaluation", "linkage")
            rows = np.flatnonzero(~pd.Series(self.before, dtype=object).duplicated())
            if copies := len(self.before) - len(rows):
                self.missed.append(f"linkage of {copies:,} texts that are copies of others")
            before, after = ([each[row] for row in rows] for each in (self.before, self.after))
            self.linked = measured.text_risks(before, after, linkers, rng)
            self.risks += self.linked.risks

    def read_words(self) -> None:
        """Attacks on words: of a mechanism that is known, else from pairs."""
        if self.mechanism is None:
            if "pairs" in self.attacks:
                taught = self._taught()
                risks = measured.pair_risks(self.before, self.after, taught)
                self.risks += risks
                if len(risks) < 2:
                    self.missed.append("word by word (too few texts have as many words as before)")
                if not taught[0]:
                    self.missed.append(
                        f"an attacker who has more than {len(self.before):,} texts before and "
                        "after to learn from, for instance who runs the tool"
                    )
            return
        wanted = [name for name in ON_WORDS if name in self.attacks]
        if not wanted:
            return
        tokenizer = self.tokenizer
        private = tokenizer.encode(self.before)
        private, observed, out = measured.observed_of(self.mechanism, private, self.after)
        if out:
            self.missed.append(f"words of {out} texts whose length has changed")
        attacks = self._known(wanted)
        risks, guesses = measured.word_risks(private, observed, attacks, tokenizer.words)
        self.risks += risks
        if risks and not out:
            best = max(risks, key=lambda risk: risk["value"])["attack"]
            guess = private.with_ids(np.where(private.ids == KEPT, KEPT, guesses[best]))
            self.read_back = tokenizer.decode(guess)
            self.readings = readings(
                tokenizer, self.before[: self.quoted], private, observed, guess, best
            )

    def _taught(self) -> tuple[list[str], list[str]]:
        """Public sentences and what the function makes of them, as an attacker has who runs it."""
        if self.made is None or self.read is None:
            return [], []
        sentences = list(islice(chain.from_iterable(map(sentences_of, self.read)), TAUGHT))
        rng, start = stream(self.seed, "evaluation", "taught"), time.perf_counter()
        try:
            after = self.made.sanitize(sentences[:FIRST], rng)
            each = (time.perf_counter() - start) / FIRST
            count = min(len(sentences), max(FIRST, int(PATIENCE / each)))
            if count > FIRST:
                after += self.made.sanitize(sentences[FIRST:count], rng)
        except Exception as error:  # whatever a stranger's code raises on other texts
            self.missed.append(f"an attacker who runs the tool on public text ({error})")
            return [], []
        return sentences[: len(after)], after

    def _known(self, wanted: Sequence[str]) -> dict[str, tuple[str, Attack]]:
        """The attacks that know the mechanism: by label, what each knows besides, and itself."""
        mechanism, channel, read = self.mechanism, self.channel, self.public_words
        assert mechanism is not None
        if channel is None:
            return {}
        knows = measured.knowing(mechanism)
        if read is None:
            prior, knows = zipf(channel), f"{knows}, how frequent words are"
        else:
            prior = measured.is_input(channel) * (read.counts(channel.size) + np.float64(1))
            knows = f"{knows}, public text"
        attacks: dict[str, tuple[str, Attack]] = {}
        if "context-free" in wanted:
            attacks["context-free Bayes"] = knows, Bayes(channel, prior, name="context-free")
        if "noisy-channel" in wanted:
            if read is None:
                self.missed.append("the noisy channel (no public text was given)")
                return attacks
            rest, aside = parted(read)
            model = measured.language(channel.size, rest)
            weight = language_weight(mechanism, channel, model, aside)
            attacks["noisy channel"] = knows, NoisyChannel(channel, model=model, weight=weight)
        return attacks

    def measure_utility(self, labels: NDArray[np.int64] | None) -> None:
        """Nearness of meaning, and what a classifier still tells."""
        try:
            known = measured.vectors_of(embedding(), self.before, self.before)
            seen = measured.vectors_of(embedding(), self.after, self.before)
            kept = stats.mean(linkage.meaning_kept(known, seen), bounds=(-1, 1))
            self._keep("similarity of meaning (word vectors)", kept, 1.0)
        except AssetError as error:
            self.missed.append(f"similarity of meaning ({error})")
        if labels is None:
            return
        texts = {"sanitized": self.after, "clear": self.before}
        right = {
            kind: measured.guessed_labels(self.before, each, labels, self.seed, adaptive=False)
            == labels
            for kind, each in texts.items()
        }
        rate = stats.share(int(right["sanitized"].sum()), len(labels))
        usual = np.bincount(labels).max() / len(labels)
        self._keep("label told (accuracy)", rate, float(right["clear"].mean()), float(usual))

    def _keep(
        self, measure: str, estimate: stats.Estimate, clear: float, guessing: float = np.nan
    ) -> None:
        row = {"measure": measure, **estimate.columns(), "clear": clear, "guessing": guessing}
        self.utility.append(row)

    def result(self) -> Evaluation:
        """All that was found."""
        risks = measured.table(self.risks)
        linked = self.linked
        columns = {"original": self.before, "sanitized": self.after, "read_back": self.read_back}
        quoted = {key: each[: self.quoted] for key, each in columns.items() if each is not None}
        utility = pd.DataFrame(
            self.utility, columns=["measure", "value", "low", "high", "n", "clear", "guessing"]
        )
        return Evaluation(
            name="unknown" if self.made is None else self.made.name,
            label="An unknown tool" if self.made is None else self.made.label,
            setting="pairs of texts" if self.made is None else self.made.setting,
            epsilon=None if self.made is None else self.made.epsilon,
            risks=risks,
            epsilon_lower_bound=linked.epsilon_lower_bound,
            shown_by=linked.shown_by,
            largest_shown=linked.largest_shown,
            utility=utility,
            examples=pd.DataFrame(quoted),
            statement=self._statement(risks),
            not_tried=(*self.missed, *NEVER_TRIED),
            texts=len(self.before),
            readings=self.readings,
            versions={
                "textpriv": __version__,
                "python": platform.python_version(),
                **{name: metadata.version(name) for name in ("numpy", "scikit-learn", "torch")},
            },
        )

    def _statement(self, risks: pd.DataFrame) -> str:
        """What the claim means for one text of the usual length, and what it does not cover."""
        mechanism = self.mechanism
        if mechanism is None or self.made is None:
            claimed = None if self.made is None else self.made.epsilon
            return (
                "Nothing is known of a guarantee; what stands above is measured."
                if claimed is None
                else f"It is said to satisfy eps {claimed:g}; nothing here has proved that."
            )
        words = measured.strongest(risks, "words")
        attacked = None
        if words is not None:
            rate = stats.Estimate.from_row(words)
            tried = int((risks["finds"] == "words").sum())
            attacked = Attacked(rate, words["attack"], "named {} of 100 words of content", tried)
        middle = sorted(self.before, key=len)[len(self.before) // 2]
        stated = document_statement(mechanism, middle, policy=self.made.policy, attacked=attacked)
        trusted = "If it was sanitized as you say: " if self.from_elsewhere else ""
        return f"{trusted}For the text of median length: {stated}"


def public_texts(public: object, column: str) -> list[str]:
    """What an attacker has read: texts, or those of a corpus of the registry or of a file."""
    if isinstance(public, str) and not Path(public).suffix:
        from textpriv.data import corpora

        documents = corpora.load(public)
        return list(corpora.at_most(documents, PUBLIC_TEXTS, np.random.default_rng(0)).texts)
    return texts_of(public, column=column, what="public")


def _rounded_down(bound: float) -> float:
    """With two digits after the point: a lower bound is not rounded up."""
    return math.floor(100 * bound + 1e-9) / 100
