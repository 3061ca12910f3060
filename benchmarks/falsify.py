"""How many inputs a second `tsc.falsify` tries, beside the model's own forward pass.

Run by `python -m benchmarks.falsify`: an untrained model of three layers with d_model 56, two heads
of 28 and an MLP of 56, as the public bracket classifier has, read at its first position. One
thread; CPU seconds.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import torch

from tsc_interp.enumeration.network import of_transformer_lens
from tsc_interp.enumeration.running import Runner
from tsc_interp.falsification.question import by_its_own_forward, in_batches
from tsc_interp.model.interop import HAS_BRIDGE_ONLY

ROWS = 2048
OPTIONS = {
    "n_layers": 3, "n_ctx": 42, "d_model": 56, "d_head": 28, "n_heads": 2, "d_mlp": 56,
    "act_fn": "relu", "d_vocab": 5, "d_vocab_out": 2, "normalization_type": "LN",
    "attention_dir": "bidirectional", "device": "cpu",
}  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with warnings.catch_warnings(action="ignore"):
        if HAS_BRIDGE_ONLY:
            from transformer_lens import TransformerBridge, TransformerBridgeConfig

            model = TransformerBridge.boot_native(TransformerBridgeConfig(**OPTIONS))
        else:
            from transformer_lens import HookedTransformer, HookedTransformerConfig

            model = HookedTransformer(HookedTransformerConfig(**OPTIONS))
    network = of_transformer_lens(model)
    bounded = Runner(network, torch.float64, bounded=True)

    def enumerated(rows: torch.Tensor, reads: tuple[int, ...]) -> None:
        for part in torch.split(rows, bounded.rows_at_once(rows.shape[1])):
            bounded(part, reads)

    for length in (12, 22, 42):
        rows = torch.randint(3, 5, (ROWS, length))
        own = _rate(by_its_own_forward(model), rows)
        quick = _rate(in_batches(network), rows)
        sure = _rate(enumerated, rows)
        print(
            f"{length} tokens: own forward {own:,.0f}, falsify {quick:,.0f} ({quick / own:.1f} "
            f"times), float64 with bound {sure:,.0f} inputs per CPU second"
        )


def _rate(run: Callable[[torch.Tensor, tuple[int, ...]], object], rows: torch.Tensor) -> float:
    """The best of two."""
    times = []
    for _ in range(2):
        started = time.process_time()
        run(rows, (0,))
        times.append(time.process_time() - started)
    return len(rows) / min(times)


if __name__ == "__main__":
    main()
