"""Person names: which words of a text are a person's first or last name.

    names = person_names(reviews.texts)      # reviews: cased text, to see how words are written
    {"john", "hepburn"} <= names, {"will", "grace", "paris"} & names        # True, set()

Lists of names hold ordinary words (Will, Young, Grace) and places (Paris, Georgia). Cased
text tells them apart: inside a sentence a name has a capital, and unlike a place, a nation or
a prize it seldom follows "in", "from" or "the". The lists are Faker's, read as data: nothing
is generated. They are far from complete: rarer names (Scorsese, Kubrick) are missing.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from faker.providers import person

from textpriv.errors import InvalidInput

# A listed name is one that the texts use at least so often, with a capital in at least this share
# of its uses, at most this share of which follow one of BEFORE_PLACES.
FEWEST, CAPITAL, PLACED = 3, 0.9, 0.3
BEFORE_PLACES = frozenset({"a", "an", "the", "in", "from", "to", "new"})

# A word and the next one inside the same sentence: only a comma or semicolon stands between.
# The possessive 's is not part of a word, the apostrophe of O'Brien is.
_LETTERS = r"[^\W\d_]+"
_PAIR = re.compile(rf"({_LETTERS})[,;]? (?=({_LETTERS}(?:['’](?!s\b){_LETTERS})*))")


class Usage(NamedTuple):
    """How a word is written inside sentences.

    capital is the share of its `times` occurrences with a capital, placed the share of those
    with a capital that follow one of BEFORE_PLACES (0 when there are none).
    """

    times: int
    capital: float
    placed: float


def person_names(texts: Iterable[str]) -> frozenset[str]:
    """Listed names that the texts use as names, in lower case.

    What the rule gets wrong: names that are frequent words as well (Bill, Frank, Rose) or part of a
    title (the Blair Witch) are dropped; names of months, saints and characters stay.

    Parameters
    ----------
    texts : cased (InvalidInput where not), such as the IMDb reviews; thousands, or few are seen
    """
    uses = usage(texts, listed_names())
    if not any(seen.capital for seen in uses.values()):
        raise InvalidInput(
            "texts: expected names with capitals inside sentences, got none; give cased text"
        )
    return frozenset(
        name
        for name, seen in uses.items()
        if seen.times >= FEWEST and seen.capital >= CAPITAL and seen.placed <= PLACED
    )


def usage(texts: Iterable[str], words: Collection[str]) -> dict[str, Usage]:
    """How cased texts write each word (in lower case); words that they do not use are left out.

    Counted is what follows another word with at most a comma between, since sentences and
    quotations begin with a capital anyway. Words in capitals throughout say nothing.
    """
    pairs: Counter[tuple[str, str]] = Counter()
    for text in texts:
        pairs.update(_PAIR.findall(text))
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for (previous, word), times in pairs.items():
        name = word.lower().replace("’", "'")
        if name not in words or (word.isupper() and len(word) > 1):
            continue
        has_capital = word[0].isupper()
        for position, counted in enumerate(
            (True, has_capital, has_capital and previous.lower() in BEFORE_PLACES)
        ):
            counts[name][position] += counted * times
    return {
        name: Usage(count, capital / count, placed / max(capital, 1))
        for name, (count, capital, placed) in counts.items()
    }


@lru_cache
def listed_names() -> frozenset[str]:
    """First and last names in Faker's lists of all English locales, in lower case.

    Ordinary words and places among them included; names of several words left out.
    """
    return frozenset(name.lower() for name in _entries() if name and not re.search(r"[\s.-]", name))


def _entries() -> Iterator[str]:
    for module in pkgutil.iter_modules(person.__path__):
        if module.name.split("_")[0] == "en":
            provider = importlib.import_module(f"{person.__name__}.{module.name}").Provider
            for attribute in dir(provider):
                if re.match(r"(first|last)_names?(_|$)", attribute):
                    values = getattr(provider, attribute)
                    if not callable(values):  # methods of the same name draw at random
                        yield from values
