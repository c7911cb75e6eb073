"""The oracle attack against enumeration, with a tiny random Llama and with bigrams by hand."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from helpers import corpus, refused
from tiny_generators import OPENING, log_by_hand, tiny_generator

from textpriv.attacks import oracle
from textpriv.attacks.oracle import (
    Found,
    OracleBeam,
    edit_distance,
    edit_distances,
    prune,
    ranks,
    token_success,
)
from textpriv.channel import FloatArray
from textpriv.mechanisms.maps import LossyMap
from textpriv.models.generators import Generator

LONGEST = 24

pytestmark = pytest.mark.usefixtures("exact_throughout")


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Generator:
    return tiny_generator(tmp_path_factory.mktemp("generator"), longest=LONGEST)


def bigrams(table: Any) -> Generator:
    """A Llama whose next token depends on the last one only: P(b|a) is in row a, column b.

    Its layers add nothing, an embedding is a corner of a cube, and the head reads the table.
    Id 0 opens a text.
    """
    law = np.asarray(table, dtype=np.float64)
    size = len(law)
    assert np.allclose(law.sum(1), 1) and size % 4 == 0
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel(
            vocab={OPENING: 0} | {f"w{number}": number for number in range(1, size)}
        )
    )
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=size,
            hidden_size=size,
            intermediate_size=size,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=LONGEST,
            tie_word_embeddings=False,
        )
    ).eval()
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weights.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(size))
        # A corner has mean square 1 / size, by which its norm divides.
        scores = np.log(np.maximum(law, 1e-30)).T / np.sqrt(size)
        model.lm_head.weight.copy_(torch.from_numpy(scores))
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=OPENING)
    return Generator("bigrams", wrapped, model, torch.device("cpu"), "")


# Pairs 1 and 2, 3 and 4, 5 and 6; the first stands for both. 0 and 7 are no input.
PAIRS = LossyMap("pairs", np.array([0, 1, 1, 3, 3, 5, 5, 7]), fixed=np.array([0, 7]))
#         0    1    2    3    4    5    6    7
LAW = [
    [0.0, 0.3, 0.2, 0.0, 0.0, 0.0, 0.0, 0.5],
    [0.0, 0.0, 0.0, 0.1, 0.2, 0.0, 0.0, 0.7],
    [0.0, 0.0, 0.0, 0.7, 0.25, 0.0, 0.0, 0.05],
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.6, 0.3, 0.1],
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.9, 0.0],
    [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.3],
    [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.3],
    [0.2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1],
]


def law_of(text: Any) -> float:
    """P(text) by the table."""
    return float(np.prod([LAW[a][b] for a, b in itertools.pairwise([0, *text])]))


def search(attack: OracleBeam, output: Any) -> Found:
    """What is left of one text."""
    return attack.search_corpus(corpus(output))[0]


def result(*texts: Any) -> Found:
    """What a search has left, the best first."""
    sequences = np.array(texts, dtype=np.int64).reshape(len(texts), -1)
    return Found(sequences, -np.arange(len(texts), dtype=float), capped=0, kept=1.0, scored=0)


@pytest.mark.parametrize("group", [2, 3])
def test_all_mass_is_enumeration(generator: Generator, group: int) -> None:
    """Every text written out and run alone, with a softmax over the whole vocabulary."""
    rng = np.random.default_rng(group)
    size = len(generator.tokenizer)
    mapper = LossyMap.random(size, group, rng, fixed=np.array([generator.opening]))
    truth = rng.integers(1, size, 4)
    attack = OracleBeam(generator, mapper, mass=1.0, most=1000)
    seen = mapper.representative[truth]
    for _ in range(2):  # a search leaves nothing behind
        candidates = search(attack, seen)
        every = list(itertools.product(*(mapper.preimages(token) for token in seen.tolist())))
        expected = {text: log_by_hand(generator, text) for text in every}
        scores = {
            tuple(text): value
            for text, value in zip(
                candidates.sequences.tolist(), candidates.log_probability.tolist(), strict=True
            )
        }
        assert len(candidates.sequences) == len(every) == group**4
        assert scores.keys() == expected.keys()
        assert max(abs(scores[text] - expected[text]) for text in expected) < 1e-3
        assert (np.diff(candidates.log_probability) <= 0).all()
        assert (candidates.capped, candidates.kept) == (0, 1.0)
        assert candidates.scored == sum(group**step for step in range(1, 5))
    assert np.std(list(expected.values())) > 0.5  # the model has a say


def test_pruned_searches_keep_true_probabilities(generator: Generator) -> None:
    rng = np.random.default_rng(5)
    size = len(generator.tokenizer)
    mapper = LossyMap.random(size, 3, rng, fixed=np.array([generator.opening]))
    truth = rng.integers(1, size, 7)
    seen = mapper.representative[truth]
    whole = search(OracleBeam(generator, mapper, mass=1.0, most=3**7), seen)
    cut = search(OracleBeam(generator, mapper, mass=0.9, most=40), seen)
    assert 1 < len(cut.sequences) <= 40
    for text, value in zip(cut.sequences, cut.log_probability, strict=True):
        assert value == pytest.approx(log_by_hand(generator, text), abs=1e-3)
        assert value == pytest.approx(whole.log_probability[whole.rank(text) - 1], abs=1e-3)
    assert len(np.unique(cut.sequences, axis=0)) == len(cut.sequences)


def test_pruning_by_hand() -> None:
    """Pair 1|2, then 3|4, then 5|6, at a mass of 0.7.

    Step 1 has 0.3 and 0.2 of 0.5: one is not enough. Step 2 has 13 with 0.03, 14 with 0.06, 23
    with 0.14 and 24 with 0.05 of 0.28: 23 and 14 hold 0.71, while by the last token alone 24
    (0.25) would come before 14 (0.2). Step 3 has 0.084, 0.042, 0.006 and 0.054 of 0.186.
    """
    attack = OracleBeam(bigrams(LAW), PAIRS, mass=0.7)
    one = search(attack, [1])
    assert one.sequences.tolist() == [[1], [2]] and one.kept == 1
    two = search(attack, [1, 3])
    assert two.sequences.tolist() == [[2, 3], [1, 4]]
    assert np.exp(two.log_probability) == pytest.approx([0.14, 0.06], abs=1e-5)
    assert two.kept == pytest.approx(0.20 / 0.28, abs=1e-4) and two.capped == 0
    three = search(attack, [1, 3, 5])
    assert three.sequences.tolist() == [[2, 3, 5], [1, 4, 6]]
    assert np.exp(three.log_probability) == pytest.approx([0.084, 0.054], abs=1e-5)
    assert three.kept == pytest.approx(0.20 / 0.28, abs=1e-4)  # the smallest, not the last
    assert three.scored == 2 + 4 + 4
    for text, value in zip(three.sequences, three.log_probability, strict=True):
        assert np.exp(value) == pytest.approx(law_of(text), abs=1e-5)


def test_wrong_ways_to_prune_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """What pruning by other weights would leave differs from the test above."""

    def unnormalised(log_probability: FloatArray, *, mass: float, most: int) -> Any:
        order = np.argsort(-log_probability, kind="stable")
        total = np.cumsum(np.exp(log_probability[order]))
        count = min(int(np.searchsorted(total, mass)) + 1, most, len(order))
        return order[:count], float(total[count - 1]), False

    # The other judges steps by themselves: every step forgets what stands before.
    for wrong in (unnormalised, _last_step_alone()):
        with monkeypatch.context() as patch:
            patch.setattr(oracle, "prune", wrong)
            with pytest.raises(AssertionError):
                test_pruning_by_hand()


def _last_step_alone() -> Any:
    """A pruning that sees the last token's probability only, in place of the prefix's."""
    reached = np.zeros(1)

    def wrong(log_probability: FloatArray, *, mass: float, most: int) -> Any:
        nonlocal reached
        if len(log_probability) == 2:  # a text begins
            reached = np.zeros(1)
        before = np.repeat(reached, len(log_probability) // len(reached))
        order, held, capped = prune(log_probability - before, mass=mass, most=most)
        reached = log_probability[order]
        return order, held, capped

    return wrong


@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_cap_is_told(most: int) -> None:
    attack = OracleBeam(bigrams(LAW), PAIRS, mass=0.99, most=most)
    candidates = search(attack, [1, 3, 5])
    assert len(candidates.sequences) == most
    if most == 1:  # greedy: 1, then 14, then 146
        assert candidates.sequences.tolist() == [[1, 4, 6]]
        assert candidates.capped == 3 and candidates.kept == pytest.approx(0.6, abs=1e-4)
    elif most == 2:  # both, then 23 and 14 of 0.28, then 235 and 146, 0.138 of 0.186
        assert candidates.sequences.tolist() == [[2, 3, 5], [1, 4, 6]]
        assert candidates.capped == 2 and candidates.kept == pytest.approx(0.20 / 0.28, abs=1e-4)
    else:  # both, then 24 as well, 0.25 of 0.28, then 246 (0.045), 0.183 of 0.236
        assert candidates.sequences.tolist() == [[2, 3, 5], [1, 4, 6], [2, 4, 6]]
        assert candidates.capped == 2 and candidates.kept == pytest.approx(0.183 / 0.236, abs=1e-4)


@pytest.mark.parametrize("batch", [1, 2, 5, 9])
def test_texts_side_by_side(generator: Generator, batch: int) -> None:
    """Texts of several lengths, with and without choice, get what they get alone."""
    rng = np.random.default_rng(3)
    size = len(generator.tokenizer)
    mapper = LossyMap.random(size, 3, rng, fixed=np.array([generator.opening, 40]))
    lengths = [6, 0, 2, 9, 9, 1, 4]
    texts = [rng.choice([40, *rng.integers(1, size, 9)], length) for length in lengths]
    seen = mapper.sanitize_corpus(corpus(*texts))
    attack = OracleBeam(generator, mapper, mass=0.9, most=12)
    alone = [search(attack, seen[number]) for number in range(len(seen))]
    attack.batch = batch
    together = attack.search_corpus(seen)
    assert any(each.capped for each in alone) and len({len(each.sequences) for each in alone}) > 2
    for one, other in zip(alone, together, strict=True):
        assert one.sequences.tolist() == other.sequences.tolist()
        assert np.allclose(one.log_probability, other.log_probability, atol=1e-4)
        assert (one.capped, one.scored) == (other.capped, other.scored)
        assert one.kept == pytest.approx(other.kept, abs=1e-4)
    assert OracleBeam(generator, mapper).search_corpus(corpus()) == []


def test_texts_without_choice() -> None:
    attack = OracleBeam(bigrams(LAW), PAIRS)
    empty = search(attack, [])
    assert empty.sequences.shape == (1, 0) and empty.log_probability.tolist() == [0.0]
    assert (empty.capped, empty.kept, empty.scored) == (0, 1.0, 0)
    assert empty.rank(np.zeros(0, np.int64)) == 1
    one = search(attack, [1])
    assert np.exp(one.log_probability) == pytest.approx([0.3, 0.2], abs=1e-5)
    fixed = search(attack, [7, 7, 0])
    assert fixed.sequences.tolist() == [[7, 7, 0]]
    assert np.exp(fixed.log_probability) == pytest.approx([0.5 * 0.1 * 0.2], abs=1e-5)
    between = search(attack, [1, 7, 5])  # what is fixed still tells 1 from 2
    assert between.sequences[:, 1].tolist() == [7] * 4
    assert np.exp(between.log_probability[0]) == pytest.approx(0.3 * 0.7 * 0.1, abs=1e-5)


def test_the_longest_text() -> None:
    attack = OracleBeam(bigrams(LAW), PAIRS, most=2)
    assert search(attack, [1] * (LONGEST - 1)).sequences.shape == (2, LONGEST - 1)


def test_prune_by_hand() -> None:
    known = np.log([0.01, 0.04, 0.02, 0.13])  # of 0.2: 0.05, 0.2, 0.1, 0.65
    for mass, most, expected, held, capped in (
        (0.6, 9, [3], 0.65, False),
        (0.66, 9, [3, 1], 0.85, False),
        (0.9, 9, [3, 1, 2], 0.95, False),
        (0.96, 9, [3, 1, 2, 0], 1.0, False),
        (1.0, 9, [3, 1, 2, 0], 1.0, False),
        (0.9, 2, [3, 1], 0.85, True),
        (1.0, 3, [3, 1, 2], 0.95, True),
        (1e-20, 9, [3], 0.65, False),
    ):
        got = prune(known, mass=mass, most=most)
        assert got[0].tolist() == expected and got[2] is capped
        assert got[1] == pytest.approx(held)


def test_prune_leaves_a_constant_and_small_numbers_alone() -> None:
    known = np.array([-1000.0, -1001.0, -1040.0, -1800.0])
    for shift in (0.0, 990.0):
        kept, held, capped = prune(known + shift, mass=1.0, most=9)
        assert kept.tolist() == [0, 1, 2, 3] and held == 1 and not capped
    # What holds less than float64 can tell from 1 is dropped, where that is asked for.
    assert prune(known, mass=1 - 1e-16, most=9)[0].tolist() == [0, 1]
    assert prune(np.zeros(4), mass=0.7, most=9)[0].tolist() == [0, 1, 2]


def test_ranks_by_hand() -> None:
    many = [[1, number] for number in range(7)]
    results = [result([1, 2], [3, 4]), result([1, 2], [3, 4]), result([5, 6]), result(*many)]
    results.append(result([]))
    truth = corpus([1, 2], [3, 4], [6, 5], [1, 5], [])
    assert ranks(results, truth).tolist() == [1, 2, np.inf, 6, 1]


def test_distances_by_hand() -> None:
    results = [result([1, 2, 3, 4], [9, 9, 9, 9]), result([1, 2]), result([])]
    truth = corpus([2, 3, 4, 5], [1, 2], [])
    # One deletion and one insertion, though every token is wrong at its place.
    assert edit_distances(results, truth).tolist() == [2, 0, 0]


def test_edit_distance_cell_by_cell() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        first, second = (rng.integers(3, size=rng.integers(9)) for _ in range(2))
        table = np.zeros((len(first) + 1, len(second) + 1), dtype=int)
        table[:, 0], table[0] = np.arange(len(first) + 1), np.arange(len(second) + 1)
        for i, j in itertools.product(range(len(first)), range(len(second))):
            table[i + 1, j + 1] = min(
                table[i, j + 1] + 1, table[i + 1, j] + 1, table[i, j] + int(first[i] != second[j])
            )
        assert edit_distance(first, second) == table[-1, -1]
    kitten, sitting = (np.array([*map(ord, word)]) for word in ("kitten", "sitting"))
    assert edit_distance(kitten, sitting) == edit_distance(sitting, kitten) == 3


def test_token_success_leaves_out_what_has_no_choice() -> None:
    # 7 and 0 are fixed; 2, 4 and 6 have company, and so have those that stand for them.
    results = [result([1, 7, 4]), result([0]), result([6, 6])]
    truth = corpus([2, 7, 4], [0], [5, 6])
    right, document = token_success(results, truth, PAIRS)
    assert right.tolist() == [False, True, False, True]
    assert document.tolist() == [0, 0, 2, 2]
    none, _ = token_success([result([7])], corpus([7]), PAIRS)
    assert none.shape == (0,)


BIGRAMS, FITS = bigrams(LAW), "truth: got texts of"
TOO_LONG = f"got a text of {LONGEST} tokens, expected at most {LONGEST - 1}"
FOUND, THREE = [result([1, 2])], LossyMap("three", np.arange(3))
beam: Any = partial(OracleBeam, BIGRAMS)


def test_a_refused_text_does_no_harm() -> None:
    attack = beam(PAIRS)
    with pytest.raises(ValueError):  # no word is sent to 2
        search(attack, [1, 2])
    assert len(search(attack, [1, 3]).sequences) == 4


test_bad_input_is_named = refused(
    (lambda: search(beam(PAIRS), [1, 8]), "output: got ids 1..8, expected 0..7"),
    (lambda: search(beam(PAIRS), [1, 2]), "output: got id 2, to which the map sends no token"),
    (lambda: search(beam(PAIRS), [1] * LONGEST), TOO_LONG),
    (lambda: beam(THREE), r"map over 3 ids, expected 8 \(the tokens of bigrams\)"),
    (lambda: ranks(FOUND, corpus([1, 2], [1])), FITS),
    (lambda: ranks(FOUND, corpus([1, 2, 3])), FITS),
    (lambda: ranks(FOUND, corpus()), FITS),
)
