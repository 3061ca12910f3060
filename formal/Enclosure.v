(* Intervals that enclose real numbers: arithmetic, weighted means, activations.

   Everything computes inside Coq, and every operation comes with the theorem that its result encloses
   what it is named after, for every real number in its arguments. *)
From Coq Require Export Reals ZArith List Bool.
From Coq Require Import Lra Lia.
From Flocq Require Import Core.Zaux Core.Raux.
From Interval Require Import Float.Specific_ops Float.Basic Float.Sig Interval.Interval
  Interval.Float_full Real.Xreal.
From Tsc Require Export Carrier Normal Transformer.
Export ListNotations.
Open Scope R_scope.

(* == Arithmetic =========================================================================== *)

Definition encloses (i : I.type) (x : R) : Prop := contains (I.convert i) (Xreal x).
Notation "x ∈ i" := (encloses i x) (at level 70).

Notation "i +! j" := (I.add prec i j) (at level 50, left associativity).
Notation "i -! j" := (I.sub prec i j) (at level 50, left associativity).
Notation "i *! j" := (I.mul prec i j) (at level 40, left associativity).
Notation "i /! j" := (I.div prec i j) (at level 40, left associativity).
Definition whole (z : Z) : I.type := I.fromZ prec z.
Definition zero := whole 0.
Definition one := whole 1.
Definition two := whole 2.
Definition half := one /! two.
Definition point (f : F.type) : I.type := I.bnd f f.
Definition anything : I.type := I.nai.

Lemma add_ok i j x y : x ∈ i -> y ∈ j -> x + y ∈ i +! j.
Proof. apply (I.add_correct prec _ _ (Xreal x) (Xreal y)). Qed.

Lemma sub_ok i j x y : x ∈ i -> y ∈ j -> x - y ∈ i -! j.
Proof. apply (I.sub_correct prec _ _ (Xreal x) (Xreal y)). Qed.

Lemma mul_ok i j x y : x ∈ i -> y ∈ j -> x * y ∈ i *! j.
Proof. apply (I.mul_correct prec _ _ (Xreal x) (Xreal y)). Qed.

Lemma div_ok i j x y : x ∈ i -> y ∈ j -> y <> 0 -> x / y ∈ i /! j.
Proof.
  intros Hx Hy N. generalize (I.div_correct prec _ _ _ _ Hx Hy). unfold encloses, Xdiv, Xdiv'.
  destruct (is_zero_spec y); [contradiction|trivial].
Qed.

Lemma neg_ok i x : x ∈ i -> - x ∈ I.neg i.
Proof. apply (I.neg_correct _ (Xreal x)). Qed.

Lemma sqr_ok i x : x ∈ i -> x * x ∈ I.sqr prec i.
Proof. apply (I.sqr_correct prec _ (Xreal x)). Qed.

Lemma exp_ok i x : x ∈ i -> exp x ∈ I.exp prec i.
Proof. apply (I.exp_correct prec _ (Xreal x)). Qed.

Lemma sqrt_ok i x : x ∈ i -> sqrt x ∈ I.sqrt prec i.
Proof. apply (I.sqrt_correct prec _ (Xreal x)). Qed.

Lemma ln_ok i x : x ∈ i -> 0 < x -> ln x ∈ I.ln prec i.
Proof.
  intros Hx P. generalize (I.ln_correct prec _ _ Hx). unfold encloses; simpl. unfold Xln'.
  destruct (is_positive_spec x); [trivial|lra].
Qed.

Lemma whole_ok z : IZR z ∈ whole z.
Proof. apply I.fromZ_correct. Qed.

Lemma two_ok : 2 ∈ two.
Proof. apply whole_ok. Qed.

Lemma half_ok : 1 / 2 ∈ half.
Proof. apply div_ok; [apply whole_ok|apply whole_ok|lra]. Qed.

Lemma anything_ok x : x ∈ anything.
Proof. unfold encloses, anything; rewrite I.nai_correct; exact Logic.I. Qed.

Lemma meet_ok i j x : x ∈ i -> x ∈ j -> x ∈ I.meet i j.
Proof. intros; apply I.meet_correct; assumption. Qed.

