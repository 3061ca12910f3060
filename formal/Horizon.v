(* Right on every string up to a length, by a search over letter counts inside Coq. *)
From Coq Require Import Lra Lia.
From Tsc Require Export Cover.
Open Scope R_scope.

(* == Nothing is missing from the stored arrays ============================================ *)

Definition sized1 (m : nat) (v : vector) : bool := (length v =? m)%nat.
Definition sized2 (m n : nat) (v : matrix) : bool := (length v =? m)%nat && forallb (sized1 n) v.
Definition sized3 (k m n : nat) (v : tensor) : bool := (length v =? k)%nat && forallb (sized2 m n) v.
Definition or_none {X} (given : list X) (check : bool) : bool :=
  match given with [] => true | _ => check end.

(* No proof needs this; it shows that no default of `nth` stands for a weight. Biases that a model
   does not have are empty lists, and read as 0. *)
Definition complete (M : model) : bool :=
  let '(d, h, e, p, o) := (d_model M, n_heads M, d_head M, d_mlp M, n_outputs M) in
  let ln (kind : norm) (l : vector * vector) :=
    match kind with
    | no_norm => true
    | rms_norm => sized1 d (fst l)
    | layer_norm => sized1 d (fst l) && sized1 d (snd l)
    end in
  forallb (fun check => check) [
    (0 <? n_letters M)%nat; (0 <? o)%nat;
    sized2 (first_letter + n_letters M) d (W_E M);
    sized3 h d e (W_Q M); sized3 h d e (W_K M); sized3 h d e (W_V M); sized3 h e d (W_O M);
    or_none (b_Q M) (sized2 h e (b_Q M)); or_none (b_K M) (sized2 h e (b_K M));
    or_none (b_V M) (sized2 h e (b_V M)); or_none (b_O M) (sized1 d (b_O M));
    sized2 d p (W_in M); or_none (b_in M) (sized1 p (b_in M));
    sized2 p d (W_out M); or_none (b_out M) (sized1 d (b_out M));
    sized2 d o (W_U M); or_none (b_U M) (sized1 o (b_U M)); 
    ln (normalization M) (ln1 M); ln (normalization M) (ln2 M); ln (last_norm M) (ln_final M)].

(* == Rules on letter counts =============================================================== *)

Inductive rule :=
  | at_least (coefficients : list Z) (k : Z)   (* the sum of coefficient times count is k or more *)
  | odd_count (letter : nat)                   (* by its place in the alphabet *)
  | both (p q : rule)
  | denied (p : rule).

Fixpoint linear (cs ms : list Z) : Z :=
  match cs, ms with c :: cs, m :: ms => (c * m + linear cs ms)%Z | _, _ => 0%Z end.
Fixpoint holds (r : rule) (ms : list Z) : bool :=
  match r with
  | at_least cs k => (k <=? linear cs ms)%Z
  | odd_count i => Z.odd (nth i ms 0%Z)
  | both p q => holds p ms && holds q ms
  | denied p => negb (holds p ms)
  end.

(* what a rule says of all counts in a box, if it says the same of all *)
Definition lowest (c : Z) (p : Z * Z) : Z := if (0 <=? c)%Z then fst p else snd p.
Definition highest (c : Z) (p : Z * Z) : Z := if (0 <=? c)%Z then snd p else fst p.
Fixpoint linear_bound (pick : Z -> Z * Z -> Z) (cs : list Z) (b : box) : Z :=
  match cs, b with c :: cs, p :: b => (c * pick c p + linear_bound pick cs b)%Z | _, _ => 0%Z end.
Fixpoint decide (r : rule) (b : box) : option bool :=
  match r with
  | at_least cs k =>
      if (k <=? linear_bound lowest cs b)%Z then Some true
      else if (linear_bound highest cs b <? k)%Z then Some false else None
  | odd_count i =>
      let (lo, hi) := side b i in if (hi <=? lo)%Z then Some (Z.odd lo) else None
  | both p q =>
      match decide p b, decide q b with
      | Some true, Some true => Some true
      | Some false, _ | _, Some false => Some false
      | _, _ => None
      end
  | denied p => option_map negb (decide p b)
  end.

Definition contains (b : box) (ms : list Z) : Prop :=
  Forall2 (fun p m => (fst p <= m <= snd p)%Z) b ms.

