"""What `textpriv` finds on first use, for type checkers."""

from textpriv.evaluation.authors import identify_authors
from textpriv.evaluation.evaluate import Evaluation, attack_names, evaluate, register_attack
from textpriv.evaluation.reading import Reader
from textpriv.evaluation.risks import attack_for
from textpriv.evaluation.sanitizers import (
    from_function,
    register_mechanism,
    sanitize,
    sanitizer,
)
from textpriv.evaluation.trial import check_attack, check_mechanism

__version__: str
__all__ = [
    "Evaluation",
    "Reader",
    "attack_for",
    "attack_names",
    "check_attack",
    "check_mechanism",
    "evaluate",
    "from_function",
    "identify_authors",
    "register_attack",
    "register_mechanism",
    "sanitize",
    "sanitizer",
]
