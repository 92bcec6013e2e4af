(* The definitions that the theorems share.  Section numbers refer to docs/mathematics.md.

   A randomizer maps a user's value to a finite distribution over reports; a report is a list of
   messages.  The shuffler outputs the messages of all users in no order: the view is a multiset.
   Weights live in any ordered field (the rational numbers are one), so nothing is rounded. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ---- finite distributions: lists of (weight, outcome) ---- *)
Section Distributions.
Variable R : realFieldType.

Definition dist (T : Type) := seq (R * T).
(* the outcome t for sure *)
Definition ret T (t : T) : dist T := [:: (1, t)].
(* draw t from d, then draw from f t *)
Definition bind T U (d : dist T) (f : T -> dist U) : dist U :=
  flatten [seq [seq (wt.1 * wu.1, wu.2) | wu <- f wt.2] | wt <- d].
(* a branch of weight w; branches are joined by ++ *)
Definition scale T (w : R) (d : dist T) : dist T := [seq (w * wt.1, wt.2) | wt <- d].
Definition uniform T (ts : seq T) : dist T := [seq ((size ts)%:R^-1, t) | t <- ts].

Definition total T (d : dist T) : R := \sum_(wt <- d) wt.1.
(* no weight is negative *)
Definition nonneg T (d : dist T) := all (fun wt => 0 <= wt.1) d.
(* every outcome has the property P *)
Definition supp (T : eqType) (d : dist T) (P : T -> Prop) :=
  forall w t, (w, t) \in d -> P t.
(* sum of weight times F; the expectation where the total is 1 *)
Definition lin (V : lmodType R) T (d : dist T) (F : T -> V) : V :=
  \sum_(wt <- d) wt.1 *: F wt.2.

(* ---- reports, batches, views ---- *)
(* the messages of two independent draws together *)
Definition both T (d d' : dist (seq T)) : dist (seq T) :=
  bind d (fun ts => bind d' (fun us => ret (ts ++ us))).
(* the messages of all users, who hold the values xs *)
Definition batch V T (f : V -> dist (seq T)) (xs : seq V) : dist (seq T) :=
  foldr (fun x => both (f x)) (ret [::]) xs.
(* the probability that the view is the multiset v *)
Definition Pr (T : eqType) (d : dist (seq T)) (v : seq T) : R :=
  \sum_(wt <- d | perm_eq wt.2 v) wt.1.

(* Pure differential privacy of one change.  Among m or more users, whatever the others hold and
   wherever the user stands, any view is at most E times as likely with x as with y.
   E is e^epsilon, or e^up or e^down where directions are charged apart. *)
Definition costs V (T : eqType) (m : nat) (E : R) (f : V -> dist (seq T)) (x y : V) :=
  forall (xs1 xs2 : seq V) (v : seq T), (m <= size xs1 + 1 + size xs2)%N ->
    Pr (batch f (xs1 ++ x :: xs2)) v <= E * Pr (batch f (xs1 ++ y :: xs2)) v.
(* E-private: every change of one value costs at most E *)
Definition pure_dp V (T : eqType) (m : nat) (E : R) (f : V -> dist (seq T)) :=
  forall x y, costs m E f x y.

(* ---- section 12: negative binomial shares, cut ---- *)
(* a(a+1)...(a+k-1) *)
Definition rise (a : R) k := \prod_(i < k) (a + i%:R).
(* c_j and C_k of m users *)
Definition c (m : nat) (beta : R) j : R := beta ^+ j * rise m%:R^-1 j / (j`!)%:R.
Definition C (m : nat) (beta : R) k : R := \sum_(j < k.+1) c m beta j.
(* c_n of a vector n, with a beta for each coordinate (sections 18 and 19) *)
Definition cv B (m : nat) (beta : 'I_B -> R) (n : 'I_B -> nat) : R :=
  \prod_(b < B) c m (beta b) (n b).
(* mu_z: j = 0..z with probability c_j / C_z *)
Definition share (m : nat) (beta : R) z : dist nat :=
  [seq (c m beta j / C m beta z, j) | j <- iota 0 z.+1].

(* ---- section 19: Polya's urn with B buckets ---- *)
Section Urn.
Variables (B m : nat).
(* s_J, the sum of c_j over the vectors j with |j| = J, and its sum up to Z *)
Definition s (beta : R) J := beta ^+ J * rise (B%:R / m%:R) J / (J`!)%:R.
Definition Cs (beta : R) Z := \sum_(J < Z.+1) s beta J.
(* the next token, given the earlier ones *)
Definition token (ts : seq 'I_B) : dist 'I_B :=
  let w := B%:R / (B%:R + (size ts)%:R * m%:R) in
  scale w (uniform (enum 'I_B)) ++ scale (1 - w) (uniform ts).
(* J tokens by the urn *)
Fixpoint urn J : dist (seq 'I_B) :=
  if J is J'.+1 then
    bind (urn J') (fun ts => bind (token ts) (fun b => ret (b :: ts)))
  else ret [::].
(* J tokens by the urn, J = 0..Z with probability s_J / Cs *)
Definition noise (beta : R) Z : dist (seq 'I_B) :=
  bind [seq (s beta J / Cs beta Z, J) | J <- iota 0 Z.+1] urn.
End Urn.
End Distributions.
