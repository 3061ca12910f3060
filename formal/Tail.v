(* Every length at once, where scores grow with log n.

   A key whose score is g below the best weighs at most n^(1+g) of it, however often it occurs; from
   length N on that is at most N^(1+g) if g < -1. So beyond N only the set of letters matters. *)
From Coq Require Import Lra Lia.
From Tsc Require Export Text.
Open Scope R_scope.

Fixpoint sublists {X} (xs : list X) : list (list X) :=
  match xs with [] => [[]] | x :: xs => map (cons x) (sublists xs) ++ sublists xs end.
Definition among (t : nat) (P : list nat) : bool := existsb (Nat.eqb t) P.

Lemma filter_sublist {X} f (xs : list X) : In (filter f xs) (sublists xs).
Proof.
  induction xs as [|x xs IH]; simpl; [left; reflexivity|]. apply in_or_app.
  destruct (f x); [left; apply in_map, IH|right; exact IH].
Qed.

Lemma among_ok t P : among t P = true <-> In t P.
Proof.
  unfold among. rewrite existsb_exists. split.
  - intros [x [K E]]. apply Nat.eqb_eq in E. subst; exact K.
  - intros K. exists t. split; [exact K|apply Nat.eqb_refl].
Qed.

Lemma largest (f : nat -> R) xs : xs <> [] -> exists x, In x xs /\ forall y, In y xs -> f y <= f x.
Proof.
  induction xs as [|x xs IH]; [congruence|]. intros _. destruct xs as [|y ys].
  - exists x. split; [left; reflexivity|]. intros z [E|[]]; subst; lra.
  - destruct (IH ltac:(discriminate)) as [m [K L]]. destruct (Rle_lt_dec (f m) (f x)) as [G|G].
    + exists x. split; [left; reflexivity|]. intros z [E|Z]; [subst; lra|]. specialize (L z Z). lra.
    + exists m. split; [right; exact K|]. intros z [E|Z]; [subst; lra|]. exact (L z Z).
Qed.

(* == The check ============================================================================ *)

Section Tail.
Variables (M : model) (needed : list nat) (N : nat).

Definition log_N : I.type := I.ln prec (whole (Z.of_nat N)).
Definition row := list (nat * I.type).         (* tokens and their scores for one head *)
Definition rows : list row := map (combine (vocabulary M)) (scoresI M).

(* how much of a key of this score there can be, if all of P occur: 1, or less beside a better one *)
Definition capped (P : list nat) (x : I.type) (b : nat * I.type) (most : I.type) : I.type :=
  if among (fst b) P then
    let g := one +! x -! snd b in
    if nonpositive g then I.meet most (I.join zero (I.exp prec (log_N *! g))) else most
  else most.
Definition share (P : list nat) (r : row) (x : I.type) : I.type :=
  fold_right (capped P x) (I.join zero one) r.

(* the weights if `top` weighs most, and has weight 1 *)
Definition weights_under (P : list nat) (r : row) (top : nat) : list I.type :=
  map (fun b => if (fst b =? top)%nat then one else if among (fst b) P then share P r (snd b) else zero) r.
Definition can_lead (P : list nat) (r : row) (b : nat * I.type) : bool :=
  if among (fst b) P then negb (positive (one -! share P r (snd b))) else false.
Definition weights_of_head (P : list nat) (r : row) : list (list I.type) :=
  map (weights_under P r) (map fst (filter (can_lead P r) r)).
Definition choices (heads : list (list (list I.type))) : list attention :=
  fold_right (fun ways rest => flat_map (fun w => map (cons w) rest) ways) [[]] heads.

Definition supports : list (list nat) :=
  map (app (if attend_cls M then [CLS] else []))
    (filter (fun P => match P with [] => false | _ => true end) (sublists (letters M))).
Definition verdict (P : list nat) : question :=
  if forallb (fun t => among t P) needed then accepts else rejects.

Definition right_from : bool :=
  negb (is_plain M) && (0 <? N)%nat && forallb (fun t => among t (letters M)) needed &&
  let rows := rows in
  let yes := answersI M [accepts] in
  let no := answersI M [rejects] in
  forallb (fun P =>
    let answer := match verdict P with accepts => yes | _ => no end in
    forallb (fun ws => forallb positive (answer ws)) (choices (map (weights_of_head P) rows))) supports.

