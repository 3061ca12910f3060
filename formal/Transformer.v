(* The transformer over the real numbers: what every theorem here is about.

   One layer, read at CLS, whose attention sees every letter and no order. The stored weights are
   float32 numbers, taken as the exact reals m 2^e; the arithmetic is that of R, without rounding.
   tsc_interp/model/forward.py is the same definition in torch. *)
From Coq Require Import Reals List ZArith.
From Tsc Require Import Normal.
Import ListNotations.
Open Scope R_scope.

(* == Stored numbers ======================================================================= *)

Definition dyadic : Type := Z * Z.                      (* (m, e) stands for m 2^e *)
Definition real (x : dyadic) : R := IZR (fst x) * powerRZ 2 (snd x).

Definition vector := list dyadic.
Definition matrix := list vector.
Definition tensor := list matrix.

(* Each stored array has an entry wherever it is read, which `complete` (Horizon.v) checks. *)
Definition at1 (v : vector) (i : nat) : dyadic := nth i v (0, 0)%Z.
Definition at2 (v : matrix) (i : nat) : nat -> dyadic := at1 (nth i v []).
Definition at3 (v : tensor) (i : nat) : nat -> nat -> dyadic := at2 (nth i v []).

(* == What a model consists of ============================================================== *)

Inductive scores := plain | times_log_n (cls_counted : nat).
Inductive activation := Gelu | Gelu_tanh | Relu | Silu.
Inductive norm := no_norm | rms_norm | layer_norm.

Record model := {
  n_letters : nat; d_model : nat; n_heads : nat; d_head : nat; d_mlp : nat; n_outputs : nat;
  attend_cls : bool;                      (* is CLS one of the keys? *)
  scale_of_scores : scores;
  act_fn : activation;
  normalization : norm;
  norm_eps : dyadic;
  final_norm : bool;
  W_E : matrix;                           (* token, channel *)
  W_Q : tensor; b_Q : matrix;             (* head, channel, component; head, component *)
  W_K : tensor; b_K : matrix;
  W_V : tensor; b_V : matrix;
  W_O : tensor; b_O : vector;             (* head, component, channel; channel *)
  W_in : matrix; b_in : vector;           (* channel, neuron; neuron *)
  W_out : matrix; b_out : vector;         (* neuron, channel; channel *)
  W_U : matrix; b_U : vector;             (* channel, output; output *)
  ln1 : vector * vector;                  (* scale and shift of each norm *)
  ln2 : vector * vector;
  ln_final : vector * vector }.

(* Tokens are numbers: CLS, a padding that no string here contains, then the letters. *)
Definition CLS : nat := 0.
Definition first_letter : nat := 2.
Definition letters (M : model) : list nat := seq first_letter (n_letters M).

(* == Sums ================================================================================= *)

Fixpoint sum_over {X} (xs : list X) (f : X -> R) : R :=
  match xs with x :: rest => f x + sum_over rest f | [] => 0 end.
Definition sum (n : nat) (f : nat -> R) : R := sum_over (seq 0 n) f.
Definition average (n : nat) (f : nat -> R) : R := sum n f / INR n.

(* == The transformer ====================================================================== *)

(* The logistic forms of two activations; 1 / (1 + exp (- 2 y)) is (1 + tanh y) / 2. *)
Definition silu (x : R) : R := x / (1 + exp (- x)).
Definition gelu_tanh (x : R) : R :=
  x / (1 + exp (- (2 * (sqrt (2 / PI) * (x + 44715 / 1000000 * (x * x * x)))))).

Section Transformer.
Variable M : model.

Definition act (x : R) : R :=
  match act_fn M with Gelu => gelu x | Gelu_tanh => gelu_tanh x | Relu => Rmax 0 x | Silu => silu x end.

(* A norm of a vector of d_model channels, with its learned scale and shift. *)
Definition centre (x : nat -> R) (j : nat) : R := x j - average (d_model M) x.
Definition spread (x : nat -> R) : R :=
  sqrt (average (d_model M) (fun j => x j * x j) + real (norm_eps M)).
Definition normalized (kind : norm) (ln : vector * vector) (x : nat -> R) (j : nat) : R :=
  match kind with
  | no_norm => x j
  | rms_norm => x j / spread x * real (at1 (fst ln) j)
  | layer_norm =>
      centre x j / spread (centre x) * real (at1 (fst ln) j) + real (at1 (snd ln) j)
  end.

(* Attention. CLS asks; the keys are the letters, and CLS itself where the model attends to it. *)
Definition embedded (t j : nat) : R := real (at2 (W_E M) t j).
Definition project (W : tensor) (b : matrix) (h t i : nat) : R :=
  sum (d_model M) (fun j => normalized (normalization M) (ln1 M) (embedded t) j * real (at3 W h j i))
  + real (at2 b h i).
Definition score (h t : nat) : R :=
  sum (d_head M) (fun i => project (W_Q M) (b_Q M) h CLS i * project (W_K M) (b_K M) h t i)
  / sqrt (INR (d_head M)).

Section Reading.
Variable s : list nat.                    (* the string: its letters as tokens *)

Definition keys : list nat := (if attend_cls M then [CLS] else []) ++ s.
Definition heat : R :=                    (* what scores are multiplied by *)
  match scale_of_scores M with plain => 1 | times_log_n cls => ln (INR (length s + cls)) end.
Definition pull (h t : nat) : R := exp (heat * score h t).
Definition z (h i : nat) : R :=
  sum_over keys (fun t => pull h t * project (W_V M) (b_V M) h t i) / sum_over keys (pull h).
Definition resid_mid (j : nat) : R :=
  embedded CLS j
  + sum (n_heads M) (fun h => sum (d_head M) (fun i => z h i * real (at3 (W_O M) h i j)))
  + real (at1 (b_O M) j).

(* The MLP and the read-out. *)
Definition pre (k : nat) : R :=
  sum (d_model M) (fun j => normalized (normalization M) (ln2 M) resid_mid j * real (at2 (W_in M) j k))
  + real (at1 (b_in M) k).
Definition resid_post (j : nat) : R :=
  resid_mid j + sum (d_mlp M) (fun k => act (pre k) * real (at2 (W_out M) k j)) + real (at1 (b_out M) j).
Definition logit (o : nat) : R :=
  sum (d_model M) (fun j =>
    normalized (if final_norm M then normalization M else no_norm) (ln_final M) resid_post j
    * real (at2 (W_U M) j o))
  + real (at1 (b_U M) o).
End Reading.
End Transformer.
