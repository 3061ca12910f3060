"""A model as Coq text: its weights, exactly, and the statements about it with their proofs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.formal.rules import Claim
from tsc_interp.strings import FIRST_LETTER, LETTERS
from tsc_interp.verification.horizon_result import Counterexample

_ACTIVATIONS = {"gelu": "Gelu", "gelu_new": "Gelu_tanh", "relu": "Relu", "silu": "Silu"}
_SCORES = {
    "sqrt_d_head": "plain",
    "sqrt_d_head_log_n": "times_log_n 0",
    "sqrt_d_head_log_n_cls": "times_log_n 1",
}

MOST_LETTERS = 18
"""So that none of them is called s, as strings are in the statements; four take Coq minutes."""


def require_stated(config: ClassifierConfig) -> None:
    """Refuse a model that the library's transformer does not describe, with the reason."""
    reasons = {
        f"{config.n_layers} layers": config.n_layers > 1,
        "scores divided by a number of its own": config.attention_scale > 0,
        f"{config.n_letters} letters": config.n_letters > MOST_LETTERS,
    }
    found = [words for words, applies in reasons.items() if applies]
    if found:
        raise UnsupportedError(
            f"no theorem can be stated about this model: it has {', '.join(found)}, and the "
            f"library's transformer has one layer, scores divided by the root of d_head, and here "
            f"at most {MOST_LETTERS} letters; tsc.certify may prove it without Coq"
        )


def dyadic(number: float) -> str:
    """The pair (m, e) with m 2^e equal to the number.

    Example:
        >>> dyadic(-0.375)
        '(-3, -3)'
    """
    numerator, denominator = number.as_integer_ratio()
    return f"({numerator}, {1 - denominator.bit_length()})"


def array(numbers: Any) -> str:
    """Nested lists of dyadic pairs."""
    if isinstance(numbers, float):
        return dyadic(numbers)
    return f"[{'; '.join(map(array, numbers))}]"


def weights_text(checkpoint: Checkpoint) -> str:
    """The file with the model: sizes, options, and every weight as m 2^e."""
    expanded = checkpoint.expanded()
    config, weights = expanded.config, expanded.weights

    def stored(name: str, missing: str = "[]") -> str:
        return array(weights[name].tolist()) if name in weights else missing

    def norm(name: str) -> str:
        """Scale and shift: ones where the norm has no scale of its own."""
        learned = f"{name}.w" in weights
        ones = array(np.ones(config.d_model).tolist() if config.has_norm else [])
        return f"({stored(f'{name}.w') if learned else ones}, {_shift(stored, name, config)})"

    attn, mlp = "blocks.0.attn", "blocks.0.mlp"
    no_rows = array([[] for _ in range(config.d_model)])
    kind = config.norm.removesuffix("_pre")
    options = {
        "n_letters": config.n_letters,
        "d_model": config.d_model,
        "n_heads": config.n_heads,
        "d_head": config.d_head,
        "d_mlp": config.d_mlp,
        "n_outputs": config.n_outputs,
        "attend_cls": str(config.attend_cls).lower(),
        "scale_of_scores": _SCORES[config.score_scale],
        "act_fn": _ACTIVATIONS[config.act_fn],
        "normalization": "no_norm" if kind == "off" else f"{kind}_norm",
        "norm_eps": dyadic(config.norm_eps),
        "final_norm": str(config.final_norm).lower(),
        "W_E": stored("embed.W_E"),
        **{f"{m}_{p}": stored(f"{attn}.{m}_{p}") for p in "QKVO" for m in "Wb"},
        "W_in": stored(f"{mlp}.W_in", no_rows),
        "b_in": stored(f"{mlp}.b_in"),
        "W_out": stored(f"{mlp}.W_out"),
        "b_out": stored(f"{mlp}.b_out"),
        "W_U": stored("unembed.W_U"),
        "b_U": stored("unembed.b_U"),
        "ln1": norm("blocks.0.ln1"),
        "ln2": norm("blocks.0.ln2"),
        "ln_final": norm("ln_final"),
    }
    fields = ";\n".join(f"  {name} := {value}" for name, value in options.items())
    reads = checkpoint.original_reads
    longest = ""
    if reads is not None:
        letters = reads - config.has_cls
        longest = f"\n   The original accepts up to {letters:,} letters (n_ctx)."
    return f"""\
(* The weights of {checkpoint.source or "a model"}, each as (m, e) for m 2^e.
   SHA-256 of the weights: {checkpoint.weight_hash}.{longest} *)
From Tsc Require Import Horizon.
Local Open Scope Z_scope.

Definition stored : model := {{|
{fields} |}}.

Lemma nothing_missing : complete stored = true.
Proof. vm_compute; reflexivity. Qed.
"""


