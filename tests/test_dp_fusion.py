"""DP-Fusion: the weight by hand and by search, draws against the law, what holds and what does not.

Error rates: see `helpers`.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import ALARM, POWER, FloatArray, fits, power_of_fit, refused, renyi
from hypothesis import given, settings
from hypothesis import strategies as st
from test_prompt import SIZE, WORDS, random_toy, toy
from tiny_generators import tiny_family

from textpriv import models
from textpriv.mechanisms.dp_fusion import DPFusion, divergence, largest_weight

ORDERS = [1.5, 2.0, 3.0, np.inf]
SECRETS = ("a b", "c b", "e b")
REDACTED = "d b"


def logs(*rows: list[float]) -> torch.Tensor:
    with np.errstate(divide="ignore"):
        return torch.from_numpy(np.log(np.array(rows)))


def mixed(p: FloatArray, r: FloatArray, bound: float, order: float) -> tuple[float, FloatArray]:
    weight = float(largest_weight(*logs([*p]), *[logs([*r])], bound=bound, order=order)[0])
    return weight, weight * p + (1 - weight) * r


def fusion(generator: Any = None, **options: Any) -> DPFusion:
    given = {"bound": 0.3, "order": 2.0, "tokens": 2, "template": "{text}"} | options
    return DPFusion(random_toy(0) if generator is None else generator, **given)


def test_the_weight_by_hand() -> None:
    """Of two tokens: p = (1, 0), r = (1/2, 1/2), the mixture is (1/2 + w/2, 1/2 - w/2).

    Infinite order: 1 - w >= e^-b binds before 1 + w <= e^b. Order 2: the mean over r of 1/m is
    1 / (1 - w^2), that of m^2 is 1 + w^2, and the first is the larger.
    """
    p, r, bound = np.array([1.0, 0.0]), np.array([0.5, 0.5]), 0.2
    assert mixed(p, r, bound, np.inf)[0] == pytest.approx(1 - np.exp(-bound))
    assert mixed(p, r, bound, 2)[0] == pytest.approx(np.sqrt(1 - np.exp(-bound)))


@pytest.mark.parametrize("order", ORDERS)
@given(
    st.lists(st.floats(-12, 12), min_size=4, max_size=4),
    st.lists(st.floats(-12, 12), min_size=4, max_size=4),
    st.floats(0.01, 3),
)
@settings(max_examples=60)
def test_the_weight_keeps_the_bound_and_none_larger_does(
    order: float, one: list[float], other: list[float], bound: float
) -> None:
    p, r = (np.exp(np.array(each)) / np.exp(each).sum() for each in (one, other))
    weight, q = mixed(p, r, bound, order)
    assert 0 <= weight < 1 and renyi(q, r, order) <= bound * (1 + 1e-9) + 1e-12
    more = min(1.0, weight + 1e-4)
    if weight < 1 - 1e-9:
        assert renyi(more * p + (1 - more) * r, r, order) > bound


def test_extreme_laws() -> None:
    """What the redaction all but excludes is hardly said, and equal laws are not moved."""
    p, r = logs([1.0, 0.0]), torch.tensor([[-800.0, 0.0]], dtype=torch.float64)
    for order in ORDERS:
        assert float(largest_weight(p, r, bound=1.0, order=order)) == 0
        same = logs([0.25, 0.75])
        assert float(largest_weight(same, same, bound=0.1, order=order)) == pytest.approx(1)


@pytest.mark.parametrize("order", ORDERS)
def test_divergence_is_the_larger_of_both_directions(order: float) -> None:
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.3, 0.6])
    larger = divergence(logs([*p]), logs([*q]), order=order)
    assert float(larger) == pytest.approx(renyi(p, q, order))


def plain_law(mechanism: DPFusion, text: str, redacted: str) -> dict[tuple[int, ...], float]:
    """P of every output of up to two tokens, from the description; the toy adds rows of a table."""
    generator: Any = mechanism.generator
    table = generator.model.table.double().numpy()[:, :SIZE]

    def step(before: list[list[int]]) -> FloatArray:
        scores = np.array([table[ids].sum(0) for ids in before])
        p, r = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        return mixed(p, r, mechanism.bound, mechanism.order)[1]

    read = [[0, *generator.encode([each])[0]] for each in (text, redacted)]
    first = step(read)
    result: dict[tuple[int, ...], float] = {}
    for one in range(SIZE):
        if one == 0:  # which ends the output
            result[()] = first[0]
            continue
        second = step([[*ids, one] for ids in read])
        for two in range(SIZE):
            output = (one,) if two == 0 else (one, two)
            result[output] = first[one] * second[two]
    return result


@pytest.mark.parametrize(("order", "batch"), [(2.0, 2), (np.inf, 64)])
def test_draws_follow_the_law(order: float, batch: int) -> None:
    """False alarm at most ALARM; draws from the private law alone are caught with POWER."""
    mechanism = fusion(random_toy(3, strength=1.0), order=order)
    n = 200 if batch == 2 else 2000
    texts = ["a b", "e c c a"] * n
    with pytest.warns(UserWarning, match="seed was passed"):
        made = mechanism.sanitize(texts, ["d b", "e"] * n, 1, batch=batch)
    for which, (text, redacted) in enumerate([("a b", "d b"), ("e c c a", "e")]):
        law = plain_law(mechanism, text, redacted)
        names = {" ".join(WORDS[each] for each in output): p for output, p in law.items()}
        assert len(names) == len(law) and sum(law.values()) == pytest.approx(1)
        counts = [made[which::2].count(name) for name in names]
        assert fits(counts, list(names.values()), ALARM)
        if n == 2000:
            unbound = plain_law(fusion(mechanism.generator, bound=50.0), text, redacted)
            assert power_of_fit(list(unbound.values()), list(law.values()), n) >= POWER


def test_every_document_finds_its_own_redaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a batch where documents and redactions have other orders of length; see the numbers."""
    texts = ["a", "a b c d e", "b b b", "c c", "d", "e e e e"]
    shown = ["e e e e", "a", "b", "c c c c c c", "d d", "e e"]
    mechanism = fusion(random_toy(3, strength=1.0), tokens=1)
    met: list[tuple[torch.Tensor, torch.Tensor]] = []
    honest = DPFusion.log_law

    def watched(self: DPFusion, private: torch.Tensor, redacted: torch.Tensor) -> torch.Tensor:
        met.extend(zip(private, redacted, strict=True))
        return honest(self, private, redacted)

    monkeypatch.setattr(DPFusion, "log_law", watched)
    mechanism.sanitize(texts, shown, batch=2 * len(texts))
    together, met[:] = list(met), []
    for text, redacted in zip(texts, shown, strict=True):
        mechanism.sanitize([text], [redacted], batch=2)
    for one in met:
        assert any(
            all(torch.allclose(x, y, atol=0.05) for x, y in zip(one, other, strict=True))
            for other in together
        )
    assert len(together) == len(met) == len(texts)


