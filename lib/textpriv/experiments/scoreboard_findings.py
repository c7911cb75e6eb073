"""What notebook 07 and README conclude, in sentences that tests of the numbers choose."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from textpriv import profiles
from textpriv.data.corpora import label as corpus_label
from textpriv.experiments import equal_utility_findings, scoreboard
from textpriv.experiments.dp_prompt import BY_WORD, PROMPTED
from textpriv.experiments.equal_utility import LEFT_OUT, UTILITIES, strongest
from textpriv.experiments.equal_utility_findings import BASELINES, ESTIMATED, READABLE_ACCURACY
from textpriv.experiments.mechanisms import BETTER, RANDOM
from textpriv.experiments.scoreboard import NEWER
from textpriv.experiments.whole_texts import ALL_OUTPUTS, Sizes
from textpriv.privacy import Audit
from textpriv.report.board import Board
from textpriv.report.claims import PAPER
from textpriv.report.difference import ALONE, Difference, Finding
from textpriv.report.figures import called, listing

SETTINGS: Mapping[str, str] = {
    "custext+": "one of a few similar words",
    "diffractor": "some steps along a list of words",
    "santext+": "any word, near ones likelier",
    "rantext": "a word within a random distance",
    "madlib": "the word nearest to a noisy vector",
    "vickrey": "one of two words near a noisy vector",
}
"""Mechanisms of the first figure, and what they put in a word's place."""

READABLE = 1 / 3
"""Share of the words that comes out unchanged at the settings of the first figure, about."""

REWRITERS = ("DP-Prompt", "DP-MLM")
"""Tools of notebook 08 in which a language model writes the text that is sent, to hide all of it.

DP-Fusion rewrites too, and means to hide names alone.
"""

COUNTED = "context-free-bound"
"""The attack of who knows how often each word occurs in the private texts."""

FEW_WORDS = 0.1  # recovered: what protects a text alone leaves no more

SMALL_GAP = 0.05  # of the words: shown by a test, and still hardly more


REPLACED = {"mechanisms on words": "|".join(BY_WORD), "DP-Prompt": f"{PROMPTED}(?!-top-k)"}
"""Families of mechanisms in notebook 04, by how their names begin; top-k promises nothing."""

LARGE = 10.0
"""An epsilon beyond which an output may be exp(10) times likelier for one text than another."""

PAIRED = f"paired.custext.{scoreboard.CORPUS}.eps6."  # notebook 05, all attacks on one sample
HALF = 0.5  # of the content words kept, in notebook 01
NOISE = 400  # the epsilon of the noisy vectors of notebook 08 that a finding is about
CHANCE = 0.5  # accuracy of guessing between two sentiments


def told(value: float, low: float, high: float, unit: str = "%") -> str:
    """A share of a hundred, with its interval where there is one."""
    whole = f"{_of_hundred(value)}{unit}"
    return whole if math.isnan(low) else f"{whole} ({_of_hundred(low)} to {_of_hundred(high)})"


def _of_hundred(share: float) -> str:
    """A share of a hundred, 100 only where it is all of them."""
    rounded = f"{100 * share:.0f}"
    return f"{min(100 * share, 99.9):.1f}" if rounded == "100" and share < 1 else rounded


def between(row: pd.Series) -> str:
    """A rate with its interval."""
    return f"{row['value']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


# --- Words ----------------------------------------------------------------------------------------


def settings(points: pd.DataFrame) -> pd.DataFrame:
    """One setting of each of SETTINGS, at which about a third of the words comes out unchanged.

    Of `scoreboard.word_points`. Columns: mechanism, epsilon, kept, value (risk), low, high, n,
    attack, p; the widest gap first.
    """
    found = points[points["mechanism"].isin([*SETTINGS])]
    away = (found["kept"] - READABLE).abs()
    near = found.loc[away.groupby(found["mechanism"], sort=False).idxmin()]
    columns = {"risk": "value", "risk_low": "low", "risk_high": "high"}
    table = near.drop(columns=["value", "low", "high"]).rename(columns=columns)
    order = (table["value"] - table["kept"]).sort_values(ascending=False, kind="stable").index
    shown = ["mechanism", "epsilon", "kept", "value", "low", "high", "n", "attack", "p"]
    return table.loc[order, shown].reset_index(drop=True)