def _shift(stored: Any, name: str, config: ClassifierConfig) -> str:
    zeros = array(np.zeros(config.d_model).tolist() if config.centred_norm else [])
    return str(stored(f"{name}.b", zeros))


def spelled(counts: Sequence[int]) -> str:
    """A string with these letter counts."""
    runs = [f"repeat {LETTERS[i]} {n}" for i, n in enumerate(counts) if n]
    return " ++ ".join(runs)


class Statement:
    """The file with the theorems of a model, and their sentences in Coq."""

    def __init__(self, config: ClassifierConfig, parts: list[Claim]) -> None:
        self.n_letters, self.parts = config.n_letters, parts
        self.binary = config.n_outputs == 1
        self.theorems: dict[str, str] = {}
        self._text = [self._alphabet(), self._answers(config)]

    def text(self) -> str:
        """The whole file."""
        names = ", ".join(["nothing_missing", *self.theorems])
        printed = f"Definition all_theorems := ({names}).\nPrint Assumptions all_theorems.\n"
        return "\n".join([*self._text, printed])

    def right_through(self, length: int) -> None:
        """State that every string up to a length is right."""
        law = "right_through" if self.binary else "chosen_through"
        self._text.append(f"""\
Lemma accepted : right_to stored {self._task} {length} = true.
Proof. vm_cast_no_check (eq_refl true). Qed.
""")
        if length == 0:  # of no string: nothing worth a theorem
            return
        self.add(
            f"right_to_{length}",
            f"forall s : list letter, (1 <= length s <= {length})%nat -> {self.right('s')}",
            f"exact ({law} {self._given} {length} accepted).",
        )

    def right_everywhere(self, needed: str) -> None:
        """State that every string is right; Coq finds a length from which letters decide."""
        listed = f"[{'; '.join(needed)}]"
        tried = "[5; 10; 20; 40; 80; 160; 320]%nat"
        self._text.append(f"""\
Lemma needs (s : list letter) : (forall x, In x {listed} -> In x s) <-> wanted s.
Proof.
  unfold wanted. split; intros H; [repeat split; apply H; simpl; tauto|].
  intros x K. repeat (destruct K as [K|K]; [subst x; tauto|]). destruct K.
Qed.
Definition letters_decide_from : nat := Eval vm_compute in
  hd 0%nat (filter (right_from stored (map token {listed})) {tried}).
Lemma short_ones : right_to stored {self._task} letters_decide_from = true.
Proof. vm_cast_no_check (eq_refl true). Qed.
Lemma long_ones : right_from stored (map token {listed}) letters_decide_from = true.
Proof. vm_cast_no_check (eq_refl true). Qed.
""")
        given = "stored letter token tokens_differ all_letters rule_of_task wanted meaning"
        self.add(
            "right_at_every_length",
            f"forall s : list letter, s <> [] -> {self.right('s')}",
            f"exact (right_everywhere {given} {listed} needs letters_decide_from short_ones "
            "long_ones).",
        )

    def first_error(self, length: int, error: Counterexample) -> None:
        """State that an error is one letter longer, and so that the horizon is exact."""
        mistaken = "wrong" if self.binary else "mistaken"
        classes = "" if self.binary else f" {error.label} {error.answer}"
        lemma = (
            f"wrong stored letter token {self._rules} first_error"
            if self.binary
            else f"mistaken stored letter token {self._rules} first_error{classes}"
        )
        self._text.append(f"""\
Definition first_error : list letter := {spelled(error.counts)}.
Lemma refuted : {lemma} = true.
Proof. vm_cast_no_check (eq_refl true). Qed.
""")
        self.add(
            f"wrong_at_{length + 1}",
            f"length first_error = {length + 1}%nat /\\ ~ {self.right('first_error')}",
            f"split; [reflexivity|]. exact ({mistaken}_sound {self._given} first_error{classes} "
            "refuted).",
        )
        law = "exact_horizon" if self.binary else "exact_horizon_of_classes"
        self.add(
            f"horizon_is_{length}",
            f"forall L : nat, (forall s : list letter, (1 <= length s <= L)%nat -> "
            f"{self.right('s')}) <-> (L <= {length})%nat",
            f"exact ({law} {self._given} {length} first_error{classes} accepted refuted eq_refl).",
        )

    def add(self, name: str, sentence: str, proof: str) -> None:
        """Add a theorem."""
        self.theorems[name] = sentence
        self._text.append(f"Theorem {name} :\n  {sentence}.\nProof. {proof} Qed.\n")

    def right(self, string: str) -> str:
        """That the model is right on a string."""
        if self.binary:
            wanted = re.sub(r"\bs\b", string, self.parts[0].sentence)
            return f"(0 < logit {string} <-> {wanted})"
        return (
            f"(forall y y' : nat, (y < {len(self.parts)})%nat -> wanted {string} y -> "
            f"(y' < n_outputs stored)%nat -> y' <> y -> output {string} y' < output {string} y)"
        )

    @property
    def _rules(self) -> str:
        return "rule_of_task" if self.binary else "rules_of_task"

    @property
    def _task(self) -> str:
        return "(yes_or_no rule_of_task)" if self.binary else "(choose stored rules_of_task)"

    @property
    def _given(self) -> str:
        """What the library's theorems are about: a model, its letters, and its task."""
        return f"stored letter token all_letters {self._rules} wanted meaning"

    def _alphabet(self) -> str:
        letters = LETTERS[: self.n_letters]
        tokens = _cases((x, i + FIRST_LETTER) for i, x in enumerate(letters))
        return f"""\
From Coq Require Import Lia.
From Tsc Require Import Tail.
From Model Require Export Weights.
Open Scope R_scope.

(* == Strings and their letters ============================================================ *)

Inductive letter := {" | ".join(letters)}.
Definition token (x : letter) : nat := match x with {tokens} end.
Definition letter_dec (x y : letter) : {{x = y}} + {{x <> y}}.
Proof. decide equality. Defined.

Lemma tokens_differ x y : token x = token y -> x = y.
Proof. destruct x, y; intros E; try discriminate E; reflexivity. Qed.
Lemma all_letters x : In (token x) (letters stored).
Proof. destruct x; cbv; tauto. Qed.

(* == The model, and what is wanted of it ================================================== *)
"""

    def _answers(self, config: ClassifierConfig) -> str:
        alphabet = f"[{'; '.join(LETTERS[: self.n_letters])}]"
        counted = f"by_counts stored tokens_differ all_letters letter_dec {alphabet} s"
        if self.binary:
            part = self.parts[0]
            return f"""\
Definition logit (s : list letter) : R := Transformer.logit stored (map token s) 0.
Definition wanted (s : list letter) : Prop := {part.sentence}.
Definition rule_of_task : rule := ({part.rule})%Z.

Lemma meaning s : holds rule_of_task (letter_counts stored (map token s)) = true <-> wanted s.
Proof. unfold wanted, rule_of_task. {counted}. Qed.
"""
        cases = _cases((y, part.sentence) for y, part in enumerate(self.parts))
        rules = ";\n  ".join(f"({part.rule})" for part in self.parts)
        return f"""\
Definition output (s : list letter) (y : nat) : R := Transformer.logit stored (map token s) y.
Definition wanted (s : list letter) (y : nat) : Prop :=
  match y with {cases} | _ => False end.
Definition rules_of_task : list rule := [
  {rules}]%Z.

Lemma meaning s y : (y < length rules_of_task)%nat ->
  (holds (nth y rules_of_task (denied (at_least [] 0))) (letter_counts stored (map token s)) = true
   <-> wanted s y).
Proof.
  intros Y. unfold wanted, rules_of_task in *. cbn [length] in Y.
  do {len(self.parts)} (destruct y as [|y]; [clear Y; cbn [nth]; {counted}|]). lia.
Qed.
"""


def _cases(pairs: Iterable[tuple[object, object]]) -> str:
    return " | ".join(f"{case} => {value}" for case, value in pairs)
