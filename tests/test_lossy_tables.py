"""The attacks and tables of notebook 03, against direct calls, parts of the library and by hand.

Texts are made up in sixteen pieces, five of them special.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tiny_generators import tiny_generator
from tiny_models import PIECES, SPECIAL, piece

from textpriv import stats
from textpriv.attacks import oracle
from textpriv.attacks.base import NONE, Guesses, Observed
from textpriv.attacks.bayes import Bayes
from textpriv.attacks.deconvolution import Deconvolution, TokenInversion, watch
from textpriv.attacks.ngrams import Lexicon, NGrams
from textpriv.attacks.noisy_channel import NoisyChannel, tuned_weight
from textpriv.data.embeddings import from_arrays
from textpriv.data.tokens import Corpus
from textpriv.experiments import lossy as experiment
from textpriv.experiments import lossy_tables as tables
from textpriv.experiments.lossy import Setting, Text, TokenNoise, Vocabulary
from textpriv.kept import decoded, encoded
from textpriv.mechanisms import Madlib
from textpriv.mechanisms.estimated import NoiseChannel
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.stencil import Stencil, TokenTable
from textpriv.models import Encoder, pieces
from textpriv.models.generators import Generator
from textpriv.seeds import stream
from textpriv.utility import grammar

SEED = 3
WORDS = np.arange(len(SPECIAL), len(PIECES))
FIXED = np.arange(len(SPECIAL))


def made_up(documents: int, seed: int) -> Corpus:
    """Any pieces but the rarer ones, with a special one now and then."""
    rng = np.random.default_rng(seed)
    likely = 1.0 / (1 + np.arange(len(WORDS)))
    offsets = np.cumsum([0, *rng.integers(3, 9, size=documents)])
    ids = rng.choice(WORDS, size=offsets[-1], p=likely / likely.sum())
    ids[rng.random(len(ids)) < 0.1] = piece("[SEP]")
    return Corpus(ids, offsets)


def text(name: str, corpus: Corpus, cluster: Any = None, splits: Any = ()) -> Text:
    numbers = np.arange(len(corpus))
    strings = tuple(" ".join(PIECES[i] for i in row) for row in corpus)
    unit = numbers if cluster is None else np.asarray(cluster)
    return Text(name, "tiny", strings, numbers % 2, unit, corpus, 12, splits)


def only(table: pd.DataFrame, **keys: Any) -> Any:
    (row,) = table[(table[list(keys)] == pd.Series(keys)).all(axis=1)].itertuples()
    return row


@pytest.fixture(scope="module")
def table(encoder: Encoder) -> TokenTable:
    return TokenTable(encoder.table.detach().numpy(), fixed=FIXED)


def test_accuracies_pool_draws_and_splits() -> None:
    """Two draws of a random map on two splits, one of them asked about phrases of one sentence."""
    splits = ((np.array([4, 5]), np.array([0, 1, 2])), (np.array([0, 1]), np.array([3, 5])))
    given = text("sst2", made_up(6, 1), cluster=[0, 0, 1, 2, 3, 3], splits=splits)
    pieces, place = given.pieces, np.arange(len(given.pieces.ids))
    seen = [pieces.with_ids(np.where(place < end, 0, pieces.ids)) for end in (4, 9)]
    right = [{0: np.array([1, 0, 1], bool), 1: np.array([1, 1], bool)},
             {0: np.array([0, 0, 1], bool), 1: np.array([0, 1], bool)}]  # fmt: skip
    random, plain = Setting("2-random"), Setting("plain")
    answers = [
        [tables.answers(given, plain, "all", pieces, {0: right[0][0]})],
        *([tables.answers(given, random, "test", seen[d], right[d], d)] for d in (0, 1)),
        [tables.answers(given, random, "all", seen[0], right[1])],
    ]
    table = tables.accuracies(answers)
    assert decoded(encoded(table))["value"].equals(table["value"])  # so that it is drawn again
    row = only(table, label="2-random", scenario="test")
    every = np.concatenate([*right[0].values(), *right[1].values()])
    expected = stats.clustered_share(every, np.tile([0, 0, 1, 2, 3], 2), sample="sst2")
    for what, means in (("split", [0.5, 0.75]), ("draw of 2-random", [0.8, 0.4])):
        labels = stats.draw_labels(what, [0, 1])
        expected = stats.over_draws(expected, means, labels, bounds=(0.0, 1.0))
    assert (row.value, row.low, row.high, row.n) == (0.6, expected.low, expected.high, 10)
    shares = [(each.ids == pieces.ids).mean() for each in seen]
    assert row.unchanged == pytest.approx(np.mean(shares))
    these = stats.combined([0.5, 0.5], [given.unchanged(each) for each in seen], bounds=(0.0, 1.0))
    labels = stats.draw_labels("draw of 2-random", [0, 1])
    drawn = stats.over_draws(these, shares, labels, bounds=(0.0, 1.0))
    assert (row.unchanged_low, row.unchanged_high) == (drawn.low, drawn.high)
    assert row.unchanged_influence.error == drawn.influence.error > 1.5 * these.influence.error
    assert only(table, label="plain", scenario="all").n == 3  # one split was asked about
    # What one scenario has over the other is known in pairs.
    other = only(table, label="2-random", scenario="all")
    assert (row.influence - other.influence).sample == "sst2"
    assert np.isnan(other.unchanged)  # of draws that are not told apart
    (kept,) = tables.unchanged(table).itertuples()
    assert (kept.label, kept.value, kept.low) == ("2-random", row.unchanged, row.unchanged_low)
    assert kept.influence is row.unchanged_influence


@pytest.fixture(scope="module")
def vocabulary(encoder: Encoder, table: TokenTable) -> Vocabulary:
    public = made_up(120, 9)
    counts = public.counts(len(PIECES))
    return Vocabulary(counts, table.fixed, encoder.tokenizer, table, public, 50)


@pytest.fixture(scope="module")
def private() -> Corpus:
    return made_up(30, 1)


def test_the_output_is_right_where_a_word_stands_for_its_group(
    private: Corpus, vocabulary: Vocabulary
) -> None:
    mapper = LossyMap.random(len(PIECES), 2, np.random.default_rng(0), fixed=vocabulary.fixed)
    seen = Observed(mapper.sanitize_corpus(private), private.ids >= len(SPECIAL))
    guesses = experiment.OutputItself().guess(seen)
    truth = private.ids[seen.targets]
    assert guesses.words.shape == (len(truth), 1)  # so that no five guesses are counted
    hits = experiment.hits("naive", guesses, seen, truth)
    assert list(hits) == [1]
    assert hits[1].tolist() == (mapper.representative[truth] == truth).tolist()


def in_rows(corpus: Corpus) -> Corpus:
    """The words' own numbers, 0 for the first that is not special, -1 for all that are."""
    return corpus.with_ids(np.maximum(corpus.ids - len(SPECIAL), -1))


