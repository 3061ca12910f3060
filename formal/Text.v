(* From token numbers to strings over a model's own letters, in which theorems are stated. *)
From Coq Require Import Lra Lia.
From Tsc Require Export Horizon.
Open Scope R_scope.

Section Text.
Variables (M : model) (letter : Type) (token : letter -> nat).
Hypothesis tokens_differ : forall x y, token x = token y -> x = y.
Hypothesis all_letters : forall x, In (token x) (letters M).

Lemma proper_text (s : list letter) : proper M (map token s).
Proof. apply Forall_forall. intros t H. apply in_map_iff in H. destruct H as [x [<- _]]. apply all_letters. Qed.

Lemma count_token (dec : forall x y : letter, {x = y} + {x <> y}) s x :
  count (map token s) (token x) = Z.of_nat (count_occ dec s x).
Proof.
  unfold count. f_equal. induction s as [|y s IH]; simpl; [reflexivity|]. rewrite IH.
  destruct (Nat.eq_dec (token y) (token x)) as [E|N], (dec y x) as [E'|N']; auto.
  - elim N'. apply tokens_differ, E.
  - elim N. f_equal; exact E'.
Qed.

Lemma occurs x s : (1 <=? count (map token s) (token x))%Z = true <-> In x s.
Proof.
  rewrite Z.leb_le. unfold count. split; intros H.
  - assert (K : In (token x) (map token s)) by (apply (count_occ_In Nat.eq_dec); lia).
    apply in_map_iff in K. destruct K as [y [E K]]. rewrite <- (tokens_differ _ _ E). exact K.
  - apply (in_map token), (count_occ_In Nat.eq_dec) in H. lia.
Qed.

Lemma letter_counts_token dec (alphabet : list letter) : map token alphabet = letters M ->
  forall s, letter_counts M (map token s) = map (fun x => Z.of_nat (count_occ dec s x)) alphabet.
Proof.
  intros A s. unfold letter_counts. rewrite <- A, map_map. apply map_ext; intros x. apply count_token.
Qed.

Lemma length_by_counts dec (alphabet : list letter) : map token alphabet = letters M -> forall s : list letter,
  Z.of_nat (length s) = fold_right Z.add 0%Z (map (fun x => Z.of_nat (count_occ dec s x)) alphabet).
Proof.
  intros A s. rewrite <- (letter_counts_token dec alphabet A), letter_counts_total by apply proper_text.
  rewrite map_length. reflexivity.
Qed.

(* == Yes or no ============================================================================ *)

Section Binary.
Variable r : rule.
Variable wanted : list letter -> Prop.
Hypothesis meaning : forall s, holds r (letter_counts M (map token s)) = true <-> wanted s.

Definition yes_or_no : task := [(r, [accepts]); (denied r, [rejects])].
Definition answer (s : list letter) : R := logit M (map token s) 0.
Definition right_on (s : list letter) : Prop := 0 < answer s <-> wanted s.

Lemma right_on_of_right s : right M yes_or_no (map token s) -> right_on s.
Proof.
  intros H. unfold right_on. rewrite <- meaning. split.
  - intros P. destruct (holds r (letter_counts M (map token s))) eqn:E; [reflexivity|].
    assert (Q := H (denied r) [rejects] ltac:(simpl; auto) ltac:(simpl; rewrite E; reflexivity)
      rejects ltac:(simpl; auto)). unfold answer in P. simpl in Q. lra.
  - intros E. apply (H r [accepts] ltac:(simpl; auto) E accepts). simpl; auto.
Qed.

Theorem right_through (N : nat) : right_to M yes_or_no N = true ->
  forall s, (1 <= length s <= N)%nat -> right_on s.
Proof.
  intros H s L. apply right_on_of_right, (right_to_sound M yes_or_no N H); [apply proper_text|].
  rewrite map_length. exact L.
Qed.

(* A string is wrong if it has a sign that the rule does not give it. *)
Definition wrong (s : list letter) : bool :=
  certain M (map token s) [if holds r (letter_counts M (map token s)) then rejects else accepts].

Theorem wrong_sound s : wrong s = true -> ~ right_on s.
Proof.
  unfold wrong; intros H K. assert (Q := certain_sound M _ _ (proper_text s) H). clear H.
  specialize (Q _ (or_introl eq_refl)). unfold right_on, answer in K. rewrite <- meaning in K.
  destruct (holds r (letter_counts M (map token s))); simpl in Q.
  - destruct K as [_ K]. specialize (K eq_refl). lra.
  - destruct K as [K _]. specialize (K Q). discriminate.
Qed.

(* The horizon is exact: right on all strings up to a length if and only if it is at most N. *)
Theorem exact_horizon (N : nat) w : right_to M yes_or_no N = true -> wrong w = true -> length w = S N ->
  forall L, (forall s, (1 <= length s <= L)%nat -> right_on s) <-> (L <= N)%nat.
Proof.
  intros H W E L. split.
  - intros K. destruct (Nat.le_gt_cases L N) as [|G]; [assumption|]. exfalso.
    apply (wrong_sound w W), K. lia.
  - intros G s Ls. apply (right_through N H). lia.
Qed.
End Binary.

(* == Several classes ====================================================================== *)

Section Classes.
Variable classes : list rule.             (* where each class is the right one *)
Variable wanted : list letter -> nat -> Prop.
Hypothesis meaning : forall s y, (y < length classes)%nat ->
  (holds (nth y classes (denied (at_least [] 0))) (letter_counts M (map token s)) = true <-> wanted s y).

Definition others (y : nat) : list nat := filter (fun y' => negb (y' =? y)%nat) (seq 0 (n_outputs M)).
Definition choose : task :=
  map (fun y => (nth y classes (denied (at_least [] 0)), map (prefers y) (others y))) (seq 0 (length classes)).