def headline(found: pd.DataFrame) -> Finding:
    """Whether a changed word is a hidden one, by the one of `settings` of the widest gap."""
    if found.empty:
        return Finding("Not measured under this profile", "Notebook 09 has not run.")
    rows = found.to_dict("records")
    above = [row for row in rows if _beyond(row, len(rows))]
    low, high = (100 * found["value"].agg(end) for end in ("min", "max"))
    text = (
        f"At these settings the strongest of three attacks recovers {low:.0f} to {high:.0f} of 100 "
        "content words (all but stop words)."
    )
    wide = [row for row in above if row["value"] - row["kept"] > SMALL_GAP]
    title = "An attacker recovers hardly more words than come out unchanged"
    if wide:
        least = math.floor(100 * (wide[-1]["value"] - wide[-1]["kept"]))
        title = (
            f"Changed is not hidden: under {len(wide)} of {len(rows)} mechanisms an attacker\n"
            f"recovers at least {least} more of 100 words than come out unchanged"
        )
        text += f" That is significantly more than come out unchanged under {_beside(wide)}: "
        text += "a changed word need not be a hidden one."
    if few := [row for row in above if row not in wide]:
        gap = max(100 * (row["value"] - row["kept"]) for row in few)
        text += f" Under {_beside(few)} it is significantly more, but by {gap:.1f} at most"
        if given := [row["mechanism"] for row in few if row["attack"] == COUNTED]:
            text += f" ({listing(given)}: given the private texts' own word counts)"
        text += "."
    if same := [row for row in rows if row not in above]:
        gap = max(100 * abs(row["value"] - row["kept"]) for row in same)
        text += f" Under {_beside(same)} the two differ by {gap:.1f} or less, not significantly."
    return Finding(title, text)


def _beside(rows: Sequence[Mapping[str, Any]]) -> str:
    """Mechanisms, with how many words come out unchanged and how many are recovered."""
    return listing(
        f"{called(row['mechanism'])} ({100 * row['kept']:.0f}→{100 * row['value']:.0f})"
        for row in rows
    )


def alone(board: Board) -> str:
    """Whether any mechanism that leaves a text useful hides most of its words, by notebook 09."""
    found = scoreboard.read_where_useful(board)
    own = found[found["mechanism"] != LEFT_OUT]
    if own.empty:
        return ""
    least = own.iloc[0]
    answer = "Not as the only protection"
    if least["high"] < FEW_WORDS:
        answer = "Attacks recovered few words under one of them, and stronger ones may recover more"
    estimated = ", attacked with estimated probabilities: a lower limit"
    estimated *= least["mechanism"] in ESTIMATED
    rate = told(least["value"], least["low"], least["high"])
    said = (
        f"**Should you use one?** {answer}. To stay useful (the best classifier of sentiment "
        f"tried is right in {READABLE_ACCURACY:.0%}; {told_ends(board)}), a text gives the "
        f"strongest of three attacks {rate} of its content words under "
        f"{called(str(least['mechanism']))}{estimated}, by point estimate the least of {len(own)} "
        f"on both sides of that accuracy, and {own['value'].max():.0%} under "
        f"{called(str(own.iloc[-1]['mechanism']))}, the most."
    )
    if len(bare := found[found["mechanism"] == LEFT_OUT]):
        row = bare.iloc[0]
        said += f" Leaving words out gives it {told(row['value'], row['low'], row['high'])}."
    return said


def ends(board: Board) -> dict[str, float]:
    """Accuracies between which those of notebook 09 lie, by name; guessing where it has none."""
    named = {"original text": "accuracy.clear", "stop words alone": "accuracy.empty"}
    found = {what: board.measured.get(name) for what, name in named.items()}
    known = {what: each.value for what, each in found.items() if each}
    return known or {"guessing": CHANCE}


def told_ends(board: Board) -> str:
    """The same, for a sentence."""
    return ", ".join(f"{what}: {value:.0%}" for what, value in ends(board).items())