def by_hand(vocabulary: Vocabulary, eta: float) -> dict[str, Any]:
    """Bayes and the noisy channel on the words of the noise, from parts of the library."""
    vectors = vocabulary.table.vectors[WORDS]
    madlib = Madlib(from_arrays("words", [PIECES[i] for i in WORDS], vectors), epsilon=eta)
    rng = stream(SEED, "noise")
    known = NoiseChannel.estimate(madlib, [eta], rng, directions=8, sampled_words=64)[eta]
    read = in_rows(vocabulary.public)
    shadow, unread = read.subset(np.arange(50, 63)), read.subset(np.arange(63, 120))
    model = NGrams.train(Lexicon(len(WORDS), [unread]), [unread], order=3)
    seen = np.where(shadow.ids >= 0, 0, shadow.ids)
    seen[shadow.ids >= 0] = madlib.sanitize_ids(shadow.ids[shadow.ids >= 0], rng)
    tried = Observed(shadow.with_ids(seen), shadow.ids >= 0)
    weight = tuned_weight(known, model, tried, shadow, weights=(0.25, 0.5, 1.0))
    return {
        "context_free": Bayes(known, vocabulary.counts[WORDS] + 0.5, name="same"),
        "noisy_channel": NoisyChannel(known, model=model, weight=weight),
    }


def test_attacks_on_noise_are_those_on_its_words(private: Corpus, vocabulary: Vocabulary) -> None:
    eta = 2.0
    noise = TokenNoise(vocabulary, eta, stream(SEED, "noise"))
    decoder = experiment.noise_decoder(noise, vocabulary)
    counts = vocabulary.counts[noise.inputs] + 0.5
    attacks = {
        "context_free": Bayes(decoder.channel, counts, name="context_free"),
        "noisy_channel": decoder,
    }
    output = TokenNoise(vocabulary, eta, stream(SEED, "text")).sanitize_corpus(private)
    seen = Observed(output, private.ids >= len(SPECIAL))
    assert not seen.sanitized.all()
    truth = private.ids[seen.targets]
    for name, expected in by_hand(vocabulary, eta).items():
        answers = experiment.InRows(noise, attacks[name]).guess(seen)
        guesses = expected.guess(Observed(in_rows(output), seen.sanitized))
        words = np.where(guesses.words == NONE, NONE, guesses.words + len(SPECIAL))
        assert (answers.words == words).all() and (answers.scores == guesses.scores).all()
        right = experiment.hits(name, answers, seen, truth)
        assert list(right) == [1, 5] and 0 < right[1].mean() < right[5].mean()