Lemma join_left i j x : x ∈ i -> x ∈ I.join i j.
Proof. intros; apply (I.join_correct _ _ (Xreal x)); left; assumption. Qed.

Lemma join_right i j x : x ∈ j -> x ∈ I.join i j.
Proof. intros; apply (I.join_correct _ _ (Xreal x)); right; assumption. Qed.

Lemma between i x y z : x ∈ i -> z ∈ i -> x <= y <= z -> y ∈ i.
Proof. intros Hx Hz; apply contains_connected with (1 := Hx) (2 := Hz). Qed.

Lemma above_ok i x y : x ∈ i -> x <= y -> y ∈ I.upper_extent i.
Proof. intros; apply I.upper_extent_correct with x; assumption. Qed.

Lemma below_ok i x y : x ∈ i -> y <= x -> y ∈ I.lower_extent i.
Proof. intros; apply I.lower_extent_correct with x; assumption. Qed.

Lemma point_ok f r : F.toX f = Xreal r -> r ∈ point f.
Proof.
  intros E; unfold encloses, point; rewrite I.bnd_correct by reflexivity.
  simpl. change I.F.toX with F.toX. rewrite E. lra.
Qed.

Lemma point_nan f x : F.toX f = Xnan -> x ∈ point f.
Proof.
  intros E; unfold encloses, point; rewrite I.bnd_correct by reflexivity.
  simpl. change I.F.toX with F.toX. rewrite E. split; exact Logic.I.
Qed.

Lemma point_inhabited f : exists r, r ∈ point f.
Proof.
  destruct (F.toX f) as [|r] eqn:E; [exists 0; apply point_nan, E|exists r; apply point_ok, E].
Qed.

(* signs, which decide only what holds for every real number in the interval *)
Definition positive (i : I.type) : bool :=
  match I.sign_strict i with Xgt => true | _ => false end.
Definition negative (i : I.type) : bool :=
  match I.sign_strict i with Xlt => true | _ => false end.
Definition nonpositive (i : I.type) : bool :=
  match I.sign_large i with Xlt | Xeq => true | _ => false end.

Lemma positive_ok i x : positive i = true -> x ∈ i -> 0 < x.
Proof.
  unfold positive; intros H Hx. generalize (I.sign_strict_correct i).
  destruct (I.sign_strict i); try discriminate. intros K; destruct (K _ Hx) as [_ P]; exact P.
Qed.

Lemma negative_ok i x : negative i = true -> x ∈ i -> x < 0.
Proof.
  unfold negative; intros H Hx. generalize (I.sign_strict_correct i).
  destruct (I.sign_strict i); try discriminate. intros K; destruct (K _ Hx) as [_ P]; exact P.
Qed.

Lemma nonpositive_ok i x : nonpositive i = true -> x ∈ i -> x <= 0.
Proof.
  unfold nonpositive; intros H Hx. generalize (I.sign_large_correct i).
  destruct (I.sign_large i); try discriminate; intros K.
  - specialize (K _ Hx); injection K; lra.
  - destruct (K _ Hx) as [_ P]; exact P.
Qed.

(* stored numbers *)
Definition exactly (x : dyadic) : I.type :=
  let '(m, e) := x in
  if (0 <=? e)%Z then whole (m * 2 ^ e) else whole m /! whole (2 ^ (- e)).

Lemma exactly_ok x : real x ∈ exactly x.
Proof.
  destruct x as [m e]. unfold real, exactly; cbn [fst snd].
  replace (powerRZ 2 e) with (bpow radix2 e) by apply (bpow_powerRZ radix2).
  destruct (Z.leb_spec 0 e) as [L|L].
  - rewrite <- IZR_Zpower, <- mult_IZR by exact L. apply whole_ok.
  - replace (IZR m * bpow radix2 e) with (IZR m / IZR (2 ^ (- e))).
    { apply div_ok; try apply whole_ok. apply IZR_neq, Z.pow_nonzero; lia. }
    change 2%Z with (radix_val radix2). rewrite IZR_Zpower, bpow_opp by lia.
    unfold Rdiv; rewrite Rinv_inv; reflexivity.
Qed.

(* == Sums ================================================================================= *)

