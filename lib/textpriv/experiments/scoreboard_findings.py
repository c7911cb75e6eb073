"""What notebook 07 and README conclude, in sentences that tests of the numbers choose."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from textpriv import profiles
from textpriv.data.corpora import label as corpus_label
from textpriv.experiments import scoreboard
from textpriv.experiments.dp_prompt import BY_WORD, PROMPTED
from textpriv.experiments.equal_utility import LEFT_OUT, UTILITIES, strongest
from textpriv.experiments.equal_utility_findings import (
    BASELINES,
    against,
    outcomes,
    said_against,
    throughout,
)
from textpriv.experiments.mechanisms import BETTER, RANDOM
from textpriv.experiments.scoreboard import NEWER
from textpriv.experiments.scoreboard_headline import told
from textpriv.experiments.whole_texts import ALL_OUTPUTS, Sizes
from textpriv.privacy import Audit
from textpriv.report.board import Board
from textpriv.report.claims import PAPER
from textpriv.report.difference import ALONE, Difference, Finding
from textpriv.report.figures import called, listing

REWRITERS = ("DP-Prompt", "DP-MLM")
"""Tools of notebook 08 in which a language model writes the text that is sent, to hide all of it.

DP-Fusion rewrites too, and means to hide names alone.
"""

REPLACED = {"mechanisms on words": "|".join(BY_WORD), "DP-Prompt": f"{PROMPTED}(?!-top-k)"}
"""Families of mechanisms in notebook 04, by how their names begin; top-k promises nothing."""

LARGE = 10.0
"""An epsilon beyond which an output may be exp(10) times likelier for one text than another."""

PAIRED = f"paired.custext.{scoreboard.CORPUS}.eps6."  # notebook 05, all attacks on one sample
HALF = 0.5  # of the content words kept, in notebook 01
NOISE = 400  # the epsilon of the noisy vectors of notebook 08 that a finding is about


def between(row: pd.Series) -> str:
    """A rate with its interval."""
    return f"{row['value']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


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


def against_both(board: Board, equal: pd.DataFrame) -> Finding:
    """Who gives away less than BASELINES do, by the paired tests of `scoreboard.equal_utility`."""
    left_out, random = (
        said_against(against(equal, baseline), baseline) for baseline in (LEFT_OUT, RANDOM)
    )
    given, replaced = (
        ", ".join(_counted(equal, baseline, utility) for utility in UTILITIES)
        for baseline in (LEFT_OUT, RANDOM)
    )
    return Finding(
        f"Mechanisms that give away more than simply leaving words out: {given}",
        "(Leaving words out promises nothing.) More than random words (each word kept, or any "
        f"other sent): {replaced}{_beside_random(board)}. Meaning: the cosine of sentence vectors, "
        "as its receiver reads it; accuracy: of sentiment.",
        " ".join(filter(None, (left_out.text, random.text, with_model(board)))),
    )


def with_model(board: Board) -> str:
    """The comparisons with words left out where a language model attacks too, if any."""
    equal = scoreboard.equal_utility(board, scoreboard.WITH_MODEL)
    if not equal[["first", "second"]].isin([LEFT_OUT]).any(axis=None):
        return ""
    added = board.rows("model_adds", "mechanism")
    meaning, accuracy = (_counted(equal, LEFT_OUT, utility) for utility in UTILITIES)
    return (
        f"Where a small language model attacks too ({added['n'].max():,.0f} words), more is read "
        f"back than with words left out under {meaning}, {accuracy}."
    )


def _beside_random(board: Board) -> str:
    """The comparison with random words where a language model attacks too, if any."""
    equal = scoreboard.equal_utility(board, scoreboard.WITH_MODEL)
    if not equal[["first", "second"]].isin([RANDOM]).any(axis=None):
        return ""
    return f"; with a small language model {_counted(equal, RANDOM, 'meaning')}"


def _counted(equal: pd.DataFrame, baseline: str, utility: str) -> str:
    """Under how many mechanisms more is read back than with a baseline at equal utility."""
    counts = against(equal, baseline)
    named = outcomes(counts, utility)
    if not named:
        return f"none was compared at equal {utility}"
    every = sum(map(len, named.values()))
    more, always = len(named["more"]), throughout(counts, utility, "more")
    notes = [f"at all levels: {always}"] if always < more else []
    notes += [f"{each}: {len(named[each])}" for each in ("less", "undecided") if len(named[each])]
    also = f" ({', '.join(notes)})" if notes else ""
    return f"{more} of {every} at equal {utility}{also}"


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
    whole, language = (_share(board, each) for each in (public, PAIRED + "noisy_channel_lm"))
    known, shadow = (_bare_share(board, each) for each in (single, alone))
    reader = "Under CusText+ an attacker who has read public reviews"
    passed = board.says(
        public,
        single,
        above=f"{reader} beats the best guess word by word",
        below=f"{reader} stays below the best guess word by word",
        undecided=f"{reader} is not shown to beat the best guess word by word",
    )
    return Finding(
        _capital(passed),
        "At epsilon 6 decoding whole sentences, with word triples of public film reviews, recovers "
        f"{whole} of the words; Bayes' rule word by word, even given the private word frequencies, "
        f"{known}. A small language model, which may have read these sentences, recovers "
        f"{language}.",
        f"With shadow data alone decoding recovers {shadow}. {_other_texts(board)} "
        f"{_bound_with_context(board)}",
    )


def _other_texts(board: Board) -> str:
    """Whether reading whole sentences helps under SanText+, and on texts of another domain."""
    other = f"paired.santext.{scoreboard.CORPUS}.eps2.4."
    triples, single = (
        _bare_share(board, other + name) for name in ("noisy_channel", "context_free_bound")
    )
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
    return (
        f"Under SanText+ (epsilon 2.4) the triples recover {triples}, Bayes' rule {single}. Of "
        f"clothes reviews film triples recover {_bare_share(board, films)}: compared with "
        f"Bayes' rule with word frequencies {beside}."
    )


def _bound_with_context(board: Board) -> str:
    """The paper's own bound on the attacks of `context`, as a detector estimates it here."""
    trained = "" if board.profile == PAPER else " trained less than theirs"
    seen = PAIRED + "contextual_bound_seen"  # trained on the sentences that it answers for
    return (
        "The approximate bound of Tong et al. on attacks with context, estimated by a "
        f"detector{trained}, is {_share(board, seen)} of the words (CusText+, epsilon 6)."
    )


