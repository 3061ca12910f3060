(* What intervals end at: m 2^e with machine integers, whose axioms Coq then prints. *)
From Bignums Require Import BigZ.
From Interval Require Import Float.Specific_bigint Float.Specific_ops Interval.Float_full.
Module F := SpecificFloat BigIntRadix2.
Module I := FloatIntervalFull F.
Definition prec : F.precision := 56%bigZ.