Fixpoint sum_overI {X} (xs : list X) (f : X -> I.type) : I.type :=
  match xs with x :: rest => f x +! sum_overI rest f | [] => zero end.
Definition sumI (n : nat) (f : nat -> I.type) : I.type := sum_overI (seq 0 n) f.

Lemma sum_over_ok {X} (xs : list X) fi f :
  (forall x, In x xs -> f x ∈ fi x) -> sum_over xs f ∈ sum_overI xs fi.
Proof.
  induction xs as [|x xs IH]; intros H; simpl; [apply whole_ok|].
  apply add_ok; [apply H; left; reflexivity|apply IH; intros; apply H; right; assumption].
Qed.

Lemma sum_ok n fi f : (forall i, (i < n)%nat -> f i ∈ fi i) -> sum n f ∈ sumI n fi.
Proof. intros H; apply sum_over_ok. intros i K. apply in_seq in K. apply H; lia. Qed.

(* == Weighted means ======================================================================= *)

(* Weights and values are only known to lie in intervals. The mean is at most t as soon as
   sum w (v - t) <= 0, which one interval sum shows; where t comes from does not matter. *)
Fixpoint dot (ws vs : list R) : R :=
  match ws, vs with w :: ws, v :: vs => w * v + dot ws vs | _, _ => 0 end.
Fixpoint total (ws : list R) : R := match ws with w :: ws => w + total ws | [] => 0 end.
Definition mean (ws vs : list R) : R := dot ws vs / total ws.

Fixpoint dotI (ws vs : list I.type) : I.type :=
  match ws, vs with w :: ws, v :: vs => w *! v +! dotI ws vs | _, _ => zero end.
Fixpoint totalI (ws : list I.type) : I.type :=
  match ws with w :: ws => w +! totalI ws | [] => zero end.

(* A step towards the largest mean: values above the level get their largest weights. *)
Definition heavier (level : I.type) (wv : I.type * I.type) : I.type :=
  point (if negative (snd wv -! level) then I.lower (fst wv) else I.upper (fst wv)).
Fixpoint climb (steps : nat) (ws vs : list I.type) (level : I.type) : I.type :=
  match steps with
  | O => level
  | S steps =>
      let chosen := map (heavier level) (combine ws vs) in
      climb steps ws vs (point (I.upper (dotI chosen vs /! totalI chosen)))
  end.
Definition slack : I.type := one /! whole (2 ^ 46).
Definition level_of (ws vs : list I.type) : F.type :=
  let tops := map (fun v => point (I.upper v)) vs in
  let found := climb (length ws) ws tops (hd zero tops) in
  I.upper (found +! slack *! (one +! I.abs found)).
Definition bounded_by (level : I.type) (ws vs : list I.type) : bool :=
  nonpositive (dotI ws (map (fun v => v -! level) vs)).
Definition meanI (ws vs : list I.type) : I.type :=
  if positive (totalI ws) then
    let downs := map I.neg vs in
    let (high, low) := (point (level_of ws vs), point (level_of ws downs)) in
    if bounded_by high ws vs then
      if bounded_by low ws downs then I.join (I.neg low) high else anything
    else anything
  else anything.

Notation all_enclosed := (Forall2 encloses).

Lemma dot_ok wsi ws : all_enclosed wsi ws -> forall vsi vs, all_enclosed vsi vs ->
  dot ws vs ∈ dotI wsi vsi.
Proof.
  induction 1; intros vsi vs V; simpl; [apply whole_ok|].
  destruct V; simpl; [apply whole_ok|]. apply add_ok; [apply mul_ok|]; auto.
Qed.

Lemma total_ok wsi ws : all_enclosed wsi ws -> total ws ∈ totalI wsi.
Proof. induction 1; simpl; [apply whole_ok|apply add_ok; assumption]. Qed.

Lemma dot_shifted t ws : forall vs, length ws = length vs ->
  dot ws (map (fun v => v - t) vs) = dot ws vs - t * total ws.
Proof.
  induction ws as [|w ws IH]; intros [|v vs] L; simpl in *; try discriminate; [ring|].
  rewrite IH by congruence. ring.
Qed.

