"""How private is sanitized text? Mechanisms, attacks and their analysis.

Start with `textpriv.mechanisms` (what sanitizes), `textpriv.neighbors` (exact
search and the all-radii form) and `textpriv.data.tokens` (from strings to ids and back).
"""

__version__ = "0.1.0"
