"""`python -m studies public_models FOLDER`: how many inputs public models get wrong, exactly.

FOLDER holds your own copies of files that other people published; nothing is bundled. Every file
whose format is known is verified within `SECONDS`, with a proof that is then checked, and one of
its wrong inputs is replayed by a plain forward pass in float32. Times are CPU seconds. Rows go to
`studies/results/public_models.json`, and the page "Exactly how good is it?" is made from them.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing import TimeoutError, get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tsc_interp as tsc
from studies.public_models.micro_adder import (
    MICRO_END,
    jack_state,
    micro_adder,
    micro_outputs,
    micro_state,
)
from studies.public_models.names import KNOWN
from studies.public_models.qwen import qwen_adder, qwen_outputs, qwen_state, qwen_task
from studies.public_models.readers import (
    adder,
    adder_outputs,
    adder_state,
    cumulative_sum,
    lens_outputs,
    lens_state,
)
from studies.tables import RESULTS, Row
from tsc_interp.errors import TscError

SECONDS, SAMPLE, BATCH = 60.0, 20_000, 1000
Outputs = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Subject:
    """A public model with its task, and a plain forward pass of the same weights."""

    checkpoint: tsc.Checkpoint
    outputs: Outputs
    """Letters `[batch pos]` to outputs `[batch pos out]`, in float32."""
    lengths: tuple[int, ...] | None = None


def main(arguments: list[str]) -> None:
    """Verify the files of a folder, print a line for each, and store the rows."""
    parser = argparse.ArgumentParser(prog="python -m studies public_models", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="per model, proof included")
    parser.add_argument("--stop", action="store_true", help="adders must write their end token too")
    parser.add_argument("--store", type=Path, default=RESULTS / "public_models.json")
    asked = parser.parse_args(arguments)
    paths = sorted(p for p in asked.folder.iterdir() if p.suffix in (".pt", ".npz"))
    if not paths:
        sys.exit(f"no .pt or .npz file in {asked.folder}; put your copies of public models there")
    for path in paths:
        row = row_within(path, asked.seconds, asked.stop)
        row["seconds_allowed"] = asked.seconds
        print(line(row), flush=True)
        keep(asked.store, row)


def row_within(path: Path, seconds: float, stop: bool = False) -> Row:
    """`row_of` in a process of its own, which is ended if it takes far longer than it may."""
    limit = 4 * seconds + 60
    with get_context("spawn").Pool(1) as pool:  # ends its process when it is left
        try:
            return pool.apply_async(row_of, (path, seconds, stop)).get(limit)
        except TimeoutError:
            return identity(path) | {"refused": f"no verdict within {limit:.0f} s"}


def keep(store: Path, row: Row) -> None:
    """Store a row in place of an older one about the same file."""
    rows = json.loads(store.read_text(encoding="utf-8"))["models"] if store.exists() else []
    rows = [*(one for one in rows if one["sha256"] != row["sha256"]), row]
    rows.sort(key=lambda one: (one.get("source") or "", -(one.get("parameters") or 0), one["name"]))
    store.write_text(json.dumps({"models": rows}, indent=1) + "\n", encoding="utf-8")


def identity(path: Path) -> Row:
    """The file, and what is known of it by its SHA-256."""
    key = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return {"file": path.name, "sha256": key, **KNOWN.get(key, {"name": path.stem})}


def row_of(path: Path, seconds: float, stop: bool = False) -> Row:
    """Everything the table says about one file; `refused` says why there is no more."""
    row = identity(path)
    try:
        subject = read(path, stop=stop)
    except (TscError, KeyError, ValueError) as error:
        return row | {"refused": f"{type(error).__name__}: {error}"}
    answer = {"specification": "digits and stop"} if stop else {}
    return row | answer | measured(subject, seconds)


def read(path: Path, *, stop: bool = False) -> Subject:
    """The model in a file, by the names of its tensors.

    Args:
        path: The file.
        stop: Whether a MicroAdder with an end token has to write it after the digits.

    Raises:
        ValueError: If the format is not known.
    """
    task: Any
    if path.suffix == ".npz":
        return Subject(qwen_adder(path, qwen_task()), partial(qwen_outputs, qwen_state(path)))
    content = torch.load(path, map_location="cpu", weights_only=True)
    if "z10_enc" in content:
        task = tsc.tasks.Addition(operands="least", end=(MICRO_END,) if stop else ())
        subject = micro_adder(path, task, jack_state)
        return Subject(subject, partial(micro_outputs, jack_state(path)))
    if "model_state" in content:
        digits = (len(content["model_state"]["pos_emb.A"]) - 3) // 3
        task = tsc.tasks.Addition(digits=digits)
        return Subject(adder(path, task), partial(adder_outputs, adder_state(path)))
    if "model_state_dict" in content:
        signs = (0,) if content["config"]["vocab_size"] == 10 else None
        end = (MICRO_END,) if stop and signs is None else ()
        task = tsc.tasks.Addition(operands="least", plus=signs, equals=signs, end=end)
        return Subject(micro_adder(path, task), partial(micro_outputs, micro_state(path)))
    if "blocks.1.attn.W_Q" in content:
        raise ValueError("more than one layer; order-sensitive models are decided with one")
    if "unembed.W_U" in content and content["unembed.W_U"].shape[1] == 3:
        tokens = len(content["embed.W_E"])
        values = tuple(i if 2 * i < tokens else i - tokens for i in range(tokens))
        checkpoint = cumulative_sum(path, tsc.tasks.SumSign(values=values))
        lengths = tuple(range(1, len(content["pos_embed.W_pos"]) + 1))
        return Subject(checkpoint, partial(lens_outputs, lens_state(path)), lengths)
    raise ValueError("a format this study does not know; readers.py lists them")


def measured(subject: Subject, seconds: float) -> Row:
    """Search with its proof, check, replay and brute force, each with its CPU seconds."""
    checkpoint, started = subject.checkpoint, _cpu()
    verdict: Any = tsc.verify(checkpoint, lengths=subject.lengths, seconds=seconds, certify=True)
    row: Row = {
        "numbers": checkpoint.n_parameters,
        "inputs": str(verdict.inputs),
        "wrong": str(verdict.wrong),
        "undecided": str(verdict.undecided),
        "parts": [part.to_dict() for part in verdict.counts],
        "search_seconds": round(_cpu() - started, 2),
        "first_wrong": verdict.first_wrong.to_dict() if verdict.first_wrong else None,
        "first_is_first": verdict.shortest_is_first,
        "regions": list(verdict.regions[:3]),
    }
    row["replay"] = replayed(subject, verdict.first_wrong)
    row["brute_force"] = brute_force(subject)
    row["certificate"] = checked(checkpoint, verdict.certificate.document)
    return row


def _cpu() -> float:
    """CPU seconds of this process and of helpers that have ended."""
    return sum(os.times()[:4])


def replayed(subject: Subject, wrong: Any) -> Row | None:
    """A wrong input as the plain forward pass answers it: written to the end, or its class."""
    if wrong is None:
        return None
    names = subject.checkpoint.config.token_names or subject.checkpoint.config.alphabet.letters
    letters = torch.tensor([[names.index(token) for token in wrong.tokens]])
    task: Any = subject.checkpoint.config.task
    if wrong.step is not None:
        prompt = letters[:, : task.prompt_length]
        written = greedy(subject.outputs, prompt, task.n_steps)[0].tolist()
        return {
            "pair": [number_at(task, prompt[0].tolist(), which) for which in "ab"],
            "written": [names[i] for i in written],
            "agrees": written[wrong.step] == wrong.answer,
        }
    answer = int(subject.outputs(letters)[0, -1].argmax())
    return {"answer": answer, "agrees": answer == wrong.answer}


def number_at(task: Any, prompt: list[int], which: str) -> int:
    """The first or second number (`a` or `b`) of a prompt."""
    digits = {task.place_name(place): digit for place, digit in enumerate(prompt)}
    return sum(digits[f"{which}{i}"] * int(task.base) ** i for i in range(task.digits))


@torch.no_grad()
def greedy(outputs: Outputs, prompts: Tensor, steps: int) -> Tensor:
    """The letters written after each prompt, the largest output each time."""
    letters = prompts
    for _ in range(steps):
        letters = torch.cat([letters, outputs(letters)[:, -1:].argmax(-1)], dim=1)
    return letters[:, prompts.shape[1] :]


@torch.no_grad()
def brute_force(subject: Subject, count: int = SAMPLE) -> Row:
    """Random inputs by the plain forward pass, many at once: seconds for each, and the wrong ones.

    One pass over an input with its right answer written behind decides every step.
    """
    task: Any = subject.checkpoint.config.task
    draw = torch.Generator().manual_seed(0)
    if subject.lengths is None:
        letters, first = _sums(task, count, draw), task.prompt_length
        expected = letters[:, first:]
        letters, at = letters[:, :-1], slice(first - 1, None)
    else:
        shape = (count, subject.lengths[-1])
        letters = torch.randint(0, subject.checkpoint.config.n_letters, shape, generator=draw)
        sums = torch.tensor(task.values)[letters].sum(1, keepdim=True)
        expected, at = 1 + sums.sign(), slice(-1, None)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    started = _cpu()
    answers = torch.cat(
        [subject.outputs(some)[:, at].argmax(-1) for some in torch.split(letters, BATCH)]
    )
    spent = _cpu() - started
    torch.set_num_threads(threads)
    wrong = int((answers != expected).any(1).sum())
    return {"sample": count, "wrong": wrong, "seconds_each": spent / count}


def _sums(task: Any, count: int, draw: torch.Generator) -> Tensor:
    """Random pairs with their sum, as the model reads them, `[count pos]`."""
    width = task.digits + task.carry_digit
    places = {task.place_name(place): place for place in range(task.prompt_length + width)}
    letters = torch.zeros(count, task.prompt_length + task.n_steps, dtype=torch.int64)
    for place, letter in task.whole().fixed:
        letters[:, place] = letter
    carry = torch.zeros(count, dtype=torch.int64)
    for i in range(task.digits):
        a, b = torch.randint(0, task.base, (2, count), generator=draw)
        total = a + b + carry
        letters[:, places[f"a{i}"]], letters[:, places[f"b{i}"]] = a, b
        letters[:, places[f"s{i}"]], carry = total % task.base, total // task.base
    if task.carry_digit:
        letters[:, places[f"s{task.digits}"]] = carry
    if task.end:
        letters[:, -len(task.end) :] = torch.tensor(task.end)
    return letters


def checked(checkpoint: tsc.Checkpoint, document: Row) -> Row:
    """The proof's size, and the time to check it."""
    text, started = json.dumps(document).encode(), _cpu()
    tsc.check(document, checkpoint)
    return {
        "bytes": len(text),
        "compressed_bytes": len(gzip.compress(text, mtime=0)),
        "checking_seconds": round(_cpu() - started, 1),
        "conclusion": {"parts": document["conclusion"]["tables"]},
    }


def line(row: Row) -> str:
    """One model in words."""
    if "refused" in row:
        return f"{row['name']:<18} not verified: {row['refused']}"
    inputs, wrong, undecided = (int(row[key]) for key in ("inputs", "wrong", "undecided"))
    return (
        f"{row['name']:<18} wrong {wrong:,} of {inputs:.4g}, undecided {undecided:,}; "
        f"{row['search_seconds']:.1f} s; sampled {row['brute_force']['wrong']} of "
        f"{row['brute_force']['sample']:,}"
    )