(* == Soundness ============================================================================ *)

Variable s : list nat.
Hypothesis s_proper : proper M s.
Hypothesis s_long : (N <= length s)%nat.
Hypothesis N_positive : (0 < N)%nat.
Hypothesis not_plain : is_plain M = false.

Definition times_of (t : nat) : Z := if (t =? CLS)%nat then 1%Z else count s t.
Definition support : list nat :=
  (if attend_cls M then [CLS] else []) ++ filter (fun t => (1 <=? count s t)%Z) (letters M).

Lemma letter_not_CLS t : In t (letters M) -> (t =? CLS)%nat = false.
Proof. intros H. apply in_seq in H. apply Nat.eqb_neq. unfold first_letter, CLS in *. lia. Qed.

Lemma counts_times : counts M s = map times_of (vocabulary M).
Proof.
  unfold counts, letter_counts, vocabulary. rewrite map_app. f_equal.
  - destruct (attend_cls M); reflexivity.
  - apply map_ext_in. intros t H. unfold times_of. rewrite letter_not_CLS by exact H. reflexivity.
Qed.

Lemma support_times t : In t (vocabulary M) ->
  (In t support -> (1 <= times_of t)%Z) /\ (~ In t support -> times_of t = 0%Z).
Proof.
  unfold vocabulary, support. intros V. apply in_app_or in V. split.
  - intros H. apply in_app_or in H. destruct H as [H|H].
    + destruct (attend_cls M); [|destruct H]. destruct H as [<-|[]]. unfold times_of; simpl; lia.
    + apply filter_In in H. destruct H as [H C]. apply Z.leb_le in C.
      unfold times_of. rewrite letter_not_CLS by exact H. exact C.
  - intros H. destruct V as [V|V]; [elim H; apply in_or_app; left; exact V|].
    unfold times_of. rewrite letter_not_CLS by exact V. generalize (count_range s t); intros.
    destruct (Z.le_gt_cases 1 (count s t)) as [C|C]; [|lia]. elim H. apply in_or_app; right.
    apply filter_In. split; [exact V|apply Z.leb_le, C].
Qed.

Lemma support_vocabulary t : In t support -> In t (vocabulary M).
Proof.
  unfold support, vocabulary; rewrite !in_app_iff, filter_In. tauto.
Qed.

Lemma in_support t : In t (letters M) -> (In t support <-> In t s).
Proof.
  intros L. destruct (support_times t) as [H1 H2].
  { unfold vocabulary. apply in_or_app; right; exact L. }
  unfold times_of in *. rewrite letter_not_CLS in * by exact L. unfold count in *.
  split; intros H; [specialize (H1 H); apply (count_occ_In Nat.eq_dec); lia|].
  apply (count_occ_In Nat.eq_dec) in H. destruct (in_dec Nat.eq_dec t support) as [|K]; [assumption|]. specialize (H2 K). lia.
Qed.

