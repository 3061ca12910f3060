"""`python -m studies gallery FOLDER`: the simplest wrong input of public models of any depth.

FOLDER holds your own copies of the files, which are known by their SHA-256; nothing is bundled.
`--only NAME` takes one of them, and `--enumerate FRAME` decides every input of a frame
(`ENUMERATED` in claims.py) instead; with `--state FILE` a killed run goes on where it was. Rows go
to `studies/results/gallery.json`; times are CPU seconds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch

import tsc_interp as tsc
from studies.gallery.claims import CLAIMS, ENUMERATED, Claim
from studies.tables import RESULTS
from tsc_interp.model.import_files import build

STORE = RESULTS / "gallery.json"


def main(arguments: list[str]) -> None:
    """Falsify or enumerate the files of a folder, print a line for each, and store the rows."""
    parser = argparse.ArgumentParser(prog="python -m studies gallery", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=120, help="per model")
    parser.add_argument("--only", help="the name of one model")
    parser.add_argument("--enumerate", choices=ENUMERATED, help="decide every input of this frame")
    parser.add_argument("--state", type=Path, help="a file that keeps what is decided")
    parser.add_argument("--store", type=Path, default=STORE)
    asked = parser.parse_args(arguments)
    files = {hashlib.sha256(one.read_bytes()).hexdigest()[:16]: one
             for one in sorted(asked.folder.glob("*.pt"), reverse=True)}  # fmt: skip
    known = [key for key in CLAIMS if key in files and asked.only in (None, CLAIMS[key].name)]
    if not known:
        sys.exit(f"no file that the gallery knows in {asked.folder}")
    for key in known:
        claim, model = CLAIMS[key], load(files[key], CLAIMS[key])
        row = row_of(model, claim, asked.seconds, asked.enumerate, asked.state)
        row |= {"sha256": key, "parameters": sum(p.numel() for p in model.parameters())}
        row |= {"layers": int(model.cfg.n_layers), "width": int(model.cfg.d_model)}
        print(f"{claim.name}: {row['findings'][0]} ({row['seconds']} s)", flush=True)
        keep(asked.store, row)


def load(path: Path, claim: Claim) -> Any:
    """The model of a file, whose shapes say all but which way attention looks."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    heads, d_model, d_head = state["blocks.0.attn.W_Q"].shape
    has_mlp = "blocks.0.mlp.W_in" in state
    options: dict[str, Any] = {
        "n_layers": sum(name.endswith("attn.W_Q") for name in state),
        "n_ctx": len(state["pos_embed.W_pos"]),
        "d_model": d_model,
        "d_head": d_head,
        "n_heads": heads,
        "attn_only": not has_mlp,
        "act_fn": "relu",
        "d_vocab": len(state["embed.W_E"]),
        "d_vocab_out": state["unembed.W_U"].shape[1],
        "normalization_type": "LN" if "ln_final.w" in state else None,
        "attention_dir": "causal" if claim.causal else "bidirectional",
    }
    if has_mlp:
        options["d_mlp"] = state["blocks.0.mlp.W_in"].shape[1]
    with warnings.catch_warnings(action="ignore"):
        return build(options, state)


def row_of(
    model: Any, claim: Claim, seconds: float, smaller: str | None, state: Path | None = None
) -> dict[str, Any]:
    """What is stored about one model."""
    started = time.process_time()
    exhaustive = smaller is not None
    frame = tsc.Frame.parse(claim.frame if smaller is None else ENUMERATED[smaller])
    found = tsc.falsify(
        model, claim.label, frame=frame, seconds=seconds, sample=None if exhaustive else claim.draw,
        exhaustive=exhaustive, state=state, progress=_tell if exhaustive else None,
    )  # fmt: skip
    spent = round(time.process_time() - started, 1)
    if found.tokens is not None:  # once more, by the plain forward pass
        label = claim.label(torch.tensor([found.tokens]))[0]
        written = [] if not frame.writes else [int(one) for one in label[:-1]]
        with torch.no_grad():
            outputs = model(torch.tensor([[*found.tokens, *written]]))[0]
        reads = frame.reads(len(found.tokens) - frame.length(0))
        said = [int(one) for one in outputs[list(reads)].argmax(-1)]
        assert said == (list(found.answer) if isinstance(found.answer, tuple) else [found.answer])
    kind = "found" if smaller is None else f"enumerated: {smaller}"
    result = found.to_dict()
    findings = [one["text"] for one in result.pop("findings")]
    return {"name": claim.name, "kind": kind, "seconds": spent, "findings": findings} | result


def _tell(doing: str) -> None:
    sys.stderr.write(f"\r{doing}")


def keep(store: Path, row: dict[str, Any]) -> None:
    """Store a row in place of an older one about the same."""
    rows = json.loads(store.read_text(encoding="utf-8"))["models"] if store.exists() else []
    rows = [one for one in rows if (one["name"], one["kind"]) != (row["name"], row["kind"])]
    order = [claim.name for claim in CLAIMS.values()]
    rows = sorted([*rows, row], key=lambda one: (order.index(one["name"]), one["kind"]))
    store.write_text(json.dumps({"models": rows}, indent=1) + "\n", encoding="utf-8")