def _beyond(row: Mapping[str, float], tests: int) -> bool:
    """Whether more words are recovered than stay, by a test in pairs, one of so many."""
    return row["value"] > row["kept"] and row["p"] * tests < ALONE


def guessing(board: Board) -> float:
    """Success of always naming the most frequent words, on the corpus of the first figure."""
    rows = board.rows("asr", "defense", attack="prior-only", corpus=scoreboard.CORPUS)
    return float(rows["value"].max())


def at_equal_risk(at: pd.DataFrame, pairs: pd.DataFrame) -> Finding:
    """Which mechanism leaves more for a classifier at one risk of `scoreboard.equal_risk`.

    `pairs` are those of `scoreboard.left_at_risk` at that risk.
    """
    if len(at) < 2:
        none = "No two mechanisms share a risk under this profile"
        return Finding(none, f"{none}.")
    rows, risk = at.sort_values("value", kind="stable"), at["risk"].iloc[0]
    worst, best = (
        f"{told(row.value, row.low, row.high)} ({called(row.mechanism)})"
        for row in (rows.iloc[0], rows.iloc[-1])
    )
    decided, every = pairs[pairs["p"] < ALONE], len(pairs)
    title = "At equal risk no mechanism is shown to leave more of the sentiment than another"
    verdict = f"of the {every} pairs that were compared none differs significantly"
    if len(decided):
        better = decided["first"].where(decided["value"] > 0, decided["second"]).value_counts()
        most = listing(sorted(better.index[better == better.iloc[0]]))
        verdict = f"{len(decided)} of the {every} pairs differ significantly"
        title = f"Where attackers recover {risk:.0%} of the words, {verdict} in accuracy"
        verdict += f", most of them in favour of {most} (each of {better.iloc[0]})"
    return Finding(
        title,
        f"Where the strongest of the attacks recovers {risk:.0%} of the content words, the best "
        f"classifier of sentiment that was tried reaches from {worst} to {best}; {verdict}. "
        "Both are read off on straight lines between few settings.",
    )


def protects(equal: pd.DataFrame) -> Finding:
    """Which mechanism is read back less, by the paired tests of `scoreboard.equal_utility`."""
    wins: list[str] = []
    won = lost = 0
    pair = ["first", "second"]
    equal = equal[~equal[pair].isin([*BASELINES]).any(axis=1)]
    mixed = equal[pair].isin(NEWER).sum(axis=1) == 1  # a newer and an older one
    alike = equal[mixed & (equal["utility"] == "meaning")]
    for name in NEWER:
        own = alike[(alike[pair] == name).any(axis=1)]
        less, more = own[own["less"] == name], own[own["less"].notna() & (own["less"] != name)]
        won, lost = won + len(less), lost + len(more)
        if len(own):
            unit = "" if wins else " comparisons"
            also = f" (more in {len(more)})" if len(more) else ""
            wins.append(f"{called(name)} in {len(less)} of {len(own)}{unit}{also}")
    if not wins:
        return Finding("No newer mechanism was compared with an older one", "")
    losing = "lose some" if lost else "are shown to lose none"
    accuracy = equal[equal["utility"] == "accuracy"]
    return Finding(
        f"Newer mechanisms {'win some' if won else 'are shown to win no'} comparisons and {losing}",
        "Compared with older mechanisms where sentences keep as much of their meaning (the cosine "
        "of their vectors), attackers recover significantly fewer words under "
        f"{', under '.join(wins)}. At equal accuracy of sentiment {accuracy['less'].count()} of "
        f"{len(accuracy)} comparisons of any two mechanisms are significant.",
    )


def against(equal: pd.DataFrame, baseline: str) -> Finding:
    """Who gives away less than one of BASELINES, by the tests of `scoreboard.equal_utility`."""
    counts = equal_utility_findings.against(equal, baseline)
    return equal_utility_findings.said_against(counts, baseline)


def against_both(equal: pd.DataFrame) -> Finding:
    """The same of both baselines and both utilities, in numbers of mechanisms, for README."""
    accuracy = _counted(equal, LEFT_OUT, "accuracy")
    random = ", ".join(_counted(equal, RANDOM, utility) for utility in UTILITIES)
    return Finding(
        against(equal[equal["utility"] == "meaning"], LEFT_OUT).title,
        "(Meaning: the cosine of sentence vectors, for a reader who knows the mechanism.) Leaving "
        "out promises nothing, and what stands is certain. More is read back "
        f"{accuracy}; than with random words (each kept, or any other sent) {random}.",
    )