def _share(board: Board, name: str) -> str:
    """A measured share of a hundred, with its interval."""
    measured = board.measured.get(name)
    if measured is None:
        return board.told(name)
    low, high = (math.nan if end is None else end for end in (measured.low, measured.high))
    return told(measured.value, low, high)


def _bare_share(board: Board, name: str) -> str:
    """The same without its interval."""
    return _share(board, name).partition(" (")[0]


def _without_interval(board: Board, name: str) -> str:
    """A measurement without its interval, for a sentence that has another one to stress."""
    return board.told(name).partition(" (")[0]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


UNTUNED = "imdb"  # the corpus of notebook 03 on which no attack was tuned


def window(board: Board, tokens: pd.DataFrame) -> Finding:
    """What solving the linear map finds of a punctuated stencil, beside the paper's attacker."""
    stencil = f"pr5.punctuated-stencil-w9-s1.0.{UNTUNED}."
    near, solved, blind = (
        _bare_share(board, name)
        for name in (stencil + "naive_skip", stencil + "deconvolution", f"blind5.{UNTUNED}")
    )
    most = _share(board, stencil + "deconvolution_lm")
    verdict = board.says(
        stencil + "deconvolution",
        stencil + "naive_skip",
        above="Leaving a token out of its own mixture hides it from the paper's attacker, but not "
        "from one who inverts the mixing",
        below="The paper's attacker recovers more tokens than one who inverts the mixing",
        undecided="Who inverts the mixing is not shown to recover more than the paper's attacker",
    )
    return Finding(
        _capital(verdict),
        "Under the punctuated stencil of Harel et al. (window 9, sigma 1) an attacker with five "
        f"guesses finds {near} of the tokens by looking at one place, {solved} by inverting the "
        f"mixing, {most} with rehearsal on public text and a language model too.",
        f"(Film reviews.) The five commonest pieces of public text, named everywhere, are right in "
        f"{blind}.{_in_sight(board)} {least_read(board, tokens)}".strip(),
    )