@pytest.mark.parametrize("punctuated", [False, True])
def test_other_ways_to_count_are_loops(
    private: Corpus, vocabulary: Vocabulary, punctuated: bool
) -> None:
    stencil = Stencil(vocabulary.table, window=5, sigma=0.6, punctuated=punctuated)
    seen = watch(stencil, private)
    truth, document = private.ids[seen.targets], private.document[seen.targets]
    # A token is found where it is among the five nearest to any output of its document.
    guesses = TokenInversion(vocabulary.table, skip=False).guess(seen)
    anywhere = experiment.hits("anywhere", guesses, seen, truth)
    assert list(anywhere) == [5]
    assert anywhere[5].tolist() == [
        word in guesses.words[document == number]
        for word, number in zip(truth, document, strict=True)
    ]
    # By chance it is found as often as the guesses for a place fit the tokens of all places.
    guesses = TokenInversion(vocabulary.table).guess(seen)
    elsewhere = experiment.hits("naive_skip_elsewhere", guesses, seen, truth)
    assert list(elsewhere) == [5]
    expected = [np.isin(truth, guess).mean() for guess in guesses.words]
    np.testing.assert_allclose(elsewhere[5], expected)
    none = Guesses(np.array([[7, NONE], [9, 2]]), np.zeros((2, 2)))  # no guess is not right
    shares = experiment.hits("naive_skip_elsewhere", none, seen, np.array([2, 7]))
    assert shares[5].tolist() == [0.5, 0.5]


