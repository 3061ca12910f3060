(* Boxes, and trees of cuts: what holds on every leaf holds on the whole box.

   A cut leaves nothing out, wherever it is made, so that nothing has to be known about how cuts are
   chosen. *)
From Coq Require Import Lra Lia.
From Tsc Require Export Answers.
Open Scope R_scope.

Definition box := list (Z * Z).
Definition side (b : box) (i : nat) : Z * Z := nth i b (0, 0)%Z.
Definition within (b : box) (x : list R) : Prop :=
  Forall2 (fun p x => IZR (fst p) <= x <= IZR (snd p)) b x.

Fixpoint replace_at {X} (l : list X) (i : nat) (x : X) : list X :=
  match l, i with [], _ => [] | _ :: l, O => x :: l | y :: l, S i => y :: replace_at l i x end.

Lemma within_side b x i : within b x ->
  IZR (fst (side b i)) <= nth i x 0 <= IZR (snd (side b i)).
Proof. intros H; revert i. induction H; intros [|i]; simpl; try lra; [assumption|apply IHForall2]. Qed.

Lemma within_replaced b x i p : within b x -> IZR (fst p) <= nth i x 0 <= IZR (snd p) ->
  within (replace_at b i p) x.
Proof.
  intros H; revert i. induction H as [|q y b x Q H IH]; intros [|i] P; simpl in *; constructor; auto.
  apply IH; assumption.
Qed.

(* == Covering ============================================================================= *)

Section Cover.
Variables (S : Type) (place : S -> list R) (wanted : S -> Prop).
Variable gap : Z.                              (* 1 where places are whole numbers, else 0 *)
Variable leaf : box -> bool.
Variable cut : box -> option (nat * Z).        (* which side, and where *)

Fixpoint cover (fuel : nat) (b : box) : bool :=
  if leaf b then true else
  match fuel, cut b with
  | Datatypes.S fuel, Some (i, k) =>
      let (lo, hi) := side b i in
      if cover fuel (replace_at b i (lo, k)) then cover fuel (replace_at b i (k + gap, hi)%Z) else false
  | _, _ => false
  end.

Hypothesis leaf_sound : forall b s, leaf b = true -> within b (place s) -> wanted s.
Hypothesis no_place_in_gap :
  forall s i k, nth i (place s) 0 <= IZR k \/ IZR (k + gap) <= nth i (place s) 0.

Theorem cover_sound fuel : forall b s, cover fuel b = true -> within b (place s) -> wanted s.
Proof.
  induction fuel as [|fuel IH]; intros b s C W; cbn [cover] in C;
    (destruct (leaf b) eqn:L; [exact (leaf_sound b s L W)|]); [discriminate|].
  destruct (cut b) as [[i k]|]; [|discriminate].
  generalize (within_side b _ i W). destruct (side b i) as [lo hi]; cbn [fst snd]; intros B.
  destruct (cover fuel (replace_at b i (lo, k))) eqn:C1; [|discriminate].
  destruct (no_place_in_gap s i k) as [G|G].
  - apply (IH _ s C1), within_replaced; [exact W|cbn [fst snd]; lra].
  - apply (IH _ s C), within_replaced; [exact W|cbn [fst snd]; lra].
Qed.
End Cover.

(* == Where to cut ========================================================================= *)

(* The side that is longest as a ratio, at its geometric middle; below `unit`, sides count as short. *)
Section Cuts.
Variables gap unit : Z.
Definition ends (p : Z * Z) : Z * Z :=
  if (snd p <=? fst p + 1 - gap)%Z then (1, 1)%Z else (2 * fst p + unit, 2 * snd p + unit)%Z.
Definition longer (p q : Z * Z) : bool :=
  let '((a, b), (c, d)) := (ends p, ends q) in (c * b <? d * a)%Z.
Definition longest (b : box) : nat :=
  fold_left (fun i j => if longer (side b i) (side b j) then j else i) (seq 1 (length b - 1)) 0%nat.