def with_model(board: Board) -> str:
    """The comparisons with both baselines where a language model attacks too, if any."""
    equal = scoreboard.equal_utility(board, scoreboard.WITH_MODEL)
    if not equal[["first", "second"]].isin([LEFT_OUT]).any(axis=None):
        return ""
    added = board.rows("model_adds", "mechanism")
    meaning, accuracy = (_counted(equal, LEFT_OUT, utility) for utility in UTILITIES)
    return (
        f"Where a small language model attacks too ({added['n'].max():,.0f} words), it is more "
        f"than with words left out {meaning}, {accuracy}; than with random words "
        f"{_counted(equal, RANDOM, 'meaning')}."
    )


def _counted(equal: pd.DataFrame, baseline: str, utility: str) -> str:
    """Under how many mechanisms more is read back than with a baseline at equal utility."""
    counts = equal_utility_findings.against(equal, baseline)
    named = equal_utility_findings.outcomes(counts, utility)
    if not named:
        return f"at equal {utility} (none was compared)"
    every = sum(map(len, named.values()))
    others = [f"{each}: {len(named[each])}" for each in ("less", "undecided") if len(named[each])]
    also = f" ({', '.join(others)})" if others else ""
    return f"at equal {utility} under {len(named['more'])} of {every}{also}"


def near_words(board: Board) -> Finding:
    """Whether what replaces words is worth more than random words there, by notebook 01's tests."""
    gains = board.rows("beside_random", "corpus", "mechanism", "p", reader=BETTER, kept=HALF)
    if gains.empty:
        return Finding("Replacements were not compared with random words", "(Notebook 01.)")
    gains["sure"] = np.sign(gains["value"]).where(gains["p"] < ALONE, 0)
    said, title = [], ""
    for corpus, part in sorted(gains.groupby("corpus"), reverse=True):
        names, less = [*part.loc[part["sure"] > 0, "mechanism"]], (part["sure"] < 0).sum()
        under = f"under {len(names)} of {len(part)} mechanisms"
        title = (
            title
            or f"With half of the words kept, replacements are shown to beat random ones {under}"
        )
        which = f" ({listing(names)})" if names else ""
        told = f"more under {len(names)}{which}, less under {less}"
        said.append(f"on {corpus} {told if names or less else 'no difference is significant'}")
    return Finding(
        title,
        "With half of the content words kept and random words in the same places, each read by the "
        "better of two classifiers of sentiment (one counts words, one averages vectors): "
        f"{'; '.join(said)}.",
    )


def context(board: Board) -> Finding:
    """Whether reading whole sentences passes what one word tells."""
    public, alone = (PAIRED + f"noisy_channel{each}" for each in ("", "_shadow"))
    single = PAIRED + "context_free_bound"
    whole, language = (board.told(each) for each in (public, PAIRED + "noisy_channel_lm"))
    known, shadow = (_without_interval(board, each) for each in (single, alone))
    more = board.says(public, single)
    passed = board.says(
        public,
        single,
        above="Under CusText+ a reader of public film reviews beats the best guess word by word",
        below="Under CusText+ a reader of public film reviews stays below the best guess word by "
        "word",
    )
    other = f"paired.santext.{scoreboard.CORPUS}.eps2.4."
    less = [other + name for name in ("noisy_channel", "context_free_bound")]
    clothes = "misaligned.eps6."  # private texts of another domain than the attacker's
    films = clothes + "noisy_channel.misaligned"
    word_by_word = {
        "films": clothes + "context_free_bayes.misaligned",
        "other clothes reviews": clothes + "context_free_bayes",
    }
    beside = " and ".join(
        f"of {what} {board.says(films, name, undecided='not significantly different')}"
        for what, name in word_by_word.items()
    )
    return Finding(
        _capital(passed),
        f"At epsilon 6 Bayes' rule, given the private word frequencies, recovers {known}. Decoding "
        f"whole sentences recovers {whole} with word triples of public reviews ({more}), "
        f"{language} with a language model, which may have read these sentences, and {shadow} with "
        "shadow data alone. Under SanText+ (epsilon 2.4) the triples recover "
        f"{_without_interval(board, less[0])}, Bayes' rule {_without_interval(board, less[1])}. Of "
        f"clothes reviews film triples recover {_without_interval(board, films)}: compared with "
        f"Bayes' rule with word frequencies {beside}.",
    )


