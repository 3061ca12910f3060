"""The classifier as TransformerLens users know a model: hooks, caches, HookedTransformer's methods.

A `HookedRootModule` whose hook names, weight names and shapes are HookedTransformer's. It holds no
arithmetic: it runs `model.forward` with every activation passed through its hook point, so an edit
at any hook takes effect downstream and nowhere else. What TransformerLens offers and a classifier
cannot do is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformer_lens.hook_points import HookPoint

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.locate import DEFAULT
from tsc_interp.checkpoints.resolve import ModelLike, as_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError, shorten, suggest
from tsc_interp.model.cache import ClassifierCache
from tsc_interp.model.circuits import Circuits
from tsc_interp.model.classifier import Input
from tsc_interp.model.export import export, transformer_lens_config
from tsc_interp.model.forward import blocks, embed, hook_names, read_out
from tsc_interp.model.framing import FrameLike, with_frame
from tsc_interp.model.inputs import TOKENS_NEEDED, Inputs, from_tokens, true_classes
from tsc_interp.model.interop import HAS_BRIDGE_ONLY
from tsc_interp.model.layers import ALL_EXTRAS, Extras, Pass
from tsc_interp.model.parts import FinalNorm, place

try:  # 4.x names the class at the top level, 3.x keeps it beside the hook points
    from transformer_lens import HookedRootModule
except ImportError:
    from transformer_lens.hook_points import HookedRootModule

ReturnType = Literal["logits", "loss", "both"] | None


class Output(NamedTuple):
    """What `return_type="both"` gives."""

    logits: Tensor
    loss: Tensor


class RefusedError(UnsupportedError, AttributeError):
    """A name of TransformerLens's that this model refuses; `hasattr` says no."""


