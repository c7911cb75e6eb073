"""One call on one's own texts: sources, sanitizers, risks, the page, and clear errors."""

from __future__ import annotations

import codecs
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
from helpers import refused

import textpriv
from textpriv import paths
from textpriv.attacks import linkage
from textpriv.attacks.bayes import Bayes
from textpriv.data.embeddings import Embedding, from_arrays
from textpriv.data.tokens import KEEP_UNKNOWN, Tokenizer
from textpriv.errors import AssetUnavailable, InvalidInput, SeededOutput, UnknownAsset
from textpriv.evaluation import cards, preview, risks, sanitizers, summaries, texts
from textpriv.evaluation import evaluate as evaluation
from textpriv.mechanisms import Madlib, SanText
from textpriv.mechanisms.base import simulation
from textpriv.mechanisms.estimated import NoiseChannel
from textpriv.utility.prediction import TARGET, Predictor, cross_intervals

RNG = np.random.default_rng(11)
WORDS = [f"{a}{b}{c}" for a in "bcdfg" for b in "aeiou" for c in "lmnrst"]  # 150 short words
VOCABULARY = from_arrays("tiny", WORDS, RNG.normal(size=(len(WORDS), 8)))
TEXTS = [" ".join(RNG.choice(WORDS, 12)) for _ in range(60)]
PUBLIC = [" ".join(RNG.choice(WORDS, 30)) for _ in range(40)]