Lemma linear_bounds cs : forall b ms, contains b ms ->
  (linear_bound lowest cs b <= linear cs ms <= linear_bound highest cs b)%Z.
Proof.
  induction cs as [|c cs IH]; intros b ms H; destruct H as [|p m b ms P H]; simpl; try lia.
  specialize (IH b ms H). unfold lowest at 1, highest at 1. destruct (Z.leb_spec 0 c); nia.
Qed.

Lemma contains_side b ms i : contains b ms -> (fst (side b i) <= nth i ms 0 <= snd (side b i))%Z.
Proof. intros H; revert i. induction H; intros [|i]; simpl; try lia; [assumption|apply IHForall2]. Qed.

Lemma decide_ok r b ms : contains b ms -> forall v, decide r b = Some v -> holds r ms = v.
Proof.
  intros H. induction r as [cs k|i|p IHp q IHq|p IH]; cbn [decide holds]; intros v D.
  - generalize (linear_bounds cs b ms H); intros L.
    destruct (Z.leb_spec k (linear_bound lowest cs b)).
    + injection D as <-. apply Z.leb_le; lia.
    + destruct (Z.ltb_spec (linear_bound highest cs b) k); [|discriminate].
      injection D as <-. apply Z.leb_gt; lia.
  - generalize (contains_side b ms i H). destruct (side b i) as [lo hi]; cbn [fst snd]; intros B.
    destruct (Z.leb_spec hi lo); [|discriminate]. injection D as <-. f_equal; lia.
  - destruct (decide p b) as [x|], (decide q b) as [y|]; try destruct x; try destruct y;
      try discriminate; injection D as <-;
      try (rewrite (IHp _ eq_refl)); try (rewrite (IHq _ eq_refl)); try reflexivity;
      apply andb_false_r.
  - destruct (decide p b) as [x|]; [|discriminate]. injection D as <-.
    rewrite (IH x eq_refl); reflexivity.
Qed.

(* == Tasks ================================================================================ *)

(* Where a rule holds, each of its questions must have its answer. *)
Definition task := list (rule * list question).

Definition right (M : model) (T : task) (s : list nat) : Prop :=
  forall r qs, In (r, qs) T -> holds r (letter_counts M s) = true ->
  forall q, In q qs -> 0 < quantity M s q.

(* == Attention weights over a box of counts, whatever multiplies the scores ================ *)

Section Weights.
Variable M : model.

Definition letter_sides (b : box) : box := if attend_cls M then tl b else b.
Definition fewest (b : box) : Z := fold_right (fun p n => (fst p + n)%Z) 0%Z (letter_sides b).
Definition most (b : box) : Z := fold_right (fun p n => (snd p + n)%Z) 0%Z (letter_sides b).

Lemma within_contains b ms : within b (map IZR ms) -> contains b ms.
Proof.
  revert b; induction ms as [|m ms IH]; intros b W; inversion W as [|p x b' xs P W']; subst; constructor.
  - destruct P; split; apply le_IZR; assumption.
  - apply IH; assumption.
Qed.

Lemma letters_contained b s : within b (map IZR (counts M s)) -> contains (letter_sides b) (letter_counts M s).
Proof.
  intros W. apply within_contains in W. unfold counts, letter_sides in *.
  destruct (attend_cls M); [inversion W; assumption|exact W].
Qed.

Lemma contains_total b ms : contains b ms ->
  (fold_right (fun p n => fst p + n) 0 b <= fold_right Z.add 0 ms <= fold_right (fun p n => snd p + n) 0 b)%Z.
Proof. induction 1; simpl; lia. Qed.

(* what scores are multiplied by in a box *)
Definition heatI (b : box) : I.type :=
  match scale_of_scores M with
  | plain => one
  | times_log_n cls =>
      let more := Z.of_nat cls in I.ln prec (spanI (fewest b + more, most b + more)%Z)
  end.
Definition heatedI : box -> attention :=
  let scores := scoresI M in
  fun b =>
    let sides := map spanI b in
    let heat := heatI b in
    map (fun row => timesI sides (map (fun x => I.exp prec (heat *! x)) row)) scores.
Definition weighI : box -> attention := if is_plain M then plainI M else heatedI.

Lemma heat_ok s b : proper M s -> (1 <= length s)%nat -> within b (map IZR (counts M s)) ->
  heat M s ∈ heatI b.