def test_success_is_clustered_by_what_depends_on_each_other(table: TokenTable) -> None:
    """Here two documents are one unit; the same attack at both numbers of guesses."""
    given = text("sst2", made_up(30, 1), cluster=np.arange(30) // 2)
    stencil = Stencil(table, window=5, sigma=0.6, punctuated=True)
    seen = watch(stencil, given.pieces)
    guesses = Deconvolution(stencil).guess(seen)
    setting = Setting("punctuated-stencil", 5, 0.6)
    successes = tables.success(given, setting, "deconvolution", guesses, seen)
    rows = tables.success_rates([successes], ["sst2"]).to_dict("records")
    unit = (given.pieces.document // 2)[seen.targets]
    for row, top in zip(rows, (1, 5), strict=True):
        right = (guesses.words[:, :top] == given.pieces.ids[seen.targets][:, None]).any(1)
        expected = stats.clustered_share(right, unit)
        assert (row["label"], row["attack"], row["top"]) == (setting.label, "deconvolution", top)
        assert stats.Estimate.from_row(row) == expected
        assert row["n"] == len(unit) and len(row["influence"].unit) == 15
    both = [{**row, "corpus": corpus} for corpus in ("imdb", "sst2") for row in successes]
    joined = tables.success_rates([both], ["sst2", "imdb"])
    assert [*joined["corpus"]] == ["sst2", "sst2", "imdb", "imdb"]


def test_who_does_not_look_names_what_is_frequent(vocabulary: Vocabulary) -> None:
    """Special pieces are not asked for, nor named, however frequent; only the first document is."""
    counts = np.zeros(len(PIECES), dtype=np.int64)
    counts[[piece("[SEP]"), WORDS[2], WORDS[0], WORDS[1], WORDS[3], WORDS[4]]] = [99, 9, 8, 7, 6, 5]
    known = replace(vocabulary, counts=counts)
    ids = np.array([*WORDS[[2, 0, 5, 5]], piece("[SEP]"), WORDS[5]])
    texts = {"a": text("a", Corpus(ids, np.array([0, 5, 6])))}
    rows = tables.blind(texts, {"tiny": known}, {"a": 1}).set_index("top")
    assert rows["value"].tolist() == [0.25, 0.5] and set(rows["n"]) == {4}


def test_what_stands_among_the_outputs_by_hand() -> None:
    """Places do not count, documents do, and a token counts as often as it stands there."""
    truth = Corpus(np.array([7, 8, 7, 9, 7, 5]), np.array([0, 4, 6]))
    seen = Corpus(np.array([9, 7, 6, 6, 5, 5]), np.array([0, 4, 6]))
    assert tables.there(truth, seen).tolist() == [True, False, False, True, False, True]
    assert tables.there(seen, truth).tolist() == [True, True, False, False, True, False]
    assert tables.there(seen, truth, once=True).tolist() == [True, True, False, False, True, True]


def test_a_stencil_that_moves_tokens_shows_them(vocabulary: Vocabulary) -> None:
    """Tokens that change places within their text: none is in its own place, and all are there."""
    corpus = Corpus(WORDS[[0, 1, 2, 3, 4, 5]], np.array([0, 4, 6]))
    texts = {"a": text("a", corpus)}
    sizes = experiment.Sizes.model_construct(
        attacked={"a": 2}, windows=(9,), sigmas=(1.0,), crossing=(9, 1.0), etas=(), tuned=()
    )

    def moved(setting: Setting, known: Vocabulary, rng: Any) -> Any:
        order = {"stencil": np.arange(6), "punctuated-stencil": [1, 2, 3, 0, 5, 4]}[setting.kind]
        return SimpleNamespace(sanitize_corpus=lambda given: given.with_ids(given.ids[order]))

    rows = tables.in_sight(texts, {"tiny": vocabulary}, sizes, moved)
    shares = rows[rows["label"] == "punctuated-stencil-w9-s1.0"].set_index("what")["value"]
    assert (shares[["tokens", "content", "own"]] == 1).all() and shares["other"] == 0


def test_content_is_told_in_any_spelling_of_pieces() -> None:
    """WordPiece marks what continues a word (##ing), byte pairs what begins one (a space)."""
    spelled = ["##ing", "film", " film", " The", "the", ".", "[PAD]", " 9"]
    decode = SimpleNamespace(batch_decode=lambda ids: [spelled[each] for (each,) in ids])
    tokenizer: Any = type("", (SimpleNamespace,), {"__len__": lambda _: len(spelled)})(
        **vars(decode)
    )
    assert tables.is_content(tokenizer).tolist() == [True] * 3 + [False] * 5


def test_another_draw_of_a_map_may_find_more() -> None:
    """Each draw is attacked on its own documents: what it changes for all of them is no noise."""
    given, setting = text("sst2", made_up(40, 1)), Setting("2-random")
    parts = given.under(setting, 4)
    assert sorted(each for part in parts for each in part.cluster) == list(range(40))
    assert [each.documents for each in given.under(Setting("high-freq"), 4)] == [given.documents]
    rows = []
    for draw, part in enumerate(parts):  # a quarter more under each
        seen = Observed(part.pieces, np.ones(len(part.pieces.ids), dtype=bool))
        truth = part.pieces.ids[seen.targets]
        words = np.where(np.arange(len(truth)) % 4 < draw, truth, NONE)
        guesses = Guesses(words[:, None], np.zeros((len(truth), 1)))
        rows += tables.success(part, setting, "naive", guesses, seen, draw)
    (row,) = tables.success_rates([rows], ["sst2"]).to_dict("records")
    shares = [each["found"].mean() for each in rows]
    right, unit = (np.concatenate([each[what] for each in rows]) for what in ("found", "unit"))
    one = stats.clustered_share(right, unit, sample="sst2")
    labels = stats.draw_labels("attacked 2-random", np.arange(4))
    expected = stats.over_draws(one, shares, labels, bounds=(0.0, 1.0))
    assert stats.Estimate.from_row(row) == expected
    assert row["high"] - row["low"] > 3 * (one.high - one.low)


@pytest.fixture(scope="module")
def generator(exact_throughout: None, tmp_path_factory: pytest.TempPathFactory) -> Generator:
    return tiny_generator(tmp_path_factory.mktemp("generator"))


def test_the_oracle_against_its_parts(generator: Generator) -> None:
    given = text("sst2", made_up(6, 5), cluster=np.arange(6) // 2)
    truth = pieces.encode(generator.tokenizer, given.documents, longest=5)
    fixed, size = pieces.special_ids(generator.tokenizer), len(generator.tokenizer)
    mapper = LossyMap.random(size, 2, np.random.default_rng(SEED), fixed=fixed)
    results = oracle.OracleBeam(generator, mapper, most=12).search_corpus(
        mapper.sanitize_corpus(truth)
    )
    rows = tables.oracle_rates(tables.oracle_success(given, truth, mapper, results))
    rows = rows.set_index("measure")
    ranks = np.array([each.rank(truth[row]) for row, each in enumerate(results)])
    best = [each.sequences[0] for each in results]
    edits = np.array([oracle.edit_distance(each, truth[row]) for row, each in enumerate(best)])
    members = [len(mapper.preimages(int(i))) for i in mapper.representative[truth.ids]]
    right = (np.concatenate(best) == truth.ids)[np.array(members) > 1]
    values = {
        "mrr": np.mean([1 / rank if rank else 0 for rank in ranks]),
        "pr5": ((ranks > 0) & (ranks <= 5)).mean(),
        "edit": edits.mean(),
        "token_success": right.mean(),
    }
    assert rows["value"].to_dict() == pytest.approx(values)
    assert rows["n"].to_dict()["token_success"] == len(right)
    assert (rows["kind"] == "2-random").all() and (rows["texts"] == 6).all()
    assert (rows["capped"] == sum(each.capped > 0 for each in results)).all()
    assert rows.loc["mrr", "influence"].unit.tolist() == [0, 1, 2]


@pytest.fixture
def lexicon(mine: Path) -> None:
    """Nouns, verbs and words of either."""
    lines = ("cat NN", "dog NN", "fish NN", "the DT", "sat VBD", "ran VBD", "on IN", "mat NN")
    (mine / "lexicon.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
    (mine / "local.toml").write_text('[pos-lexicon]\npath = "lexicon.txt"\n')


def test_language(encoder: Encoder, generator: Generator, lexicon: None) -> None:
    private = made_up(12, 1)
    mapper = LossyMap.random(len(PIECES), 2, np.random.default_rng(0), fixed=FIXED)
    for seen in (private, mapper.sanitize_corpus(private)):
        measures = tables.language(generator, encoder.tokenizer, private, seen)
        before, after = (np.array(PIECES, dtype=object)[each.ids] for each in (private, seen))
        whole = grammar.whole_words(before, after, offsets=private.offsets)
        assert measures["n"] == whole.sum()
        same = grammar.tags(before[whole]) == grammar.tags(after[whole])
        assert measures["speech"] == same.mean() and 0 < measures["chance"] < 1
        expected = grammar.readability(
            generator, [each for each in pieces.decode(encoder.tokenizer, seen) if each]
        )
        assert measures["bits"] == pytest.approx(expected)
        assert (measures["speech"] == 1) == (seen is private)


def test_lengths_by_hand() -> None:
    """Eight texts of 1, 1, 2, 2, 2, 2, 3 and 5 pieces; of pairs the first texts count."""
    offsets = np.cumsum([0, 1, 2, 1, 2, 2, 2, 3, 5])
    alone = text("made up", Corpus(np.full(18, WORDS[0]), offsets))
    twice = np.concatenate([offsets, 18 + np.arange(1, 9)])
    pairs = alone.first(8)
    object.__setattr__(pairs, "pieces", Corpus(np.full(26, WORDS[0]), twice))
    lengths = tables.lengths([alone, pairs])
    for row in lengths.itertuples():
        # 1/4 of 2 bits, 1/2 of 1 bit and twice 1/8 of 3 bits; two texts are alone in their length.
        assert (row.texts, row.bits, row.of, row.identified) == (8, 1.75, 3.0, 0.25)


def test_what_is_exposed_by_hand() -> None:
    rows = [
        ("plain", "plain", "naive", 5, 1.0),
        ("plain", "plain", "naive_skip", 5, 0.0),  # who skips what is seen skips what is true
        ("x", "stencil", "naive", 1, 0.95),  # five guesses count
        ("x", "stencil", "naive_skip", 5, 0.8),
        ("x", "stencil", "anywhere", 5, 0.9),  # does not say where
        ("x", "stencil", "naive_skip_elsewhere", 5, 0.99),  # chance is no attack
        ("x", "stencil", "deconvolution", 5, 0.7),
        ("high-freq", "high-freq", "naive", 1, 0.4),
        ("high-freq", "high-freq", "noisy_channel", 1, 0.5),
        ("high-freq", "high-freq", "noisy_channel", 5, 0.9),  # of a map the first guess counts
    ]
    attacked = pd.DataFrame(rows, columns=["label", "kind", "attack", "top", "value"])
    labels, trained = ("high-freq", "plain", "x"), {"all": (0.6, 0.9, 0.7), "test": (0.1,) * 3}
    accuracy = pd.DataFrame(trained, index=labels).rename_axis("label").reset_index()
    accuracy = accuracy.melt("label", var_name="scenario").assign(corpus="imdb", unchanged=0.3)
    accuracy.loc[accuracy["label"] == "plain", "unchanged"] = 1.0
    exposed = tables.exposed(accuracy, attacked.assign(corpus="imdb"))
    assert list(exposed.columns) == ["corpus", "label", "accuracy", "paper", "strongest", "attack"]
    assert exposed.to_numpy().tolist() == [
        ["imdb", "high-freq", 0.6, 0.3, 0.5, "noisy_channel"],
        ["imdb", "plain", 0.9, 1.0, 1.0, "naive"],
        ["imdb", "x", 0.7, 0.8, 0.8, "naive_skip"],
    ]