@pytest.fixture(autouse=True)
def vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small vocabulary in place of the one that is fetched."""

    def tiny(words: int | None = None) -> Embedding:
        return VOCABULARY

    for module in (sanitizers, evaluation):
        monkeypatch.setattr(module, "embedding", tiny)


def evaluated(**options: Any) -> textpriv.Evaluation:
    options = {"mechanism": "santext", "epsilon": 8.0, "public": PUBLIC, "seed": 1} | options
    return textpriv.evaluate(TEXTS, **options)


def found_words(assessment: textpriv.Evaluation) -> float:
    best = assessment.strongest("words")
    assert best is not None
    return float(best["value"])


def test_texts_come_from_lists_columns_and_files(tmp_path: Path) -> None:
    wanted = ["one text", "another, with a comma"]
    frame = pd.DataFrame({"body": wanted})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    (tmp_path / "a.txt").write_text("\n".join(wanted))
    sources = [
        wanted, tuple(wanted), frame["body"], np.array(wanted, dtype=object),
        datasets.Dataset.from_pandas(frame)["body"],
        tmp_path / "a.csv", str(tmp_path / "a.jsonl"), tmp_path / "a.txt",
    ]  # fmt: skip
    assert [texts.texts_of(each, column="body") for each in sources] == [wanted] * len(sources)


def shout(text: str) -> str:
    return text.upper()


def backwards(texts: list[str]) -> list[str]:
    return [text[::-1] for text in texts]


def loud(s):  # type: ignore[no-untyped-def]
    return s.upper()


@pytest.mark.parametrize("function", [shout, backwards, loud])
def test_functions_of_one_text_and_of_all_are_told_apart(function: Any) -> None:
    expected = function(TEXTS[:1]) if function is backwards else [function(TEXTS[0])]
    assert textpriv.sanitizer(function).sanitize(TEXTS[:1]) == expected


def test_a_function_that_needs_a_generator_gets_a_fresh_one() -> None:
    def drawn(texts: list[str], rng: np.random.Generator) -> list[str]:
        return [str(rng.random()) for _ in texts]

    made = textpriv.sanitizer(drawn)
    assert made.sanitize(["a"]) != made.sanitize(["a"])
    assert not textpriv.check_mechanism(drawn).failed


def test_a_class_is_not_taken_for_a_function() -> None:
    class Own:
        def sanitize(self, texts: list[str]) -> list[str]:
            return texts

    assert textpriv.sanitizer(Own()).sanitize(["a"]) == ["a"]
    with pytest.raises(InvalidInput, match="the class Own, expected an object"):
        textpriv.sanitizer(Own)


def test_a_class_of_mechanisms_is_made_over_the_public_vocabulary() -> None:
    made = textpriv.sanitizer(SanText, epsilon=2).mechanism
    assert isinstance(made, SanText) and made.epsilon == 2


def test_without_a_seed_nothing_repeats_and_with_one_everything_does() -> None:
    def make(seed: int | None) -> list[str]:
        return textpriv.sanitize(TEXTS, "santext", epsilon=1.0, seed=seed)

    assert make(3) == make(3) and make(None) != make(None)
    with pytest.warns(SeededOutput):
        make(3)


def test_text_in_clear_is_read_and_linked_in_full() -> None:
    assessment = textpriv.evaluate(TEXTS, TEXTS, seed=1)
    assert assessment.strongest("words")["value"] == assessment.strongest("texts")["value"] == 1.0
    assert assessment.epsilon_lower_bound > 1.0


def test_text_that_says_nothing_is_not() -> None:
    assessment = textpriv.evaluate(TEXTS, ["nothing here"] * 60, seed=1)
    linked = assessment.risks[assessment.risks["finds"] == "texts"]
    assert (linked["low"] <= linked["chance"]).all() and assessment.epsilon_lower_bound == 0.0
    assert "word by word" in "; ".join(assessment.not_tried)
    assert "0% of the content words stand in the output; more may be recovered" in str(assessment)


def reversed_words(text: str) -> str:
    return " ".join(text.split()[::-1])


def one_more_word(text: str) -> str:
    return f"{text} more"


@pytest.mark.parametrize("function", [reversed_words, one_more_word])
def test_words_that_stay_in_another_place_are_counted(function: Any) -> None:
    """A wrong version looks at places only: 0% are read of what stands there in clear."""
    assessment = textpriv.evaluate(TEXTS, mechanism=function, public=None, seed=1)
    assert found_words(assessment) == 1.0 and assessment.strongest("words")["chance"] < 0.3


def test_a_word_is_kept_as_often_as_it_stands_in_the_output() -> None:
    before = ["cat cat dog the", "bird"]
    (there, *_) = risks.pair_risks(before, ["dog cat", "fish"])
    assert (there["attack"], there["value"], there["n"]) == (risks.ANYWHERE, 2 / 4, 4)


def test_who_runs_a_function_learns_from_public_texts() -> None:
    """Another alphabet: ten texts teach few of its words, public ones all of them."""
    few = TEXTS[:10]

    def alphabet(text: str) -> str:
        return codecs.encode(text, "rot13")

    learned = [
        textpriv.evaluate(few, mechanism=alphabet, public=public, seed=1, attacks=["pairs"])
        for public in (None, PUBLIC)
    ]
    alone, taught = (found_words(each) for each in learned)
    assert alone < 0.6 and taught > 0.95
    assert "public ones too" in learned[1].strongest("words")["knows"]
    assert "more than 10 texts" in "; ".join(learned[0].not_tried)
    assert "more than 10 texts" not in "; ".join(learned[1].not_tried)


def test_a_function_that_fails_on_public_texts_is_attacked_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def brittle(text: str) -> str:
        if text not in TEXTS:
            raise KeyError(text)
        return text

    assessment = textpriv.evaluate(TEXTS, mechanism=brittle, public=PUBLIC, seed=1)
    assert "who runs the tool on public text" in "; ".join(assessment.not_tried)
    slow = textpriv.sanitizer(shout)
    monkeypatch.setattr(evaluation, "PATIENCE", 0.0)  # as many as tell how long it takes
    assessment = textpriv.evaluate(TEXTS, mechanism=slow, public=PUBLIC * 2, seed=1)
    assert f"{evaluation.FIRST} public ones" in assessment.risks.to_string()


def test_shapes_are_linked_whatever_the_letters_are() -> None:
    """Letters of other words in words of equal length."""
    rng = np.random.default_rng(3)
    varied = [" ".join("x" * n for n in rng.integers(1, 9, 12)) for _ in range(60)]
    masked = ["".join(letter if letter == " " else rng.choice(list("abc")) for letter in text)
              for text in varied]  # fmt: skip
    assessment = textpriv.evaluate(varied, masked, seed=1)
    best = assessment.strongest("texts")
    assert best["attack"] == "linkage by shapes of words" and best["value"] > 0.95


def test_who_knows_the_probabilities_links_more() -> None:
    """The exact likelihood, without ties among words, as the best linkage there is."""
    assessment = evaluated(epsilon=4.0)
    rates = assessment.risks[assessment.risks["finds"] == "texts"].set_index("attack")["value"]
    assert rates["linkage by likelihood"] == rates.max() > 0.9
    kept = evaluated(policy="keep-unknown")
    assert any("linkage by likelihood" in each for each in kept.not_tried)
    assert "linkage by likelihood" not in set(kept.risks["attack"])


def test_outputs_with_foreign_words_are_linked_by_the_others_alone() -> None:
    mechanism = SanText(VOCABULARY, epsilon=4.0)
    linker = risks.by_probabilities(mechanism, mechanism)
    outputs = textpriv.sanitize(TEXTS[:5], mechanism, seed=1)
    scores = linker.scores(TEXTS, [*outputs, "zz top", ""])
    assert (scores[:5].argmax(1) == np.arange(5)).all()
    assert (scores[5:] == scores[5:, :1]).all()
    none = linker.scores(TEXTS, ["zz top"])
    assert (none == none[0, 0]).all()


@pytest.mark.parametrize("places", [1, 100, 1 << 24])
def test_likelihoods_are_the_same_in_parts(places: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = SanText(VOCABULARY, epsilon=4.0)
    known = [text[: 4 * number] for number, text in enumerate(TEXTS)]
    outputs = textpriv.sanitize(known, mechanism, seed=1)
    whole = risks.by_probabilities(mechanism, mechanism).scores(known, outputs)
    monkeypatch.setattr(risks, "_PLACES", places)
    parts = risks.by_probabilities(mechanism, mechanism).scores(known, outputs)
    np.testing.assert_allclose(parts, whole, atol=1e-12)


def test_frequencies_are_counts_of_public_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong version takes the numbers of different neighbours: one that stands alone counts."""
    priors = []

    def recorded(channel: Any, prior: Any, *, name: str) -> Any:
        priors.append(np.asarray(prior))
        return Bayes(channel, prior, name=name)

    monkeypatch.setattr(evaluation, "Bayes", recorded)
    evaluated(public=[f"{WORDS[0]} {WORDS[0]} {WORDS[0]} {WORDS[1]}"] * 20)
    np.testing.assert_allclose(priors[0][:3], [61, 21, 1])


