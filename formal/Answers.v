(* From the weights that each head gives to each token, to what the model answers.

   A string enters only through these weights, and they only up to a factor for each head: that is
   why strings of any length can be treated by ratios. *)
From Coq Require Import Lra Lia.
From Tsc Require Export Reading.
Open Scope R_scope.

(* == What is asked of a model ============================================================= *)

(* Each question is a quantity that is positive when the answer is as it should be. *)
Inductive question :=
  | accepts                               (* 0 < logit *)
  | rejects                               (* logit < 0 *)
  | prefers (better worse : nat).         (* one output is above another *)

Definition quantity (M : model) (s : list nat) (q : question) : R :=
  match q with
  | accepts => logit M s 0
  | rejects => - logit M s 0
  | prefers y y' => logit M s y - logit M s y'
  end.

Section Answers.
Variable M : model.
Let heads := seq 0 (n_heads M).
Let neurons := seq 0 (d_mlp M).

Definition vocabulary : list nat := (if attend_cls M then [CLS] else []) ++ letters M.

(* == Scores and values, from the weights ================================================== *)

Definition embeddingI (t : nat) : reader unit :=
  fun di => let read := sumI (d_model M) (fun j => exactly (at2 (W_E M) t j) *! di j) in fun _ => read.
Definition projectI (W : tensor) (b : matrix) (t : nat) : nat -> nat -> I.type :=
  let kind := normalization M in
  let spread := spreadI M kind (embeddingI t) tt in
  table2 (n_heads M) (d_head M) (fun h i =>
    normedI M kind (ln1 M) (embeddingI t) (fun j => exactly (at3 W h j i)) (tt, spread)
    +! exactly (at2 b h i)).

(* for each head, the scores of the vocabulary *)
Definition scoresI : list (list I.type) :=
  let asked := projectI (W_Q M) (b_Q M) CLS in
  let root := I.sqrt prec (whole (Z.of_nat (d_head M))) in
  let offered := map (projectI (W_K M) (b_K M)) vocabulary in
  map (fun h => map (fun k => divide (sumI (d_head M) (fun i => asked h i *! k h i)) root) offered) heads.

(* == The residual stream, the neurons, the outputs ======================================== *)

Definition attention := list (list I.type).    (* for each head, the weights of the vocabulary *)

Definition midI (values : list (nat -> nat -> I.type)) : reader attention := fun di =>
  let start := sumI (d_model M) (fun j => (exactly (at2 (W_E M) CLS j) +! exactly (at1 (b_O M) j)) *! di j) in
  let gains := table2 (n_heads M) (d_head M) (fun h i =>
    sumI (d_model M) (fun j => exactly (at3 (W_O M) h i j) *! di j)) in
  let seen := map (fun h => map (fun v => sumI (d_head M) (fun i => v h i *! gains h i)) values) heads in
  fun ws => start +! totalI (map (fun p => meanI (fst p) (snd p)) (combine ws seen)).

Definition neuronsI (mid : reader attention) : attention -> list I.type :=
  let kind := normalization M in
  let spread := spreadI M kind mid in
  let pres := map (fun k =>
    (normedI M kind (ln2 M) mid (fun j => exactly (at2 (W_in M) j k)), exactly (at1 (b_in M) k))) neurons in
  fun ws => let sp := spread ws in map (fun p => actI M (fst p (ws, sp) +! snd p)) pres.

Definition postI (mid : reader attention) : reader (attention * list I.type) := fun di =>
  let read := mid di in
  let outs := map (fun k => sumI (d_model M) (fun j => exactly (at2 (W_out M) k j) *! di j)) neurons in
  let start := sumI (d_model M) (fun j => exactly (at1 (b_out M) j) *! di j) in
  fun c => read (fst c) +! dotI (snd c) outs +! start.

Definition last_norm : norm := if final_norm M then normalization M else no_norm.
Definition column (q : question) (j : nat) : R :=
  let u o := real (at2 (W_U M) j o) in
  match q with accepts => u 0%nat | rejects => - u 0%nat | prefers y y' => u y - u y' end.