Proof.
  intros P L W. unfold heat, heatI. destruct (scale_of_scores M) as [|cls]; [apply whole_ok|].
  assert (C := contains_total _ _ (letters_contained b s W)).
  rewrite letter_counts_total in C by exact P. fold (fewest b) (most b) in C.
  apply ln_ok; [|apply lt_0_INR; lia]. rewrite INR_IZR_INZ, Nat2Z.inj_add.
  apply span_ok; cbn [fst snd]. split; apply IZR_le; lia.
Qed.

Theorem weigh_attends s b : proper M s -> (1 <= length s)%nat -> within b (map IZR (counts M s)) ->
  attends M s (weighI b).
Proof.
  intros P L W. unfold weighI. destruct (is_plain M) eqn:Pl.
  - apply plain_attends with 1; [exact Pl|exact P|lra|].
    replace (map (Rmult 1) (map IZR (counts M s))) with (map IZR (counts M s)); [exact W|].
    rewrite map_map. apply map_ext; intros; ring.
  - assert (H := heat_ok s b P L W). unfold attends, heatedI. generalize (scores_ok M).
    generalize (seq 0 (n_heads M)) (scoresI M).
    induction 1 as [|si h sis hs Sc _ IH]; cbn [map]; constructor; [|exact IH].
    exists (times (map IZR (counts M s)) (map (pull M s h) (vocabulary M))). split.
    + apply times_ok; [apply spans_ok, W|]. clear -Sc H. unfold pull.
      revert Sc. generalize (vocabulary M). induction si as [|x si IH]; intros ts Sc.
      * destruct ts; [constructor|inversion Sc].
      * destruct ts as [|t ts]; inversion Sc; subst. cbn [map]. constructor; [|apply IH; assumption].
        apply exp_ok, mul_ok; assumption.
    + split; [rewrite times_length; rewrite !map_length; [reflexivity|apply counts_length]|].
      exists 1. split; [lra|]. intros f. rewrite keys_by_counts by exact P.
      replace (map IZR (counts M s)) with (map (Rmult 1) (map IZR (counts M s))) at 2.
      * rewrite dot_times. ring.
      * rewrite map_map. apply map_ext; intros; ring.
Qed.
End Weights.

(* == The search =========================================================================== *)

Section Search.
Variables (M : model) (T : task) (N : nat).