Definition output (s : list letter) (y : nat) : R := logit M (map token s) y.
Definition chosen_on (s : list letter) : Prop := forall y y',
  (y < length classes)%nat -> wanted s y -> (y' < n_outputs M)%nat -> y' <> y -> output s y' < output s y.

Theorem chosen_through (N : nat) : right_to M choose N = true ->
  forall s, (1 <= length s <= N)%nat -> chosen_on s.
Proof.
  intros H s L y y' Y W Y' D.
  assert (K := right_to_sound M choose N H (map token s) (proper_text s) ltac:(rewrite map_length; exact L)).
  specialize (K (nth y classes (denied (at_least [] 0))) (map (prefers y) (others y))).
  assert (Q : 0 < quantity M (map token s) (prefers y y')).
  { apply K.
    - apply in_map_iff. exists y. split; [reflexivity|]. apply in_seq; lia.
    - apply meaning; assumption.
    - apply in_map, filter_In. split; [apply in_seq; lia|].
      apply negb_true_iff, Nat.eqb_neq, D. }
  simpl in Q. unfold output. lra.
Qed.

(* A string is wrong if its class y has an output below that of y'. *)
Definition mistaken (s : list letter) (y y' : nat) : bool :=
  (y <? length classes)%nat && (y' <? n_outputs M)%nat &&
  holds (nth y classes (denied (at_least [] 0))) (letter_counts M (map token s)) &&
  certain M (map token s) [prefers y' y].

Theorem mistaken_sound s y y' : mistaken s y y' = true -> ~ chosen_on s.
Proof.
  unfold mistaken; rewrite !andb_true_iff, !Nat.ltb_lt. intros [[[Y Y'] W] C] K.
  assert (Q := certain_sound M _ _ (proper_text s) C _ (or_introl eq_refl)). simpl in Q.
  destruct (Nat.eq_dec y' y) as [->|D]; [lra|].
  specialize (K y y' Y (proj1 (meaning s y Y) W) Y' D). unfold output in K. lra.
Qed.

Theorem exact_horizon_of_classes (N : nat) w y y' : right_to M choose N = true ->
  mistaken w y y' = true -> length w = S N ->
  forall L, (forall s, (1 <= length s <= L)%nat -> chosen_on s) <-> (L <= N)%nat.
Proof.
  intros H W E L. split.
  - intros K. destruct (Nat.le_gt_cases L N) as [|G]; [assumption|]. exfalso.
    apply (mistaken_sound w y y' W), K. lia.
  - intros G s Ls. apply (chosen_through N H). lia.
Qed.
End Classes.
End Text.

Lemma odd_of_nat n : Z.odd (Z.of_nat n) = Nat.odd n.
Proof.
  induction n as [|n IH]; [reflexivity|]. rewrite Nat2Z.inj_succ, Z.odd_succ, Nat.odd_succ.
  rewrite <- Z.negb_odd, <- Nat.negb_odd, IH. reflexivity.
Qed.

(* Turn "a rule holds of the counts of s" and a sentence about s into arithmetic on counts. *)
Ltac by_counts M differ all dec alphabet s :=
  let L := fresh "length_is" in
  pose proof (length_by_counts M _ _ differ all dec alphabet eq_refl s) as L;
  rewrite (letter_counts_token M _ _ differ dec alphabet eq_refl s);
  cbn [holds linear map nth fold_right] in *;
  repeat rewrite ?andb_true_iff, ?andb_false_iff, ?negb_true_iff, ?negb_false_iff,
    ?Z.leb_le, ?Z.leb_gt, ?odd_of_nat;
  rewrite ?(count_occ_In dec); try tauto; lia.
