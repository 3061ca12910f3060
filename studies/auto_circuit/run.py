"""`python -m studies auto_circuit FOLDER`: our edges against auto-circuit's, on one model.

FOLDER holds auto-circuit's source. It needs TransformerLens 3, attrs, blobfile and ordered-set; the
old name of one class, which it imports, is put back here. The model has two layers, LayerNorm and
random weights. Compared are the edges themselves, the gradient of every edge's gate (edge
attribution patching), and what the output is when one edge alone is patched.
"""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

import torch

from studies.tables import RESULTS
from tests.probes.models import TOKENS, make_transformer_lens_model
from tsc_interp.interventions.parts import Part
from tsc_interp.probes.circuit import rows
from tsc_interp.probes.circuit.gated import Gated

STORE = RESULTS / "auto_circuit.json"


def main(arguments: list[str]) -> None:
    """Compare, print what was found and store it."""
    (folder,) = arguments
    sys.path.insert(0, folder)
    clean, corrupted = TOKENS, TOKENS.flip(0)
    model = make_transformer_lens_model(d_vocab_out=2)
    graph = Gated(*rows._answering(model, clean, -1))
    graph.reference = rows._elsewhere(model, corrupted, -1, graph.runs)
    with torch.no_grad():
        outputs = model(clean)[:, -1]
        before, sign = outputs[:, 1] - outputs[:, 0], 2.0 * outputs.argmax(1) - 1.0
        alone = graph(1 - torch.eye(len(graph.edges))) * sign
    gates = torch.ones(len(graph.edges), 1, requires_grad=True)
    (slopes,) = torch.autograd.grad((graph(gates)[0] * sign).sum(), gates)
    ours = {_theirs(e.source) + "->" + _theirs(e.target): k for k, e in enumerate(graph.edges)}
    names, effects, gradients = _auto_circuit(model, clean, corrupted)
    order = [ours[name] for name in names]
    found = {
        "edges": len(ours),
        "same_edges": set(names) == set(ours),
        "rows": len(clean),
        "largest_effect_difference": float((alone[order] - effects).abs().max()),
        "largest_effect": float((effects - before).abs().max()),
        "largest_gradient_difference": float((slopes[order, 0] + gradients).abs().max()),
        "largest_gradient": float(gradients.abs().max()),
    }
    print(json.dumps(found, indent=1))
    STORE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _theirs(part: Part) -> str:
    """Our part as auto-circuit calls it."""
    if part.kind in ("embed", "logit"):
        return "Resid Start" if part.kind == "embed" else "Resid End"
    if part.kind == "mlp":
        return f"MLP {part.layer}"
    return f"A{part.layer}.{part.index}" + (
        "" if part.kind == "head" else f".{part.kind[0].upper()}"
    )


def _auto_circuit(model: Any, clean: Any, corrupted: Any) -> tuple[list[str], Any, Any]:
    """Its edges, the logit difference of each row with one patched, and the mask's gradient."""
    import transformer_lens

    old = ModuleType("transformer_lens.past_key_value_caching")
    cache = transformer_lens.TransformerLensKeyValueCache
    old.HookedTransformerKeyValueCache = cache  # type: ignore[attr-defined]
    transformer_lens.HookedTransformerKeyValueCache = cache
    sys.modules[old.__name__] = old

    from auto_circuit.types import AblationType
    from auto_circuit.utils.ablation_activations import src_ablations
    from auto_circuit.utils.graph_utils import (
        patch_mode,
        patchable_model,
        set_all_masks,
        train_mask_mode,
    )

    for option in ("attn_result", "split_qkv_input", "hook_mlp_in"):
        getattr(model, f"set_use_{option}")(True)
    patchable = patchable_model(model, True, "last_seq", None, separate_qkv=True)
    written = src_ablations(patchable, corrupted, AblationType.RESAMPLE)

    def difference(outputs: Any) -> Any:
        return outputs[:, -1, 1] - outputs[:, -1, 0]

    edges = sorted(patchable.edges, key=lambda edge: edge.name)
    effects = []
    with torch.no_grad():
        for edge in edges:
            with patch_mode(patchable, written.clone(), [edge]):
                effects.append(difference(patchable(clean)))
    with train_mask_mode(patchable):
        set_all_masks(patchable, val=0.0)
        with patch_mode(patchable, written.clone().detach()):
            difference(patchable(clean)).sum().backward()
        gradients = [edge.patch_mask(patchable).grad[edge.patch_idx] for edge in edges]
    return [edge.name for edge in edges], torch.stack(effects), torch.stack(gradients)
