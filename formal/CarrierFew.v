(* What intervals end at: m 2^e with Coq's own integers. No axioms besides those of the reals. *)
From Coq Require Import ZArith.
From Interval Require Import Float.Specific_stdz Float.Specific_ops Interval.Float_full.
Module F := SpecificFloat StdZRadix2.
Module I := FloatIntervalFull F.
Definition prec : F.precision := 56%Z.
