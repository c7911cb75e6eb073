"""What a language model's summary of a sanitized text would be worth, without asking one.

    predicted, low, high = summary_worth(originals, sanitized)

Worth is the cosine of the vectors of the original and the summary. It is predicted from the cosine
of the original and the sanitized text alone, which notebook 06 compares with epsilon and with a
small model's summaries. The straight line that ships with the package was learned from the rows of
that notebook: news articles, MADLIB over WordPieces, summaries by SmolLM2-135M.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import numpy as np
import pandas as pd

from textpriv.checks import FloatArray
from textpriv.models import Encoder, load_encoder
from textpriv.utility.prediction import BOUNDS, Predictor
from textpriv.utility.summaries import similarity

FEATURE = "text_similarity"
LEARNED = files(__package__) / "summaries.toml"  # made by `make readme` from notebook 06's rows
ENCODER = "minilm-l6"  # whose vectors notebook 06 compares
BANDS = (0.25, 0.5, 0.75)  # of the similarity, between which intervals are of one width
_MIDDLES = np.array([0.125, 0.375, 0.625, 0.875])


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
    learned = tomllib.loads(LEARNED.read_text("utf-8"))
    predicted = learned["intercept"] + learned["slope"] * alike
    reach = np.array(learned["reach"])[np.digitize(alike, BANDS)]
    return predicted, np.clip(predicted - reach, *BOUNDS), np.clip(predicted + reach, *BOUNDS)


@cache
def encoder() -> Encoder:
    """What compares the texts; MissingPackage without the extra `models`."""
    return load_encoder(ENCODER)


def in_bands(rows: pd.DataFrame) -> pd.DataFrame:
    """With quarters of the similarity where a predictor looks for epsilon.

    A foreign mechanism's epsilons say nothing here, and errors differ with the similarity.
    """
    return rows.assign(epsilon=1.0 + np.digitize(rows[FEATURE], BANDS))


def learned_from(rows: pd.DataFrame) -> str:
    """The file that ships, from the rows of notebook 06's experiment.

    The line is the mean of those of five folds of documents. The five differ so little that within
    a band the intervals of `Predictor` are of one width, up to a thousandth.
    """
    fitted = Predictor.fit(in_bands(rows), [FEATURE], regressor="linear")
    intercept, end = fitted.predict(in_bands(pd.DataFrame({FEATURE: [0.0, 1.0]})))
    low, high = fitted.interval(in_bands(pd.DataFrame({FEATURE: _MIDDLES})))
    reach = ", ".join(f"{each:.4f}" for each in (high - low) / 2)
    return f"intercept = {intercept:.4f}\nslope = {end - intercept:.4f}\nreach = [{reach}]\n"