def test_who_knows_the_mechanism_reads_more_and_knows_what_was_kept() -> None:
    assessment = evaluated()
    rows = assessment.risks[assessment.risks["finds"] == "words"].set_index("attack")["value"]
    assert rows["context-free Bayes"] >= rows["kept as they are"] - 0.05
    assert {"kept as they are", "context-free Bayes", "noisy channel"} == set(rows.index)
    assert "eps 8 per word" in assessment.statement and set(assessment.examples) == {
        "original", "sanitized", "read_back"
    }  # fmt: skip
    for part in ("recovered", "linked to their originals", "guessing", "Not tried", "more public"):
        assert part in str(assessment)


def test_what_passes_in_clear_is_read() -> None:
    """A name that the vocabulary lacks: named where the policy keeps it, and else by nobody."""
    named = [f"{text} zyx{number}" for number, text in enumerate(TEXTS)]
    options = {"mechanism": "santext", "epsilon": 0.01, "public": None, "seed": 1}
    for policy, least, most in (("keep-unknown", 1 / 13 - 0.001, 0.2), ("private", 0.0, 0.07)):
        assessment = textpriv.evaluate(named, policy=policy, **options)
        assert assessment.risks["n"].max() > 12 * 60
        kept = assessment.risks.set_index("attack").loc["kept as they are", "value"]
        assert least <= kept <= most