def bound_with_context(board: Board) -> str:
    """The paper's own bound on the attacks of `context`, as a detector estimates it here."""
    trained = "" if board.profile == PAPER else " trained less than theirs"
    seen = PAIRED + "contextual_bound_seen"  # trained on the sentences that it answers for
    return (
        "The approximate bound of Tong et al. on attacks with context, estimated by a "
        f"detector{trained}, is {board.told(seen)} (CusText+, epsilon 6)."
    )


def _without_interval(board: Board, name: str) -> str:
    """A measurement without its interval, for a sentence that has another one to stress."""
    return board.told(name).partition(" (")[0]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# --- Tokens, documents, whole texts ---------------------------------------------------------------


UNTUNED = "imdb"  # the corpus of notebook 03 on which no attack was tuned


def window(board: Board) -> Finding:
    """What solving the linear map finds of a punctuated stencil, beside the paper's attacker."""
    stencil = f"pr5.punctuated-stencil-w9-s1.0.{UNTUNED}."
    near, solved, blind = (
        _without_interval(board, name)
        for name in (stencil + "naive_skip", stencil + "deconvolution", f"blind5.{UNTUNED}")
    )
    verdict = board.says(
        stencil + "deconvolution",
        stencil + "naive_skip",
        above="Leaving a token out of its own mixture hides it from the paper's attacker, and not "
        "from one who inverts the mixing",
        below="The paper's attacker recovers more tokens than one who inverts the mixing",
    )
    return Finding(
        _capital(verdict),
        "Under the punctuated stencil of Harel et al. (window 9, sigma 1; film reviews) five "
        "guesses of the first, who looks at one place, find "
        f"{near} of the tokens (the five commonest pieces of public text, named everywhere, "
        f"{blind}); of the second {solved}, with rehearsal and a language model "
        f"{board.told(stencil + 'deconvolution_lm')}.{_in_sight(board)}",
    )


def _in_sight(board: Board) -> str:
    """How much of a text stands among the outputs of that stencil, whoever reads these."""
    shown = f"in_sight.punctuated-stencil-w9-s1.0.{UNTUNED}."
    if shown + "content" not in board.measured:
        return ""
    content, other = (_without_interval(board, shown + what) for what in ("content", "other"))
    return (
        f" In whatever place, {content} of a text's content words stand among its outputs (another "
        f"text's: {other})."
    )


def least_read(board: Board, tokens: pd.DataFrame) -> str:
    """What the token mechanism that the attacks read back least costs a classifier, in sentences.

    Of those of `scoreboard.manipulated_tokens` alone on which an attack was run that does more than
    look for the nearest tokens.
    """
    row = fewest_read(board, tokens)
    if row is None:
        return ""
    plain, other = (f"accuracy.{name}.{row['corpus']}.all" for name in ("plain", row["mapper"]))
    lost = board.says(plain, other, above="significantly less", below="significantly more")
    return (
        f"Of the token mechanisms, {called(row['mapper'])} is read back least, by point estimate "
        f"(on {corpus_label(row['corpus'])}): the first guess of the "
        f"strongest attack that was run on it ({called(row['attack'])}) recovers "
        f"{row['risk']:.0%} of the tokens in their places. A classifier has an accuracy of "
        f"{row['value']:.2f}, on plain text {board.told(plain)}: {lost}."
    )


def fewest_read(board: Board, tokens: pd.DataFrame, by: str = "risk") -> pd.Series | None:
    """The row of `tokens` on which an attack in earnest was run and of which least is read."""
    attacks = board.rows("pr1", "label", "attack")
    simple = attacks["attack"].astype(str).str.startswith(("naive", "anywhere"))
    attacked = tokens["mapper"].isin(attacks["label"][~simple])
    hidden = tokens[(tokens["mechanism"] != "plain") & attacked]
    return None if hidden.empty else hidden.sort_values(by, kind="stable").iloc[0]