Definition geometric_cut (b : box) : option (nat * Z) :=
  let i := longest b in
  let (lo, hi) := side b i in
  if (hi <=? lo + 1 - gap)%Z then None
  else if ((lo =? 0) && (gap =? 1))%Z then Some (i, 0%Z)      (* does the letter occur at all? *)
  else
    let middle := (Z.sqrt ((2 * lo + unit) * (2 * hi + unit)) / 2 - unit / 2)%Z in
    Some (i, Z.min (Z.max middle (lo + 1 - gap)) (hi - 1)%Z).
End Cuts.

(* == Counts =============================================================================== *)

Definition count (s : list nat) (t : nat) : Z := Z.of_nat (count_occ Nat.eq_dec s t).
Definition made_of (ts s : list nat) : Prop := Forall (fun t => In t ts) s.

Lemma count_cons t s x : count (t :: s) x = ((if (t =? x)%nat then 1 else 0) + count s x)%Z.
Proof.
  unfold count; simpl. destruct (Nat.eq_dec t x) as [E|N].
  - rewrite (proj2 (Nat.eqb_eq t x) E). lia.
  - rewrite (proj2 (Nat.eqb_neq t x) N). lia.
Qed.

Lemma count_range s t : (0 <= count s t <= Z.of_nat (length s))%Z.
Proof.
  unfold count; split; [lia|]. apply inj_le. induction s as [|x s IH]; simpl; [lia|].
  destruct (Nat.eq_dec x t); lia.
Qed.

Lemma sum_at (ts : list nat) t f : NoDup ts -> In t ts ->
  sum_over ts (fun x => IZR (if (t =? x)%nat then 1 else 0) * f x) = f t.
Proof.
  induction 1 as [|x ts N D IH]; [intros []|]. intros [E|K]; simpl.
  - subst x. rewrite Nat.eqb_refl.
    replace (sum_over ts _) with 0; [ring|]. clear IH D. induction ts as [|y ts IH]; simpl; [reflexivity|].
    rewrite <- IH by (intros K; apply N; right; exact K).
    destruct (Nat.eqb_spec t y) as [E|_]; [elim N; left; auto|ring].
  - destruct (Nat.eqb_spec t x) as [E|_]; [subst; contradiction|]. rewrite IH by exact K. ring.
Qed.

Lemma sum_by_counts ts s f : NoDup ts -> made_of ts s ->
  sum_over s f = sum_over ts (fun t => IZR (count s t) * f t).
Proof.
  intros D. induction 1 as [|t s H P IH]; simpl.
  - clear D. induction ts as [|t ts IH]; simpl; [reflexivity|]. rewrite <- IH. unfold count; simpl; ring.
  - rewrite IH, <- (sum_at ts t f D H), <- sum_plus. apply sum_ext; intros x.
    rewrite count_cons, plus_IZR. ring.
Qed.

Section Counts.
Variable M : model.

Definition proper (s : list nat) : Prop := made_of (letters M) s.
Definition letter_counts (s : list nat) : list Z := map (count s) (letters M).
Definition counts (s : list nat) : list Z := (if attend_cls M then [1%Z] else []) ++ letter_counts s.

Lemma distinct_letters : NoDup (letters M).
Proof. apply seq_NoDup. Qed.

Lemma counts_length s : length (counts s) = length (vocabulary M).
Proof.
  unfold counts, letter_counts, vocabulary. rewrite !app_length, map_length.
  destruct (attend_cls M); reflexivity.
Qed.

Lemma letter_counts_total s : proper s -> fold_right Z.add 0%Z (letter_counts s) = Z.of_nat (length s).
Proof.
  intros P. apply eq_IZR. rewrite <- INR_IZR_INZ.
  replace (INR (length s)) with (sum_over s (fun _ => 1)).
  - rewrite (sum_by_counts _ s _ distinct_letters P). unfold letter_counts.
    induction (letters M) as [|t ts IH]; simpl; [reflexivity|]. rewrite plus_IZR, IH; ring.
  - clear P; induction s as [|t s IH]; [reflexivity|]. simpl length; rewrite S_INR; simpl; rewrite IH; ring.
Qed.

(* attention over a string is a sum over counts *)
Theorem keys_by_counts s f : proper s ->
  sum_over (keys M s) f = dot (map IZR (counts s)) (map f (vocabulary M)).
