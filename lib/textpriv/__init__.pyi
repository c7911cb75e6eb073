"""What `textpriv` finds on first use, for type checkers."""

from textpriv.evaluation.evaluate import Evaluation, evaluate, register_attack
from textpriv.evaluation.reading import Reader
from textpriv.evaluation.sanitizers import sanitize, sanitizer
from textpriv.evaluation.trial import check_attack, check_mechanism

__version__: str
__all__ = [
    "Evaluation",
    "Reader",
    "check_attack",
    "check_mechanism",
    "evaluate",
    "register_attack",
    "sanitize",
    "sanitizer",
]
