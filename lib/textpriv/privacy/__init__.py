"""Claims put to the test: what a text costs, what really is lost, and attempts to break it.

    account_texts(mechanism, corpus)       the sum, and less than the sum
    document_statement(mechanism, text)    what that means, and what stands in clear, in sentences
    tight_loss(SanText(embedding, ...))    the epsilon that really holds
    audit_exactly(mechanism)               every pair of words, every output
    audit_words(mechanism, draw_words(...))  noise: draws against the claim
    audit_table([...])                     did we break it?

`make audit` runs the long audits, with progress; interrupted, it goes on.

What no claim here covers: the length of a text (its tokens are counted, not hidden), repeated
queries (each costs again), deterministic maps and stencils (no claim at all), an observer of the
network, and what a pretrained model remembers of its training text.
"""

from textpriv.privacy.certified import certified_losses
from textpriv.privacy.claims import claimed_loss, published_loss
from textpriv.privacy.exact import audit_exactly, audit_map, audit_texts, tight_loss
from textpriv.privacy.released import audit_noise
from textpriv.privacy.results import Audit, audit_numbers, audit_table, read_audits, write_audits
from textpriv.privacy.sampled import audit_laplace, audit_noise_length, audit_words, draw_words
from textpriv.privacy.statement import Attacked, Statement, document_statement
from textpriv.privacy.texts import account_texts, token_counts