def test_outputs_of_another_policy_are_left_out() -> None:
    named = [f"{text} zyx{number}" for number, text in enumerate(TEXTS)]
    after = [f"{text} other" for text in TEXTS]
    options = {"mechanism": "santext", "epsilon": 1.0, "policy": "keep-unknown", "public": None}
    with pytest.raises(InvalidInput, match="give the mechanism and the token policy"):
        textpriv.evaluate(named, after, **options)


def test_outputs_from_elsewhere_are_attacked_as_if_they_were_made_here() -> None:
    here = evaluated()
    after = textpriv.sanitize(TEXTS, "santext", epsilon=8.0, seed=1)
    there = evaluated(sanitized=after)
    both = (set(each.risks["attack"]) for each in (here, there))
    assert next(both) == next(both) and there.statement.startswith("If it was sanitized as you say")
    assert found_words(there) == pytest.approx(found_words(here), abs=0.1)


def test_observed_words_are_those_that_were_put_out() -> None:
    mechanism = SanText(VOCABULARY, epsilon=1.0)
    tokenizer = Tokenizer(VOCABULARY.words, KEEP_UNKNOWN)
    private = tokenizer.encode([f"{WORDS[0]}, zz {WORDS[1]}", WORDS[2]])
    with simulation():
        released = mechanism.sanitize_corpus(private, np.random.default_rng(1))
    sanitized = tokenizer.decode(released)
    part, observed, out = risks.observed_of(mechanism, private, [sanitized[0], "two words"])
    assert out == 1 and len(part) == 1
    np.testing.assert_array_equal(observed.corpus.ids, released.ids[:4])
    assert observed.sanitized.tolist() == [True, False, False, True]


