"""Print what `assets.lock` has to hold: `python -m textpriv.assets`."""

from textpriv.assets.catalogue import lock_text

print(lock_text(), end="")
