"""README.md says what the results say."""

from __future__ import annotations

import re

import pytest

from textpriv.report import readme


def test_generated_parts_are_up_to_date() -> None:
    text = readme.FILE.read_text(encoding="utf-8")
    assert readme.rendered(text) == text, "run `make readme`"


def test_every_block_is_used_and_a_stale_one_is_noticed() -> None:
    text = readme.FILE.read_text(encoding="utf-8")
    assert set(re.findall(r"<!-- generated: (\w+) -->", text)) == set(readme.BLOCKS)
    stale = text.replace("| madlib |", "| madlib, changed by hand |")
    assert stale != text and readme.rendered(stale) == text


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#:]+)\)", readme.FILE.read_text("utf-8")))
def test_links_within_the_repository_lead_somewhere(path: str) -> None:
    assert (readme.FILE.parent / path).exists()
