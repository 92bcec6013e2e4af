(* Section 19 with the noise kept in the jump: at most 2Z+1 tokens, goes beside exact cells. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum rat.
From mathcomp Require Import ring zify.
From SsrMultinomials Require Import mpoly.
Require Import definitions lemmas sparse.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Kept.
Variables (R : realFieldType) (B m Z : nat) (beta p q o E : R).
Local Notation D T := (dist R T).
Local Notation noise := (noise B m beta Z).
Local Notation urn := (urn R B m).
Local Notation s := (s B m beta).
Local Notation xm := (xm R (B := B)).
Local Notation mu := (gf noise).
Local Notation Pi := (gf (urn Z.+1)).

Definition kept_randomizer (x : option 'I_B) : D (seq 'I_B) :=
  bind noise (fun ts =>
    scale p (ret R (add_value x ts))                          (* data *)
    ++ scale q (ret R ts)                                     (* muted *)
    ++ scale o (bind (urn Z.+1) (fun us => ret R (us ++ ts)))). (* jump *)

Definition I x : {mpoly R[B]} := p *: xm x + q *: 1 + o *: Pi.

Lemma gf_kept_randomizer x : gf (kept_randomizer x) = mu * I x.
Proof.
rewrite /kept_randomizer /I; move: noise (urn Z.+1) => N U; rewrite gf_bind lin_mulr; apply: eq_linx => ts.
rewrite !gf_cat !gf_scale !gf_ret gf_add_value gf_bind !mulrDr -!scalerAr mulr1 -addrA.
congr (_ *: _ + (_ + _ *: _)); first exact: mulrC.
by rewrite lin_mull; apply: eq_linx => us; rewrite gf_ret cnt_cat mpolyXD mulrC.
Qed.

Hypotheses (m0 : (0 < m)%N) (B0 : (0 < B)%N) (hb : 0 < beta).

Theorem kept_total x : p + q + o = 1 -> total (kept_randomizer x) = 1.
Proof.
move=> h; rewrite /kept_randomizer.
move: (total_noise Z m0 B0 hb) (total_urn R m B0 Z.+1); move: noise (urn Z.+1) => N U hN hU.
rewrite total_bind => [|t]; first exact: hN.
rewrite !total_cat !total_scale !total_ret total_bind => [|u]; last exact: total_ret.
by rewrite hU !mulr1 addrA.
Qed.
Theorem kept_size x : supp (kept_randomizer x) (fun ts => (size ts <= 2 * Z + 1)%N).
Proof.
apply: (supp_bind (@noise_size _ _ _ _ _)) => ts h.
have h1 : (Z.+1 <= 2 * Z + 1)%N by lia.
apply: supp_cat; first apply: supp_scale; first apply: supp_ret.
  by case: x => [b|] /=; apply: leq_trans h1; rewrite ?ltnS // ltnW.
apply: supp_cat; first apply: supp_scale; first apply: supp_ret.
  by apply: leq_trans h1; rewrite ltnW.
apply: supp_scale; apply: (supp_bind (@urn_size _ _ _ _)) => us hu.
by apply: supp_ret; rewrite size_cat hu mul2n -addnn addn1 addSn ltnS leq_add2l.
Qed.

Hypotheses (hb1 : beta <= 1) (hp : 0 <= p) (hq : 0 <= q) (ho : 0 <= o) (hE : 1 <= E).
Hypothesis cond_muted : p <= q * beta * (E - 1).
Hypothesis cond_jump : p * m%:R * s Z.+1 <= o * beta * (E - 1).

Lemma nnI x : nn (I x).
Proof.
apply: nnD; last by apply: nnZ => //; exact: nn_urn.
by apply: nnD; apply: nnZ => //; [exact: nn_xm | exact: nn1].
Qed.

Lemma shift x : lec (p *: xm x * mu ^+ m) ((E - 1) *: ((q *: 1 + o *: Pi) * mu ^+ m)).
Proof.
have hm : 0 < m%:R :> R by rewrite ltr0n.
have hE1 : 0 <= E - 1 by rewrite subr_ge0.
have nmu := nn_noise Z m0 B0 hb; have nPi := nn_urn (R := R) m0 B0 hb Z.+1.
have nM : nn (mu ^+ m) by exact: nnXn.
rewrite mulrDl -!scalerAl mul1r scalerDr !scalerA.
case: x => [b|] /=; last first.
  rewrite mul1r; apply: lec_trans (lec_nnr _ _); last first.
    by apply: nnZ; [exact: mulr_ge0 | exact: nnM].
  apply: lecZr => //; apply: (le_trans cond_muted); rewrite [X in _ <= X]mulrC.
  by apply: ler_wpmul2r => //; rewrite -[X in _ <= X]mulr1 ler_wpmul2l.
apply: (lec_trans (lecZ hp (noise_claims Z m0 B0 hb b))); rewrite scalerDr !scalerA.
apply: lecD; apply: lecZr => //; last exact: nnM.
  by rewrite ler_pdivr_mulr // -mulrA [X in _ <= X]mulrC.
rewrite [X in X <= _](_ : _ = p * m%:R * s Z.+1 / beta); last by ring.
by rewrite ler_pdivr_mulr // (le_trans cond_jump) // le_eqVlt; apply/orP; left; apply/eqP; ring.
Qed.

Theorem sparse_kept_noise_pure_dp : pure_dp m E kept_randomizer.
Proof.
move=> x y; have nmu := nn_noise Z m0 B0 hb.
apply: (costs_noise m0 nmu nnI gf_kept_randomizer).
set A := q *: 1 + o *: Pi; have IE z : I z = p *: xm z + A by rewrite /I /A addrA.
rewrite IE mulrDl; apply: (lec_trans (lecD (shift x) (lecxx _))); rewrite -/A.
have -> : (E - 1) *: (A * mu ^+ m) + A * mu ^+ m = E *: (A * mu ^+ m).
  by rewrite -{2}[A * _]scale1r -scalerDl subrK.
apply: lecZ; first exact: le_trans ler01 hE.
apply: lecMr; first exact: nnXn.
by rewrite IE addrC; apply: lec_nnr; apply: nnZ => //; exact: nn_xm.
Qed.
End Kept.

(* The hypotheses can hold: B = m = 2, Z = 1, beta = 1/2, e^eps = 3. *)
Section Instance.
Let half : rat := 2%:R^-1.
Let p : rat := 3%:R / 10%:R.
Let q : rat := 4%:R / 10%:R.
Let o : rat := 3%:R / 10%:R.
Example kept_instance : pure_dp 2 3%:R (kept_randomizer (B := 2) 2 1 half p q o).
Proof.
have s2 : s 2 2 half 2 = 4%:R^-1 by rewrite /s /rise !big_ord_recl !big_ord0.
by apply: sparse_kept_noise_pure_dp => //; rewrite ?s2.
Qed.
End Instance.
