"""Which settings of transformers' `generate` keep the guarantee of DP-Prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from textpriv.errors import InvalidInput
from textpriv.later import later

if TYPE_CHECKING:
    import transformers
else:
    transformers = later("transformers", extra="models")

Settings: TypeAlias = "Mapping[str, Any] | transformers.GenerationConfig"

SUPPORT = "it decides by the private logits which tokens can occur, so that no epsilon is finite"
_PENALTY = "it changes the logits after they were clipped, and may look at the private prompt"
_SEARCH = "it searches for likely texts instead of drawing each token once"
_SUBSET = "the loss is computed for the whole vocabulary, drawn from as it is"
_LENGTH = "it ties the length to the private text"
# By name: the values that change nothing (beside None, which means the same) and why others do.
_REFUSED: dict[str, tuple[tuple[object, ...], str]] = {
    "top_p": ((1.0,), SUPPORT),
    "typical_p": ((1.0,), SUPPORT),
    "min_p": ((0.0,), SUPPORT),
    "top_h": ((), SUPPORT),
    "epsilon_cutoff": ((0.0,), SUPPORT),
    "eta_cutoff": ((0.0,), SUPPORT),
    "no_repeat_ngram_size": ((0,), SUPPORT),
    "encoder_no_repeat_ngram_size": ((0,), SUPPORT),
    "repetition_penalty": ((1.0,), _PENALTY),
    "encoder_repetition_penalty": ((1.0,), _PENALTY),
    "guidance_scale": ((1.0,), _PENALTY),
    "sequence_bias": ((), _PENALTY),
    "exponential_decay_length_penalty": ((), _PENALTY),
    "num_beams": ((1,), _SEARCH),
    "num_beam_groups": ((1,), _SEARCH),
    "diversity_penalty": ((0.0,), _SEARCH),
    "penalty_alpha": ((0.0,), _SEARCH),
    "num_return_sequences": ((1,), "every output costs epsilon again"),
    "bad_words_ids": (([], ()), _SUBSET),
    "suppress_tokens": (([], ()), _SUBSET),
    "begin_suppress_tokens": (([], ()), _SUBSET),
    "min_length": ((0,), _LENGTH),
    "min_new_tokens": ((0,), _SUBSET),
    "max_time": ((), "what time is left depends on the private text"),
}
# Without any effect on what is drawn here.
_HARMLESS = {
    "max_new_tokens", "temperature", "early_stopping", "length_penalty", "use_cache",
    "cache_implementation", "cache_config", "renormalize_logits", "remove_invalid_values",
    "output_attentions", "output_hidden_states", "output_scores", "output_logits",
    "return_dict_in_generate", "pad_token_id", "bos_token_id", "eos_token_id",
    "decoder_start_token_id", "transformers_version", "_from_model_config",
}  # fmt: skip


def refuse_unsafe(settings: Settings, *, ablation: bool = False) -> None:
    """InvalidInput for settings of transformers' `generate` that void the guarantee.

    What is not known to be harmless is refused, and so is what is left at a default that is
    not: `generate` takes top_k = 50 and no sampling at all where nothing else is said.

    Parameters
    ----------
    settings : as for `generate`; `max_new_tokens` must be there
    ablation : let `top_k` pass; the guarantee is then withdrawn, see `DPPrompt`
    """
    given = as_dict(settings)
    if given.get("do_sample") is not True:
        raise InvalidInput(
            f"do_sample: got {given.get('do_sample')!r}, expected True: {_SEARCH} (the default)"
        )
    top_k = given.get("top_k")
    if top_k != 0 and not (ablation and top_k is not None):
        default = ", for which transformers takes 50" if top_k is None else ""
        raise InvalidInput(f"top_k: got {top_k!r}{default}, expected 0: {SUPPORT}")
    if given.get("max_new_tokens") is None:
        raise InvalidInput(
            f"max_new_tokens: got none, expected an integer >= 1; max_length counts the prompt, "
            f"so {_LENGTH}"
        )
    for name, value in given.items():
        harmless, why = _REFUSED.get(name, ((), "it is not known to keep the guarantee"))
        known = name in _HARMLESS or name in ("do_sample", "top_k", "max_length")
        if value is not None and not known and value not in harmless:
            expected = f"expected {harmless[0]!r}" if harmless else "leave it out"
            raise InvalidInput(f"{name}: got {value!r}, {expected}: {why}")


def as_dict(settings: Settings) -> dict[str, Any]:
    """Settings by name."""
    if isinstance(settings, transformers.GenerationConfig):
        return dict(settings.to_dict())
    if not isinstance(settings, Mapping):
        raise InvalidInput(
            f"settings: got {type(settings).__name__}, expected a mapping or a GenerationConfig"
        )
    return dict(settings)