def test_the_redaction_is_read_alike_whatever_stands_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last bit: or a secret would move the law that all documents are held to."""
    generator = tiny_family(tmp_path, "llama")
    seen: list[torch.Tensor] = []

    def watched(self: DPFusion, private: torch.Tensor, redacted: torch.Tensor) -> torch.Tensor:
        seen.append(redacted.clone())
        return redacted.double().log_softmax(1)  # so that both runs say the same

    monkeypatch.setattr(DPFusion, "log_law", watched)
    mechanism = fusion(generator, tokens=4)
    for secrets in (["a cat", "the dog sat"], ["a cat, a dog and the cat", "a"]):
        with pytest.warns(UserWarning, match="seed was passed"):
            mechanism.sanitize(secrets, ["a _", "the _ sat"], 1, batch=4)
    first, second = np.array_split(np.arange(len(seen)), 2)
    assert len(first) == len(second) >= 1
    assert all(torch.equal(seen[a], seen[b]) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_at_infinite_order_no_pair_of_secrets_exceeds_epsilon(seed: int) -> None:
    mechanism = fusion(random_toy(seed, strength=0.5), order=np.inf)
    laws = [plain_law(mechanism, text, REDACTED) for text in SECRETS]
    widest = max(
        abs(np.log(one[output] / other[output]))
        for one, other in itertools.permutations(laws, 2)
        for output in one
    )
    assert mechanism.epsilon == pytest.approx(1.2)
    assert 0.1 * mechanism.epsilon < widest <= mechanism.epsilon + 1e-9


def test_at_order_two_secrets_lie_further_apart_than_published() -> None:
    """One document always says a word that its redaction seldom says, and the other never does."""
    rare, bound = 1e-6, 0.2
    r = np.array([rare, 1 - rare])
    (_, first), (_, second) = (mixed(p, r, bound, 2) for p in np.eye(2))
    assert max(renyi(first, r, 2), renyi(second, r, 2)) <= bound + 1e-12
    published = fusion(bound=bound).published_loss
    assert published == pytest.approx(0.4) and renyi(first, second, 2) > 20 * published
    assert renyi(first, second, 2) == pytest.approx(np.log(bound**2 / rare), abs=0.3)
    # Nor does (eps, delta) hold that follows from it, eps = 4 bound / order + ln(1/delta).
    delta = 1e-5
    assert first[0] > np.exp(published + np.log(1 / delta)) * second[0] + delta
    assert fusion(bound=bound).epsilon == np.inf


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
def test_secrets_are_near_each_other_in_a_lower_order(order: float) -> None:
    """Mironov's weak triangle inequality, on laws at random and where it is nearly attained."""
    rng, bound = np.random.default_rng(0), 0.2
    lower, most = order**2 / (2 * order - 1), (2 * order - 1) / (order - 1) * bound
    apart = []
    for _ in range(200):
        p, other, r = rng.dirichlet(np.full(4, 0.1), 3)
        (_, first), (_, second) = (mixed(each, r + 1e-12, bound, order) for each in (p, other))
        apart.append(renyi(first, second, lower))
    assert 0.3 * most < max(apart) <= most + 1e-9
    rare = np.array([1e-6, 1 - 1e-6])
    (_, first), (_, second) = (mixed(p, rare, bound, 2) for p in np.eye(2))
    assert 0.999 * 0.6 < renyi(first, second, 4 / 3) <= 0.6 + 1e-9
    assert fusion(bound=bound, order=np.inf, tokens=5).epsilon == pytest.approx(2)


