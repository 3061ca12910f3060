"""What TransformerLens's models offer and a classifier does not, each with the reason.

Asking for one of these names raises an error that is both an `UnsupportedError` and an
`AttributeError`, so that `hasattr` says no and a person reads why.
"""

from __future__ import annotations

from tsc_interp.errors import UnsupportedError


class RefusedError(UnsupportedError, AttributeError):
    """A name of TransformerLens's that this model refuses."""


_REASONS = {
    "a classifier gives one logit for a whole string; there is no next token": (
        "generate", "generate_stream", "hf_generate", "diffusion_generate", "predict_next_sentence",
        "to_sentence_pair_tokens",
    ),
    "weights are kept as they are, to the last bit: hashes and certificates are about them": (
        "center_unembed", "center_writing_weights", "fill_missing_keys", "fold_layer_norm",
        "fold_value_biases", "load_and_process_state_dict", "process_weights", "process_weights_",
        "refactor_factored_attn_matrices", "enable_compatibility_mode",
    ),
    "weights are drawn when a model is made: HookedClassifier(config, seed=...)": ("init_weights",),
    "the alphabet is the tokenizer: letters and run lengths, `model.tokens(strings)`": (
        "set_tokenizer", "get_pos_offset",
    ),
    "run the model with stop_at_layer=0 for embeddings": ("get_residual",),
    "there is no text corpus; tsc_interp.data draws balanced strings": (
        "load_sample_training_dataset", "sample_datapoint",
    ),
    "the model runs on the CPU": ("mps", "move_model_modules_to_device"),
    "keys and values that heads share have one hook; `Checkpoint.expanded` copies them": (
        "set_ungroup_grouped_query_attention",
    ),
    "every layer has the same parts, so `model.blocks` and `model.config` say it all": (
        "blocks_with", "block_hooks", "block_submodules", "layer_types", "stack_params_for",
        "composition_layer_indices", "QK_for_attn_layers", "OV_for_attn_layers",
    ),
    "this model wraps no other: `tsc.load` opens one, `to_transformer_lens` exports it": (
        "boot_native", "boot_tl_legacy", "boot_transformers", "check_model_support",
        "list_supported_models", "original_model", "adapter", "clear_hook_registry", "close",
        "hook_aliases", "get_params",
    ),
    "its input is a string of letters": ("encoder_output", "prepare_multimodal_inputs"),
}  # fmt: skip

OPTIONS = {
    "padding_side": "PAD stands at the end of a row",
    "attention_mask": "what is attended to follows from the tokens; edit hook_attn_scores instead",
    "shortformer_pos_embed": "positions follow from the tokens; edit hook_pos_embed instead",
    "past_kv_cache": "a classifier reads whole strings, so there are no past keys to keep",
    "past_key_values": "a classifier reads whole strings, so there are no past keys to keep",
    "labels": "a label follows from the string and the task",
    "pixel_values": "its input is a string of letters",
    "input_values": "its input is a string of letters",
}

REFUSED = {name: reason for reason, names in _REASONS.items() for name in names}


def option_refusal(name: str) -> UnsupportedError:
    """The error for an option of `forward` that is not taken."""
    reason = OPTIONS.get(name, "there is no such option")
    return UnsupportedError(f"{name} is not taken here: {reason}")


def refusal(name: str) -> RefusedError | None:
    """The error for a refused name; None for any other."""
    reason = REFUSED.get(name)
    return None if reason is None else RefusedError(f"{name} is not offered here: {reason}")