(* One set of tables for each rule's questions. *)
Definition judges : list (rule * (attention -> bool)) :=
  map (fun rq => (fst rq, let answers := answersI M (snd rq) in
    fun ws => forallb positive (answers ws))) T.

Definition passes (judges : list (rule * (attention -> bool))) (attend : box -> attention) (b : box) : bool :=
  if (Z.of_nat N <? fewest M b)%Z then true
  else if (most M b <? 1)%Z then true
  else
    let sides := letter_sides M b in
    let decided := map (fun j => (decide (fst j) sides, snd j)) judges in
    if existsb (fun j => match fst j with None => true | _ => false end) decided then false
    else
      let ws := attend b in
      forallb (fun j => match fst j with Some false => true | _ => snd j ws end) decided.

Definition whole_box : box :=
  (if attend_cls M then [(1, 1)]%Z else []) ++ repeat (0, Z.of_nat N)%Z (n_letters M).
Definition right_to : bool :=
  let attend := weighI M in
  let judges := judges in
  cover 1 (passes judges attend) (geometric_cut 1 1) 200 whole_box.

(* == Soundness ============================================================================ *)

Lemma judged s ws : attends M s ws -> forall r qs, In (r, qs) T ->
  forallb positive (answersI M qs ws) = true -> forall q, In q qs -> 0 < quantity M s q.
Proof.
  intros A r qs _ F q Q. assert (E := answers_ok M s ws qs A). clear A.
  revert E F Q. generalize (answersI M qs ws). clear.
  induction qs as [|p qs IH]; intros is E F [].
  - subst p. inversion E as [|i x is' xs I E']; subst. cbn [forallb] in F.
    apply andb_prop in F; destruct F as [F _]. apply positive_ok with (1 := F), I.
  - inversion E as [|i x is' xs I E']; subst. cbn [forallb] in F.
    apply andb_prop in F; destruct F as [_ F]. apply (IH is'); assumption.
Qed.

Definition in_length (s : list nat) : Prop := proper M s /\ (1 <= length s <= N)%nat.

Lemma passes_sound attend b s :
  (in_length s -> within b (map IZR (counts M s)) -> attends M s (attend b)) ->
  passes judges attend b = true -> within b (map IZR (counts M s)) ->
  in_length s -> right M T s.
Proof.
  intros A H W L. specialize (A L W). destruct L as [P L].
  assert (C := letters_contained M b s W). assert (Tot := contains_total _ _ C).
  rewrite letter_counts_total in Tot by exact P. unfold passes, fewest, most in H.
  destruct (Z.ltb_spec (Z.of_nat N) (fold_right (fun p n => (fst p + n)%Z) 0%Z (letter_sides M b))); [lia|].
  destruct (Z.ltb_spec (fold_right (fun p n => (snd p + n)%Z) 0%Z (letter_sides M b)) 1); [lia|].
  destruct (existsb _ _) in H; [discriminate|].
  intros r qs In_T Hr. rewrite forallb_forall in H.
  specialize (H (decide r (letter_sides M b), fun ws => forallb positive (answersI M qs ws))).
  cbn [fst snd] in H. intros q Q. apply (judged s (attend b) A r qs In_T) with (2 := Q).
  destruct (decide r (letter_sides M b)) as [v|] eqn:D.
  - rewrite (decide_ok _ _ _ C v D) in Hr. subst v. apply H.
    unfold judges. rewrite map_map. apply in_map_iff. exists (r, qs). cbn [fst snd]. rewrite D. auto.
  - apply H. unfold judges. rewrite map_map. apply in_map_iff. exists (r, qs). cbn [fst snd]. rewrite D. auto.
Qed.

Lemma whole_apart (s : list nat) i k :
  nth i (map IZR (counts M s)) 0 <= IZR k \/ IZR (k + 1) <= nth i (map IZR (counts M s)) 0.
Proof.
  change 0 with (IZR 0). rewrite map_nth.
  destruct (Z.le_gt_cases (nth i (counts M s) 0%Z) k); [left|right]; apply IZR_le; lia.
Qed.

Lemma in_whole_box s : in_length s -> within whole_box (map IZR (counts M s)).
Proof.
  intros [P L]. unfold whole_box, counts. rewrite map_app. apply Forall2_app.
  - destruct (attend_cls M); repeat constructor; simpl; lra.
  - unfold letter_counts, letters. rewrite map_map.
    generalize first_letter. induction (n_letters M) as [|n IH]; intros from; simpl; constructor; [|apply IH].
    cbn [fst snd]. generalize (count_range s from); intros [C1 C2].
    split; apply IZR_le; lia.
Qed.

(* What an accepted search proves. *)
Theorem right_to_sound : right_to = true ->
  forall s, proper M s -> (1 <= length s <= N)%nat -> right M T s.
Proof.
  unfold right_to; intros H s P L.
  apply (cover_sound (list nat) (fun s => map IZR (counts M s)) (fun s => in_length s -> right M T s) 1)
    with (3 := H).
  - intros b t Q W I. apply (passes_sound (weighI M) b t); auto.
    intros [Pt Lt] Wt. apply weigh_attends; [exact Pt|lia|exact Wt].
  - intros t i k. apply whole_apart.
  - apply in_whole_box; split; assumption.
  - split; assumption.
Qed.
End Search.

(* == One string =========================================================================== *)

Definition exact_box (M : model) (s : list nat) : box := map (fun m => (m, m)) (counts M s).
Definition answers_on (M : model) (s : list nat) (qs : list question) : list I.type :=
  answersI M qs (weighI M (exact_box M s)).
Definition certain (M : model) (s : list nat) (qs : list question) : bool :=
  (0 <? length s)%nat && forallb positive (answers_on M s qs).

Theorem certain_sound M s qs : proper M s -> certain M s qs = true ->
  forall q, In q qs -> 0 < quantity M s q.
Proof.
  intros P H. apply andb_prop in H; destruct H as [L H]. apply Nat.ltb_lt in L.
  assert (A : attends M s (weighI M (exact_box M s))).
  { apply weigh_attends; [exact P|lia|]. unfold exact_box.
    induction (counts M s); simpl; constructor; [cbn [fst snd]; lra|assumption]. }
  apply (judged M [(at_least [] 0, qs)] s _ A (at_least [] 0) qs); [left; reflexivity|exact H].
Qed.