def test_the_channel_of_a_noise_is_estimated_once(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = Madlib(VOCABULARY, epsilon=3.0)
    first = risks.channel_of(mechanism)
    monkeypatch.delattr(NoiseChannel, "estimate")
    again, ids = risks.channel_of(mechanism), np.arange(9)
    np.testing.assert_array_equal(first.log_rows(ids), again.log_rows(ids))
    assert first.vocabulary == again.vocabulary == mechanism.vocabulary
    with pytest.raises(AttributeError, match="estimate"):  # another epsilon, another channel
        risks.channel_of(mechanism.with_epsilon(4.0))


def test_labels_and_authors_are_told_where_texts_tell_them() -> None:
    kinds = np.repeat(["red", "blue"], 30)
    marked = [f"{text} {kind} {kind}" for text, kind in zip(TEXTS, kinds, strict=True)]
    assessment = textpriv.evaluate(marked, marked, labels=kinds, authors=kinds, seed=1)
    label = assessment.utility.set_index("measure").loc["label told (accuracy)"]
    assert label["value"] == label["clear"] == 1.0
    assert assessment.strongest("authors")["value"] == 1.0
    hidden = textpriv.evaluate(marked, [""] * 60, authors=kinds, seed=1)
    assert hidden.strongest("authors")["value"] < 0.5


def test_public_texts_that_share_a_passage_are_not_read() -> None:
    assessment = evaluated(public=TEXTS)
    assert any("no public text" in each for each in assessment.not_tried)


def test_a_preview_has_not_read_the_texts_either(monkeypatch: pytest.MonkeyPatch) -> None:
    models: list[object] = []

    def noted(mechanism: object, model: object, **options: object) -> None:
        models.append(model)
        raise InvalidInput("no attack")

    monkeypatch.setattr(preview, "attack_for", noted)
    for public in (TEXTS, [*TEXTS, *PUBLIC]):
        preview.previewed(TEXTS, "santext", [8.0], policy="private", public=public, summary=False)
    assert models[0] is None and models[1] is not None


def test_without_a_network_the_rest_is_still_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(words: int | None = None) -> Embedding:
        raise AssetUnavailable("glove: no source could be reached")

    monkeypatch.setattr(evaluation, "embedding", unavailable)
    assessment = textpriv.evaluate(TEXTS, TEXTS, seed=1)
    assert assessment.strongest("texts")["value"] == 1.0
    assert sum("no source could be reached" in each for each in assessment.not_tried) == 2


@pytest.fixture
def own_attacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(evaluation, "LINKERS", dict(evaluation.LINKERS))
    monkeypatch.setattr(evaluation, "_REGISTERED", set())


def test_an_attack_of_ones_own_stands_beside_the_others(own_attacks: None) -> None:
    @textpriv.register_attack("lengths", label="length in characters")
    def lengths(originals: list[str], sanitized: list[str]) -> np.ndarray:
        known, seen = (np.array([len(text) for text in side]) for side in (originals, sanitized))
        return -np.abs(seen[:, None] - known)

    shortened = [text[: 9 + number % 30] for number, text in enumerate(TEXTS)]
    assessment = textpriv.evaluate(shortened, backwards(shortened), attacks=["lengths"], seed=1)
    assert assessment.risks["attack"].tolist() == ["length in characters"]
    assert assessment.risks["value"][0] == pytest.approx(30 / 60)
    assert assessment.epsilon_lower_bound == 0.0  # it may have looked at all texts at once


def test_the_bounds_of_all_linkage_attacks_hold_together() -> None:
    """Bonferroni: with two attacks each is at a confidence of 97.5%."""
    for attacks, confidence in ((["bm25"], 0.95), (["bm25", "letters"], 0.975)):
        assessment = textpriv.evaluate(TEXTS, TEXTS, attacks=attacks, seed=1)
        most = linkage.largest_lower_bound(len(TEXTS), confidence=confidence)
        assert 0 < assessment.epsilon_lower_bound <= assessment.largest_shown == pytest.approx(most)


def test_candidates_come_in_no_order_that_helps(own_attacks: None) -> None:
    textpriv.register_attack("places", lambda known, seen: np.eye(len(seen), len(known)))
    assessment = textpriv.evaluate(TEXTS, ["nothing"] * 60, attacks=["places"], seed=1)
    assert assessment.risks["value"][0] < 0.2


def test_a_card_has_no_text_and_is_json() -> None:
    card = json.loads(json.dumps(evaluated().card(), allow_nan=False))
    assert card["format"] == evaluation.CARD and card["epsilon"] == 8.0
    assert not any(text in json.dumps(card) for text in TEXTS)


def test_the_page_escapes_what_it_shows_and_asks_for_nothing(tmp_path: Path) -> None:
    attack = "<script>alert(1)</script><img src=https://example.org/x>"
    assessment = textpriv.evaluate([attack, *TEXTS], [attack, *TEXTS], seed=1)
    page = assessment.page(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page
    assert "<script" not in page and "&lt;script&gt;alert(1)" in page
    body = page.split("<svg", 1)[1].split("</svg>", 1)[1]
    assert "src=" not in body.replace(" src=https://example.org/x&gt;", "") and "href=" not in body
    assert "default-src 'none'" in page


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (3.98506, "at least 3.98, about the most that 60 texts can show."),
        (1.239, "at least 1.23, where 60 texts can show at most 4."),  # never rounded up
    ],
)
def test_a_bound_at_its_ceiling_is_said_to_be_there(shown: float, said: str) -> None:
    """And that it covers texts of any lengths, of which mechanisms on words claim nothing."""
    assessment = replace(evaluated(), epsilon_lower_bound=shown, largest_shown=4.0)
    assert "any two of these texts, whatever their lengths" in assessment.ruled_out
    assert all(said in each for each in (assessment.ruled_out, str(assessment), assessment.page()))
    assert assessment.card()["largest_shown"] == 4.0