Lemma dot_opposite ws : forall vs, dot ws (map Ropp vs) = - dot ws vs.
Proof. induction ws as [|w ws IH]; intros [|v vs]; simpl; try ring. rewrite IH; ring. Qed.

Lemma bounded_by_ok level t wsi ws vsi vs : all_enclosed wsi ws -> all_enclosed vsi vs ->
  length ws = length vs -> 0 < total ws -> t ∈ level -> bounded_by level wsi vsi = true ->
  mean ws vs <= t.
Proof.
  intros W V L P T B. apply nonpositive_ok with (x := dot ws (map (fun v => v - t) vs)) in B.
  - rewrite dot_shifted in B by exact L. unfold mean. apply Rmult_le_reg_r with (1 := P).
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
  - apply dot_ok; [exact W|]. clear -V T. induction V; simpl; constructor; [|assumption].
    apply sub_ok; assumption.
Qed.

Theorem mean_ok wsi ws vsi vs : all_enclosed wsi ws -> all_enclosed vsi vs ->
  length ws = length vs -> mean ws vs ∈ meanI wsi vsi.
Proof.
  intros W V L. unfold meanI. destruct (positive (totalI wsi)) eqn:P; [|apply anything_ok].
  apply positive_ok with (x := total ws) in P; [|apply total_ok, W].
  assert (N : all_enclosed (map I.neg vsi) (map Ropp vs)).
  { clear -V. induction V; simpl; constructor; auto using neg_ok. }
  destruct (point_inhabited (level_of wsi vsi)) as [high H].
  destruct (point_inhabited (level_of wsi (map I.neg vsi))) as [low K].
  destruct (bounded_by (point (level_of wsi vsi)) wsi vsi) eqn:Up; [|apply anything_ok].
  destruct (bounded_by (point (level_of wsi (map I.neg vsi))) wsi (map I.neg vsi)) eqn:Low;
    [|apply anything_ok].
  apply (bounded_by_ok _ high _ _ _ _ W V L P H) in Up.
  apply (bounded_by_ok _ low _ _ _ _ W N ltac:(rewrite map_length; exact L) P K) in Low.
  unfold mean in Low. rewrite dot_opposite in Low.
  apply between with (- low) high; [apply join_left, neg_ok, K|apply join_right, H|].
  split; [|exact Up]. unfold mean. unfold Rdiv in *. lra.
Qed.

(* == Phi and GELU ========================================================================= *)

Definition tiny : I.type := one /! whole (2 ^ 60).
Definition root_2pi : I.type := I.sqrt prec (two *! I.pi prec).
Definition bellI (x : I.type) : I.type := I.exp prec (I.neg (I.sqr prec x) /! two).

(* Terms are added until one is tiny or the fuel is used up; any number of them is sound. *)
Fixpoint seriesI (fuel : nat) (divisor : Z) (square last sum : I.type) : I.type * I.type :=
  match fuel with
  | O => (sum, last)
  | S fuel =>
      if nonpositive (I.abs last -! tiny) then (sum, last)
      else seriesI fuel (divisor + 2) square (last *! square /! whole divisor) (sum +! last)
  end.
Definition tailI (x bell : I.type) : I.type :=
  match I.sign_large x with
  | Xgt | Xeq => I.join (one -! bell /! two) one
  | Xlt => I.join zero (bell /! two)
  | Xund => I.join zero one
  end.
Definition Phi_near (x : I.type) : I.type :=     (* for narrow x *)
  let bell := bellI x in
  let (sum, last) := seriesI 120 3 (I.sqr prec x) x zero in
  I.meet (half +! (bell *! sum +! I.join zero last) /! root_2pi) (tailI x bell).
Definition PhiI (x : I.type) : I.type :=
  I.join (Phi_near (point (I.lower x))) (Phi_near (point (I.upper x))).
Definition geluI (x : I.type) : I.type :=        (* by the product, and by the mean value theorem *)
  let middle := point (I.midpoint x) in
  let x := I.join x middle in
  let phi := PhiI x in
  let slope := phi +! x *! (bellI x /! root_2pi) in
  I.meet (x *! phi) (middle *! Phi_near middle +! slope *! (x -! middle)).

