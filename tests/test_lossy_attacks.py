"""The attacks of notebook 03 on made-up text that a tiny encoder reads: tables and direct calls.

Sixteen pieces, five of them special, stand for the vocabulary; texts are drawn at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from tiny_generators import tiny_generator
from tiny_models import PIECES, SPECIAL, piece, tiny_encoder

from textpriv import generators, grammar, models, pieces, stats
from textpriv.attacks import oracle
from textpriv.attacks.base import NONE, Attack, Guesses, Observed
from textpriv.attacks.bayes import Bayes
from textpriv.attacks.deconvolution import (
    Deconvolution,
    LanguageDeconvolution,
    Rehearsal,
    StencilSimulation,
    TokenInversion,
    watch,
)
from textpriv.attacks.ngrams import Lexicon, NGrams
from textpriv.attacks.noisy_channel import NoisyChannel, tuned_weight
from textpriv.corpora import Documents
from textpriv.embeddings import from_arrays
from textpriv.experiments import lossy
from textpriv.experiments import lossy_attacks as experiment
from textpriv.experiments.lossy import Material, Setting, Sizes, Tools
from textpriv.generators import Generator
from textpriv.mechanisms import Madlib
from textpriv.mechanisms.estimated import NoiseChannel
from textpriv.mechanisms.maps import LossyMap
from textpriv.mechanisms.stencil import Stencil, TokenTable
from textpriv.report import results
from textpriv.seeds import stream
from textpriv.tokens import Corpus

SEED = 3
NAMES = ("rotten-tomatoes", "imdb")
UNLIKE = ["seconds", "influence"]  # columns that are not compared as they are
PLAIN, RANDOM, HIGH = Setting("plain"), Setting("2-random"), Setting("high-freq")
NOISE = Setting("noise", eta=2.0)
STENCIL, PUNCTUATED = Setting("stencil", 3, 0.8), Setting("punctuated-stencil", 5, 0.6)
SETTINGS = (PLAIN, RANDOM, HIGH, NOISE, STENCIL, PUNCTUATED)
WORDS = np.arange(len(SPECIAL), len(PIECES))

ANY = [("naive", 1), ("naive", 5), ("naive_skip", 1), ("naive_skip", 5)]
MAP = [("naive", 1), ("context_free", 1), ("context_free", 5)]
CONVOLVED = [
    *ANY,
    ("anywhere", 5),
    ("naive_skip_elsewhere", 5),
    *((name, top) for name in ("deconvolution_raw", "deconvolution") for top in (1, 5)),
]
CALLED_FOR = {
    "plain": ANY,
    "2-random": MAP,
    "high-freq": MAP,
    "noise-2": ANY,
    "stencil-w3-s0.8": CONVOLVED,
    "punctuated-stencil-w5-s0.6": CONVOLVED,
}
WITH_MODEL = {
    **CALLED_FOR,
    "2-random": [*MAP, ("noisy_channel", 1), ("noisy_channel", 5)],
    "high-freq": [*MAP, ("noisy_channel", 1), ("noisy_channel", 5)],
    "noise-2": [
        *ANY,
        *((name, top) for name in ("context_free", "noisy_channel") for top in (1, 5)),
    ],
    "stencil-w3-s0.8": [
        *CONVOLVED,
        *(("deconvolution_lm", top) for top in (1, 5)),
        *(("stencil_simulation", top) for top in (1, 5)),
    ],
    "punctuated-stencil-w5-s0.6": [*CONVOLVED, *(("deconvolution_lm", top) for top in (1, 5))],
}


@pytest.fixture(autouse=True)
def in_this_process() -> Iterator[None]:
    """Jobs run here, one after the other."""
    with parallel_config(backend="sequential"):
        yield


def material(name: str, documents: int, seed: int) -> Material:
    """Any pieces but the rarer ones, with a special one now and then."""
    rng = np.random.default_rng(seed)
    likely = 1.0 / (1 + np.arange(len(WORDS)))
    rows = []
    for count in rng.integers(3, 9, size=documents).tolist():
        row = rng.choice(WORDS, size=count, p=likely / likely.sum())
        row[rng.random(count) < 0.1] = piece("[SEP]")
        rows.append(row.tolist())
    ids = np.array([number for row in rows for number in row], dtype=np.int64)
    corpus = Corpus(ids, np.cumsum([0, *map(len, rows)], dtype=np.int64))
    texts = tuple(" ".join(PIECES[number] for number in row) for row in rows)
    labels = rng.permutation(np.arange(documents) % 2)
    return Material(name, Documents(name, texts, {"label": labels}), corpus)


@pytest.fixture(scope="module")
def materials() -> dict[str, Material]:
    return {name: material(name, 30, seed) for seed, name in enumerate(NAMES)}


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    encoder = tiny_encoder(tmp_path_factory.mktemp("lossy-attacks"))
    table = TokenTable(encoder.table.detach().numpy(), fixed=np.arange(len(SPECIAL)))
    public = material("public", 120, 9).corpus
    return Tools(encoder, table, public, public.counts(len(PIECES)))


@pytest.fixture(scope="module")
def sizes() -> Sizes:
    return Sizes(
        encoder="tiny",
        corpora=dict.fromkeys(NAMES, 1),
        longest=dict.fromkeys(NAMES, 12),
        public=10,
        windows=(3,),
        sigmas=(0.8,),
        crossing=(3, 0.8),
        etas=(2.0,),
        seeds=1,
        test_share=0.3,
        tuned=(),
        tuned_steps={},
        attacked={"rotten-tomatoes": 20, "imdb": 99},
        rehearsed=50,
        guesses=7,
        oracle={"rotten-tomatoes": 5, "imdb": 1},
        oracle_longest={"rotten-tomatoes": 6, "imdb": 4},
        oracle_most=12,
    )


@pytest.fixture(scope="module")
def model(tools: Tools, sizes: Sizes) -> NGrams:
    return experiment.language_model(tools, sizes)


@pytest.fixture(scope="module")
def table(materials: Any, tools: Tools, sizes: Sizes, model: NGrams) -> pd.DataFrame:
    with parallel_config(backend="sequential"):
        return experiment.attacked(materials, tools, SETTINGS, sizes, SEED, model)


def one(table: pd.DataFrame, **keys: Any) -> Any:
    (row,) = table[(table[list(keys)] == pd.Series(keys)).all(axis=1)].itertuples()
    return row


def seen_by_hand(name: str, private: Corpus, tools: Tools, setting: Setting) -> Observed:
    rng = stream(SEED, "03", "attacked", name, setting.label)
    seen = lossy.manipulate(setting, private, tools, rng)
    return Observed(seen, private.ids >= len(SPECIAL))


# --- The table of attacks -------------------------------------------------------------------------


def test_columns(table: pd.DataFrame) -> None:
    assert list(table.columns) == [
        *("corpus", "label", "kind", "window", "sigma", "eta", "attack", "top"),
        *("value", "low", "high", "n", "influence", "seconds"),
    ]
    assert not table.isna().any().any() and (table["seconds"] >= 0).all()
    assert (table["low"] <= table["value"]).all() and (table["value"] <= table["high"]).all()
    assert (table["low"] < table["high"]).all()
    row = one(table, corpus="imdb", label="punctuated-stencil-w5-s0.6", attack="anywhere")
    assert (row.kind, row.window, row.sigma, row.eta) == ("punctuated-stencil", 5, 0.6, 0.0)


def test_every_kind_has_its_attacks(
    table: pd.DataFrame, materials: Any, tools: Tools, sizes: Sizes
) -> None:
    without = experiment.attacked(materials, tools, SETTINGS, sizes, SEED)
    for found, expected in ((table, WITH_MODEL), (without, CALLED_FOR)):
        rows = [tuple(row) for row in found[["corpus", "label", "attack", "top"]].to_numpy()]
        assert rows == [
            (name, label, *each)
            for name in NAMES
            for label, attacks in expected.items()
            for each in attacks
        ]
    # A language model changes nothing for the attacks that know none.
    keys = ["corpus", "label", "attack", "top", "value", "low", "high", "n"]
    both = without[keys].merge(table[keys], on=keys)
    assert len(both) == len(without)


def test_the_first_documents_are_attacked(
    table: pd.DataFrame, materials: dict[str, Material], sizes: Sizes
) -> None:
    for name, each in materials.items():
        private = each.corpus.subset(np.arange(min(30, sizes.attacked[name])))
        count = int((private.ids >= len(SPECIAL)).sum())
        assert 0 < count < len(private.ids)  # some are special
        assert (table[table["corpus"] == name]["n"] == count).all()


def attacks_by_hand(setting: Setting, tools: Tools, model: NGrams, rng: Any) -> dict[str, Attack]:
    """The attacks that share one form, from parts that the experiment does not have."""
    skip, plain = (TokenInversion(tools.table, skip=each) for each in (True, False))
    if setting.kind == "2-random":
        made = LossyMap.random(len(PIECES), 2, rng, fixed=np.arange(len(SPECIAL)))
        prior = np.where(np.arange(len(PIECES)) < len(SPECIAL), 0.0, tools.counts + 0.5)
        return {
            "context_free": Bayes(made, prior, name="same"),
            "noisy_channel": NoisyChannel(made, model=model),
        }
    if setting.kind == "plain":
        return {"naive": plain, "naive_skip": skip}
    if setting.kind == "noise":
        return {"naive": plain, "naive_skip": skip, **attacks_on_noise(setting, tools)}
    punctuated = setting.kind == "punctuated-stencil"
    stencil = Stencil(
        tools.table, window=setting.window, sigma=setting.sigma, punctuated=punctuated
    )
    rehearsal = Rehearsal.learn(stencil, tools.public.subset(np.arange(50)))
    informed = LanguageDeconvolution(stencil, rehearsal, model, candidates=7)
    informed = informed.calibrated(tools.public.subset(np.arange(50, 63)))
    found: dict[str, Attack] = {
        "naive": plain,
        "naive_skip": skip,
        "deconvolution_raw": Deconvolution(stencil, ridge=0.0),
        "deconvolution": Deconvolution(stencil, ridge=0.05),
        "deconvolution_lm": informed,
    }
    return found if punctuated else {**found, "stencil_simulation": StencilSimulation(informed)}


class InRows(Attack):
    """An attack on the words' own numbers, 0 for the first that is not special."""

    def __init__(self, attack: Attack) -> None:
        self.attack = attack

    def guess(self, observed: Observed, targets: Any = None, *, top: int = 5) -> Guesses:
        found = self.attack.guess(in_rows(observed), targets, top=top)
        return Guesses(
            np.where(found.words == NONE, NONE, found.words + len(SPECIAL)), found.scores
        )


