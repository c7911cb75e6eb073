"""Pretrained encoders: verified weights, a masked-LM head, fine-tuning, rows of WordPieces.

    encoder = load_encoder("minilm-l6")                      # verified safetensors, no code run
    filler = masked_language_model(encoder, public_texts)    # trained once and kept
    filler.accuracy                                          # held out, at masked whole words
    pieces = Pieces(filler.tokenizer, words, corpus)         # WordPieces of our tokens
    states = filler.states(pieces.rows([FIRST, ..., LAST]))  # (rows, length, width)

The attacks that use a language model take an encoder, the part that BERT plays in the papers.
BERT is a masked LM already. all-MiniLM-L6-v2 is not: it was tuned to embed sentences, so here it
is trained again to fill in masked words of public text. Any attack also takes it as it came.
"""

from textpriv.checks import BoolArray
from textpriv.models.encoders import (
    FAMILIES,
    NAMES,
    Encoder,
    autocast,
    from_folder,
    load_encoder,
    network_dtype,
    quiet,
)
from textpriv.models.filling import MaskedSizes, masked_language_model
from textpriv.models.rows import (
    FastTokenizer,
    Pieces,
    Rows,
    by_length,
    pieces_of,
)
from textpriv.models.training import (
    LearningCurve,
    Training,
    endless,
    fine_tune,
    held_out_documents,
)