def _in_sight(board: Board) -> str:
    """How much of a text stands among the outputs of that stencil, whoever reads these."""
    shown = f"in_sight.punctuated-stencil-w9-s1.0.{UNTUNED}."
    if shown + "content" not in board.measured:
        return ""
    content, other = (_bare_share(board, shown + what) for what in ("content", "other"))
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
        above="DP-Prompt makes authors easier to identify from one text,",
        below="DP-Prompt makes authors harder to identify from one text,",
        undecided="DP-Prompt is not shown to hide authors of one text,",
    )
    bound = board.measured.get(f"{PROMPT_EPSILON}tight")
    weak = ", which promises nothing" if bound and bound.value > LARGE else ""
    token = board.measured.get(f"{PROMPT_EPSILON}token_tight")
    cap = f" ({bound.value / token.value:.0f} tokens written)" if bound and token else ""
    unknown = "No classifier knew the language model's probabilities."
    details = (unknown, beside_scissors(board), asked_again(board))
    return Finding(
        f"{_capital(verdict)} for the classifiers that were run",
        "With clipping, at temperature 0.75, the strongest attacker run at every setting names "
        f"the author with a macro F1 of {board.told(PROMPT + 'author')} (guessing: "
        f"{board.told('f1.random.plain.author')}; clean text: "
        f"{_without_interval(board, CLEAR + 'author')}){_on_several(board)}. Film "
        f"sentiment is told with {_without_interval(board, PROMPT + 'sentiment')} (clean text: "
        f"{_without_interval(board, CLEAR + 'sentiment')}). The epsilon for a document{cap} is "
        f"{board.told(f'{PROMPT_EPSILON}tight', 0)}{weak}.",
        " ".join(filter(None, details)),
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
        f". Another, run on {most['n']:.0f} texts, reaches {between(most)} if it reads "
        f"{most['k']:.0f} outputs of a text, {once['value']:.2f} if it reads one"
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


def rewritten(texts: pd.DataFrame, profile: str) -> Finding:
    """How often texts are linked to their originals: of `scoreboard.whole_texts`."""
    rows = rewriters(texts)
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
        f"Given one output and {least['candidates']:.0f} sentences, the strongest linkage attack "
        f"finds the original for {told(least['linked'], least['low'], least['high'])} of "
        f"{least['n']:.0f} outputs under {least['mechanism']} "
        f"({settings[least['mechanism']]}){also}.",
        games(texts),
    )