def in_rows(observed: Observed) -> Observed:
    rows = np.maximum(observed.corpus.ids - len(SPECIAL), -1)
    return Observed(observed.corpus.with_ids(rows), observed.sanitized)


def attacks_on_noise(setting: Setting, tools: Tools) -> dict[str, Attack]:
    embedding = from_arrays("words", [PIECES[i] for i in WORDS], tools.table.vectors[WORDS])
    rng = stream(SEED, "03", "noise-channel", setting.label)
    madlib = Madlib(embedding, epsilon=setting.eta)
    channel = NoiseChannel.estimate(madlib, [setting.eta], rng, directions=8, sampled_words=64)
    known = channel[setting.eta]
    read = in_rows(Observed(tools.public, np.zeros(len(tools.public.ids), dtype=bool))).corpus
    shadow, unread = read.subset(np.arange(50, 63)), read.subset(np.arange(63, 120))
    model = NGrams.train(Lexicon(len(WORDS), [unread]), [unread], order=3)
    seen = np.where(shadow.ids >= 0, 0, shadow.ids)
    seen[shadow.ids >= 0] = madlib.sanitize_ids(shadow.ids[shadow.ids >= 0], rng)
    tried = Observed(shadow.with_ids(seen), shadow.ids >= 0)
    weight = tuned_weight(known, model, tried, shadow, weights=(0.25, 0.5, 1.0))
    return {
        "context_free": InRows(Bayes(known, tools.counts[WORDS] + 0.5, name="same")),
        "noisy_channel": InRows(NoisyChannel(known, model=model, weight=weight)),
    }