Lemma bell_ok i x : x ∈ i -> bell x ∈ bellI i.
Proof. intros H. apply exp_ok, div_ok; [apply neg_ok, sqr_ok, H|apply two_ok|lra]. Qed.

Lemma root_2pi_ok : sqrt (2 * PI) ∈ root_2pi.
Proof. apply sqrt_ok, mul_ok; [apply two_ok|apply I.pi_correct]. Qed.

Lemma series_ok x square fuel : x * x ∈ square -> forall k last sum,
  term k x ∈ last -> series k x ∈ sum ->
  let found := seriesI fuel (2 * Z.of_nat k + 3) square last sum in
  exists n, series n x ∈ fst found /\ term n x ∈ snd found.
Proof.
  intros Sq. induction fuel as [|fuel IH]; intros k last sum T S; cbn [seriesI];
    [exists k; auto|].
  destruct (nonpositive _); [exists k; auto|].
  replace (2 * Z.of_nat k + 3 + 2)%Z with (2 * Z.of_nat (Datatypes.S k) + 3)%Z by lia. apply IH.
  - simpl term. unfold odd. apply div_ok; [apply mul_ok; assumption|apply whole_ok|].
    apply IZR_neq; lia.
  - simpl series. apply add_ok; assumption.
Qed.

Lemma tail_ok i x : x ∈ i -> Phi x ∈ tailI i (bellI i).
Proof.
  intros H. unfold tailI. generalize (I.sign_large_correct i).
  assert (B : bell x / 2 ∈ bellI i /! two).
  { apply div_ok; [apply bell_ok, H|apply two_ok|lra]. }
  assert (Right : 0 <= x -> Phi x ∈ I.join (one -! bellI i /! two) one).
  { intros P. apply between with (1 - bell x / 2) 1; [| |apply Phi_right_tail, P].
    - apply join_left, sub_ok; [apply whole_ok|exact B].
    - apply join_right, whole_ok. }
  destruct (I.sign_large i); intros K.
  - specialize (K _ H); injection K as E. apply Right; lra.
  - destruct (K _ H) as [_ P]. apply between with 0 (bell x / 2); [| |apply Phi_left_tail, P].
    + apply join_left, whole_ok.
    + apply join_right, B.
  - destruct (K _ H) as [_ P]. apply Right, P.
  - apply between with 0 1; [apply join_left, whole_ok|apply join_right, whole_ok|apply Phi_range].
Qed.

Lemma Phi_near_ok i x : x ∈ i -> Phi x ∈ Phi_near i.
Proof.
  intros H. unfold Phi_near.
  destruct (series_ok x (I.sqr prec i) 120 (sqr_ok _ _ H) 0 i zero H (whole_ok 0)) as [n [S T]].
  change (2 * Z.of_nat 0 + 3)%Z with 3%Z in *.
  destruct (seriesI 120 3 (I.sqr prec i) i zero) as [sum last]; simpl in S, T.
  apply meet_ok; [|apply tail_ok, H]. unfold Phi. apply add_ok; [apply half_ok|].
  apply div_ok; [|apply root_2pi_ok|generalize root_2pi_pos; lra].
  replace (area x) with (bell x * series n x + rest n x) by (unfold rest; ring).
  apply add_ok; [apply mul_ok; [apply bell_ok, H|exact S]|].
  assert (Z : 0 ∈ I.join zero last) by apply join_left, whole_ok.
  assert (L : term n x ∈ I.join zero last) by apply join_right, T.
  destruct (rest_bound n x) as [B|B]; [exact (between _ _ _ _ Z L B)|exact (between _ _ _ _ L Z B)].
Qed.

Lemma lower_le i x l : x ∈ i -> F.toX (I.lower i) = Xreal l -> l <= x.
Proof.
  destruct i as [|lo hi]; [simpl; intros _ E; discriminate|]. intros [L _] E.
  change (I.F.toX lo) with (F.toX lo) in L. simpl in E. rewrite E in L. exact L.
Qed.

