"""What sanitizes texts: a mechanism by name, one as an object, or any function of texts.

sanitizer("custext+", epsilon=2).sanitize(["a text"])
sanitizer(my_function).sanitize(["a text"])
sanitizer(MyMechanism, epsilon=2)                  # a class over an embedding, as ours are
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from textpriv.checks import described
from textpriv.data import embeddings
from textpriv.data.embeddings import Embedding
from textpriv.data.tokens import KEEP_UNKNOWN, PRIVATE, TokenPolicy, check_policy
from textpriv.errors import InvalidInput
from textpriv.evaluation.texts import texts_of
from textpriv.mechanisms import Mechanism
from textpriv.mechanisms.base import check_epsilon
from textpriv.mechanisms.registry import WORD_LEVEL, examples
from textpriv.neighbors import ExactSearch

VOCABULARY = "glove-840b-300d-34k"
POLICIES = {each.name: each for each in (PRIVATE, KEEP_UNKNOWN)}


@dataclass(frozen=True, eq=False)
class Sanitizer:
    """Turns texts into sanitized texts, whatever it is inside.

    Parameters
    ----------
    name, label : what tables and figures call it
    function : of a list of texts and a generator (None: fresh entropy)
    epsilon : as it is claimed; None where nothing is claimed
    mechanism : where it is one that replaces words: what attackers can know
    policy : what such a mechanism does with tokens that its vocabulary lacks
    seeded : whether it draws from the generator that it is given
    """

    name: str
    label: str
    function: Callable[[list[str], np.random.Generator | None], object]
    epsilon: float | None = None
    mechanism: Mechanism | None = None
    policy: TokenPolicy | None = None
    seeded: bool = True

    def sanitize(self, texts: Iterable[str], rng: np.random.Generator | None = None) -> list[str]:
        """As many texts, each a string, or InvalidInput that says what came instead.

        Without `rng` fresh entropy is used; with it the output can be made again, by anyone who
        knows it.
        """
        given = texts_of(texts)
        return self.checked(self.function(given, rng), len(given))

    def checked(self, output: object, count: int) -> list[str]:
        """What the function put out for so many texts, or InvalidInput."""
        if isinstance(output, str) or not isinstance(output, Iterable):
            raise InvalidInput(
                f"{self.name}: put out {described(output)}, expected a list of texts"
            )
        texts = list(output)
        if len(texts) != count:
            raise InvalidInput(f"{self.name}: put out {len(texts)} texts for {count}")
        if wrong := [text for text in texts if not isinstance(text, str)]:
            raise InvalidInput(f"{self.name}: put out {described(wrong[0])}, expected a string")
        return texts

    @property
    def setting(self) -> str:
        """How it was run, in words."""
        parts = [] if self.epsilon is None else [f"eps {self.epsilon:g}"]
        parts += [f"token policy {self.policy.name}"] if self.policy else []
        return ", ".join(parts) or "as it is"


def sanitizer(
    mechanism: object,
    *,
    epsilon: float | None = None,
    policy: str | TokenPolicy = PRIVATE,
    words: int | None = None,
) -> Sanitizer:
    """A sanitizer from its name, an object, or a function.

    Parameters
    ----------
    mechanism : a name of `WORD_LEVEL`, a `Mechanism` or a class of them, an object with
        `sanitize(texts)`, or a function of a list of texts or of one text (see `from_function`)
    epsilon : finite number > 0; needed for a name of ours, else as the mechanism has it
    policy : of a mechanism that replaces words: "private" (nothing in clear), "keep-unknown"
        (punctuation, numbers and unknown words in clear, as released code does), or a policy
    words : of the vocabulary of what is made here, the most frequent; None: all
    """
    if isinstance(policy, str):
        if policy not in POLICIES:
            raise InvalidInput(f"policy: got {policy!r}, expected one of {', '.join(POLICIES)}")
        policy = POLICIES[policy]
    check_policy(policy)
    if isinstance(mechanism, str):
        return _by_name(mechanism, epsilon, policy, words)
    if isinstance(mechanism, Sanitizer):
        if epsilon not in (None, mechanism.epsilon):
            raise InvalidInput(
                f"epsilon: got {epsilon!r} for {mechanism.name}, which was made with "
                f"{mechanism.epsilon}; make it anew, sanitizer(..., epsilon={epsilon!r})"
            )
        return mechanism
    if isinstance(mechanism, type) and issubclass(mechanism, Mechanism):
        return _of_mechanism(mechanism(embedding(words), epsilon=_needed(epsilon)), policy)
    if isinstance(mechanism, Mechanism):
        return _of_mechanism(
            mechanism if epsilon is None else mechanism.with_epsilon(epsilon), policy
        )
    if isinstance(mechanism, type):
        raise InvalidInput(
            f"mechanism: got the class {mechanism.__name__}, expected an object; make one, "
            f"mine = {mechanism.__name__}(), and give mine"
        )
    if hasattr(mechanism, "sanitize"):
        name = getattr(mechanism, "name", type(mechanism).__name__)
        claimed = epsilon if epsilon is not None else getattr(mechanism, "epsilon", None)
        return replace(from_function(mechanism.sanitize, epsilon=claimed), name=name, label=name)
    if callable(mechanism):
        return from_function(mechanism, epsilon=epsilon)
    raise InvalidInput(
        f"mechanism: got {described(mechanism)}, expected a name ({', '.join(WORD_LEVEL)}), a "
        "Mechanism, an object with sanitize(texts), or a function"
    )


def sanitize(
    texts: object,
    mechanism: object = "custext+",
    *,
    epsilon: float | None = None,
    policy: str | TokenPolicy = PRIVATE,
    column: str = "text",
    seed: int | None = None,
) -> list[str]:
    """Sanitized texts, one for each.

    Parameters
    ----------
    texts, column : see `texts_of`
    mechanism, epsilon, policy : see `sanitizer`
    seed : None: entropy of the operating system, as privacy needs. With a seed the output can be
        made again by anyone who knows it, and hides nothing from them.
    """
    given = texts_of(texts, column=column)
    rng = None if seed is None else np.random.default_rng(seed)
    return sanitizer(mechanism, epsilon=epsilon, policy=policy).sanitize(given, rng)


def from_function(function: Callable[..., Any], *, epsilon: float | None = None) -> Sanitizer:
    """Any function of texts as a sanitizer.

    Parameters
    ----------
    function : `sanitize(texts) -> texts` or `sanitize(text) -> text`, told by the annotation of the
        first parameter (`str`: one), else by that parameter's name (a plural takes all); it gets
        `epsilon` and `rng` by name where it has parameters of these names, and a fresh `rng` where
        none is given, unless its own default is None
    epsilon : that it is said to satisfy; None: nothing is claimed
    """
    parameters = inspect.signature(function).parameters
    if not parameters:
        raise InvalidInput(f"{function}: takes no argument, expected a function of texts")
    first = next(iter(parameters.values()))
    stated = str(getattr(first.annotation, "__name__", first.annotation))
    plural = first.name[1:].endswith("s")  # `s` alone is one string
    one_by_one = stated == "str" if first.annotation is not first.empty else not plural
    takes = "epsilon" in parameters
    if epsilon is not None or (takes and parameters["epsilon"].default is first.empty):
        epsilon = _needed(epsilon)
    named = {"epsilon": epsilon} if takes and epsilon is not None else {}
    needs_rng = "rng" in parameters and parameters["rng"].default is not None

    def run(texts: list[str], rng: np.random.Generator | None) -> object:
        if rng is None and needs_rng:
            rng = np.random.default_rng()
        seeded = {**named, "rng": rng} if "rng" in parameters else named
        if one_by_one:
            return [function(text, **seeded) for text in texts]
        return function(texts, **seeded)

    called = str(getattr(function, "__name__", type(function).__name__))
    return Sanitizer(called, called, run, epsilon, seeded="rng" in parameters)


def _of_mechanism(mechanism: Mechanism, policy: TokenPolicy) -> Sanitizer:
    run = partial(mechanism.sanitize, policy=policy)
    name = mechanism.name
    return Sanitizer(name, name, run, mechanism.epsilon, mechanism, policy)


# --- Names --------------------------------------------------------------------------------------


def load(place: str) -> Any:
    """The object at "module:name" or "file.py:name"; InvalidInput where there is none."""
    module, colon, name = place.rpartition(":")
    if not colon or not name:
        raise InvalidInput(f"got {place!r}, expected module:Name or file.py:Name")
    try:
        imported = include(module) if module.endswith(".py") else importlib.import_module(module)
        return getattr(imported, name)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(f"{place}: {error}; expected module:Name or file.py:Name") from error


def include(path: str | Path) -> ModuleType:
    """Run a Python file of your own, which may register attacks."""
    file = Path(path)
    spec = importlib.util.spec_from_file_location(f"included_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise InvalidInput(f"{file}: expected a Python file that exists")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that its classes can be sent to other processes
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InvalidInput(f"{file}: does not run, {type(error).__name__}: {error}") from error
    return module


@cache
def embedding(words: int | None = None) -> Embedding:
    """The public vocabulary, or its most frequent words; fetched on first use."""
    return embeddings.most_frequent(embeddings.load(VOCABULARY), words)


def _by_name(name: str, epsilon: float | None, policy: TokenPolicy, words: int | None) -> Sanitizer:
    if name not in WORD_LEVEL:
        near = difflib.get_close_matches(name.lower(), WORD_LEVEL, 1, 0.4)
        do = f"did you mean {near[0]!r}?" if near else "see `textpriv ls mechanisms`"
        known = ", ".join(WORD_LEVEL)
        raise InvalidInput(f"mechanism: got {name!r}, expected one of {known}; {do}")
    if epsilon is None:
        usual = examples()[name].epsilon
        raise InvalidInput(
            f"epsilon: got none, expected a number > 0, for {name} for instance {usual:g} "
            f"(--epsilon {usual:g}); its unit is the mechanism's"
        )
    wanted, table = check_epsilon(epsilon), embedding(words)
    mechanism = WORD_LEVEL[name].make(table, ExactSearch(table.vectors)).with_epsilon(wanted)
    return replace(_of_mechanism(mechanism, policy), name=name, label=WORD_LEVEL[name].label)


def _needed(epsilon: float | None) -> float:
    if epsilon is None:
        raise InvalidInput("epsilon: got none, expected a number > 0; its unit is the mechanism's")
    return check_epsilon(epsilon)