@pytest.fixture
def common(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small corpus in place of the one that all cards are about."""
    from textpriv.data import corpora

    documents = corpora.Documents("tiny", TEXTS, {"label": np.arange(60) % 2})
    monkeypatch.setattr(cards, "COUNT", 60)
    monkeypatch.setattr(corpora, "load", lambda name: documents)
    monkeypatch.setattr(evaluation, "PUBLIC_TEXTS", 40)


def carded(epsilon: float, seed: int = 0) -> dict[str, Any]:
    return cards.make_card(textpriv.sanitizer("santext", epsilon=epsilon), seed=seed)


def test_cards_of_a_folder_stand_in_one_table(common: None, tmp_path: Path) -> None:
    made = {eps: carded(eps) for eps in (0.5, 12.0)}
    for eps, card in made.items():
        (tmp_path / f"{eps}.json").write_text(json.dumps(card))
    table = cards.table(cards.read_cards(tmp_path)).set_index("setting")
    assert table.index.tolist() == [card["setting"] for card in made.values()]
    assert (
        table["linked"].is_monotonic_increasing and (table["linked_low"] <= table["linked"]).all()
    )
    assert set(table["read_tried"]) == {2}  # kept as they are, and by Bayes' rule
    assert (table["kept"] <= table["read"]).all()
    assert (table["epsilon_at_least"] <= table["largest_shown"]).all()
    assert (table["largest_shown"] > 0).all()


def test_a_card_is_made_again_and_a_wrong_one_is_found_out(common: None) -> None:
    sent, again = carded(6.0), carded(6.0, seed=1)
    assert len(cards.differences(sent, again)) <= 1
    flattering = json.loads(json.dumps(sent))
    for row in flattering["risks"]:
        row.update(value=row["value"] / 3, low=0.0, high=1.0)
    assert len(cards.differences(flattering, again)) >= 3
    with pytest.raises(InvalidInput, match="expected one mechanism and setting"):
        cards.differences(sent, carded(7.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json", "expected a card"),
        ("[]", "expected format"),
        (json.dumps({"format": evaluation.CARD}), "lacks \\['mechanism'"),
    ],
)
def test_a_file_that_is_no_card_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(InvalidInput, match=f"bad.json: .*{message}"):
        cards.read_cards(tmp_path)


def test_the_worth_of_a_summary_follows_from_the_similarity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The line that ships, learned anew by least squares; unread news lies inside its intervals."""
    alike = np.array([0.05, 0.4, 0.6, 0.99])
    monkeypatch.setattr(summaries, "encoder", lambda: None)
    monkeypatch.setattr(summaries, "similarity", lambda encoder, texts, others: alike)
    predicted, low, high = summaries.summary_worth(["a"] * 4, ["b"] * 4)
    rows = pd.read_csv(paths.REPOSITORY / "figures" / "full" / "fig06_distributions.csv")
    line = np.polynomial.Polynomial.fit(rows[summaries.FEATURE], rows[TARGET], 1)
    np.testing.assert_allclose(predicted, line(alike), atol=0.01)  # five folds of it
    banded = summaries.in_bands(rows)
    fitted = Predictor.fit(banded, [summaries.FEATURE], regressor="linear")
    ends = fitted.interval(summaries.in_bands(pd.DataFrame({summaries.FEATURE: alike})))
    np.testing.assert_allclose([low, high], ends, atol=0.002)
    intervals = cross_intervals(banded, [summaries.FEATURE], regressor="linear")
    covered = intervals["covered"].groupby(intervals["epsilon"]).mean()
    assert list(covered.index) == [1, 2, 3, 4]
    assert (covered > 0.8).all() and abs(intervals["covered"].mean() - 0.9) < 0.04


def through(function: Any) -> list[str]:
    return textpriv.sanitizer(function).sanitize(TEXTS[:2])


def compared(source: object, sanitized: object = TEXTS) -> textpriv.Evaluation:
    return textpriv.evaluate(source, sanitized)


test_bad_input_is_named = refused(
    (lambda: compared("one string"), r"got one string that is no file.*\[text\]"),
    (lambda: compared("long " * 100), "got one string that is no file"),  # nor a file's name
    (lambda: compared(None), "original: got None, expected a list of strings"),
    (lambda: compared([]), "original: got none"),
    (lambda: compared(["only one"]), "got 60 texts for 1 originals"),
    (lambda: compared(["one", "one"], ["a", "b"]), "at least two different ones"),
    (lambda tmp_path: compared(tmp_path / "no.csv"), "no.csv: expected a readable file"),
    (lambda: compared(["x" * texts.LONGEST, "y"]), "characters, expected at most"),
    (lambda: compared(TEXTS, str.upper), "got a function, expected texts; give it as mechanism"),
    (lambda: evaluated(mechanism="santex"), "did you mean 'santext'"),
    (lambda: evaluated(mechanism=None), "got neither"),
    (lambda: evaluated(mechanism=3), "mechanism: got 3, expected a name"),
    (lambda: evaluated(epsilon="2"), "epsilon: got '2'"),
    (lambda: evaluated(epsilon=None), "epsilon: got none"),
    (lambda: evaluated(policy="none"), "policy: got 'none', expected one of private, keep-unknown"),
    (lambda: evaluated(attacks="bm25"), r"got 'bm25', expected a list, \['bm25'\]"),
    (lambda: evaluated(attacks=["bm52"]), r"attacks: got \['bm52'\], expected some of"),
    (lambda: textpriv.evaluate(TEXTS, TEXTS, epsilon=8.0), "got 8.0 and no mechanism, expected"),
    (lambda: evaluated(mechanism=sanitizers.sanitizer("santext", epsilon=2)), "made with 2"),
    (
        lambda: evaluated(labels=["a", *"b" * 59]),
        "labels: 'a' has 1 of the texts, expected at least 3",
    ),
    (lambda: evaluated(sanitized=TEXTS[:3]), "sanitized: got 3 texts for 60 originals"),
    (lambda: evaluated(labels=["a"] * 60), "labels: got 'a' for every text"),
    (lambda: evaluated(labels=["a", "b"]), "labels: got 2 for 60 texts"),
    (lambda: evaluated(authors=[None] * 60), "authors: got none for some text"),
    (lambda: through(lambda texts: "one"), "put out 'one', expected a list"),
    (lambda: through(lambda texts: texts[1:]), "put out 1 texts for 2"),
    (lambda: through(lambda texts: [None, "a"]), "put out None, expected a string"),
)


def test_copies_of_a_text_do_not_hide_it() -> None:
    """Which of two copies an output came from nobody can tell; what it says everybody can."""
    assessment = textpriv.evaluate(TEXTS * 2, TEXTS * 2, seed=1)
    best = assessment.strongest("texts")
    assert best is not None and best["value"] == 1 and best["n"] == len(TEXTS)
    assert "linkage of 60 texts that are copies of others" in assessment.not_tried


def test_a_classifier_has_not_read_a_copy_of_what_it_is_asked_about() -> None:
    """Labels are drawn at random: nobody can tell those of 60 texts, beyond chance in 1 of 1e4."""
    labels = np.tile(np.random.default_rng(5).integers(2, size=len(TEXTS)), 3)
    assessment = textpriv.evaluate(TEXTS * 3, TEXTS * 3, labels=labels, seed=1, attacks=["pairs"])
    assert (
        0.25 < assessment.utility.set_index("measure").loc["label told (accuracy)", "value"] < 0.75
    )


def test_copies_of_a_text_are_no_further_evidence() -> None:
    originals = TEXTS[:6]
    half = [" ".join(text.split()[:number]) for number, text in enumerate(originals, 4)]
    once, often = (risks.pair_risks(originals * copies, half * copies)[0] for copies in (1, 30))
    assert often["value"] == once["value"]
    assert often["high"] - often["low"] == pytest.approx(once["high"] - once["low"], rel=0.2)


def test_an_attack_cannot_spoil_those_after_it(own_attacks: None) -> None:
    def spoiling(known: list[str], seen: list[str]) -> np.ndarray:
        known.sort()
        return np.zeros((len(seen), len(known)))

    evaluation.LINKERS.clear()
    textpriv.register_attack("spoiling", spoiling)
    textpriv.register_attack("equal", lambda known, seen: np.equal.outer(seen, known) * 1.0)
    assessment = textpriv.evaluate(TEXTS, TEXTS, attacks=["spoiling", "equal"], seed=1)
    assert assessment.risks.set_index("attack").loc["equal", "value"] == 1.0


def test_public_text_that_does_not_exist_is_an_error_not_a_weaker_attack() -> None:
    with pytest.raises(UnknownAsset, match="no corpus is called 'imbd'"):
        evaluated(public="imbd")