class HookedClassifier(Circuits, HookedRootModule):  # type: ignore[misc]
    """A classifier with TransformerLens's hooks: `run_with_cache`, `run_with_hooks` and `hooks`.

    They accept the same inputs as `Classifier`, and the options of `forward`.

    Args:
        config: The shape of the model and its task.
        weights: Weights by HookedTransformer's names. By default they are drawn at random.
        seed: The seed of the initial weights.
        name: The model's name in messages and reports.

    Example:
        >>> model = HookedClassifier(ClassifierConfig(d_model=4), seed=1)
        >>> logits, cache = model.run_with_cache(["aab", "ab{100}"])
        >>> logits.shape, cache["pattern", 0].shape
        (torch.Size([2]), torch.Size([2, 2, 4, 4]))
    """

    def __init__(
        self,
        config: ClassifierConfig,
        weights: Mapping[str, Tensor | np.ndarray] | None = None,
        *,
        seed: int = 0,
        name: str = "tsc-classifier",
    ) -> None:
        super().__init__(config, weights, seed=seed, name=name)
        self.cfg = transformer_lens_config(config)
        self.cfg.model_name = name
        # Caches ask the model for a tokenizer before they decode; strings are read by `inputs`.
        self.tokenizer = None
        for path in hook_names(config, ALL_EXTRAS):
            parent, leaf = place(self, config, path)
            parent.add_module(leaf, HookPoint())
        if config.has_norm and not config.final_norm:
            # TransformerLens looks for a final norm where there are others.
            self.ln_final = FinalNorm(config)
        self.setup()
        self.eval()

    # -- running -----------------------------------------------------------------------------

    def forward(
        self,
        input: Input,
        return_type: ReturnType = "logits",
        loss_per_token: bool = False,
        prepend_bos: bool | None = None,
        padding_side: Literal["left", "right"] | None = None,
        start_at_layer: int | None = None,
        tokens: Tensor | None = None,
        *,
        stop_at_layer: int | None = None,
        **others: Any,
    ) -> Any:
        """Return logits `[batch]`, after the ensemble axes if there are any.

        The options are HookedTransformer's. `return_type="loss"` returns the cross-entropy of the
        task's labels, `"both"` logits and loss, None nothing. `stop_at_layer` returns the residual
        stream before that layer; `start_at_layer` starts from one, and also needs its `tokens`.
        `prepend_bos` is ignored: every string is read with one CLS in front.
        """
        _check_options(return_type, padding_side=padding_side, **others)
        if start_at_layer is None:
            inputs = self.inputs(input)
        elif tokens is None:
            raise UsageError(TOKENS_NEEDED)
        else:
            inputs = from_tokens(self.config, tokens)
        self._check_dropout(inputs)
        run = Pass(
            self.config,
            dict(self.named_parameters()),
            self._tap,
            inputs=inputs,
            training=self.training,
            extras=self._extras(),
        )
        residual = embed(run) if start_at_layer is None else torch.as_tensor(input)
        layers = range(self.config.n_layers)[start_at_layer:stop_at_layer]
        residual = blocks(run, residual, layers)
        if stop_at_layer is not None:
            return residual
        if return_type is None:
            return None
        logits = read_out(run, residual)
        if return_type == "logits":
            return logits
        loss = self._loss(logits, inputs, loss_per_token)
        return loss if return_type == "loss" else Output(logits, loss)

    def loss_fn(
        self,
        logits: Tensor,
        tokens: Input,
        attention_mask: Tensor | None = None,
        per_token: bool = False,
    ) -> Tensor:
        """Return the cross-entropy of the task's classes, its mean or that of each string.

        It is binary for one output, and that of the softmax for several.
        """
        _check_options("loss", attention_mask=attention_mask)
        return self._loss(logits, self.inputs(tokens), per_token)

    def run_with_hooks(
        self, *args: Any, fwd_hooks: Any = (), bwd_hooks: Any = (), **kw: Any
    ) -> Any:
        """Run the model with hooks, as TransformerLens does; each needs a name and a function."""
        for pair in (*fwd_hooks, *bwd_hooks):
            if not isinstance(pair, tuple | list) or len(pair) != 2 or not callable(pair[1]):
                raise UsageError(f"a hook is (name, function), got {shorten(pair)}")
            name = pair[0]
            if isinstance(name, str) and name not in self.hook_dict:
                hint = suggest(name, self.hook_dict) or "model.hook_dict lists them; "
                raise UsageError(f"the model has no hook {shorten(name)}: {hint}".rstrip("; "))
            if not isinstance(name, str) and not callable(name):
                raise UsageError(f"a hook's name is text or a function, got {shorten(name)}")
        return HookedRootModule.run_with_hooks(
            self, *args, fwd_hooks=list(fwd_hooks), bwd_hooks=list(bwd_hooks), **kw
        )

    def run_with_cache(
        self,
        input: Input,
        *args: Any,
        return_cache_object: bool = True,
        remove_batch_dim: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, Any]:
        """Run the model and return its cache, as TransformerLens does."""
        names = kwargs.get("names_filter")
        if names is not None and not callable(names) and not isinstance(names, str | list | tuple):
            raise UsageError(f"names_filter is a name, a list or a function; got {shorten(names)}")
        if isinstance(input, Tensor) and input.ndim == 1:
            input = input[None]
        out, cache = HookedRootModule.run_with_cache(
            self, input, *args, remove_batch_dim=remove_batch_dim, **kwargs
        )
        if not return_cache_object:
            return out, cache
        return out, ClassifierCache(cache, self, has_batch_dim=not remove_batch_dim)

    def set_use_attn_result(self, use_attn_result: bool) -> None:
        """Turn `hook_result` on or off: each head's own contribution, an extra activation."""
        self.cfg.use_attn_result = use_attn_result

    def set_use_attn_in(self, use_attn_in: bool) -> None:
        """Turn `hook_attn_in` on or off: each head's input, `[batch pos head d_model]`."""
        if use_attn_in and self.config.grouped:
            raise UnsupportedError(
                "hook_attn_in has one input per head, but these heads share keys and values: use "
                "set_use_split_qkv_input, which has one per group"
            )
        self.cfg.use_attn_in = use_attn_in

    def set_use_split_qkv_input(self, use_split_qkv_input: bool) -> None:
        """Turn `hook_q_input`, `hook_k_input` and `hook_v_input` on or off: each head's inputs."""
        self.cfg.use_split_qkv_input = use_split_qkv_input

    def set_use_hook_mlp_in(self, use_hook_mlp_in: bool) -> None:
        """Turn `hook_mlp_in` on or off: the MLP's input, before its norm."""
        self.cfg.use_hook_mlp_in = use_hook_mlp_in

    # -- TransformerLens's own -----------------------------------------------------------------

    def to_transformer_lens(self, n_ctx: int = 256) -> Any:
        """Return this model as a `TransformerBridge` of TransformerLens 4.

        Its outputs are `[batch pos output]`; our answer is at position 0, or at the last token of a
        causal model. One output becomes two, whose difference (second minus first) is our logit,
        because TransformerLens's centring of the unembedding would turn a single column into zero.
        """
        return export(self, n_ctx)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or not hasattr(_their_model(), name):
                raise
        raise RefusedError(
            f"{name} is TransformerLens's and not offered here: a classifier gives one answer for "
            "a whole string of letters, and keeps its weights to the last bit, because hashes and "
            "certificates are about them"
        )

    def _tap(self, name: str, activation: Tensor) -> Tensor:
        point: Tensor = self.hook_dict[name](activation)
        return point

    def _extras(self) -> Extras:
        return Extras(
            attn_result=bool(self.cfg.use_attn_result),
            attn_in=bool(self.cfg.use_attn_in),
            split_qkv_input=bool(self.cfg.use_split_qkv_input),
            hook_mlp_in=bool(self.cfg.use_hook_mlp_in),
        )

    def _loss(self, logits: Tensor, inputs: Inputs, per_string: bool) -> Tensor:
        classes = torch.from_numpy(true_classes(self.config, inputs)).to(logits.device)
        reduction = "none" if per_string else "mean"
        if self.config.n_outputs == 1:
            target = classes.to(logits.dtype).expand_as(logits)
            return torch.nn.functional.binary_cross_entropy_with_logits(
                logits, target, reduction=reduction
            )
        strings = logits.shape[:-1]  # ensemble axes in front
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, -2), classes.expand(strings).flatten(), reduction=reduction
        )
        return loss.reshape(strings) if per_string else loss


