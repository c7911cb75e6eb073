"""What a text looks like, whatever its words are: white space, and the shape of what is written.

visible("two  spaces")         # 'two ␣spaces': scikit-learn takes any run of them for one
shape("Dr. Lee, 47")           # 'Xx. Xxx, 99'
"""

from __future__ import annotations


def visible(text: str) -> str:
    """White space that is style, as marks."""
    return text.replace("\n", "\u2424").replace("\t", "\u2409").replace("  ", " \u2423")


def shape(text: str) -> str:
    """Letters as x or X, digits as 9, all else as it is: case, lengths and punctuation stay."""
    return "".join(map(_kind, visible(text)))


def _kind(character: str) -> str:
    if character.isalpha():
        return "X" if character.isupper() else "x"
    return "9" if character.isdigit() else character