Lemma support_listed : In support supports.
Proof.
  unfold supports, support. apply in_map, filter_In. split; [apply filter_sublist|].
  destruct (filter _ (letters M)) as [|t ts] eqn:E; [exfalso|reflexivity].
  destruct s as [|x s'] eqn:Es; [simpl in s_long; lia|].
  assert (L : In x (letters M)) by (inversion s_proper; assumption).
  assert (K : In x (filter (fun t => (1 <=? count (x :: s') t)%Z) (letters M))).
  { apply filter_In. split; [exact L|]. apply Z.leb_le. rewrite count_cons, Nat.eqb_refl.
    generalize (count_range s' x). lia. }
  rewrite E in K. destruct K.
Qed.

Lemma support_not_empty : support <> [].
Proof.
  generalize support_listed. unfold supports. intros H E. apply in_map_iff in H.
  destruct H as [P [A F]]. apply filter_In in F. destruct F as [_ F].
  rewrite E in A. apply app_eq_nil in A. destruct A as [_ A]. subst P. discriminate.
Qed.

Definition n : R := exp (heat M s).

Lemma heat_log : heat M s = ln n.
Proof. unfold n. rewrite ln_exp. reflexivity. Qed.

Lemma length_le_n : INR (length s) <= n /\ ln (INR N) <= heat M s /\ 1 <= n.
Proof.
  unfold n, heat, is_plain in *. destruct (scale_of_scores M) as [|cls]; [discriminate|].
  assert (P : 0 < INR N) by (apply lt_0_INR; lia).
  assert (Q : 0 < INR (length s + cls)) by (apply lt_0_INR; lia).
  rewrite exp_ln by exact Q. repeat split.
  - apply le_INR; lia.
  - destruct (Nat.eq_dec N (length s + cls)) as [<-|D]; [lra|].
    apply Rlt_le, ln_increasing; [exact P|]. apply lt_INR; lia.
  - replace 1 with (INR 1) by reflexivity. apply le_INR; lia.
Qed.

Section Head.
Variable h : nat.
Definition weight (t : nat) : R := IZR (times_of t) * pull M s h t.

Lemma weight_range t : In t support ->
  exp (heat M s * score M h t) <= weight t <= exp (heat M s * (1 + score M h t)).
Proof.
  intros H. destruct (support_times t (support_vocabulary t H)) as [L _]. specialize (L H).
  assert (U : IZR (times_of t) <= n).
  { destruct length_le_n as [A [_ B]]. unfold times_of. destruct (t =? CLS)%nat; [exact B|].
    apply Rle_trans with (2 := A). rewrite INR_IZR_INZ. apply IZR_le, count_range. }
  apply IZR_le in L. unfold weight, pull.
  replace (heat M s * (1 + score M h t)) with (heat M s + heat M s * score M h t) by ring.
  rewrite exp_plus. fold n. generalize (exp_pos (heat M s * score M h t)). intros. split; nra.
Qed.

Variable r : row.
Hypothesis r_tokens : map fst r = vocabulary M.
Hypothesis r_scores : Forall (fun b => score M h (fst b) ∈ snd b) r.
Variable top : nat.
Hypothesis top_in : In top support.
Hypothesis top_largest : forall t, In t support -> weight t <= weight top.

Definition part (t : nat) : R := weight t / weight top.

Lemma top_pos : 0 < weight top.
Proof. apply Rlt_le_trans with (2 := proj1 (weight_range top top_in)). apply exp_pos. Qed.

Lemma part_range t : In t support -> 0 <= part t <= 1.
Proof.
  intros H. generalize top_pos (top_largest t H) (weight_range t H) (exp_pos (heat M s * score M h t)).
  intros P L [W _] E. unfold part. split.
  - apply Rlt_le, Rdiv_lt_0_compat; lra.
  - apply Rmult_le_reg_r with (1 := P). unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.

Lemma part_beside t b : In t support -> In b support -> 1 + score M h t - score M h b <= 0 ->
  part t <= exp (ln (INR N) * (1 + score M h t - score M h b)).
Proof.
  intros T B G. set (g := 1 + score M h t - score M h b) in *.
  apply Rle_trans with (exp (heat M s * g)).
  - assert (W := proj1 (weight_range b B)). assert (V := proj2 (weight_range t T)).
    assert (L := top_largest b B). generalize top_pos (exp_pos (heat M s * score M h b)). intros P E.
    unfold part. apply Rmult_le_reg_r with (1 := P).
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
    replace (heat M s * (1 + score M h t)) with (heat M s * g + heat M s * score M h b) in V
      by (unfold g; ring).
    rewrite exp_plus in V. generalize (exp_pos (heat M s * g)). intros. nra.
  - apply exp_le. destruct length_le_n as [_ [L _]]. nra.
Qed.

Lemma share_ok t x : In t support -> score M h t ∈ x -> part t ∈ share support r x.
Proof.
  intros T X. unfold share. clear r_tokens. revert r_scores.
  induction r as [|b bs IH]; intros Fs; cbn [fold_right].
  - apply between with 0 1; [apply join_left, whole_ok|apply join_right, whole_ok|].
    apply part_range, T.
  - inversion Fs as [|b' bs' B Fs']; subst b' bs'. specialize (IH Fs').
    unfold capped at 1. destruct (among (fst b) support) eqn:A; [|exact IH]. apply among_ok in A.
    assert (G : 1 + score M h t - score M h (fst b) ∈ one +! x -! snd b).
    { apply sub_ok; [|exact B]. apply add_ok; [apply whole_ok|exact X]. }
    cbv zeta. destruct (nonpositive _) eqn:Np; [|exact IH]. apply nonpositive_ok with (2 := G) in Np.
    apply meet_ok; [exact IH|].
    apply between with 0 (exp (ln (INR N) * (1 + score M h t - score M h (fst b)))).
    + apply join_left, whole_ok.
    + apply join_right, exp_ok, mul_ok; [|exact G]. unfold log_N.
      apply ln_ok; [rewrite INR_IZR_INZ; apply whole_ok|apply lt_0_INR; lia].
    + split; [apply part_range, T|apply part_beside; assumption].
Qed.

Lemma part_top : part top = 1.
Proof. unfold part. generalize top_pos; intros; field; lra. Qed.

Lemma weights_under_ok : all_enclosed (weights_under support r top) (map part (vocabulary M)).
Proof.
  rewrite <- r_tokens, map_map. unfold weights_under. apply enclosed_map. intros b Hb.
  assert (X : score M h (fst b) ∈ snd b) by exact (proj1 (Forall_forall _ _) r_scores b Hb).
  assert (V : In (fst b) (vocabulary M)) by (rewrite <- r_tokens; apply in_map, Hb).
  destruct (Nat.eqb_spec (fst b) top) as [E|_]; [rewrite E, part_top; apply whole_ok|].
  destruct (among (fst b) support) eqn:A.
  - apply share_ok; [apply among_ok, A|exact X].
  - destruct (support_times _ V) as [_ Z]. unfold part, weight.
    rewrite Z, Rmult_0_l by (intros K; apply among_ok in K; congruence).
    unfold Rdiv; rewrite Rmult_0_l. apply whole_ok.
Qed.

Lemma top_can_lead : In (weights_under support r top) (weights_of_head support r).
Proof.
  unfold weights_of_head. apply in_map.
  assert (V := support_vocabulary top top_in). rewrite <- r_tokens in V.
  apply in_map_iff in V. destruct V as [b [E Hb]]. rewrite <- E. apply in_map, filter_In.
  split; [exact Hb|]. unfold can_lead. rewrite (proj2 (among_ok _ _)) by (rewrite E; exact top_in).
  apply negb_true_iff. destruct (positive _) eqn:P; [exfalso|reflexivity].
  assert (X := proj1 (Forall_forall _ _) r_scores b Hb). cbv beta in X. rewrite E in X.
  apply positive_ok with (x := 1 - 1) in P; [lra|]. apply sub_ok; [apply whole_ok|].
  rewrite <- part_top. apply share_ok; assumption.
Qed.

Lemma parts_stand : stand_for M s h (map part (vocabulary M)).
Proof.
  split; [apply map_length|]. exists (weight top). generalize top_pos; intros P. split; [lra|]. intros f.
  rewrite keys_by_counts, counts_times, map_map, !dot_map by exact s_proper.
  unfold part. revert P. generalize (weight top); intros w P.
  rewrite Rmult_comm, <- sum_scale. apply sum_ext; intros t. unfold weight. field. lra.
Qed.
End Head.

Lemma some_choice : exists ws, In ws (choices (map (weights_of_head support) rows)) /\ attends M s ws.
Proof.
  unfold attends, rows. rewrite map_map. generalize (scores_ok M).
  generalize (seq 0 (n_heads M)) (scoresI M).
  induction 1 as [|si h sis hs Sc _ [ws [K A]]].
  - exists []. split; [left; reflexivity|constructor].
  - destruct (largest (weight h) support support_not_empty) as [top [T L]].
    assert (Tok : map fst (combine (vocabulary M) si) = vocabulary M).
    { assert (Len : length si = length (map (score M h) (vocabulary M))).
      { clear -Sc. induction Sc; simpl; congruence. }
      rewrite map_length in Len. clear -Len. revert si Len.
      induction (vocabulary M) as [|t ts IH]; intros [|i si] E; simpl in *; try discriminate; [reflexivity|].
      rewrite IH by congruence. reflexivity. }
    assert (Fs : Forall (fun b => score M h (fst b) ∈ snd b) (combine (vocabulary M) si)).
    { clear -Sc. revert si Sc. induction (vocabulary M) as [|t ts IH]; intros si Sc; simpl; [constructor|].
      inversion Sc; subst. constructor; [assumption|apply IH; assumption]. }
    exists (weights_under support (combine (vocabulary M) si) top :: ws). split.
    + cbn [map choices fold_right]. apply in_flat_map.
      eexists. split; [apply (top_can_lead h _ Tok Fs top T L)|apply in_map, K].
    + constructor; [|exact A]. eexists. split.
      * apply (weights_under_ok h _ Tok Fs top T L).
      * apply parts_stand, T.
Qed.
End Tail.

Theorem right_from_sound M needed N : right_from M needed N = true -> forall s, proper M s ->
  (N <= length s)%nat ->
  0 < quantity M s (if forallb (fun t => among t s) needed then accepts else rejects).
Proof.
  unfold right_from. rewrite !andb_true_iff. intros [[[Np P] Nd] H] s Ps L.
  apply negb_true_iff in Np. apply Nat.ltb_lt in P. rewrite forallb_forall in H, Nd.
  specialize (H _ (support_listed M N s Ps L P)). rewrite forallb_forall in H.
  destruct (some_choice M N s Ps L P Np) as [ws [K A]]. specialize (H ws K).
  assert (E : forallb (fun t => among t (support M s)) needed = forallb (fun t => among t s) needed).
  { apply eq_true_iff_eq. rewrite !forallb_forall.
    split; intros F t Ht; specialize (F t Ht); specialize (Nd t Ht); rewrite among_ok in *;
      apply (in_support M N s L P t Nd), F. }
  unfold verdict in H. rewrite E in H.
  destruct (forallb (fun t => among t s) needed).
  - apply (judged M [(at_least [] 0, [accepts])] s ws A (at_least [] 0) [accepts]); [left; reflexivity|exact H|left; reflexivity].
  - apply (judged M [(at_least [] 0, [rejects])] s ws A (at_least [] 0) [rejects]); [left; reflexivity|exact H|left; reflexivity].
Qed.

(* == In the model's own letters =========================================================== *)

Section Everywhere.
Variables (M : model) (letter : Type) (token : letter -> nat).
Hypothesis tokens_differ : forall x y, token x = token y -> x = y.
Hypothesis all_letters : forall x, In (token x) (letters M).
Variable r : rule.
Variable wanted : list letter -> Prop.
Hypothesis meaning : forall s, holds r (letter_counts M (map token s)) = true <-> wanted s.
Variable needed : list letter.
Hypothesis needs : forall s, (forall x, In x needed -> In x s) <-> wanted s.

(* Right on every string: up to N by the search over counts, beyond it by sets of letters. *)
Theorem right_everywhere (N : nat) :
  right_to M (yes_or_no r) N = true -> right_from M (map token needed) N = true ->
  forall s, s <> [] -> right_on M letter token wanted s.
Proof.
  intros Short Long s Ne. destruct (Nat.le_gt_cases (length s) N) as [L|L].
  - apply (right_through M letter token all_letters r wanted meaning N Short).
    destruct s; [congruence|simpl in *; lia].
  - assert (Q := right_from_sound M _ N Long (map token s)
      (proper_text M letter token all_letters s) ltac:(rewrite map_length; lia)).
    unfold right_on, answer. rewrite <- needs.
    destruct (forallb (fun t => among t (map token s)) (map token needed)) eqn:F; simpl in Q.
    + split; [intros _ x Hx|intros _; exact Q].
      rewrite forallb_forall in F. specialize (F _ (in_map token _ _ Hx)). apply among_ok in F.
      apply in_map_iff in F. destruct F as [y [E Hy]]. rewrite <- (tokens_differ _ _ E). exact Hy.
    + split; [lra|]. intros K. apply not_true_iff_false in F. elim F. apply forallb_forall.
      intros t Ht. apply in_map_iff in Ht. destruct Ht as [x [E Hx]]. subst t.
      apply among_ok, in_map, K, Hx.
Qed.
End Everywhere.