def vectors(board: Board) -> Finding:
    """What a regression reads of the vector of a sentence, as it is and with noise: notebook 08."""
    name = "inverted.{release}.words_by_regression.{what}"
    plain, noisy = (
        [name.format(release=release, what=what) for what in ("content_words", "names")]
        for release in ("vector_as_it_is", f"noise.eps_{NOISE}")
    )
    without = [each.replace("words_by_regression", "named_blindly") for each in plain]
    blind, noisy = ([_bare_share(board, each) for each in pair] for pair in (without, noisy))
    words, names = (_share(board, each) for each in plain)
    verdict = board.says(
        plain[0],
        without[0],
        above="The vector of a sentence gives its words away",
        below="The vector of a sentence misleads who reads words from it",
        undecided="The vector of a sentence is not shown to give its words away",
    )
    return Finding(
        _capital(verdict),
        "An attacker who has public sentences and their vectors (MiniLM) finds in seven guesses "
        f"{words} of a sentence's content words and {names} of the names that public reviews use "
        f"too; without its vector {blind[0]} and {blind[1]}.",
        f"With truncated Laplace noise (epsilon {NOISE}) the guesses find {noisy[0]} and {noisy[1]}"
        f"{_linked(board)}.",
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


def games(texts: pd.DataFrame) -> str:
    """What the game of two texts shows of their epsilons: of `scoreboard.whole_texts`."""
    played = texts.dropna(subset=["shown"])
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


def rewriters(texts: pd.DataFrame) -> pd.DataFrame:
    """Settings of `scoreboard.whole_texts` that write a new text, least often linked first.

    Of those whose originals were looked for among the largest number of texts.
    """
    writes = texts["mechanism"].astype(str).str.startswith(REWRITERS)
    linked = texts[writes].dropna(subset=["linked"])
    return linked[linked["candidates"] == linked["candidates"].max()]


def search(board: Board) -> Finding:
    """Whether an approximate search is another mechanism than an exact one."""
    kept = "nw.glove840b300.eps25."
    verdict = board.says(
        kept + "exact",
        kept + "annoy",
        above="With an approximate search (Annoy at default effort) MADLIB is another mechanism",
        below="Annoy keeps more words than the exact search",
        undecided="MADLIB with Annoy is not shown to differ from that with an exact search",
    )
    exact, annoy = (_bare_share(board, kept + each) for each in ("exact", "annoy"))
    return Finding(
        _capital(verdict),
        f"At epsilon 25 (GloVe 840B) it keeps {exact} of words with an exact search, {annoy} "
        "with one forest of Annoy.",
    )


def worth(board: Board) -> Finding:
    """How well the worth of a sanitized prompt is predicted."""
    alone = _without_interval(board, "regression.eps_only.r2.by_document")
    return Finding(
        f"Epsilon alone predicts what a sanitized prompt is worth with an R2 of {alone}",
        "(The mean at each epsilon; worth: how close the summary of the sanitized text comes to "
        "the original text; unseen documents.) What the small model makes of the text changes that "
        f"R2 by {board.told('gain.all.r2', 3)}, the similarity of original and sanitized text "
        f"alone by {board.told('gain.text.r2', 3)}.",
    )


def guarantees(audits: Sequence[Audit]) -> Finding:
    """How many audits there are, what they broke, and how many wrong mechanisms they caught."""
    if not audits:
        return Finding("No audits are kept here", "Run `make audit`.")
    kept = [each for each in audits if not each.published and each.verdict != "no claim"]
    broken = [each.label for each in kept if each.verdict == "broken"]
    stated = [each.mechanism for each in audits if each.published and each.verdict == "broken"]
    said = f"Stronger readings of a claim are refuted for {listing(stated)}." if stated else ""
    caught, tried = scoreboard.mutants()
    if tried:
        said += (
            f" Of {tried} mechanisms that were made wrong on purpose the same checks catch "
            f"{caught}, on small vocabularies (exact ones at every pair)."
        )
    no_claim = f"that of {listing(broken)}" if broken else "none"
    return Finding(f"{len(kept)} audits of a claim broke {no_claim}", said.strip())


def proved(stated: pd.DataFrame) -> str:
    """What the least of the bounds for one text, in `scoreboard.statements`, comes to."""
    bounds = stated["tight"].fillna(stated["nominal"])
    finite = bounds[np.isfinite(bounds)]
    if finite.empty:
        return "No guarantee for a whole text is kept here: run `make audit`."
    least = finite.min()
    names = dict.fromkeys(called(str(each)) for each in stated.loc[bounds == least, "mechanism"])
    said = (
        "here everything in a text may differ, the smallest epsilon (without delta) stated in "
        f"docs/PRIVACY is {least:,.0f} ({listing([*names])})."
    )
    if least <= LARGE:
        return f"W{said}"
    return (
        f"No guarantee is strong for a whole text at these settings: w{said} At {LARGE:g} an "
        f"output may already be {round(math.exp(LARGE), -3):,.0f} times likelier under one text "
        "than another."
    )
