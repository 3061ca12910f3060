(* What a model answers, enclosed: from intervals of attention weights to intervals of logits.

   Every function is written in two stages: given a model, it makes its tables; given weights, it
   uses them. Coq's virtual machine makes the tables once for a whole search. *)
From Coq Require Import Lra Lia.
From Tsc Require Export Enclosure.
Open Scope R_scope.

(* == Sums, rearranged ===================================================================== *)

Lemma sum_ext {X} (xs : list X) f g : (forall x, f x = g x) -> sum_over xs f = sum_over xs g.
Proof. intros E; induction xs; simpl; [reflexivity|]. rewrite IHxs, E; reflexivity. Qed.

Lemma sum_plus {X} (xs : list X) f g :
  sum_over xs (fun x => f x + g x) = sum_over xs f + sum_over xs g.
Proof. induction xs; simpl; [ring|]. rewrite IHxs; ring. Qed.

Lemma sum_scale {X} (xs : list X) k f : sum_over xs (fun x => f x * k) = sum_over xs f * k.
Proof. induction xs; simpl; [ring|]. rewrite IHxs; ring. Qed.

Lemma sum_swap {X Y} (xs : list X) (ys : list Y) f :
  sum_over xs (fun x => sum_over ys (f x)) = sum_over ys (fun y => sum_over xs (fun x => f x y)).
Proof.
  induction xs; simpl.
  - induction ys; simpl; [reflexivity|]. rewrite <- IHys; ring.
  - rewrite IHxs, sum_plus; reflexivity.
Qed.

Lemma sum_app {X} (xs ys : list X) f : sum_over (xs ++ ys) f = sum_over xs f + sum_over ys f.
Proof. induction xs; simpl; [ring|]. rewrite IHxs; ring. Qed.

Lemma dot_map {X} (xs : list X) w v :
  dot (map w xs) (map v xs) = sum_over xs (fun x => w x * v x).
Proof. induction xs; simpl; [reflexivity|]. rewrite IHxs; reflexivity. Qed.

Lemma total_map {X} (xs : list X) f : total (map f xs) = sum_over xs f.
Proof. induction xs; simpl; [reflexivity|]. rewrite IHxs; reflexivity. Qed.

Lemma total_dot ws : forall n, length ws = n -> total ws = dot ws (repeat 1 n).
Proof. induction ws; intros [|n] L; simpl in *; try discriminate; [reflexivity|]. rewrite <- IHws by lia. ring. Qed.

Lemma enclosed_map {X} (xs : list X) fi f : (forall x, In x xs -> f x ∈ fi x) ->
  all_enclosed (map fi xs) (map f xs).
Proof.
  induction xs; intros H; simpl; constructor; [apply H; left; reflexivity|].
  apply IHxs; intros; apply H; right; assumption.
Qed.

(* == Tables =============================================================================== *)

Definition table (n : nat) (f : nat -> I.type) : nat -> I.type :=
  let made := map f (seq 0 n) in fun i => nth i made anything.
Definition table2 (m n : nat) (f : nat -> nat -> I.type) : nat -> nat -> I.type :=
  let made := map (fun i => map (f i) (seq 0 n)) (seq 0 m) in fun i j => nth j (nth i made []) anything.

Lemma nth_enclosed {X} (l : list X) f d i x : (forall y, In y l -> x ∈ f y) -> x ∈ d ->
  x ∈ nth i (map f l) d.
Proof.
  intros H D. destruct (nth_in_or_default i (map f l) d) as [K|E]; [|rewrite E; exact D].
  apply in_map_iff in K. destruct K as [y [E K]]. rewrite <- E. apply H, K.
Qed.

Lemma nth_seq {X} (f : nat -> X) n i d : nth i (map f (seq 0 n)) d = if (i <? n)%nat then f i else d.
Proof.
  destruct (Nat.ltb_spec i n) as [L|L].
  - rewrite nth_indep with (d' := f 0%nat) by (rewrite map_length, seq_length; exact L).
    rewrite map_nth, seq_nth by exact L. reflexivity.
  - apply nth_overflow. rewrite map_length, seq_length. exact L.
Qed.

Lemma table_ok n fi f i : (forall i, f i ∈ fi i) -> f i ∈ table n fi i.
Proof.
  intros H; unfold table; rewrite nth_seq. destruct (_ <? _)%nat; [apply H|apply anything_ok].
Qed.

Lemma table2_ok m n fi f i j : (forall i j, f i j ∈ fi i j) -> f i j ∈ table2 m n fi i j.
Proof.
  intros H; unfold table2; rewrite nth_seq. destruct (_ <? _)%nat; [|destruct j; apply anything_ok].
  rewrite nth_seq. destruct (_ <? _)%nat; [apply H|apply anything_ok].
Qed.

Definition divide (i j : I.type) : I.type := if positive j then i /! j else anything.
Lemma divide_ok i j x y : x ∈ i -> y ∈ j -> x / y ∈ divide i j.
Proof.
  intros Hx Hy; unfold divide. destruct (positive j) eqn:P; [|apply anything_ok].
  apply positive_ok with (2 := Hy) in P. apply div_ok; [assumption|assumption|lra].
Qed.

Section Reading.
Variable M : model.
Let channels := seq 0 (d_model M).

(* == Readers: what a direction reads from a vector of channels ============================ *)

(* A reader knows a vector x by a context c: given a direction d, it encloses sum x_j d_j. *)
Definition reader (C : Type) : Type := (nat -> I.type) -> C -> I.type.
Definition reads {C} (rd : reader C) (c : C) (x : nat -> R) : Prop :=
  forall di d, (forall j, d j ∈ di j) -> sum (d_model M) (fun j => x j * d j) ∈ rd di c.

Definition unit_vector (i j : nat) : R := if (i =? j)%nat then 1 else 0.
Definition unit_vectorI (i j : nat) : I.type := if (i =? j)%nat then one else zero.

Lemma unit_vector_ok i j : unit_vector i j ∈ unit_vectorI i j.
Proof. unfold unit_vector, unit_vectorI. destruct (i =? j)%nat; apply whole_ok. Qed.

Lemma sum_unit n x i : (i < n)%nat -> sum n (fun j => x j * unit_vector i j) = x i.
Proof.
  intros L. unfold sum. replace n with (i + (1 + (n - i - 1)))%nat by lia.
  rewrite !seq_app, !sum_app. simpl.
  assert (Zero : forall from len, (i < from \/ from + len <= i)%nat ->
    sum_over (seq from len) (fun j => x j * unit_vector i j) = 0).
  { intros from len; revert from. induction len; intros from H; simpl; [reflexivity|].
    rewrite IHlen by lia. unfold unit_vector. destruct (Nat.eqb_spec i from); [lia|ring]. }
  rewrite !Zero by lia. unfold unit_vector; rewrite Nat.eqb_refl; ring.
Qed.

Lemma reads_channel {C} (rd : reader C) c x i : reads rd c x -> (i < d_model M)%nat ->
  x i ∈ rd (unit_vectorI i) c.
Proof. intros H L. rewrite <- (sum_unit _ x i L). apply H, unit_vector_ok. Qed.

Definition sizeI : I.type := whole (Z.of_nat (d_model M)).
Definition averageI (f : nat -> I.type) : I.type := divide (sumI (d_model M) f) sizeI.
Definition centreI (di : nat -> I.type) : nat -> I.type :=
  let middle := averageI di in table (d_model M) (fun j => di j -! middle).

Lemma size_ok : INR (d_model M) ∈ sizeI.
Proof. rewrite INR_IZR_INZ. apply whole_ok. Qed.

Lemma average_ok fi f : (forall j, (j < d_model M)%nat -> f j ∈ fi j) ->
  average (d_model M) f ∈ averageI fi.
Proof. intros H. apply divide_ok; [apply sum_ok, H|apply size_ok]. Qed.

Lemma centre_ok di d j : (forall j, d j ∈ di j) -> centre M d j ∈ centreI di j.
Proof.
  intros H. unfold centreI. apply (table_ok _ _ (centre M d)). intros k.
  apply sub_ok; [apply H|apply average_ok; intros; apply H].
Qed.

(* Reading a centred vector is reading the vector along the centred direction. *)
Lemma sum_centre x d : sum (d_model M) (fun j => centre M x j * d j) =
  sum (d_model M) (fun j => x j * centre M d j).
Proof.
  unfold centre, sum, average, sum.
  rewrite (sum_ext _ _ (fun j => x j * d j + d j * - (sum_over channels x / INR (d_model M))))
    by (intros; unfold channels; ring).
  rewrite (sum_ext _ (fun j => x j * (d j - _))
    (fun j => x j * d j + x j * - (sum_over channels d / INR (d_model M))))
    by (intros; unfold channels; ring).
  rewrite !sum_plus, !sum_scale. fold channels. unfold Rdiv; ring.
Qed.

Definition spreadI {C} (kind : norm) (rd : reader C) : C -> I.type :=
  match kind with
  | no_norm => fun _ => anything
  | _ =>
      let coordinate i := match kind with layer_norm => centreI (unit_vectorI i) | _ => unit_vectorI i end in
      let each := map (fun i => rd (coordinate i)) channels in
      let eps := exactly (norm_eps M) in
      fun c => I.sqrt prec (divide (sum_overI each (fun r => I.sqr prec (r c))) sizeI +! eps)
  end.

Definition normedI {C} (kind : norm) (ln : vector * vector) (rd : reader C) : reader (C * I.type) :=
  fun di => match kind with
  | no_norm => let r := rd di in fun c => r (fst c)
  | rms_norm =>
      let r := rd (table (d_model M) (fun j => exactly (at1 (fst ln) j) *! di j)) in
      fun c => divide (r (fst c)) (snd c)
  | layer_norm =>
      let r := rd (centreI (table (d_model M) (fun j => exactly (at1 (fst ln) j) *! di j))) in
      let shift := sumI (d_model M) (fun j => exactly (at1 (snd ln) j) *! di j) in
      fun c => divide (r (fst c)) (snd c) +! shift
  end.

Definition spread_of (kind : norm) (x : nat -> R) : R :=
  match kind with layer_norm => spread M (centre M x) | _ => spread M x end.

Lemma sum_over_map {X Y} (xs : list X) (g : X -> Y) f :
  sum_overI (map g xs) f = sum_overI xs (fun x => f (g x)).
Proof. induction xs; simpl; [reflexivity|]. rewrite IHxs; reflexivity. Qed.

Lemma spread_ok {C} kind (rd : reader C) c x : reads rd c x -> spread_of kind x ∈ spreadI kind rd c.
Proof.
  intros H. destruct kind; [apply anything_ok| |]; cbn [spreadI spread_of]; unfold spread;
    apply sqrt_ok, add_ok, exactly_ok; apply divide_ok, size_ok; rewrite sum_over_map;
    apply sum_ok; intros j L; apply sqr_ok.
  - apply reads_channel; assumption.
  - rewrite <- (sum_unit _ (centre M x) j L), sum_centre.
    apply H. intros k. apply centre_ok. intros; apply unit_vector_ok.
Qed.

Theorem normed_ok {C} kind ln (rd : reader C) c x spread :
  reads rd c x -> spread_of kind x ∈ spread ->
  reads (normedI kind ln rd) (c, spread) (normalized M kind ln x).
Proof.
  intros H S di d D.
  assert (Scaled : forall j, real (at1 (fst ln) j) * d j ∈
      table (d_model M) (fun j => exactly (at1 (fst ln) j) *! di j) j).
  { intros j. apply (table_ok _ _ (fun j => real (at1 (fst ln) j) * d j)).
    intros; apply mul_ok; [apply exactly_ok|apply D]. }
  destruct kind; cbn [normedI normalized spread_of fst snd] in *.
  - apply H, D.
  - unfold sum. rewrite (sum_ext _ _ (fun j => x j * (real (at1 (fst ln) j) * d j) * / Transformer.spread M x))
      by (intros; unfold Rdiv; ring).
    rewrite sum_scale. apply divide_ok; [apply H, Scaled|exact S].
  - unfold sum.
    rewrite (sum_ext _ _ (fun j => centre M x j * (real (at1 (fst ln) j) * d j) * / Transformer.spread M (centre M x)
      + real (at1 (snd ln) j) * d j)) by (intros; unfold Rdiv; ring).
    rewrite sum_plus, sum_scale. apply add_ok.
    + apply divide_ok; [|exact S]. fold (sum (d_model M) (fun j => centre M x j * (real (at1 (fst ln) j) * d j))).
      rewrite sum_centre. apply H. intros j. apply centre_ok, Scaled.
    + apply sum_ok; intros j _. apply mul_ok; [apply exactly_ok|apply D].
Qed.
End Reading.
