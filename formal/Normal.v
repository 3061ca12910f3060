(* The normal distribution function Phi and GELU over the real numbers.

   Phi is defined by its integral. This file proves what an enclosure of it needs: a series with a
   two-sided bound on what is left out, bounds on the tails, and monotonicity; and that Phi goes from
   0 to 1, which shows that the constant sqrt (2 pi) is the right one. *)
From Coq Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
Open Scope R_scope.

(* == Definitions ========================================================================== *)

Definition bell (t : R) : R := exp (- (t * t) / 2).
Definition area (x : R) : R := RInt bell 0 x.
Definition Phi (x : R) : R := 1 / 2 + area x / sqrt (2 * PI).
Definition gelu (x : R) : R := x * Phi x.

(* == Differentiation with the plain operations of R ======================================= *)

(* Coquelicot's rules speak of modules and rings, in which `ring` and `field` do not work. *)
Lemma derive_as (f : R -> R) (x found wanted : R) :
  is_derive f x found -> found = wanted -> is_derive f x wanted.
Proof. intros H <-; exact H. Qed.

Lemma derive_const (c x : R) : is_derive (fun _ : R => c) x 0.
Proof. apply (is_derive_const (K := R_AbsRing) (V := R_NormedModule) c x). Qed.

Lemma derive_id (x : R) : is_derive (fun x : R => x) x 1.
Proof. apply (is_derive_id (K := R_AbsRing) x). Qed.

Lemma derive_plus (f g : R -> R) (x df dg : R) :
  is_derive f x df -> is_derive g x dg -> is_derive (fun x => f x + g x) x (df + dg).
Proof. apply (is_derive_plus (K := R_AbsRing) (V := R_NormedModule) f g). Qed.

Lemma derive_minus (f g : R -> R) (x df dg : R) :
  is_derive f x df -> is_derive g x dg -> is_derive (fun x => f x - g x) x (df - dg).
Proof. apply (is_derive_minus (K := R_AbsRing) (V := R_NormedModule) f g). Qed.

Lemma derive_mult (f g : R -> R) (x df dg : R) :
  is_derive f x df -> is_derive g x dg -> is_derive (fun x => f x * g x) x (df * g x + f x * dg).
Proof. rewrite !is_derive_Reals. apply (derivable_pt_lim_mult f g). Qed.

Lemma derive_div (f : R -> R) (c x df : R) :
  is_derive f x df -> is_derive (fun x => f x / c) x (df / c).
Proof.
  intros H; apply derive_as with (df * / c + f x * 0); [|unfold Rdiv; ring].
  apply (derive_mult f (fun _ => / c)); [exact H|apply derive_const].
Qed.

Lemma continuity_of_derive (f : R -> R) (x df : R) : is_derive f x df -> continuity_pt f x.
Proof. intros H. apply derivable_continuous_pt. exists df. apply is_derive_Reals, H. Qed.

Lemma increasing (f df : R -> R) : (forall x, is_derive f x (df x)) -> (forall x, 0 <= df x) ->
  forall x y, x <= y -> f x <= f y.
Proof.
  intros D Pos x y Le. destruct (MVT_gen f x y df) as [c [_ E]].
  - intros; apply D.
  - intros z _. apply continuity_of_derive with (1 := D z).
  - assert (0 <= df c * (y - x)) by (apply Rmult_le_pos; [apply Pos|lra]). lra.
Qed.

Lemma constant (f : R -> R) : (forall x, is_derive f x 0) -> forall x y, f x = f y.
Proof.
  intros D. assert (I : forall x y, x <= y -> f x <= f y).
  { apply increasing with (fun _ => 0); [exact D|intros; lra]. }
  assert (J : forall x y, x <= y -> - f x <= - f y).
  { apply increasing with (fun _ => -0); [|intros; lra].
    intros z. apply (is_derive_opp (K := R_AbsRing) (V := R_NormedModule) f), D. }
  intros x y. destruct (Rle_lt_dec x y) as [L|L].
  - generalize (I x y L) (J x y L); lra.
  - generalize (I y x (Rlt_le _ _ L)) (J y x (Rlt_le _ _ L)); lra.
Qed.

(* == The bell and the area under it ======================================================= *)

Lemma exp_le (x y : R) : x <= y -> exp x <= exp y.
Proof. intros [H|<-]; [apply Rlt_le, exp_increasing, H|lra]. Qed.

Lemma bell_pos x : 0 < bell x.
Proof. apply exp_pos. Qed.

Lemma bell_le_1 x : bell x <= 1.
Proof. unfold bell; rewrite <- exp_0. apply exp_le. generalize (Rle_0_sqr x); unfold Rsqr; lra. Qed.

Lemma bell_even x : bell (- x) = bell x.
Proof. unfold bell; f_equal; field. Qed.

Lemma bell_derive (x : R) : is_derive bell x (- x * bell x).
Proof. unfold bell. auto_derive; [trivial|]. unfold Rdiv; field. Qed.

Lemma bell_continuous x : continuous bell x.
Proof. apply (ex_derive_continuous bell). eexists; apply bell_derive. Qed.

Lemma bell_integrable a b : ex_RInt bell a b.
Proof. apply (ex_RInt_continuous (V := R_CompleteNormedModule)); intros; apply bell_continuous. Qed.

Lemma area_derive (x : R) : is_derive area x (bell x).
Proof.
  apply (is_derive_RInt bell area 0 x); [|apply bell_continuous].
  apply filter_forall; intros y.
  apply (RInt_correct (V := R_CompleteNormedModule) bell 0 y), bell_integrable.
Qed.

Lemma area_0 : area 0 = 0.
Proof. unfold area; rewrite RInt_point; reflexivity. Qed.

Lemma area_odd x : area (- x) = - area x.
Proof.
  enough (area (- x) + area x = 0) by lra.
  replace 0 with (area (- 0) + area 0) by (rewrite Ropp_0, area_0; ring).
  apply (constant (fun x => area (- x) + area x)). intros y.
  apply derive_as with (-1 * bell (- y) + bell y); [|rewrite bell_even; ring].
  apply (derive_plus (fun x => area (- x)) area); [|apply area_derive].
  apply (is_derive_comp area Ropp y); [apply area_derive|]. auto_derive; [trivial|ring].
Qed.

(* == The series: area x = bell x (x + x^3/3 + x^5/(3 5) + ...) ============================== *)

Definition odd (k : nat) : R := IZR (2 * Z.of_nat k + 3).   (* the divisor of term k + 1 *)

Fixpoint term (k : nat) (x : R) : R :=
  match k with O => x | S k => term k x * (x * x) / odd k end.

Fixpoint series (n : nat) (x : R) : R :=
  match n with O => 0 | S n => series n x + term n x end.

Definition rest (n : nat) (x : R) : R := area x - bell x * series n x.

Lemma odd_pos k : 0 < odd k.
Proof. apply IZR_lt; lia. Qed.

Lemma term_0 k : term k 0 = 0.
Proof. induction k; simpl; [|rewrite IHk; unfold Rdiv]; ring. Qed.

Lemma series_0 n : series n 0 = 0.
Proof. induction n; simpl; [|rewrite IHn, term_0]; ring. Qed.

(* the derivative of a term is x times the term before it *)
Definition slope (k : nat) (x : R) : R := match k with O => 1 | S k => x * term k x end.

Lemma slope_term k x : x * slope k x = IZR (2 * Z.of_nat k + 1) * term k x.
Proof.
  destruct k as [|k]; simpl slope; [simpl; ring|].
  replace (2 * Z.of_nat (S k) + 1)%Z with (2 * Z.of_nat k + 3)%Z by lia.
  change (x * (x * term k x) = odd k * (term k x * (x * x) / odd k)).
  generalize (odd_pos k); intros; field; lra.
Qed.

Lemma slope_nonneg k x : 0 <= slope k x.
Proof.
  destruct k as [|k]; simpl; [lra|]. induction k as [|k IH]; simpl term.
  - apply Rle_0_sqr.
  - replace (x * (term k x * (x * x) / odd k)) with ((x * term k x) * (x * x) * / odd k)
      by (unfold Rdiv; ring).
    apply Rmult_le_pos; [apply Rmult_le_pos; [exact IH|apply Rle_0_sqr]|].
    apply Rlt_le, Rinv_0_lt_compat, odd_pos.
Qed.

Lemma term_derive k (x : R) : is_derive (term k) x (slope k x).
Proof.
  induction k as [|k IH]; [apply derive_id|].
  change (is_derive (fun x => term k x * (x * x) / odd k) x (x * term k x)).
  apply derive_as with ((slope k x * (x * x) + term k x * (1 * x + x * 1)) / odd k).
  - apply (derive_div (fun x => term k x * (x * x))).
    apply (derive_mult (term k) (fun x => x * x)); [exact IH|].
    apply (derive_mult (fun x => x) (fun x => x)); apply derive_id.
  - replace (slope k x * (x * x)) with (x * (x * slope k x)) by ring. rewrite slope_term.
    replace (IZR (2 * Z.of_nat k + 1)) with (odd k - 2)
      by (unfold odd; rewrite <- minus_IZR; f_equal; lia).
    generalize (odd_pos k); intros; field; lra.
Qed.

Lemma series_derive n (x : R) : is_derive (series n) x (1 - slope n x + x * series n x).
Proof.
  induction n as [|n IH]; simpl series.
  - apply derive_as with 0; [apply derive_const|simpl; ring].
  - apply derive_as with ((1 - slope n x + x * series n x) + slope n x); [|simpl slope; ring].
    apply (derive_plus (series n) (term n)); [exact IH|apply term_derive].
Qed.

Lemma rest_derive n (x : R) : is_derive (rest n) x (bell x * slope n x).
Proof.
  apply derive_as with
    (bell x - ((- x * bell x) * series n x + bell x * (1 - slope n x + x * series n x))); [|ring].
  apply (derive_minus area (fun x => bell x * series n x)); [apply area_derive|].
  apply (derive_mult bell (series n)); [apply bell_derive|apply series_derive].
Qed.

(* What is left out lies between 0 and the first term left out, for every x and n. *)
Theorem rest_bound n x : 0 <= rest n x <= term n x \/ term n x <= rest n x <= 0.
Proof.
  assert (Up : forall x y, x <= y -> rest n x <= rest n y).
  { apply increasing with (1 := rest_derive n). intros y.
    apply Rmult_le_pos; [apply Rlt_le, bell_pos|apply slope_nonneg]. }
  assert (Gap : forall x y, x <= y -> term n x - rest n x <= term n y - rest n y).
  { apply increasing with (fun y => slope n y - bell y * slope n y).
    - intros y. apply (derive_minus (term n) (rest n)); [apply term_derive|apply rest_derive].
    - intros y. generalize (bell_le_1 y) (slope_nonneg n y); intros. nra. }
  assert (rest n 0 = 0) by (unfold rest; rewrite area_0, series_0; ring).
  destruct (Rle_lt_dec 0 x) as [Px|Nx]; [left|right].
  - generalize (Up 0 x Px) (Gap 0 x Px) (term_0 n); lra.
  - generalize (Up x 0 (Rlt_le _ _ Nx)) (Gap x 0 (Rlt_le _ _ Nx)) (term_0 n); lra.
Qed.

(* == Phi and GELU: derivatives ============================================================ *)

Lemma root_2pi_pos : 0 < sqrt (2 * PI).
Proof. apply sqrt_lt_R0; generalize PI_RGT_0; lra. Qed.

Lemma Phi_derive (x : R) : is_derive Phi x (bell x / sqrt (2 * PI)).
Proof.
  apply derive_as with (0 + bell x / sqrt (2 * PI)); [|ring].
  apply (derive_plus (fun _ => 1 / 2) (fun x => area x / sqrt (2 * PI))).
  - apply derive_const.
  - apply derive_div, area_derive.
Qed.

Lemma Phi_increasing x y : x <= y -> Phi x <= Phi y.
Proof.
  apply increasing with (1 := Phi_derive). intros z.
  apply Rlt_le, Rdiv_lt_0_compat; [apply bell_pos|apply root_2pi_pos].
Qed.

Lemma gelu_derive (x : R) : is_derive gelu x (Phi x + x * (bell x / sqrt (2 * PI))).
Proof.
  apply derive_as with (1 * Phi x + x * (bell x / sqrt (2 * PI))); [|ring].
  apply (derive_mult (fun x => x) Phi); [apply derive_id|apply Phi_derive].
Qed.

Lemma gelu_mean_value m x : exists c, Rmin m x <= c <= Rmax m x /\
  gelu x = gelu m + (Phi c + c * (bell c / sqrt (2 * PI))) * (x - m).
Proof.
  destruct (MVT_gen gelu m x (fun c => Phi c + c * (bell c / sqrt (2 * PI)))) as [c [C E]].
  - intros; apply gelu_derive.
  - intros z _. apply continuity_of_derive with (1 := gelu_derive z).
  - exists c; split; [exact C|lra].
Qed.

(* == Gauss's integral ===================================================================== *)

(* area^2 + 2 slice is constant, where slice is an integral over [0, 1] that vanishes far out. *)
Definition slanted (x s : R) : R := exp (- (x * x) / 2 * (1 + s * s)) / (1 + s * s).
Definition slice (x : R) : R := RInt (slanted x) 0 1.

Lemma one_plus_square_pos s : 0 < 1 + s * s.
Proof. generalize (Rle_0_sqr s); unfold Rsqr; lra. Qed.

Lemma slanted_derive (x s : R) :
  is_derive (fun x => slanted x s) x (- (bell x * (x * bell (x * s + 0)))).
Proof.
  generalize (one_plus_square_pos s); intros Pos. unfold slanted.
  apply derive_as with (- x * (1 + s * s) * exp (- (x * x) / 2 * (1 + s * s)) / (1 + s * s)).
  - apply (derive_div (fun x => exp (- (x * x) / 2 * (1 + s * s)))).
    auto_derive; [trivial|]. unfold Rdiv; field.
  - replace (- (x * x) / 2 * (1 + s * s)) with
      (- (x * x) / 2 + - ((x * s + 0) * (x * s + 0)) / 2) by field.
    rewrite exp_plus. unfold bell. field; lra.
Qed.

Lemma slanted_integrable x a b : ex_RInt (slanted x) a b.
Proof.
  apply (ex_RInt_continuous (V := R_CompleteNormedModule)); intros s _.
  apply (ex_derive_continuous (slanted x)). unfold slanted. auto_derive.
  generalize (one_plus_square_pos s); lra.
Qed.

Lemma continuous_bell_of (g : R -> R -> R) u v :
  continuity_2d_pt g u v -> continuity_2d_pt (fun u v => bell (g u v)) u v.
Proof.
  intros C. apply (continuity_1d_2d_pt_comp bell g); [|exact C].
  apply continuity_of_derive with (1 := bell_derive (g u v)).
Qed.

Lemma slice_derive (x : R) : is_derive slice x (- (bell x * area x)).
Proof.
  evar_last.
  - apply (is_derive_RInt_param slanted 0 1 x).
    + apply filter_forall; intros y s _; eexists; apply slanted_derive.
    + intros s _.
      apply continuity_2d_pt_ext with (fun u v => - (bell u * (u * bell (u * v + 0)))).
      { intros u v; symmetry; apply is_derive_unique, slanted_derive. }
      apply continuity_2d_pt_opp, continuity_2d_pt_mult.
      * apply (continuous_bell_of (fun u v => u)), continuity_2d_pt_id1.
      * apply continuity_2d_pt_mult; [apply continuity_2d_pt_id1|].
        apply continuous_bell_of, continuity_2d_pt_plus; [|apply continuity_2d_pt_const].
        apply continuity_2d_pt_mult; [apply continuity_2d_pt_id1|apply continuity_2d_pt_id2].
    + apply filter_forall; intros y; apply slanted_integrable.
  - apply is_RInt_unique.
    apply is_RInt_ext with (fun s => scal (- bell x) (scal x (bell (x * s + 0)))).
    { intros s _. symmetry. etransitivity; [apply (is_derive_unique _ _ _ (slanted_derive x s))|].
      unfold scal; simpl; unfold mult; simpl. ring. }
    replace (- (bell x * area x)) with (scal (- bell x) (area x))
      by (unfold scal; simpl; unfold mult; simpl; ring).
    apply (is_RInt_scal (V := R_NormedModule)), (is_RInt_comp_lin (V := R_NormedModule) bell x 0 0 1).
    replace (x * 0 + 0) with 0 by ring. replace (x * 1 + 0) with x by ring.
    apply (RInt_correct (V := R_CompleteNormedModule)), bell_integrable.
Qed.

Lemma arctangent : is_RInt (fun s => / (1 + s * s)) 0 1 (PI / 4).
Proof.
  rewrite <- atan_1. replace (atan 1) with (minus (atan 1) (atan 0))
    by (unfold minus, plus, opp; simpl; rewrite atan_0; ring).
  apply (is_RInt_derive (V := R_CompleteNormedModule) atan).
  - intros s _. apply derive_as with (/ (1 + s ^ 2)); [|f_equal; ring].
    apply is_derive_Reals, derivable_pt_lim_atan.
  - intros s _. apply (ex_derive_continuous (fun s => / (1 + s * s))). auto_derive.
    generalize (one_plus_square_pos s); lra.
Qed.

Lemma slice_0 : slice 0 = PI / 4.
Proof.
  apply is_RInt_unique, is_RInt_ext with (2 := arctangent). intros s _. unfold slanted.
  change (/ (1 + s * s) = exp (- (0 * 0) / 2 * (1 + s * s)) / (1 + s * s)).
  replace (- (0 * 0) / 2 * (1 + s * s)) with 0 by field. rewrite exp_0. unfold Rdiv; ring.
Qed.

Lemma slice_bound x : 0 <= slice x <= bell x * (PI / 4).
Proof.
  split.
  - apply RInt_ge_0; [lra|apply slanted_integrable|]. intros s _.
    apply Rlt_le, Rdiv_lt_0_compat; [apply exp_pos|apply one_plus_square_pos].
  - assert (K := is_RInt_scal (V := R_NormedModule) _ _ _ (bell x) _ arctangent).
    apply (is_RInt_le (slanted x) (fun s => scal (bell x) (/ (1 + s * s))) 0 1); [lra| |exact K|].
    + apply (RInt_correct (V := R_CompleteNormedModule)), slanted_integrable.
    + intros s _. unfold scal; simpl; unfold mult; simpl; unfold slanted, Rdiv.
      apply Rmult_le_compat_r.
      { apply Rlt_le, Rinv_0_lt_compat, one_plus_square_pos. }
      apply exp_le. generalize (Rle_0_sqr (x * s)); unfold Rsqr; lra.
Qed.

Theorem gauss x : area x * area x + 2 * slice x = PI / 2.
Proof.
  replace (PI / 2) with (area 0 * area 0 + 2 * slice 0) by (rewrite area_0, slice_0; field).
  apply (constant (fun x => area x * area x + 2 * slice x)). intros y.
  apply derive_as with
    ((bell y * area y + area y * bell y) + (0 * slice y + 2 * - (bell y * area y))); [|ring].
  apply (derive_plus (fun x => area x * area x) (fun x => 2 * slice x)).
  - apply (derive_mult area area); apply area_derive.
  - apply (derive_mult (fun _ => 2) slice); [apply derive_const|apply slice_derive].
Qed.

(* == The tails ============================================================================ *)

Theorem Phi_right_tail x : 0 <= x -> 1 - bell x / 2 <= Phi x <= 1.
Proof.
  intros Px. generalize PI_RGT_0 (slice_bound x) (gauss x) (bell_pos x) (bell_le_1 x) root_2pi_pos.
  set (r := sqrt (2 * PI)); intros Ppi [Lo Up] G B0 B1 Pr.
  assert (E : r * r = 2 * PI) by (apply sqrt_sqrt; lra).
  assert (A0 : 0 <= area x).
  { rewrite <- area_0. revert Px. apply increasing with (1 := area_derive).
    intros; apply Rlt_le, bell_pos. }
  set (h := area x / r). assert (A : area x = h * r) by (unfold h; field; lra).
  assert (H0 : 0 <= h) by (apply Rdiv_le_0_compat; assumption).
  assert (Q : h * h * (2 * PI) = PI / 2 - 2 * slice x) by (rewrite <- E; rewrite A in G; nra).
  assert (Q1 : h * h <= 1 / 4) by nra.
  assert (Q2 : (1 - bell x) / 4 <= h * h) by nra.
  change (Phi x) with (1 / 2 + h). split; nra.
Qed.

Theorem Phi_symmetric x : Phi (- x) = 1 - Phi x.
Proof. unfold Phi; rewrite area_odd; unfold Rdiv; lra. Qed.

Theorem Phi_left_tail x : x <= 0 -> 0 <= Phi x <= bell x / 2.
Proof.
  intros Nx. generalize (Phi_right_tail (- x) ltac:(lra)). rewrite Phi_symmetric, bell_even. lra.
Qed.

Theorem Phi_range x : 0 <= Phi x <= 1.
Proof.
  generalize (bell_pos x) (bell_le_1 x); intros. destruct (Rle_lt_dec 0 x) as [Px|Nx].
  - generalize (Phi_right_tail x Px); lra.
  - generalize (Phi_left_tail x (Rlt_le _ _ Nx)); lra.
Qed.

Lemma bell_vanishes x : 0 < x -> bell x <= 2 * / x.
Proof.
  intros Px. unfold bell. replace (- (x * x) / 2) with (- (x * x / 2)) by field. rewrite exp_Ropp.
  assert (1 + x * x / 2 < exp (x * x / 2)) by (apply exp_ineq1; nra).
  replace (2 * / x) with (/ (x / 2)) by (field; lra). apply Rinv_le_contravar; nra.
Qed.

(* Phi goes from 0 to 1: it is a distribution function. *)
Theorem Phi_limits : is_lim Phi p_infty 1 /\ is_lim Phi m_infty 0.
Proof.
  assert (One : is_lim (fun x => 1 - / x) p_infty 1).
  { apply (is_lim_minus _ _ p_infty 1 0); [apply is_lim_const| |].
    - apply (is_lim_inv (fun x => x) p_infty p_infty); [apply is_lim_id|discriminate].
    - unfold is_Rbar_minus, is_Rbar_plus; simpl; f_equal; f_equal; ring. }
  assert (Up : is_lim Phi p_infty 1).
  { apply (is_lim_le_le_loc (fun x => 1 - / x) (fun _ => 1)); [|exact One|apply is_lim_const].
    exists 0. intros x Px.
    generalize (Phi_right_tail x (Rlt_le _ _ Px)) (bell_vanishes x Px). lra. }
  split; [exact Up|].
  apply is_lim_ext with (fun x => 1 - Phi (- x)); [intros x; rewrite Phi_symmetric; ring|].
  apply (is_lim_minus _ _ m_infty 1 1); [apply is_lim_const| |].
  - apply (is_lim_comp Phi Ropp m_infty 1 p_infty); [exact Up| |exists 0; intros; discriminate].
    apply (is_lim_opp (fun x => x) m_infty m_infty), is_lim_id.
  - unfold is_Rbar_minus, is_Rbar_plus; simpl; f_equal; f_equal; ring.
Qed.