Lemma upper_le i x u : x ∈ i -> F.toX (I.upper i) = Xreal u -> x <= u.
Proof.
  destruct i as [|lo hi]; [simpl; intros _ E; discriminate|]. intros [_ U] E.
  change (I.F.toX hi) with (F.toX hi) in U. simpl in E. rewrite E in U. exact U.
Qed.

Lemma Phi_ok i x : x ∈ i -> Phi x ∈ PhiI i.
Proof.
  intros H. unfold PhiI. destruct (F.toX (I.lower i)) as [|l] eqn:L.
  { apply join_left, Phi_near_ok, point_nan, L. }
  destruct (F.toX (I.upper i)) as [|u] eqn:U.
  { apply join_right, Phi_near_ok, point_nan, U. }
  apply between with (Phi l) (Phi u).
  - apply join_left, Phi_near_ok, point_ok, L.
  - apply join_right, Phi_near_ok, point_ok, U.
  - split; apply Phi_increasing; [apply (lower_le i)|apply (upper_le i)]; assumption.
Qed.

Theorem gelu_ok i x : x ∈ i -> gelu x ∈ geluI i.
Proof.
  intros H. unfold geluI. destruct (point_inhabited (I.midpoint i)) as [m M].
  set (middle := point (I.midpoint i)) in *. set (j := I.join i middle).
  assert (J : x ∈ j) by apply join_left, H. assert (Jm : m ∈ j) by apply join_right, M.
  apply meet_ok; [apply mul_ok; [exact J|apply Phi_ok, J]|].
  destruct (gelu_mean_value m x) as [c [C ->]].
  assert (Jc : c ∈ j).
  { unfold Rmin, Rmax in C. destruct (Rle_dec m x).
    - exact (between _ _ _ _ Jm J C).
    - exact (between _ _ _ _ J Jm C). }
  apply add_ok; [unfold gelu; apply mul_ok; [exact M|apply Phi_near_ok, M]|].
  apply mul_ok; [|apply sub_ok; assumption].
  apply add_ok; [apply Phi_ok, Jc|]. apply mul_ok; [exact Jc|].
  apply div_ok; [apply bell_ok, Jc|apply root_2pi_ok|generalize root_2pi_pos; lra].
Qed.

(* == The other activations ================================================================ *)

Definition siluI (x : I.type) : I.type := x /! (one +! I.exp prec (I.neg x)).
Definition gelu_tanhI (x : I.type) : I.type :=
  let inner := x +! whole 44715 /! whole 1000000 *! (x *! x *! x) in
  x /! (one +! I.exp prec (I.neg (two *! (I.sqrt prec (two /! I.pi prec) *! inner)))).
Definition reluI (x : I.type) : I.type :=   (* 0 or x, and neither is larger *)
  I.meet (I.join zero x) (I.meet (I.upper_extent zero) (I.upper_extent x)).
Definition actI (M : model) : I.type -> I.type :=
  match act_fn M with Gelu => geluI | Gelu_tanh => gelu_tanhI | Relu => reluI | Silu => siluI end.

Lemma one_plus_exp x : 1 + exp x <> 0.
Proof. generalize (exp_pos x); lra. Qed.

Theorem act_ok M i x : x ∈ i -> act M x ∈ actI M i.
Proof.
  intros H. unfold act, actI. destruct (act_fn M).
  - apply gelu_ok, H.
  - apply div_ok; [exact H| |apply one_plus_exp].
    apply add_ok; [apply whole_ok|]. apply exp_ok, neg_ok, mul_ok; [apply two_ok|].
    apply mul_ok.
    + apply sqrt_ok, div_ok; [apply two_ok|apply I.pi_correct|generalize PI_RGT_0; lra].
    + apply add_ok; [exact H|]. repeat apply mul_ok; try exact H.
      apply div_ok; try apply whole_ok. lra.
  - apply meet_ok.
    + unfold Rmax. destruct (Rle_dec 0 x); [apply join_right, H|apply join_left, whole_ok].
    + apply meet_ok; [apply above_ok with 0; [apply whole_ok|apply Rmax_l]|].
      apply above_ok with x; [exact H|apply Rmax_r].
  - apply div_ok; [exact H| |apply one_plus_exp].
    apply add_ok; [apply whole_ok|apply exp_ok, neg_ok, H].
Qed.