PROMPT, CLEAR = "f1_strongest.dp-prompt-clipped.t0.75.", "f1_strongest.clean.plain."
PROMPT_EPSILON = "epsilon.dp-prompt-clipped.t0.75."


def documents(board: Board) -> Finding:
    """What a paraphrase hides of its author, and what it leaves of the sentiment."""
    verdict = board.says(
        PROMPT + "author",
        CLEAR + "author",
        above="DP-Prompt makes authors of single texts easier to identify",
        below="DP-Prompt makes authors of single texts harder to identify",
    )
    bound = board.measured.get(f"{PROMPT_EPSILON}tight")
    weak = ", which promises nothing" if bound and bound.value > LARGE else ""
    token = board.measured.get(f"{PROMPT_EPSILON}token_tight")
    cap = f" ({bound.value / token.value:.0f} tokens written)" if bound and token else ""
    return Finding(
        f"{_capital(verdict)} for the classifiers that were run",
        "None knew the language model's probabilities or learned from several outputs. "
        "With clipping, at temperature 0.75, the "
        f"strongest on one output reaches a macro F1 of {board.told(PROMPT + 'author')} for the "
        f"author (guessing: {board.told('f1.random.plain.author')}; clean text: "
        f"{_without_interval(board, CLEAR + 'author')}){_on_several(board)}. For film "
        f"sentiment it is {board.told(PROMPT + 'sentiment')}, clean "
        f"{_without_interval(board, CLEAR + 'sentiment')}. The guarantee for any two documents"
        f"{cap} is an epsilon of {board.told(f'{PROMPT_EPSILON}tight', 0)}{weak}.",
    )


def beside_scissors(board: Board) -> str:
    """How much sentiment is left where the author is found as often as with words left out."""
    rows = board.rows(f"f1_over_{LEFT_OUT}", "mechanism", "risk", "p")
    named = rows["mechanism"].astype(str)
    families = {each: rows[named.str.match(names)] for each, names in REPLACED.items()}
    told = [
        f"{own['value'].min():+.2f} to {own['value'].max():+.2f} under {each}"
        for each, own in families.items()
        if len(own)
    ]
    if not told:
        return ""
    p = pd.concat(families)["p"]
    return (
        f"At equal author F1, sentiment F1 minus that with words left out is {', '.join(told)} "
        f"(significant: {(p < ALONE).sum()} of {len(p)})."
    )


def _on_several(board: Board) -> str:
    """What the strongest attacker of `documents` reaches on the most outputs of each text."""
    asked = board.rows("repeated", "k", "access", mechanism="dp-prompt-clipped", setting="t0.75")
    several = asked[asked["k"] == asked["k"].max()]
    if several.empty or several["k"].iloc[0] < 2:
        return ""
    most = strongest(several, "k").iloc[0]
    once = asked[(asked["k"] == 1) & (asked["access"] == most["access"])].iloc[0]
    return (
        f", one who reads {most['k']:.0f} outputs of each of {most['n']:.0f} texts "
        f"{between(most)}, by one {between(once)}"
    )


def asked_again(board: Board) -> str:
    """What several outputs add, of the text that is asked about and of those learned from."""
    asked = board.rows("repeated", "k", "setting", "access", mechanism="madlib")
    one, several = asked[asked["k"] == 1], asked[asked["k"] > 1]
    if one.empty or several.empty:
        return ""
    once, often = (strongest(part, "mechanism").iloc[0] for part in (one, several))
    more, fewer = (board.measured[each["name"]] for each in (often, once))
    gain = Difference.between(more, fewer)
    tried = len(one) * len(several)  # pairs, of which the two best were chosen
    sure = "significantly" if gain.verdict == "above" and gain.p * tried < ALONE else "not surely"
    return (
        f"Under MADLIB at epsilon {often['setting'].removeprefix('eps')} the strongest "
        f"attacker who was asked about several outputs reaches {between(once)} on one, "
        f"{between(often)} on {often['k']:.0f} ({sure} more).{_by_every_run(board)}"
    )