@pytest.mark.parametrize(
    "setting", [PLAIN, RANDOM, NOISE, STENCIL, PUNCTUATED], ids=lambda setting: setting.label
)
@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_those_of_direct_calls(
    table: pd.DataFrame,
    materials: dict[str, Material],
    tools: Tools,
    model: NGrams,
    sizes: Sizes,
    setting: Setting,
    name: str,
) -> None:
    private = materials[name].corpus.subset(np.arange(min(30, sizes.attacked[name])))
    observed = seen_by_hand(name, private, tools, setting)
    targets = observed.targets
    truth, document = private.ids[targets], private.document[targets]
    rng = stream(SEED, "03", "attacked", name, setting.label)
    attacks = attacks_by_hand(setting, tools, model, rng)
    known = {each for each, _ in WITH_MODEL[setting.label]}
    known -= {"anywhere", "naive_skip_elsewhere"}
    assert attacks.keys() == known - ({"naive"} if setting.kind == "2-random" else set())
    for attack, made in attacks.items():
        guesses = made.guess(observed, top=5)
        for top in (1, 5):
            hits = (guesses.words[:, :top] == truth[:, None]).any(1)
            row = one(table, corpus=name, label=setting.label, attack=attack, top=top)
            expected = stats.clustered_share(hits, document)
            assert (row.value, row.low, row.high, row.n) == tuple(expected.columns().values())
            assert row.value > 0 or top == 1 or (setting, attack) == (PLAIN, "naive_skip")
            assert row.influence.sample == name
            expected = stats.clustered_share(hits, document, sample=name)
            np.testing.assert_array_equal(row.influence.effect, expected.influence.effect)


