"""Which options of attention go together."""

from __future__ import annotations

from tsc_interp.config.options import ClassifierOptions


def check_attention(config: ClassifierOptions) -> None:
    """Raise a ValueError where options of attention contradict each other or the sizes."""
    rotary = {name for name in config.added if name.startswith("rotary")}
    fields = type(config).model_fields
    moved = sorted(n for n in rotary if getattr(config, n) != fields[n].default)
    if moved and config.positions != "rotary":
        raise ValueError(f"{', '.join(moved)} needs positions = 'rotary'")
    if config.positions == "rotary" and (
        config.turned % 2 or not 0 < config.turned <= config.d_head
    ):
        raise ValueError(
            f"rotary positions turn pairs of a head's components: an even number up to d_head "
            f"= {config.d_head}, not {config.turned} (rotary_dim)"
        )
    if config.positions == "alibi" and not config.causal:
        raise ValueError(
            "ALiBi counts tokens back from the query, and CLS in front has none before it: "
            "reads must be 'last' or 'last_letter'"
        )
    if 0 < config.attention_scale < 1e-6:
        raise ValueError(f"attention_scale = {config.attention_scale:g} is below 1e-6")
    if config.n_key_value_heads and config.n_heads % config.n_key_value_heads:
        raise ValueError(
            f"n_key_value_heads = {config.n_key_value_heads} does not divide n_heads = "
            f"{config.n_heads}: every group has the same number of heads"
        )
    needs = {"positions": config.positions in ("rotary", "alibi", "shortformer")}
    needs |= {"n_key_value_heads": bool(config.n_key_value_heads)}
    needs |= {"qk_norm": config.qk_norm != "off", "attention_scale": config.attention_scale > 0}
    for name, used in needs.items():
        if used and not config.has_attention:
            raise ValueError(f"{name} = {getattr(config, name)!r} needs attention (n_heads)")
