"""What a language model's summary of a sanitized text would be worth, without asking one.

    predicted, low, high = summary_worth(originals, sanitized)

Worth is the cosine of the vectors of the original and the summary. It is predicted from the cosine
of the original and the sanitized text alone, which notebook 06 compares with epsilon and with a
small model's summaries. The straight line that ships with the package was learned from the rows of
that notebook: news articles, MADLIB over WordPieces, summaries by SmolLM2-135M.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import as_file, files

import numpy as np
import pandas as pd

from textpriv.checks import FloatArray
from textpriv.models import Encoder, load_encoder
from textpriv.utility.prediction import TARGET, Predictor
from textpriv.utility.summaries import similarity

FEATURE = "text_similarity"
LEARNED = files(__package__) / "summaries.csv"  # made by `make readme` from notebook 06's rows
ENCODER = "minilm-l6"  # whose vectors notebook 06 compares
_BANDS = (0.25, 0.5, 0.75)


def summary_worth(
    originals: Sequence[str], sanitized: Sequence[str]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Expected worth of the summary of each sanitized text, and an interval: (texts,) three times.

    The interval covers with probability near 0.9 for a text like those that were learned from
    (see `Predictor.interval`, per quarter of the similarity where it is per epsilon). For other
    kinds of text, other mechanisms and larger models it is a guide without a guarantee.

    Needs the extra `models`, and fetches the encoder where it is not there yet.
    """
    alike = similarity(encoder(), originals, sanitized)
    rows = _in_bands(pd.DataFrame({FEATURE: alike}))
    low, high = predictor().interval(rows)
    return predictor().predict(rows), low, high


@cache
def encoder() -> Encoder:
    """What compares the texts; MissingPackage without the extra `models`."""
    return load_encoder(ENCODER)


@cache
def predictor() -> Predictor:
    """The line, by five folds of documents."""
    with as_file(LEARNED) as path:
        rows = pd.read_csv(path)
    return Predictor.fit(_in_bands(rows), [FEATURE], regressor="linear")


def _in_bands(rows: pd.DataFrame) -> pd.DataFrame:
    """With quarters of the similarity where a predictor looks for epsilon.

    A foreign mechanism's epsilons say nothing here, and errors differ with the similarity.
    """
    return rows.assign(epsilon=1.0 + np.digitize(rows[FEATURE], _BANDS))


def learned_from(rows: pd.DataFrame) -> str:
    """The file that ships, from the rows of notebook 06's experiment."""
    return rows[["document", FEATURE, TARGET]].round(4).to_csv(index=False, lineterminator="\n")
