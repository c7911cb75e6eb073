"""Speed against peers' methods, as ratios measured in one run: `python -m benchmarks`."""

import warnings

from textpriv.errors import SeededOutput

warnings.simplefilter("ignore", SeededOutput)  # what is timed is not released