def test_what_the_attacks_say_by_hand(
    table: pd.DataFrame, materials: dict[str, Material], tools: Tools
) -> None:
    private = materials["imdb"].corpus
    # Plain text is read as it is, and skipped is what must not be.
    plain = table[(table["label"] == "plain") & (table["top"] == 1)]
    assert plain["value"].tolist() == [1, 0] * 2
    # Under a map the naive guess is the output: right for those that stand for a group.
    observed = seen_by_hand("imdb", private, tools, RANDOM)
    same = (observed.corpus.ids == private.ids)[observed.targets].mean()
    assert one(table, corpus="imdb", label="2-random", attack="naive").value == same
    # High-freq keeps the word that is the more frequent one in public.
    rank = sorted(WORDS.tolist(), key=lambda word: (-tools.counts[word], word))
    kept = rank[: (len(rank) + 1) // 2]
    words = private.ids[private.ids >= len(SPECIAL)]
    high = one(table, corpus="imdb", label="high-freq", attack="context_free", top=1)
    assert high.value == one(table, corpus="imdb", label="high-freq", attack="naive").value
    assert high.value == np.isin(words, kept).mean() < 1


@pytest.mark.parametrize("setting", [STENCIL, PUNCTUATED], ids=lambda setting: setting.label)
@pytest.mark.parametrize("name", NAMES)
def test_the_unordered_attack_is_a_loop(
    table: pd.DataFrame,
    materials: dict[str, Material],
    tools: Tools,
    sizes: Sizes,
    setting: Setting,
    name: str,
) -> None:
    """A token is found where it is among the five nearest to any output of its document."""
    private = materials[name].first(sizes.attacked[name])
    observed = seen_by_hand(name, private, tools, setting)
    guesses = TokenInversion(tools.table, skip=False).guess(observed).words
    document = private.document[observed.targets]
    hits = [
        word in guesses[document == number]
        for word, number in zip(private.ids[observed.targets], document, strict=True)
    ]
    row = one(table, corpus=name, label=setting.label, attack="anywhere", top=5)
    expected = stats.clustered_share(hits, document)
    assert (row.value, row.low, row.high) == (expected.value, expected.low, expected.high)
    assert row.value > one(table, corpus=name, label=setting.label, attack="naive", top=5).value


def test_the_same_guesses_for_another_place_know_only_what_tokens_are_frequent(
    materials: Any, tools: Tools, table: pd.DataFrame, sizes: Sizes
) -> None:
    for name in NAMES:
        for setting in (STENCIL, PUNCTUATED):
            private = materials[name].first(sizes.attacked[name])
            observed = seen_by_hand(name, private, tools, setting)
            truth = private.ids[observed.targets]
            guesses = TokenInversion(tools.table).guess(observed).words
            expected = [np.isin(truth, guess).mean() for guess in guesses]
            row = one(table, corpus=name, label=setting.label, attack="naive_skip_elsewhere", top=5)
            assert row.value == pytest.approx(np.mean(expected))
            assert row.low < row.value < row.high


def of_maps(
    materials: Any, tools: Tools, sizes: Sizes, model: NGrams | None, seed: int
) -> dict[str, float]:
    maps = [RANDOM, Setting("3-random")]
    found = experiment.attacked(materials, tools, maps, sizes, seed, model)
    five = found[found["top"] == 5]
    keys = five["corpus"] + " " + five["label"] + " " + five["attack"]
    return dict(zip(keys, five["value"], strict=True))


def test_the_attacked_map_is_the_one_that_made_the_text(
    materials: Any, tools: Tools, sizes: Sizes, model: NGrams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the truth is among the two or three preimages; under another draw it is not."""
    for seed in (1, 2, 3):
        found = of_maps(materials, tools, sizes, model, seed)
        assert set(found.values()) == {1.0} and len(found) == 8

    # Words that public text lacks are guessed as well.
    unread = replace(tools, counts=np.zeros(len(PIECES), dtype=np.int64))
    assert set(of_maps(materials, unread, sizes, None, SEED).values()) == {1.0}

    def another(setting: Setting, counts: Any, fixed: Any, rng: np.random.Generator) -> LossyMap:
        rng.random()
        return lossy.mapper(setting, counts, fixed, rng)

    monkeypatch.setattr(experiment, "mapper", another)
    wrong = of_maps(materials, tools, sizes, None, SEED)
    assert len(wrong) == 4 and max(wrong.values()) < 0.9


def test_the_same_seed_gives_the_same_table(
    table: pd.DataFrame, materials: Any, tools: Tools, sizes: Sizes, model: NGrams
) -> None:
    again = experiment.attacked(materials, tools, SETTINGS, sizes, SEED, model)
    pd.testing.assert_frame_equal(again.drop(columns=UNLIKE), table.drop(columns=UNLIKE))
    # Whatever else is attacked; and each corpus and label has a draw of its own.
    alone = experiment.attacked({"imdb": materials["imdb"]}, tools, [NOISE], sizes, SEED)
    rows = table[(table["corpus"] == "imdb") & (table["label"] == "noise-2")]
    assert alone["value"].tolist() == rows["value"].tolist()[: len(ANY)]  # without a model
    other = experiment.attacked(materials, tools, SETTINGS, sizes, SEED + 1, model)
    changed = other["label"][other["value"] != table["value"]].unique().tolist()
    assert changed == ["2-random", "noise-2"]


def test_the_language_model_is_of_public_triples_that_no_rehearsal_uses(
    tools: Tools, sizes: Sizes, model: NGrams
) -> None:
    assert experiment.rehearsed(sizes, tools.public) == (50, 63)
    assert model.order == 3 and model.lexicon.size == len(PIECES)
    unread = tools.public.subset(np.arange(63, 120))
    expected = NGrams.train(Lexicon(len(PIECES)), [unread], order=3)
    text = material("other", 5, 77).corpus
    np.testing.assert_array_equal(model.log_likelihood(text), expected.log_likelihood(text))


# --- The window -----------------------------------------------------------------------------------


def test_conditioning_by_hand(tools: Tools) -> None:
    """Of two tokens W is [[a, 1 - a], [1 - a, a]], whose singular values are 1 and |2 a - 1|.

    Window 3 and sigma 0.8 weigh e^0 and twice e^-0.78125; of what is missing each gets a half.
    """
    side = np.exp(-0.78125) / (1 + 2 * np.exp(-0.78125))
    own = 1 - 2 * side + side / 2
    found = experiment.conditioning(SETTINGS, tools, [1, 2])
    assert list(found.columns) == [
        *("label", "kind", "window", "sigma", "eta", "length", "condition", "smallest", "damped")
    ]
    labels = [each.label for each in (STENCIL, PUNCTUATED) for _ in (1, 2)]
    assert found["label"].tolist() == labels and found["length"].tolist() == [1, 2, 1, 2]
    # A token alone is its own; two of the punctuated form change places.
    assert found["smallest"].tolist() == pytest.approx([1, 2 * own - 1, 1, 1])
    assert found["condition"].tolist() == pytest.approx([1, 1 / (2 * own - 1), 1, 1])
    assert found["damped"].tolist() == [0, 0.5 if (2 * own - 1) ** 2 < 0.05 else 0, 0, 0]


def test_conditioning_of_longer_texts(tools: Tools) -> None:
    # Both ends of three tokens see the middle alone: rank 2 of 3.
    ends = Setting("punctuated-stencil", 3, 0.8)
    singular = experiment.conditioning([ends], tools, [3])
    row = one(singular, label=ends.label)
    assert row.smallest < 1e-12 and row.condition > 1e12 and np.isfinite(row.condition)
    assert row.damped == pytest.approx(1 / 3)
    wide = Setting("stencil", 9, 2.0)
    found = one(experiment.conditioning([wide], tools, [40]), label=wide.label)
    weights = lossy.stencil(wide, tools).weights(
        Corpus(np.full(40, WORDS[0]), np.array([0, 40]))
    ).toarray()  # fmt: skip
    powers = np.linalg.eigvalsh(weights.T @ weights)
    assert found.condition == pytest.approx(np.linalg.cond(weights), rel=1e-6)
    assert found.damped == (powers < 0.05).mean() > 0.5
    assert not len(experiment.conditioning([PLAIN, RANDOM], tools, [3]))
    assert not len(experiment.conditioning([STENCIL], tools, []))


def test_ridges(materials: dict[str, Material], tools: Tools, sizes: Sizes) -> None:
    settings = [STENCIL, PUNCTUATED]
    given = materials["rotten-tomatoes"]
    found = experiment.ridges(given, tools, settings, sizes)
    assert list(found.columns) == [
        *("label", "kind", "window", "sigma", "eta", "ridge", "top", "value", "low", "high", "n")
    ]
    ridges = [0.0, 0.001, 0.01, 0.05, 0.2, 1.0]
    assert len(found) == 2 * 6 * 2 and sorted(found["ridge"].unique()) == ridges
    private = given.corpus.subset(np.arange(20))
    for setting in settings:
        stencil = lossy.stencil(setting, tools)
        observed = watch(stencil, private)
        truth, document = (each[observed.targets] for each in (private.ids, private.document))
        for ridge in ridges:
            guesses = Deconvolution(stencil, ridge=ridge).guess(observed)
            for top in (1, 5):
                row = one(found, label=setting.label, ridge=ridge, top=top)
                expected = stats.clustered_share(guesses.hits(truth, top=top), document)
                assert (row.value, row.low, row.high, row.n) == tuple(expected.columns().values())


def test_the_ridge_of_the_table_is_that_of_the_attack(
    table: pd.DataFrame, materials: dict[str, Material], tools: Tools, sizes: Sizes
) -> None:
    found = experiment.ridges(materials["imdb"], tools, [STENCIL], sizes)
    for attack, ridge in (("deconvolution_raw", 0.0), ("deconvolution", 0.05)):
        for top in (1, 5):
            here = one(table, corpus="imdb", label=STENCIL.label, attack=attack, top=top)
            assert here.value == one(found, ridge=ridge, top=top).value


# --- The oracle -----------------------------------------------------------------------------------

MEASURES = ["mrr", "pr5", "edit", "token_success", "edit_missed"]
KINDS = ("2-random", "3-random", "high-freq")


@pytest.fixture(scope="module", autouse=True)
def exact() -> Any:
    """float32 throughout, so that two ways to the same number agree."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (models, generators):
            patch.setattr(module, "bfloat16_is_fast", lambda _: False)
        yield


@pytest.fixture(scope="module")
def generator(exact: Any, tmp_path_factory: pytest.TempPathFactory) -> Generator:
    return tiny_generator(tmp_path_factory.mktemp("generator"))


@pytest.fixture(scope="module")
def searched(materials: Any, tools: Tools, sizes: Sizes, generator: Generator) -> pd.DataFrame:
    return experiment.oracle_beam(materials, tools, generator, KINDS, sizes, SEED)


def test_oracle_table(searched: pd.DataFrame, sizes: Sizes) -> None:
    assert list(searched.columns) == [
        *("corpus", "kind", "measure", "value", "low", "high", "n", "influence"),
        *("texts", "tokens", "capped", "kept", "seconds"),
    ]
    for kind in KINDS:
        rows = searched[(searched["corpus"] == "rotten-tomatoes") & (searched["kind"] == kind)]
        assert rows["measure"].tolist()[:4] == MEASURES[:4]
        assert rows["measure"].isin(MEASURES).all()
        # One text alone: no interval of the distance of those that were not found.
        single = searched[(searched["corpus"] == "imdb") & (searched["kind"] == kind)]
        assert single["measure"].tolist() == MEASURES[:4]
    # All intervals stay where the measure can be.
    most = np.where(
        searched["measure"].str.startswith("edit"), searched["corpus"].map(sizes.oracle_longest), 1
    )
    assert (searched["low"] >= 0).all() and (searched["high"] <= most).all()
    assert (searched["texts"] == searched["corpus"].map(sizes.oracle)).all()
    assert (searched["low"] <= searched["value"]).all()
    assert (searched["tokens"] == searched["corpus"].map(sizes.oracle_longest)).all()
    assert (searched["capped"] > 0).any() and (searched["kept"] <= 1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_oracle_is_that_of_direct_calls(
    searched: pd.DataFrame,
    materials: dict[str, Material],
    tools: Tools,
    sizes: Sizes,
    generator: Generator,
    kind: str,
) -> None:
    fixed = pieces.special_ids(generator.tokenizer)
    public = pieces.encode(
        generator.tokenizer, pieces.decode(tools.encoder.tokenizer, tools.public)
    )
    counts = public.counts(len(generator.tokenizer))
    for name, given in materials.items():
        texts = given.documents.texts[: sizes.oracle[name]]
        truth = pieces.encode(generator.tokenizer, texts, longest=sizes.oracle_longest[name])
        rng = stream(SEED, "03", "oracle", name, kind)
        if kind == "high-freq":
            made = LossyMap.by_frequency(counts, keep="frequent", fixed=fixed)
        else:
            made = LossyMap.random(len(counts), int(kind[0]), rng, fixed=fixed)
        attack = oracle.OracleBeam(generator, made, most=sizes.oracle_most)
        found = attack.search_corpus(made.sanitize_corpus(truth))
        ranks = np.array([each.rank(truth[row]) for row, each in enumerate(found)])
        edits = np.array(
            [oracle.edit_distance(e.sequences[0], truth[row]) for row, e in enumerate(found)]
        )
        ambiguous = np.array([len(made.preimages(int(i))) for i in made.representative[truth.ids]])
        guessed = np.concatenate([each.sequences[0] for each in found])
        rows = searched[(searched["corpus"] == name) & (searched["kind"] == kind)]
        values = dict(zip(rows["measure"], rows["value"], strict=True))
        assert values["mrr"] == pytest.approx(np.mean([1 / r if r else 0 for r in ranks]))
        assert values["pr5"] == ((ranks > 0) & (ranks <= 5)).mean()
        assert values["edit"] == pytest.approx(edits.mean())
        right = (guessed == truth.ids)[ambiguous > 1]
        assert values["token_success"] == pytest.approx(right.mean())
        missed = edits[edits > 0]
        assert ("edit_missed" in values) == (len(missed) > 1)
        if len(missed) > 1:
            assert values["edit_missed"] == pytest.approx(missed.mean())
        assert set(rows["capped"]) == {sum(each.capped > 0 for each in found)}
        assert set(rows["kept"]) == {min(each.kept for each in found)}
        n = dict(zip(rows["measure"], rows["n"], strict=True))
        assert (n["mrr"], n["pr5"], n["edit"]) == (len(texts),) * 3
        assert n["token_success"] == len(right)
        assert n.get("edit_missed", len(missed)) == len(missed)


def test_the_oracle_and_its_seed(
    searched: pd.DataFrame, materials: Any, tools: Tools, sizes: Sizes, generator: Generator
) -> None:
    again = experiment.oracle_beam(materials, tools, generator, KINDS, sizes, SEED)
    pd.testing.assert_frame_equal(again.drop(columns=UNLIKE), searched.drop(columns=UNLIKE))
    other = experiment.oracle_beam(materials, tools, generator, KINDS, sizes, SEED + 1)
    keys = ["corpus", "kind", "measure", "value"]
    for kind, is_same in (("high-freq", True), ("2-random", False)):
        mine, theirs = (each[each["kind"] == kind][keys] for each in (searched, other))
        assert mine.reset_index(drop=True).equals(theirs.reset_index(drop=True)) == is_same


# --- What is left of the language -----------------------------------------------------------------


@pytest.fixture
def lexicon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nouns, verbs and words of either."""
    lines = ("cat NN", "dog NN", "fish NN", "the DT", "sat VBD", "ran VBD", "on IN", "mat NN")
    (tmp_path / "lexicon.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
    (tmp_path / "local.toml").write_text('[pos-lexicon]\npath = "lexicon.txt"\n')
    monkeypatch.setenv("TEXTPRIV_LOCAL_ASSETS", str(tmp_path / "local.toml"))
    yield


def test_readable(
    materials: dict[str, Material], tools: Tools, generator: Generator, lexicon: None
) -> None:
    given = materials["imdb"]
    found = experiment.readable(given, tools, [PLAIN, RANDOM], generator, 12, SEED)
    plain, mapped = (one(found, label=each.label) for each in (PLAIN, RANDOM))
    assert plain.speech == 1.0 and mapped.speech < 1.0
    assert 0 < plain.chance < 1 and 0 < plain.judged < 1
    private = given.corpus.subset(np.arange(12))
    rng = stream(SEED, "03", "readable", "imdb", "2-random")
    seen = lossy.manipulate(RANDOM, private, tools, rng)
    before, after = (np.array(PIECES, dtype=object)[each.ids] for each in (private, seen))
    whole = grammar.whole_words(before, after, offsets=private.offsets)
    assert mapped.judged == whole.mean() and mapped.n == whole.sum()
    assert mapped.speech == (grammar.tags(before[whole]) == grammar.tags(after[whole])).mean()
    for row, text in ((plain, private), (mapped, seen)):
        texts = [each for each in pieces.decode(tools.encoder.tokenizer, text) if each]
        expected = grammar.readability(generator, texts)
        assert row.bits == pytest.approx(expected.bits_per_character)
        assert row.perplexity == pytest.approx(expected.perplexity_per_token)


def test_lengths_by_hand(materials: dict[str, Material]) -> None:
    """Eight texts of 1, 1, 2, 2, 2, 2, 3 and 5 pieces."""
    offsets = np.cumsum([0, 1, 2, 1, 2, 2, 2, 3, 5])
    corpus = Corpus(np.full(18, WORDS[0]), offsets)
    documents = Documents("made up", ("a",) * 8, {"label": np.zeros(8, dtype=np.int64)})
    found = experiment.lengths({"made up": Material("made up", documents, corpus), **materials})
    assert list(found.columns) == ["corpus", "texts", "bits", "of", "identified"]
    assert found["corpus"].tolist() == ["made up", *NAMES]
    row = one(found, corpus="made up")
    # 1/4 of 2 bits, 1/2 of 1 bit and twice 1/8 of 3 bits; two texts are alone in their length.
    assert (row.texts, row.bits, row.of, row.identified) == (8, 1.75, 3.0, 0.25)


# --- Tables of the notebook -----------------------------------------------------------------------


def recorded(record: Callable[..., None], table: pd.DataFrame) -> dict[str, results.Measurement]:
    found: dict[str, results.Measurement] = {}

    def keep(name: str, *numbers: Any, influence: Any, **unit: Any) -> None:
        assert name not in found
        found[name] = results.measure(name, *numbers, **unit)

    record(SimpleNamespace(record=keep), table)
    return found


def test_records_of_attacks(table: pd.DataFrame) -> None:
    found = recorded(experiment.record_attacks, table)
    assert len(found) == len(table)
    assert "pr5.2-random.imdb.noisy_channel" in found and "pr1.plain.imdb.naive" in found
    row = one(table, corpus="imdb", label="stencil-w3-s0.8", attack="stencil_simulation", top=5)
    kept = found["pr5.stencil-w3-s0.8.imdb.stencil_simulation"]
    assert (kept.value, kept.low, kept.high, kept.n) == (row.value, row.low, row.high, row.n)
    assert {each.unit for each in found.values()} == {"share"}


def test_records_of_the_oracle(searched: pd.DataFrame) -> None:
    found = recorded(experiment.record_oracle, searched)
    assert len(found) == len(searched)
    row = one(searched, corpus="imdb", kind="3-random", measure="edit")
    kept = found["oracle.3-random.imdb.edit"]
    assert (kept.value, kept.low, kept.high, kept.n) == (row.value, row.low, row.high, row.n)
    units = {name.split(".")[-1]: each.unit for name, each in found.items()}
    assert units == {
        **dict.fromkeys(("mrr", "pr5", "token_success"), "share"),
        **dict.fromkeys(("edit", "edit_missed"), "tokens"),
    }


def test_windows_that_are_one_map(materials: Any, tools: Tools, sizes: Sizes) -> None:
    """With a tiny sigma no neighbour counts; with a wide one the windows differ."""
    for sigma, is_one in ((0.1, True), (3.0, False)):
        found: dict[str, float] = {}
        run = SimpleNamespace(record=lambda name, value, **_: found.update({name: value}))  # noqa: B023
        several = sizes.model_copy(update={"windows": (3, 5, 7), "crossing": (3, sigma)})
        experiment.record_windows(run, materials, tools, several)
        assert found.keys() == {f"identical.stencil-s{sigma:.1f}.{name}" for name in NAMES}
        assert all((value == 1) == is_one for value in found.values())


def test_phrases_of_one_sentence_are_one_unit_of_the_oracle(
    tools: Tools, sizes: Sizes, generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = material("sst2", 6, 5)
    parents = np.array([0, 0, 0, 1, 1, 2])
    monkeypatch.setattr(lossy.splits, "parent_sentences", lambda texts: parents)
    small = sizes.model_copy(update={"oracle": {"sst2": 6}, "oracle_longest": {"sst2": 5}})
    found = experiment.oracle_beam({"sst2": given}, tools, generator, ["2-random"], small, SEED)
    for row in found[found["measure"] != "edit_missed"].itertuples():
        assert row.influence.unit.tolist() == [0, 1, 2]


def test_the_best_attack_by_hand() -> None:
    rows = [
        ("imdb", "x", "naive", 1, 0.5),
        ("imdb", "x", "naive_skip", 1, 0.6),
        ("imdb", "x", "naive_skip", 5, 0.8),
        ("imdb", "x", "anywhere", 5, 0.9),  # does not say where
        ("imdb", "x", "naive_skip_elsewhere", 5, 0.95),  # chance is no attack
        ("imdb", "x", "deconvolution", 5, 0.7),
        ("imdb", "a", "naive", 5, 0.1),
        ("sst2", "x", "naive", 5, 0.2),
        ("sst2", "x", "deconvolution", 1, 0.3),
    ]
    table = pd.DataFrame(rows, columns=["corpus", "label", "attack", "top", "value"])
    assert experiment.best(table, top=5).to_numpy().tolist() == [
        list(rows[2]),
        list(rows[6]),
        list(rows[7]),
    ]
    assert experiment.best(table, top=1).to_numpy().tolist() == [list(rows[1]), list(rows[8])]