def _by_every_run(board: Board) -> str:
    """What learning from every run adds, on mechanisms that replace words; p are corrected."""
    rows = board.rows("f1_by_every_run", "mechanism", "setting", "p")
    rows = rows[rows["mechanism"].astype(str).str.match(REPLACED["mechanisms on words"])]
    if rows.empty:
        return ""
    sure, most = rows[rows["p"] < ALONE], rows.loc[rows["value"].idxmax()]
    where = f"{called(most['mechanism'])} at epsilon {most['setting'].removeprefix('eps')}"
    return (
        " The attacker on texts who learned from every run and from clean text, not from one run, "
        f"reaches significantly more at {(sure['value'] > 0).sum()} of {len(rows)} settings of "
        f"mechanisms on words, significantly less at {(sure['value'] < 0).sum()}; most "
        f"{most['value']:+.2f} ({where})."
    )


def rewritten(found: pd.DataFrame, profile: str) -> Finding:
    """How often texts are linked to their originals: of `scoreboard.whole_texts`."""
    rows = rewriters(found)
    if rows.empty:
        return Finding("Mechanisms for whole texts were not measured", "(Notebook 08.)")
    sizes = profiles.load(profile, "08_whole_texts", Sizes, {})
    settings = {
        "DP-Prompt": f"temperature {sizes.temperature:g}, at most {sizes.tokens} tokens",
        "DP-MLM": f"epsilon {sizes.word_epsilon:g} for each word",
    }
    least, also = rows.iloc[0], ""
    for other in rows.iloc[1:].to_dict("records"):
        also += f", by point estimate {other['linked']:.0%} under {other['mechanism']} "
        also += f"({settings[other['mechanism']]})"
    chance = 1 / least["candidates"]
    how = "Rewritten sentences are linked" if least["low"] > 10 * chance else "Some are not linked"
    return Finding(
        f"{how} to their originals",
        f"Among {least['candidates']:.0f} sentences the strongest linkage attack on one output "
        f"at a time finds the original of {told(least['linked'], least['low'], least['high'])} of "
        f"{least['n']:.0f} outputs under {least['mechanism']} "
        f"({settings[least['mechanism']]}){also}.",
    )


def vectors(board: Board) -> Finding:
    """What a regression reads of the vector of a sentence, as it is and with noise: notebook 08."""
    found = "inverted.{release}.words_by_regression.{what}"
    plain, noisy = (
        [found.format(release=release, what=what) for what in ("content_words", "names")]
        for release in ("vector_as_it_is", f"noise.eps_{NOISE}")
    )
    without = [each.replace("words_by_regression", "named_blindly") for each in plain]
    blind, noisy = (
        [_without_interval(board, each) for each in names] for names in (without, noisy)
    )
    verdict = board.says(
        plain[0],
        without[0],
        above="The vector of a sentence gives its words away",
        below="The vector of a sentence misleads who reads words from it",
    )
    return Finding(
        _capital(verdict),
        "An attacker with public sentences and their vectors (MiniLM) finds by seven guesses "
        f"{board.told(plain[0])} of a sentence's content words and {board.told(plain[1])} of the "
        f"names that public reviews use too (without its vector {blind[0]} and {blind[1]}); with "
        f"truncated Laplace noise (epsilon {NOISE}) {noisy[0]} and {noisy[1]}{_linked(board)}.",
    )


def _linked(board: Board) -> str:
    """How often such a noisy vector is still linked to its sentence."""
    rows = board.rows("linked", "mechanism", "attack", "candidates")
    own = rows[rows["mechanism"] == f"truncated Laplace, eps {NOISE}"]
    own = own[own["attack"] != ALL_OUTPUTS]
    if own.empty:
        return ""
    best = strongest(own, "mechanism").iloc[0]
    share = told(best["value"], best["low"], best["high"])
    return f", yet among {best['candidates']:.0f} sentences {share} are linked"