def test_losses_along_an_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.encoders, "bfloat16_is_fast", lambda _: False)
    mechanism = fusion(random_toy(0, strength=1.0))
    first, second = (mechanism.laws_along(each, REDACTED, "a c d") for each in ("a b", "c b"))
    assert first.shape == second.shape == (2, SIZE)
    laws = [plain_law(mechanism, text, REDACTED) for text in ("a b", "c b")]
    one, other = (
        np.array(
            [sum(p for out, p in law.items() if out[:1] == (word,)) for word in range(1, SIZE)]
        )
        for law in laws
    )
    one, other = (np.append(each, 1 - each.sum()) for each in (one, other))  # the output ends
    assert float((first - second)[0].abs().max()) == pytest.approx(
        np.abs(np.log(one / other)).max()
    )
    assert float(divergence(first, second, order=2)[0]) == pytest.approx(renyi(one, other, 2))
    assert len(mechanism.laws_along("a b", REDACTED, "")) == 1  # the token that ends it


@pytest.mark.parametrize("order", ORDERS)
def test_equal_secrets_and_redactions(order: float) -> None:
    """Where nothing is redacted the model's own law is drawn from."""
    mechanism = fusion(random_toy(5, strength=1.0), order=order, bound=0.01)
    law = plain_law(mechanism, "a b", "a b")
    free = plain_law(fusion(mechanism.generator, bound=50.0), "a b", "d")
    assert list(law.values()) == pytest.approx(list(free.values()), abs=1e-6)


def test_no_document_gives_no_paraphrase() -> None:
    assert fusion(toy(np.zeros((SIZE + 2, SIZE + 2)))).sanitize([], []) == []


test_bad_input_is_named = refused(
    (lambda: fusion(bound=0.0), "bound"),
    (lambda: fusion(order=1.0), "order: got 1.0, expected a number > 1, or infinity"),
    (lambda: fusion().sanitize(["a", "b"], ["a"]), "redacted: got 1 texts, expected 2"),
)
