"""What the notebooks call: one module per notebook, sizes from the profile.

Whoever imports this package experiments: its mechanisms are seeded so that results can be repeated,
and nobody is warned (`SeededOutput`). Release text from a process that does not import it.
"""

import warnings

from textpriv.errors import SeededOutput

# Workers import this package too, with the functions that they are sent.
warnings.simplefilter("ignore", SeededOutput)