@checked
def load(
    model: ModelLike = DEFAULT, *, epoch: int | None = None, frame: FrameLike | None = None
) -> HookedClassifier:
    """Return a model with TransformerLens's hooks.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run.
        epoch: The epoch of a run; by default the one with the lowest validation loss.
        frame: The format of the inputs (`tsc.Frame`), for a model that was imported without one.

    Returns:
        The model. A hooked model is returned unchanged.

    Raises:
        CheckpointError: There is no such model, or its file cannot be trusted.
        UsageError: The argument is not a model, or has no epochs.

    Example:
        >>> model = load("walkthrough")
        >>> model(["aac", "baac"]) > 0
        tensor([False,  True])
    """
    model = with_frame(model if epoch is None else as_checkpoint(model, epoch=epoch), frame)
    if isinstance(model, HookedClassifier):
        return model
    return HookedClassifier.from_checkpoint(as_checkpoint(model))


def _their_model() -> Any:
    """The class that TransformerLens's users know."""
    import transformer_lens

    name = "TransformerBridge" if HAS_BRIDGE_ONLY else "HookedTransformer"
    return getattr(transformer_lens, name)


def _check_options(return_type: object, **others: Any) -> None:
    if return_type not in ("logits", "loss", "both", None):
        raise UsageError(f"return_type is 'logits', 'loss', 'both' or None; got {return_type!r}")
    if others.get("padding_side") == "right":  # as it always is
        del others["padding_side"]
    for name, value in others.items():
        if value is not None:
            raise UnsupportedError(
                f"{name} is not taken here: what is attended to, positions and labels follow from "
                "the string and the task; edit hook_attn_scores or hook_pos_embed instead"
            )
