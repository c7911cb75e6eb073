"""Claims put to the test: what a text costs, what really is lost, and attempts to break it.

    account_texts(mechanism, corpus)       documents: the sum, and less than the sum
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

from textpriv.privacy.accounting import (
    account,
    composed_epsilon,
    optimal_delta,
    optimal_epsilon,
    renyi_divergence,
)
from textpriv.privacy.certified import certified_losses
from textpriv.privacy.claims import claimed_loss, diameter, published_loss, token_range
from textpriv.privacy.exact import (
    audit_candidates,
    audit_exactly,
    audit_map,
    audit_next_token,
    audit_prompt,
    audit_stencil,
    audit_texts,
    tight_loss,
)
from textpriv.privacy.fit import with_fit
from textpriv.privacy.noise import released_noise
from textpriv.privacy.released import audit_noise, released_laplace, released_words
from textpriv.privacy.results import Audit, audit_numbers, audit_table, read_audits, write_audits
from textpriv.privacy.sampled import (
    Drawn,
    PlainSearch,
    at_most,
    audit_laplace,
    audit_noise_length,
    audit_words,
    draw_words,
    spread_words,
)
from textpriv.privacy.statement import Attacked, Statement, document_statement
from textpriv.privacy.texts import account_texts, token_counts

__all__ = [
    "Attacked",
    "Audit",
    "Drawn",
    "PlainSearch",
    "Statement",
    "account",
    "account_texts",
    "at_most",
    "audit_candidates",
    "audit_exactly",
    "audit_laplace",
    "audit_map",
    "audit_next_token",
    "audit_noise",
    "audit_noise_length",
    "audit_numbers",
    "audit_prompt",
    "audit_stencil",
    "audit_texts",
    "audit_table",
    "audit_words",
    "certified_losses",
    "claimed_loss",
    "composed_epsilon",
    "diameter",
    "document_statement",
    "draw_words",
    "optimal_delta",
    "optimal_epsilon",
    "published_loss",
    "read_audits",
    "released_laplace",
    "released_noise",
    "released_words",
    "renyi_divergence",
    "spread_words",
    "tight_loss",
    "token_counts",
    "token_range",
    "with_fit",
    "write_audits",
]
