"""One table of configurations for all tests: every option, alone and together."""

from __future__ import annotations

from hypothesis import strategies as st

from tsc_interp.config import ClassifierConfig

CONFIGS = [
    ClassifierConfig(),
    ClassifierConfig(attend_cls=True),
    ClassifierConfig(n_letters=5, d_model=7, n_heads=3, d_head=2, d_mlp=11),
    ClassifierConfig(d_model=5, norm="rms"),
    ClassifierConfig(d_model=5, norm="layer", attend_cls=True, norm_eps=1e-3),
    ClassifierConfig(d_mlp=0),
    ClassifierConfig(n_heads=0),
    ClassifierConfig(n_layers=3, d_model=5, n_heads=2, d_head=3, norm="rms"),
    ClassifierConfig(n_letters=2, n_layers=2, d_model=3, d_mlp=0, attend_cls=True),
    ClassifierConfig(score_scale="sqrt_d_head_log_n"),
    ClassifierConfig(score_scale="sqrt_d_head_log_n", attend_cls=True, n_layers=2, d_model=4),
    ClassifierConfig(
        d_model=6, embedding_init="linear_like", attention_init="output_fan_out",
        mlp_init="output_fan_out",
    ),
]  # fmt: skip

FAMILY = [
    ClassifierConfig(biases=True),
    ClassifierConfig(act_fn="relu", d_mlp=3),
    ClassifierConfig(act_fn="silu", attend_cls=True, d_mlp=3),
    ClassifierConfig(act_fn="gelu_new", biases=True, d_head=2, d_mlp=4),
    ClassifierConfig(d_model=5, norm="layer_pre", d_mlp=0),
    ClassifierConfig(d_model=4, norm="rms_pre", biases=True, d_mlp=2, final_norm=True),
    ClassifierConfig(d_model=4, norm="layer", final_norm=True, biases=True, attend_cls=True),
    ClassifierConfig(d_model=4, norm="rms", final_norm=True, d_mlp=0),
    ClassifierConfig(n_layers=2, d_model=3, biases=True, act_fn="relu", d_mlp=3),
    ClassifierConfig(
        n_layers=2, d_model=3, biases=True, norm="layer", final_norm=True, act_fn="silu"
    ),
    ClassifierConfig(n_heads=0, biases=True),
    ClassifierConfig(reads="last", attend_cls=True, biases=True),
    ClassifierConfig(reads="last", attend_cls=True, n_layers=2, d_model=4, biases=True),
    ClassifierConfig(reads="last_letter", attend_cls=True, n_letters=4, n_outputs=4, d_mlp=0),
    ClassifierConfig(n_positions=13, positions="sinusoidal", d_model=5, biases=True),
    ClassifierConfig(reads="last", attend_cls=True, n_positions=13, d_model=4, n_outputs=3),
    ClassifierConfig(score_scale="sqrt_d_head_log_n", biases=True, act_fn="relu"),
    ClassifierConfig(score_scale="sqrt_d_head_log_n_cls", attend_cls=True, d_model=3),
    ClassifierConfig(score_scale="sqrt_d_head_log_n_cls", n_layers=2, norm="rms", d_model=3),
]
"""What models of TransformerLens have besides; each option alone, and together."""

ATTENTION = [
    ClassifierConfig(score_scale="sqrt_d_head_ssmax", n_heads=3, d_model=4),
    ClassifierConfig(score_scale="sqrt_d_head_ssmax", n_layers=2, d_head=2, attend_cls=True),
    ClassifierConfig(adaptive_temperature=True, n_heads=3, d_model=4),
    ClassifierConfig(
        adaptive_temperature=True, attend_cls=True, score_scale="sqrt_d_head_log_n", d_head=2
    ),
    ClassifierConfig(attention_norm="rms", d_model=4),
    ClassifierConfig(attention_norm="layer", norm="rms", n_layers=2, d_model=5, d_mlp=3),
]
"""Variants of attention that are trained and run, but not verified."""

PUBLIC = [
    ClassifierConfig(n_positions=13, positions="rotary", d_head=4, d_model=5),
    ClassifierConfig(
        n_positions=13, positions="rotary", d_head=6, rotary_dim=4, rotary_base=50.0, d_model=5,
        rotary_adjacent_pairs=True, reads="last", attend_cls=True, n_layers=2, biases=True,
    ),
    ClassifierConfig(
        n_positions=13, positions="alibi", n_heads=3, reads="last_letter", attend_cls=True,
        n_outputs=3, d_head=2,
    ),
    ClassifierConfig(n_positions=13, positions="shortformer", norm="layer", d_model=5, n_layers=2),
    ClassifierConfig(n_heads=4, n_key_value_heads=2, d_head=3, biases=True, d_model=5),
    ClassifierConfig(n_heads=3, n_key_value_heads=1, d_head=2, n_layers=2, d_model=4),
    ClassifierConfig(gated_mlp=True, act_fn="silu", d_mlp=5, d_model=4, biases=True, n_layers=2),
    ClassifierConfig(gated_mlp=True, act_fn="gelu", d_mlp=3, d_model=4, norm="rms"),
    ClassifierConfig(qk_norm="rms", d_head=3, norm_eps=1e-8, biases=True),
    ClassifierConfig(qk_norm="rms_pre", d_head=3, n_layers=2, d_model=4),
    ClassifierConfig(attention_scale=0.3, d_head=3, biases=True),
    ClassifierConfig(tied_embeddings=True, n_outputs=3, d_model=4, biases=True),
    ClassifierConfig(
        n_letters=4, n_outputs=4, tied_embeddings=True, n_heads=4, n_key_value_heads=2, d_head=4,
        n_positions=13, positions="rotary", norm="rms", final_norm=True, qk_norm="rms", d_model=7,
        gated_mlp=True, act_fn="silu", d_mlp=5, attention_scale=2.5, norm_eps=1e-6,
        reads="last_letter", attend_cls=True,
    ),
]  # fmt: skip
"""What public models have besides; each option alone, and most of them together."""

POSITIONED = ClassifierConfig(n_letters=4, d_model=5, n_positions=13)


def configs() -> st.SearchStrategy[ClassifierConfig]:
    """Any combination of options, at sizes a test can afford."""
    return st.builds(
        ClassifierConfig,
        biases=st.booleans(),
        act_fn=st.sampled_from(["gelu", "gelu_new", "relu", "silu"]),
        n_letters=st.integers(2, 5),
        n_layers=st.integers(1, 3),
        d_model=st.integers(1, 7),
        n_heads=st.integers(0, 4),
        d_head=st.integers(1, 3),
        d_mlp=st.integers(0, 6),
        norm=st.sampled_from(["off", "rms", "layer"]),
        attend_cls=st.booleans(),
        score_scale=st.sampled_from(["sqrt_d_head", "sqrt_d_head_log_n"]),
        embedding_init=st.sampled_from(["default", "linear_like"]),
        attention_init=st.sampled_from(["default", "output_fan_out"]),
        mlp_init=st.sampled_from(["default", "output_fan_out"]),
    )