def games(found: pd.DataFrame) -> str:
    """What the game of two texts shows of their epsilons: of `scoreboard.whole_texts`."""
    played = found.dropna(subset=["shown"])
    if played.empty:
        return ""
    worst = played.sort_values("shown").iloc[-1]
    bound = math.floor(10 * worst["shown"] + 1e-9) / 10  # a lower bound is not rounded up
    most = ", about the most that so many draws can show" if worst["right"] == 1 else ""
    claim = "" if math.isnan(worst["claimed"]) else f" (claim: {worst['claimed']:,.0f})"
    return (
        "Guessing which of two texts was sanitized, the better of two attackers shows, with 95% "
        f"confidence, an epsilon above 0 under {(played['shown'] > 0).sum()} of {len(played)} "
        f"settings, and of at least {bound:.1f} under {called(worst['mechanism'])}{claim}{most}."
    )


def rewriters(found: pd.DataFrame) -> pd.DataFrame:
    """Settings of `scoreboard.whole_texts` that write a new text, least often linked first.

    Of those whose originals were looked for among the largest number of texts.
    """
    writes = found["mechanism"].astype(str).str.startswith(REWRITERS)
    linked = found[writes].dropna(subset=["linked"])
    return linked[linked["candidates"] == linked["candidates"].max()]


# --- Search, worth, guarantees --------------------------------------------------------------------


def search(board: Board) -> Finding:
    """Whether an approximate search is another mechanism than an exact one."""
    kept = "nw.glove840b300.eps25."
    verdict = board.says(
        kept + "exact",
        kept + "annoy",
        above="MADLIB with Annoy at its default effort is another mechanism",
        below="Annoy keeps more words than the exact search",
    )
    exact, annoy = (_without_interval(board, kept + each) for each in ("exact", "annoy"))
    return Finding(
        _capital(verdict),
        f"At epsilon 25 (GloVe 840B) it keeps {exact} of words with an exact search, with one "
        f"forest of Annoy {annoy}.",
    )


def worth(board: Board) -> str:
    """How well the worth of a sanitized prompt is predicted."""
    return (
        "Epsilon alone (the mean at each) predicts how close the summary of a sanitized "
        "text comes to the original text, with an R2 of "
        f"{board.told('regression.eps_only.r2.by_document')} on unseen documents. To predict from "
        "what the small model makes of the text changes that R2 by "
        f"{board.told('gain.all.r2', 3)}, from the similarity of original and sanitized text alone "
        f"by {board.told('gain.text.r2', 3)}."
    )


def guarantees(found: Sequence[Audit]) -> str:
    """How many audits there are, what they broke, and how many wrong mechanisms they caught."""
    if not found:
        return "No audits are kept here: run `make audit`."
    kept = [each for each in found if not each.published and each.verdict != "no claim"]
    broken = [each.label for each in kept if each.verdict == "broken"]
    said = (
        f"{len(kept)} audits of a claim broke {f'that of {listing(broken)}' if broken else 'none'}."
    )
    stated = [each.mechanism for each in found if each.published and each.verdict == "broken"]
    said += f" Stronger readings of a claim are refuted for {listing(stated)}." if stated else ""
    caught, tried = scoreboard.mutants()
    if not tried:
        return said
    return (
        f"{said} Of {tried} mechanisms that were made wrong on purpose the same checks catch "
        f"{caught}, on small vocabularies (exact ones at every pair)."
    )


def proved(stated: pd.DataFrame) -> str:
    """What the least of the bounds for one text, in `scoreboard.statements`, comes to."""
    bounds = stated["tight"].fillna(stated["nominal"])
    finite = bounds[np.isfinite(bounds)]
    if finite.empty:
        return "No guarantee for a whole text is kept here: run `make audit`."
    least = finite.min()
    names = dict.fromkeys(called(str(each)) for each in stated.loc[bounds == least, "mechanism"])
    said = (
        "he smallest epsilon (without delta) stated in docs/PRIVACY for a text of "
        f"which all may differ is {least:,.0f} ({listing([*names])})"
    )
    if least <= LARGE:
        return f"T{said}."
    return (
        f"No guarantee is strong for a whole text at these settings: t{said}; already at "
        f"{LARGE:g} an output may be {round(math.exp(LARGE), -3):,.0f} times likelier under one "
        "text than another."
    )