Definition columnI (q : question) (j : nat) : I.type :=
  let u o := exactly (at2 (W_U M) j o) in
  match q with accepts => u 0%nat | rejects => I.neg (u 0%nat) | prefers y y' => u y -! u y' end.
Definition constant_of (q : question) : R :=
  let u o := real (at1 (b_U M) o) in
  match q with accepts => u 0%nat | rejects => - u 0%nat | prefers y y' => u y - u y' end.
Definition constantI (q : question) : I.type :=
  let u o := exactly (at1 (b_U M) o) in
  match q with accepts => u 0%nat | rejects => I.neg (u 0%nat) | prefers y y' => u y -! u y' end.

(* the quantities of some questions, given the attention weights *)
Definition answersI (qs : list question) : attention -> list I.type :=
  let mid := midI (map (projectI (W_V M) (b_V M)) vocabulary) in
  let active := neuronsI mid in
  let post := postI mid in
  let spread := spreadI M last_norm post in
  let outs := map (fun q => (normedI M last_norm (ln_final M) post (columnI q), constantI q)) qs in
  fun ws =>
    let c := (ws, active ws) in
    let sp := spread c in
    map (fun o => fst o (c, sp) +! snd o) outs.

(* == Soundness ============================================================================ *)

(* Weights stand for a head's attention on a string if they are proportional to it. *)
Definition stand_for (s : list nat) (h : nat) (ws : list R) : Prop :=
  length ws = length vocabulary /\ exists k, k <> 0 /\
  forall f, sum_over (keys M s) (fun t => pull M s h t * f t) = k * dot ws (map f vocabulary).

Definition attends (s : list nat) (wsI : attention) : Prop :=
  Forall2 (fun wI h => exists ws, all_enclosed wI ws /\ stand_for s h ws) wsI heads.

Lemma embedding_ok t : reads M (embeddingI t) tt (embedded M t).
Proof. intros di d D. apply sum_ok; intros j _. apply mul_ok; [apply exactly_ok|apply D]. Qed.

Lemma project_ok W b h t i : project M W b h t i ∈ projectI W b t h i.
Proof.
  unfold projectI. apply (table2_ok _ _ _ (fun h i => project M W b h t i)). clear h i; intros h i.
  apply add_ok; [|apply exactly_ok].
  apply (normed_ok M _ _ _ _ _ _ (embedding_ok t) (spread_ok M _ _ _ _ (embedding_ok t))).
  intros; apply exactly_ok.
Qed.

Lemma scores_ok : Forall2 (fun si h => all_enclosed si (map (score M h) vocabulary)) scoresI heads.
Proof.
  unfold scoresI. generalize heads; intros hs.
  induction hs as [|h hs IH]; cbn [map]; constructor; [|exact IH].
  rewrite map_map. apply enclosed_map. intros t _. apply divide_ok.
  - apply sum_ok; intros i _. apply mul_ok; apply project_ok.
  - rewrite INR_IZR_INZ. apply sqrt_ok, whole_ok.
Qed.

Lemma z_mean s h ws i : stand_for s h ws ->
  z M s h i = mean ws (map (fun t => project M (W_V M) (b_V M) h t i) vocabulary).
Proof.
  intros [L [k [K E]]]. unfold z, mean. rewrite E.
  rewrite (sum_ext _ (pull M s h) (fun t => pull M s h t * 1)) by (intros; ring).
  rewrite E, (total_dot ws _ L).
  replace (map (fun _ => 1) vocabulary) with (repeat 1 (length vocabulary))
    by (clear; induction vocabulary; simpl; congruence).
  unfold Rdiv. rewrite Rinv_mult.
  set (d := dot ws _); set (e := / dot ws (repeat 1 _)). field; exact K.
Qed.

Lemma mean_scale {X} ws (xs : list X) f k : mean ws (map f xs) * k = mean ws (map (fun x => f x * k) xs).
Proof.
  assert (D : forall ws, dot ws (map f xs) * k = dot ws (map (fun x => f x * k) xs)).
  { induction xs as [|x xs IH]; intros [|w ws']; simpl; try ring. rewrite <- IH; ring. }
  unfold mean, Rdiv. rewrite <- D; ring.
Qed.

Lemma mean_sum {X} ws (xs : list X) (ys : list nat) f :
  sum_over ys (fun y => mean ws (map (f y) xs)) = mean ws (map (fun x => sum_over ys (fun y => f y x)) xs).
Proof.
  assert (D : forall g h, dot ws (map (fun x => g x + h x) xs) = dot ws (map g xs) + dot ws (map h xs)).
  { intros g h; revert ws; induction xs as [|x xs IH]; intros [|w ws]; simpl; try ring. rewrite IH; ring. }
  unfold mean, Rdiv. rewrite sum_scale. f_equal. induction ys as [|y ys IH]; simpl.
  - clear D; revert ws; induction xs as [|x xs IH]; intros [|w ws]; simpl; try ring. rewrite <- IH; ring.
  - rewrite IH, D; reflexivity.
Qed.

Lemma resid_along s d : sum (d_model M) (fun j => resid_mid M s j * d j) =
  sum (d_model M) (fun j => (embedded M CLS j + real (at1 (b_O M) j)) * d j) +
  sum (n_heads M) (fun h => sum (d_head M) (fun i =>
    z M s h i * sum (d_model M) (fun j => real (at3 (W_O M) h i j) * d j))).
Proof.
  unfold resid_mid, sum.
  rewrite (sum_ext _ _ (fun j => (embedded M CLS j + real (at1 (b_O M) j)) * d j +
    sum_over (seq 0 (n_heads M)) (fun h => sum_over (seq 0 (d_head M)) (fun i =>
      z M s h i * (real (at3 (W_O M) h i j) * d j))))).
  2:{ intros j. rewrite !Rmult_plus_distr_r, <- sum_scale.
      rewrite (sum_ext _ (fun h => sum_over _ _ * d j) (fun h => sum_over (seq 0 (d_head M)) (fun i =>
        z M s h i * (real (at3 (W_O M) h i j) * d j)))); [ring|].
      intros h. rewrite <- sum_scale. apply sum_ext; intros; ring. }
  rewrite sum_plus, sum_swap. f_equal. apply sum_ext; intros h.
  rewrite sum_swap. apply sum_ext; intros i.
  rewrite (sum_ext _ _ (fun j => real (at3 (W_O M) h i j) * d j * z M s h i)) by (intros; ring).
  rewrite sum_scale. ring.
Qed.

Lemma mid_ok s ws : attends s ws ->
  reads M (midI (map (projectI (W_V M) (b_V M)) vocabulary)) ws (resid_mid M s).
Proof.
  intros A di d D. rewrite resid_along. unfold midI.
  set (gains := table2 _ _ _).
  assert (G : forall h i, sum (d_model M) (fun j => real (at3 (W_O M) h i j) * d j) ∈ gains h i).
  { intros h i. apply (table2_ok _ _ _ (fun h i => sum (d_model M) (fun j => real (at3 (W_O M) h i j) * d j))).
    clear h i; intros h i. apply sum_ok; intros j _. apply mul_ok; [apply exactly_ok|apply D]. }
  clearbody gains. apply add_ok.
  - apply sum_ok; intros j _. apply mul_ok; [|apply D]. apply add_ok; apply exactly_ok.
  - change (sum (n_heads M)) with (sum_over heads). unfold attends in A. revert A.
    generalize heads; intros hs A.
    induction A as [|wI h wsI hs [w [W St]] A IH]; cbn [sum_over map combine totalI fst snd].
    + apply whole_ok.
    + apply add_ok; [|exact IH].
      unfold sum at 1.
      rewrite (sum_ext _ _ (fun i => mean w (map (fun t => project M (W_V M) (b_V M) h t i *
        sum (d_model M) (fun j => real (at3 (W_O M) h i j) * d j)) vocabulary)))
        by (intros i; rewrite (z_mean s h w i St); apply mean_scale).
      rewrite mean_sum. rewrite map_map. destruct St as [L _]. apply mean_ok; [exact W| |].
      * apply enclosed_map. intros t _. apply sum_ok; intros i _. apply mul_ok; [apply project_ok|apply G].
      * rewrite map_length. exact L.
Qed.

Lemma neurons_ok mid s ws : reads M mid ws (resid_mid M s) ->
  all_enclosed (neuronsI mid ws) (map (fun k => act M (pre M s k)) neurons).
Proof.
  intros H. unfold neuronsI. rewrite map_map. apply enclosed_map. intros k _. cbn [fst snd].
  apply act_ok, add_ok; [|apply exactly_ok].
  apply (normed_ok M _ _ _ _ _ _ H (spread_ok M _ _ _ _ H)). intros; apply exactly_ok.
Qed.

Lemma post_ok mid s ws : reads M mid ws (resid_mid M s) ->
  reads M (postI mid) (ws, neuronsI mid ws) (resid_post M s).
Proof.
  intros H di d D. unfold postI. cbn [fst snd].
  replace (sum (d_model M) (fun j => resid_post M s j * d j)) with
    (sum (d_model M) (fun j => resid_mid M s j * d j) +
     dot (map (fun k => act M (pre M s k)) neurons)
       (map (fun k => sum (d_model M) (fun j => real (at2 (W_out M) k j) * d j)) neurons) +
     sum (d_model M) (fun j => real (at1 (b_out M) j) * d j)).
  - apply add_ok; [apply add_ok|].
    + apply H, D.
    + apply dot_ok; [apply neurons_ok, H|]. apply enclosed_map; intros k _.
      apply sum_ok; intros j _. apply mul_ok; [apply exactly_ok|apply D].
    + apply sum_ok; intros j _. apply mul_ok; [apply exactly_ok|apply D].
  - rewrite dot_map. unfold resid_post, sum. fold neurons.
    rewrite (sum_ext neurons _ (fun k => sum_over (seq 0 (d_model M)) (fun j =>
      act M (pre M s k) * real (at2 (W_out M) k j) * d j))).
    2:{ intros k. rewrite Rmult_comm, <- sum_scale. apply sum_ext; intros; ring. }
    rewrite (sum_swap neurons), <- !sum_plus. apply sum_ext; intros j.
    rewrite !Rmult_plus_distr_r, <- sum_scale. reflexivity.
Qed.

Lemma column_ok q j : column q j ∈ columnI q j.
Proof. destruct q; [apply exactly_ok|apply neg_ok, exactly_ok|apply sub_ok; apply exactly_ok]. Qed.

Lemma constant_ok q : constant_of q ∈ constantI q.
Proof. destruct q; [apply exactly_ok|apply neg_ok, exactly_ok|apply sub_ok; apply exactly_ok]. Qed.

Lemma quantity_reads s q : quantity M s q =
  sum (d_model M) (fun j => normalized M last_norm (ln_final M) (resid_post M s) j * column q j) +
  constant_of q.
Proof.
  unfold quantity, logit, column, constant_of. fold last_norm. unfold sum. destruct q as [| |y y'].
  - reflexivity.
  - rewrite Ropp_plus_distr. f_equal.
    rewrite (sum_ext _ (fun j => _ * - _) (fun j => normalized M last_norm (ln_final M) (resid_post M s) j *
      real (at2 (W_U M) j 0) * -1)) by (intros; ring).
    rewrite sum_scale. ring.
  - rewrite (sum_ext _ (fun j => _ * (_ - _)) (fun j => normalized M last_norm (ln_final M) (resid_post M s) j *
      real (at2 (W_U M) j y) + normalized M last_norm (ln_final M) (resid_post M s) j *
      real (at2 (W_U M) j y') * -1)) by (intros; ring).
    rewrite sum_plus, sum_scale. ring.
Qed.

Theorem answers_ok s ws qs : attends s ws -> all_enclosed (answersI qs ws) (map (quantity M s) qs).
Proof.
  intros A. unfold answersI. rewrite map_map. apply enclosed_map. intros q _. cbn [fst snd].
  rewrite quantity_reads. apply add_ok; [|apply constant_ok].
  assert (H := post_ok _ _ _ (mid_ok s ws A)).
  apply (normed_ok M _ _ _ _ _ _ H (spread_ok M _ _ _ _ H)). intros; apply column_ok.
Qed.
End Answers.
