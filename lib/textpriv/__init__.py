"""How private is sanitized text? Mechanisms, attacks and their analysis.

    import textpriv

    textpriv.sanitize(texts, mechanism="custext+", epsilon=2)
    print(textpriv.evaluate(texts, mechanism="custext+", epsilon=2))   # attack it, and say it
    print(textpriv.check_mechanism(MyMechanism, epsilon=2))            # put a claim to the test

The parts stand in `textpriv.mechanisms` (what sanitizes), `textpriv.attacks` (what is read back),
`textpriv.privacy` (claims and audits) and `textpriv.neighbors` (exact search, the all-radii form).
"""

from __future__ import annotations

import importlib
import os
from typing import Any

__version__ = "0.1.0"

# Threads that wait for each other sleep and do not spin: beside another process that
# takes the cores all is then several times faster, and alone as fast. Read when PyTorch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# oneDNN keeps what it has compiled for each shape of a product, 1,024 shapes unless it is told
# otherwise. Texts come in many lengths: one short training keeps hundreds of MB for nothing.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")

# Found on first use, so that `import textpriv` and `textpriv --help` wait for nothing.
# Type checkers read __init__.pyi.
_MODULES = {
    "evaluate": ("Evaluation", "evaluate", "register_attack"),
    "reading": ("Reader",),
    "sanitizers": ("sanitize", "sanitizer"),
    "trial": ("check_attack", "check_mechanism"),
}
__all__ = sorted(name for names in _MODULES.values() for name in names)


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"textpriv.evaluation.{module}"), name)
    raise AttributeError(f"module 'textpriv' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
