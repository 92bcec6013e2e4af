(* Section 21: counting with muting odds that depend on the user's own value.
   The bounded cell with D = 1 and equal cuts (w = z); kappa = 1 in both directions is section 12.

     x = 0:  1 : ou : kd*od     (data : up : down)
     x = 1:  1 : ku*ou : od

   The totals of these odds are W false and W true.  kappa_charged holds for any totals (their ratio
   is charged to the loss), kappa_pure_dp where they are equal. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum rat.
From mathcomp Require Import ring zify.
From SsrMultinomials Require Import mpoly.
Require Import definitions lemmas bounded_cell.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Kappa.
Variables (R : realFieldType) (m zu zd : nat) (bu bd ou od ku kd : R).
Local Notation mp := {mpoly R[1]}.
Local Notation X := (X R).

Definition up_odds (x : bool) : R := if x then ku * ou else ou.
Definition down_odds (x : bool) : R := if x then od else kd * od.
(* the cell of section 12 with these odds *)
Definition kappa_cell (x : bool) : dist R (seq 'I_1) :=
  cell m 1 zu zu zd zd bu bd (fun=> up_odds x) (fun=> down_odds x) x.
Definition W (x : bool) : R := 1 + up_odds x + down_odds x.

Definition L (x : bool) : mp :=
  X ^+ (zd + x) + up_odds x *: X ^+ (zd + zu.+1) + down_odds x *: 1.
Local Notation Mu := (mu m zu bu).
Local Notation Nu := (nu m zd bd).

Lemma weightE x : weight 1 (fun=> up_odds x) (fun=> down_odds x) = W x.
Proof. by rewrite /weight !big_nat1. Qed.
Lemma gf_kappa_cell x : gf (kappa_cell x) = Mu * Nu * ((W x)^-1 *: L x).
Proof.
rewrite /kappa_cell gf_cell !big_nat1 weightE subnn addn1 expr0 -scalerAr; congr (_ *: _).
by rewrite /L -!mul_mpolyC; ring.
Qed.

Hypotheses (m0 : (0 < m)%N) (hbu : 0 < bu) (hbd : 0 < bd).
Hypotheses (hou : 0 <= ou) (hod : 0 <= od) (hku : bd <= ku) (hkd : bu <= kd).

Lemma up_odds_ge0 x : 0 <= up_odds x.
Proof. by case: x => //=; apply: mulr_ge0 => //; apply: le_trans hku; exact: ltW. Qed.
Lemma down_odds_ge0 x : 0 <= down_odds x.
Proof. by case: x => //=; apply: mulr_ge0 => //; apply: le_trans hkd; exact: ltW. Qed.
Lemma W_gt0 x : 0 < W x.
Proof. by rewrite !ltr_paddr ?up_odds_ge0 ?down_odds_ge0 ?ltr01. Qed.
Lemma nnL x : nn (L x).
Proof.
have hu := up_odds_ge0 x; have hd := down_odds_ge0 x.
by apply: nnD; [apply: nnD; [|apply: nnZ] | apply: nnZ] => //; try exact: nnXX; exact: nn1.
Qed.

(* it is a randomizer: total mass 1, at most 2(zu + zd) + 1 messages *)
Theorem kappa_total x : total (kappa_cell x) = 1.
Proof. by apply: cell_total => // _; rewrite ?up_odds_ge0 ?down_odds_ge0. Qed.
Theorem kappa_nonneg x : nonneg (kappa_cell x).
Proof. by apply: cell_nonneg => // _; rewrite ?up_odds_ge0 ?down_odds_ge0. Qed.
Theorem kappa_size x : supp (kappa_cell x) (fun ts => (size ts <= 2 * (zu + zd) + 1)%N).
Proof.
have -> : (2 * (zu + zd) + 1 = zu + zu + zd + zd + 1)%N by lia.
by apply: cell_size => //; case: x.
Qed.

(* ---- the conditions of section 21; kappa <= 1 is not needed where w = z ---- *)
Hypothesis cond_u : m%:R * c m bu zu.+1 <= (1 - ku * bu) * ou.
Hypothesis cond_d : m%:R * c m bd zd.+1 <= (1 - kd * bd) * od.

(* "beta P1 <= P0 in weights 1 : o and 1 : kappa o" *)
Lemma kup : lec (L true * Mu ^+ m) (bu^-1 *: (L false * Mu ^+ m)).
Proof.
have nM : nn (Mu ^+ m) by apply: nnXn; exact: nn_mu.
rewrite /L /= !mulrDl addn0 addn1 exprSr -[X in lec (X + _ + _)]mulrA.
have h := lecMl (@nnXX R zd) (up_bound zu m0 hbu).
apply: (lec_trans (lecD (lecD h (lecxx _)) (lecxx _))).
rewrite mulrDr -!scalerAr -!scalerAl mul1r [X ^+ zd * (X ^+ _ * _)]mulrA -exprD -addrA -addrA.
rewrite !scalerDr -!addrA; apply: lecD; first exact: lecxx.
rewrite addrA -scalerDl !scalerA; apply: lecD; apply: lecZr => //.
- exact: pay.
- by apply: nnM => //; exact: nnXX.
- exact: pay_other.
Qed.

Lemma kdown : lec (L false * Nu ^+ m) (bd^-1 *: (L true * Nu ^+ m)).
Proof.
have nM : nn (Nu ^+ m) by apply: nnXn; exact: nn_nu.
rewrite /L /= !mulrDl addn0 addn1.
have h := down_bound zd m0 hbd.
apply: (lec_trans (lecD (lecD h (lecxx _)) (lecxx _))).
rewrite -!scalerAl mul1r !scalerDr -!addrA; apply: lecD; first exact: lecxx.
rewrite addrCA !scalerA; apply: lecD.
  by apply: lecZr; [exact: pay_other | apply: nnM => //; exact: nnXX].
by rewrite -scalerDl; apply: lecZr => //; exact: pay.
Qed.

(* totals that differ are charged to the loss *)
Theorem kappa_charged :
  costs m (W false / W true * bu^-1) kappa_cell true false /\
  costs m (W true / W false * bd^-1) kappa_cell false true.
Proof.
have nM : nn (Mu ^+ m) by apply: nnXn; exact: nn_mu.
have nN : nn (Nu ^+ m) by apply: nnXn; exact: nn_nu.
have nMN : nn (Mu * Nu) by apply: nnM; [exact: nn_mu | exact: nn_nu].
have iW x : 0 <= (W x)^-1 by rewrite invr_ge0 ltW ?W_gt0.
have nJ x : nn ((W x)^-1 *: L x) by apply: nnZ => //; exact: nnL.
have wE x y c : W y / W x * c * (W y)^-1 = (W x)^-1 * c.
  by have hx := W_gt0 x; have hy := W_gt0 y; field; rewrite !gt_eqF.
split; apply: (costs_noise m0 nMN nJ gf_kappa_cell); rewrite -!scalerAl scalerA wE -scalerA.
  apply: (lecZ (iW _)); rewrite exprMn !mulrA scalerAl; exact: (lecMr nN kup).
apply: (lecZ (iW _)); rewrite exprMn ![_ * (Mu ^+ m * _)]mulrCA scalerAr; exact: (lecMl nM kdown).
Qed.

(* with equal totals nothing is charged *)
Theorem kappa_pure_dp : 1 + ou + kd * od = 1 + ku * ou + od ->
  costs m bu^-1 kappa_cell true false /\ costs m bd^-1 kappa_cell false true.
Proof.
rewrite -/(W false) -/(W true) => E; move: kappa_charged.
by rewrite E divff ?mul1r // gt_eqF ?W_gt0.
Qed.
End Kappa.

(* The hypotheses can hold: m = 2, z = 1, beta = kappa = 1/2, o = 1/4. *)
Section Instance.
Let half : rat := 2%:R^-1.
Let o : rat := 4%:R^-1.
Example kappa_instance :
  costs 2 2%:R (kappa_cell 2 1 1 half half o o half half) true false /\
  costs 2 2%:R (kappa_cell 2 1 1 half half o o half half) false true.
Proof.
have c2 : c 2 half 2 = 3%:R / 32%:R by rewrite /c /rise !big_ord_recl big_ord0.
have h2 : 2%:R = half^-1 by [].
by rewrite h2; apply: kappa_pure_dp; rewrite ?c2.
Qed.
End Instance.