Proof.
  intros P. unfold keys, counts, vocabulary. rewrite sum_app.
  rewrite (sum_by_counts _ s f distinct_letters P).
  assert (E : dot (map IZR (letter_counts s)) (map f (letters M)) =
    sum_over (letters M) (fun t => IZR (count s t) * f t)).
  { unfold letter_counts. rewrite map_map. apply dot_map. }
  destruct (attend_cls M); simpl; rewrite E; ring.
Qed.

(* == Attention weights over a box of counts, for plain softmax ============================ *)

Fixpoint times (xs ys : list R) : list R :=
  match xs, ys with x :: xs, y :: ys => x * y :: times xs ys | _, _ => [] end.
Fixpoint timesI (xs ys : list I.type) : list I.type :=
  match xs, ys with x :: xs, y :: ys => x *! y :: timesI xs ys | _, _ => [] end.

Lemma times_ok xi x : all_enclosed xi x -> forall yi y, all_enclosed yi y ->
  all_enclosed (timesI xi yi) (times x y).
Proof.
  induction 1 as [|i z is zs Z _ IH]; intros yi ys Y; simpl; [constructor|].
  destruct Y; simpl; constructor; [apply mul_ok; assumption|apply IH; assumption].
Qed.

Lemma times_length xs : forall ys, length xs = length ys -> length (times xs ys) = length ys.
Proof. induction xs; intros [|y ys] L; simpl in *; try discriminate; auto. Qed.

Lemma dot_times k xs ts (f g : nat -> R) : 
  dot (times (map (Rmult k) xs) (map f ts)) (map g ts) = k * dot xs (map (fun t => f t * g t) ts).
Proof. revert ts; induction xs as [|x xs IH]; intros [|t ts]; simpl; try ring. rewrite IH; ring. Qed.

Definition spanI (p : Z * Z) : I.type := I.join (whole (fst p)) (whole (snd p)).

Lemma span_ok p x : IZR (fst p) <= x <= IZR (snd p) -> x ∈ spanI p.
Proof. apply between; [apply join_left, whole_ok|apply join_right, whole_ok]. Qed.

Lemma spans_ok b x : within b x -> all_enclosed (map spanI b) x.
Proof. induction 1; simpl; constructor; auto using span_ok. Qed.

Definition plainI : box -> attention :=
  let pulls := map (map (I.exp prec)) (scoresI M) in
  fun b => let sides := map spanI b in map (timesI sides) pulls.

Lemma exps_ok si xs : all_enclosed si xs -> all_enclosed (map (I.exp prec) si) (map exp xs).
Proof. induction 1; simpl; constructor; auto using exp_ok. Qed.

Definition is_plain : bool := match scale_of_scores M with plain => true | _ => false end.

(* What is said of a scaled point is said of the string: attention only knows ratios. *)
Theorem plain_attends s k b : is_plain = true -> proper s -> 0 < k ->
  within b (map (Rmult k) (map IZR (counts s))) -> attends M s (plainI b).
Proof.
  intros Pl P K W. unfold attends, plainI. generalize (scores_ok M).
  generalize (seq 0 (n_heads M)) (scoresI M).
  induction 1 as [|si h sis hs Sc _ IH]; cbn [map]; constructor; [|exact IH].
  exists (times (map (Rmult k) (map IZR (counts s))) (map exp (map (score M h) (vocabulary M)))). split.
  - apply times_ok; [apply spans_ok, W|apply exps_ok, Sc].
  - split; [|exists (/ k)].
    + rewrite times_length; rewrite !map_length; [reflexivity|apply counts_length].
    + split; [apply Rinv_neq_0_compat; lra|]. intros f.
      rewrite keys_by_counts, (map_map (score M h) exp), dot_times by exact P.
      rewrite <- Rmult_assoc, Rinv_l, Rmult_1_l by lra. f_equal. apply map_ext; intros t.
      unfold pull, heat. unfold is_plain in Pl. destruct (scale_of_scores M); [|discriminate].
      rewrite Rmult_1_l; reflexivity.
Qed.
End Counts.
