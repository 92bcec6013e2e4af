(* Section 22: the histogram group, one way up for all buckets, dealt by Polya's urn.
   Equal cuts for the ways down (w = z), so phi = 1.

   m planned users, B buckets; bu, Z belong to the way up, bd, z to the ways down.  Rd are the odds R
   of a drop, o and o' = kappa*o the odds of a jump down with value 1 and 0. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum rat.
From mathcomp Require Import ring zify.
From SsrMultinomials Require Import mpoly.
Require Import definitions lemmas.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Group.
Variables (R : realFieldType) (B m Z z : nat) (bu bd Rd o kappa : R).
Local Notation o' := (kappa * o).
Local Notation D T := (dist R T).
Local Notation noise := (noise B m bu Z).
Local Notation urn := (urn R B m).

Definition odds (x : bool) : R := if x then o else o'.
(* the way down of bucket a with value x: 2z + x - j tokens, or a jump: z - j tokens *)
Definition way (a : 'I_B) (x : bool) : D (seq 'I_B) :=
  bind (share m bd z) (fun j =>
    scale (1 + odds x)^-1 [:: (1, nseq (z + x + (z - j)) a); (odds x, nseq (z - j) a)]).
(* step 3: all buckets; x is the label, if it was kept *)
Definition ways (x : option 'I_B) : D (seq 'I_B) :=
  foldr (fun a => both (way a (x == Some a))) (ret R [::]) (enum 'I_B).
(* step 1: keep or drop, and the drop's Z+1 tokens; step 2: noise; step 3 *)
Definition group (b : 'I_B) : D (seq 'I_B) :=
  scale (1 + Rd)^-1
    (scale 1 (both noise (ways (Some b)))
     ++ scale Rd (both (urn Z.+1) (both noise (ways None)))).
(* ---- generating functions ---- *)
Local Notation mp := {mpoly R[B]}.
Local Notation mu := (gf noise).
Local Notation Pi := (gf (urn Z.+1)).
Definition nub (a : 'I_B) : mp := sub a (nu m z bd).
(* the weights of a way down *)
Definition wd (a : 'I_B) (x : bool) : mp := 'X_a ^+ (z + x) + odds x *: 1.

Lemma gf_way a x : gf (way a x) = nub a * ((1 + odds x)^-1 *: wd a x).
Proof.
have -> : nub a = lin (share m bd z) (fun j => 'X_a ^+ (z - j)).
  rewrite /nub /nu /lin /sub raddf_sum; apply: eq_bigr => -[w j] _ /=.
  by rewrite comp_mpolyZ -/(sub a _) subX.
rewrite {1}/gf lin_bind lin_mulr; apply: eq_linx => j.
rewrite lin_scale -scalerAr; congr (_ *: _).
rewrite /lin !big_cons big_nil /= !X_nseq scale1r addr0 /wd exprD -!mul_mpolyC; ring.
Qed.

Lemma gf_ways x : gf (ways x) =
  (\prod_(a < B) nub a) * \prod_(a < B) ((1 + odds (x == Some a))^-1 *: wd a (x == Some a)).
Proof.
rewrite -big_split /= -big_enum /ways /=; elim: (enum 'I_B) => [|a s IH].
  by rewrite big_nil gf_ret0.
by rewrite big_cons /= gf_both gf_way IH.
Qed.

(* "no label": all values 0; the constants of a kept label and of a drop *)
Definition rest (b : 'I_B) : mp := \prod_(a < B | a != b) ((1 + o')^-1 *: wd a false).
Definition kept (b : 'I_B) (x : bool) : mp := (1 + o)^-1 *: (wd b x * rest b).
Definition dropped (b : 'I_B) : mp := (1 + o')^-1 *: (Pi * wd b false * rest b).
(* the label's part of the law; P_b of the proof is mu * prod nub * I b *)
Definition I (b : 'I_B) : mp := (1 + Rd)^-1 *: (kept b true + Rd *: dropped b).
(* the same for the measure P_0 (drop odds Rd / bd); it does not depend on b *)
Definition I0 (b : 'I_B) : mp := (1 + Rd)^-1 *: (kept b false + (Rd / bd) *: dropped b).

Lemma gf_group b : gf (group b) = mu * (\prod_(a < B) nub a) * I b.
Proof.
rewrite /group /I /kept /dropped; apply: etrans (gf_scale _ _) _.
have -> (d d' : dist R (seq 'I_B)) : gf (scale 1 d ++ scale Rd d') = gf d + Rd *: gf d'.
  by rewrite gf_cat !gf_scale scale1r.
rewrite !gf_both !gf_ways.
have h1 : \prod_(a < B) ((1 + odds (Some b == Some a))^-1 *: wd a (Some b == Some a))
    = ((1 + o)^-1 *: wd b true) * rest b.
  rewrite (bigD1 b) //= eqxx; congr (_ * _); apply: eq_bigr => a ab.
  by rewrite (inj_eq Some_inj) eq_sym (negbTE ab).
have h2 : \prod_(a < B) ((1 + odds (None == Some a))^-1 *: wd a (None == Some a))
    = ((1 + o')^-1 *: wd b false) * rest b by rewrite (bigD1 b).
rewrite h1 h2; move: (gf noise) (gf (urn _)) (\prod_(a < B) nub a) (rest b) => M P N Q.
rewrite -!mul_mpolyC; ring.
Qed.


(* ---- the conditions ---- *)
Hypotheses (m0 : (0 < m)%N) (hbu : 0 < bu) (hbd : 0 < bd) (hR : 0 <= Rd) (ho : 0 <= o).
Hypothesis cond_b : bd * (m%:R * s B m bu Z.+1) <= (1 - bu * bd) * Rd.
Hypotheses (cond_c : bu <= kappa) (cond_c1 : kappa <= 1).
Hypothesis cond_d : m%:R * c m bd z.+1 <= (1 - kappa * bd) * o.

Lemma ho' : 0 <= o'.
Proof. by apply: mulr_ge0 => //; apply: le_trans cond_c; exact: ltW. Qed.
Lemma odds_ge0 x : 0 <= odds x.
Proof. by case: x => //=; exact: ho'. Qed.
Lemma odds1_gt0 x : 0 < 1 + odds x.
Proof. by rewrite ltr_paddr ?ltr01 // odds_ge0. Qed.
Lemma Rd1_gt0 : 0 < 1 + Rd.
Proof. by rewrite ltr_paddr ?ltr01. Qed.
Lemma B_gt0 (b : 'I_B) : (0 < B)%N.
Proof. by case: b => i; case: B. Qed.

Lemma lecZZ (a c : R) (P Q : mp) : 0 <= c -> lec P (a *: Q) -> lec (c *: P) (a *: (c *: Q)).
Proof. by move=> hc h; rewrite scalerA [a * c]mulrC -scalerA; exact: lecZ. Qed.
Lemma nn_Xn (a : 'I_B) n : nn ('X_a ^+ n : mp).
Proof. by apply: nnXn; exact: nnX. Qed.
Lemma nn_wd a x : nn (wd a x).
Proof. by apply: nnD; [exact: nn_Xn | apply: nnZ; [exact: odds_ge0 | exact: nn1]]. Qed.
Lemma nn_nub a : nn (nub a).
Proof. by apply: sub_nn; exact: nn_nu. Qed.
Lemma nn_rest b : nn (rest b).
Proof.
apply: nn_prod => a; apply: nnZ; last exact: nn_wd.
by rewrite invr_ge0 ltW // (odds1_gt0 false).
Qed.
Lemma nn_I b : nn (I b).
Proof.
have h1 := odds1_gt0 true; have h2 := odds1_gt0 false; have h3 := Rd1_gt0.
have B0 := B_gt0 b; have nQ := nn_rest b; have nPi := nn_urn (R := R) m0 B0 hbu Z.+1.
apply: nnZ; first by rewrite invr_ge0 ltW.
apply: nnD; [|apply: nnZ => //]; (apply: nnZ; first by rewrite invr_ge0 ltW).
  by apply: nnM => //; exact: nn_wd.
by apply: nnM => //; apply: nnM => //; exact: nn_wd.
Qed.

(* the measure P_0 is the same whatever label it is seen from *)
Lemma I0_same b b' : I0 b = I0 b'.
Proof.
pose N : mp := \prod_(a < B) ((1 + o')^-1 *: wd a false).
have e c : N = (1 + o')^-1 *: (wd c false * rest c).
  by rewrite /N (bigD1 c) //= -/(rest c) -scalerAl.
have k c : kept c false = ((1 + o)^-1 * (1 + o')) *: N.
  by rewrite (e c) /kept scalerA -mulrA mulfV ?mulr1 // gt_eqF // (odds1_gt0 false).
have d c : dropped c = Pi * N by rewrite (e c) /dropped -scalerAr mulrA.
by rewrite /I0 !k !d.
Qed.

(* ---- up: P_b <= bu^-1 P_0 ---- *)
Lemma way_up b : lec (wd b true * mu ^+ m)
  (bu^-1 *: (wd b false * mu ^+ m)
   + (bu^-1 * (m%:R * s B m bu Z.+1)) *: (Pi * wd b false * mu ^+ m)).
Proof.
have B0 := B_gt0 b; have nM : nn (mu ^+ m) by apply: nnXn; exact: nn_noise.
have nPi := nn_urn (R := R) m0 B0 hbu Z.+1.
have A0 : 0 <= bu^-1 * (m%:R * s B m bu Z.+1).
  by rewrite mulr_ge0 ?invr_ge0 ?ltW // mulr_gt0 ?ltr0n // s_gt0.
have h1 := lecMl (@nn_Xn b z) (noise_claims Z m0 B0 hbu b).
have h2 : lec (o *: mu ^+ m) ((bu^-1 * o') *: mu ^+ m) by apply: lecZr => //; exact: pay_other.
rewrite /wd /= addn0 addn1 exprSr !mulrDl -scalerAl mul1r -mulrA.
apply: (lec_trans (lecD h1 h2)).
move: (bu^-1 * (m%:R * s B m bu Z.+1)) A0 => A A0.
have n3 : nn (A *: (o' *: (Pi * mu ^+ m))) by do 2![apply: nnZ => //; try exact: ho']; exact: nnM.
apply: (lec_trans (lec_nnr _ n3)) => k; rewrite le_eqVlt; apply/orP; left; apply/eqP.
congr (_@_k); move: (mu ^+ m) Pi ('X_b ^+ z : mp) => M P Y.
by rewrite -!mul_mpolyC !mpolyCM; ring.
Qed.

Lemma up b : lec (I b * mu ^+ m) (bu^-1 *: (I0 b * mu ^+ m)).
Proof.
have B0 := B_gt0 b; have nM : nn (mu ^+ m) by apply: nnXn; exact: nn_noise.
have nPi := nn_urn (R := R) m0 B0 hbu Z.+1; have nQ := nn_rest b.
have i1 : 0 < (1 + o)^-1 by rewrite invr_gt0 (odds1_gt0 true).
have i0 : 0 < (1 + o')^-1 by rewrite invr_gt0 (odds1_gt0 false).
have i10 : (1 + o)^-1 <= (1 + o')^-1.
  rewrite lef_pinv ?posrE ?(odds1_gt0 true) ?(odds1_gt0 false) // ler_add2l.
  by rewrite -[X in _ <= X]mul1r ler_wpmul2r.
rewrite /I /I0 -!scalerAl; apply: lecZZ; first by rewrite invr_ge0 ltW // Rd1_gt0.
have h := lecZ (ltW i1) (lecMr nQ (way_up b)).
set T := Pi * wd b false * rest b * mu ^+ m.
have nT : nn T by do 3![apply: nnM => //]; exact: nn_wd.
set A := bu^-1 * (m%:R * s B m bu Z.+1) in h.
have A0 : 0 <= A by rewrite mulr_ge0 ?invr_ge0 ?ltW // mulr_gt0 ?ltr0n // s_gt0.
have -> : (kept b true + Rd *: dropped b) * mu ^+ m
  = (1 + o)^-1 *: (wd b true * mu ^+ m * rest b) + (Rd * (1 + o')^-1) *: T.
  rewrite /kept /dropped /T; move: (mu ^+ m) Pi (rest b) => M P Q.
  by rewrite -!mul_mpolyC !mpolyCM; ring.
apply: (lec_trans (lecD h (lecxx _))).
have -> : (1 + o)^-1 *: ((bu^-1 *: (wd b false * mu ^+ m) + A *: (Pi * wd b false * mu ^+ m)) * rest b)
    + (Rd * (1 + o')^-1) *: T
  = bu^-1 *: (kept b false * mu ^+ m) + ((1 + o)^-1 * A + Rd * (1 + o')^-1) *: T.
  rewrite /kept /T; move: (mu ^+ m) Pi (rest b) => M P Q.
  by rewrite -!mul_mpolyC !(mpolyCM, mpolyCD); ring.
have -> : bu^-1 *: ((kept b false + (Rd / bd) *: dropped b) * mu ^+ m)
  = bu^-1 *: (kept b false * mu ^+ m) + (bu^-1 * (Rd / bd) * (1 + o')^-1) *: T.
  rewrite /kept /dropped /T; move: (mu ^+ m) Pi (rest b) => M P Q.
  by rewrite -!mul_mpolyC !mpolyCM; ring.
apply: lecD; first exact: lecxx.
apply: lecZr => //; apply: (@le_trans _ _ ((A + Rd) * (1 + o')^-1)).
  by rewrite mulrDl ler_add2r mulrC ler_wpmul2l.
apply: ler_wpmul2r; first exact: ltW.
(* condition (b) *)
have hb : m%:R * s B m bu Z.+1 <= (1 - bd * bu) * (Rd / bd).
  by rewrite mulrA ler_pdivl_mulr // mulrC [bd * bu]mulrC.
have := pay hbu hb; rewrite -/A.
by have -> : bd * (Rd / bd) = Rd by field; rewrite gt_eqF.
Qed.

(* ---- down: P_0 <= bd^-1 P_b ---- *)
(* the way down of section 21, in the variable of bucket b *)
Lemma way_down b : lec (wd b false * nub b ^+ m) (bd^-1 *: (wd b true * nub b ^+ m)).
Proof.
have nN : nn (nub b ^+ m) by apply: nnXn; exact: nn_nub.
have h : lec ('X_b ^+ z * nub b ^+ m) (bd^-1 *: ('X_b ^+ z.+1 * nub b ^+ m)
    + (bd^-1 * (m%:R * c m bd z.+1)) *: nub b ^+ m).
  have := sub_lec b (down_bound z m0 hbd).
  by rewrite /nub !(subD, subZ, subM, subX, subXn).
rewrite /wd /= addn0 addn1 !mulrDl -!scalerAl !mul1r.
apply: (lec_trans (lecD h (lecxx _))).
rewrite scalerDr -addrA -scalerDl scalerA; apply: lecD; first exact: lecxx.
by apply: lecZr => //; exact: pay.
Qed.

Lemma down b : lec (I0 b * nub b ^+ m) (bd^-1 *: (I b * nub b ^+ m)).
Proof.
have nQ := nn_rest b.
have i1 : 0 < (1 + o)^-1 by rewrite invr_gt0 (odds1_gt0 true).
rewrite /I /I0 -!scalerAl; apply: lecZZ; first by rewrite invr_ge0 ltW // Rd1_gt0.
have h := lecZ (ltW i1) (lecMr nQ (way_down b)).
have e x : kept b x * nub b ^+ m = (1 + o)^-1 *: (wd b x * nub b ^+ m * rest b).
  by rewrite /kept -scalerAl mulrAC.
rewrite !mulrDl scalerDr !e; apply: lecD.
  by apply: (lec_trans h); rewrite -scalerAl !scalerA [_ * bd^-1]mulrC; exact: lecxx.
by rewrite -!scalerAl [bd^-1 *: (_ *: _)]scalerA [bd^-1 * _]mulrC; exact: lecxx.
Qed.

(* ---- the theorem ---- *)
(* b' on the left, b on the right *)
Theorem group_costs (b b' : 'I_B) : costs m (bu * bd)^-1 group b' b.
Proof.
set N := \prod_(a < B) nub a; have nmu := nn_noise Z m0 (B_gt0 b) hbu.
have nN : nn N by apply: nn_prod => a; exact: nn_nub.
apply: (costs_noise m0 (nnM nmu nN) nn_I gf_group); rewrite exprMn !mulrA.
have nM : nn (mu ^+ m) by exact: nnXn.
have nNm : nn (N ^+ m) by exact: nnXn.
(* up from b' to P_0, down from P_0 to b *)
apply: (lec_trans (lecMr nNm (up b'))); rewrite (I0_same b' b) -scalerAl invfM -scalerA.
apply: lecZ; first by rewrite invr_ge0 ltW.
pose N' := \prod_(a < B | a != b) nub a.
have nN' : nn N' by apply: nn_prod => a; exact: nn_nub.
have e d : d * mu ^+ m * N ^+ m = (d * nub b ^+ m) * (N' ^+ m * mu ^+ m).
  rewrite /N (bigD1 b) //= -/N' exprMn.
  by move: (nub b ^+ m) (N' ^+ m) (mu ^+ m) => x y u; ring.
rewrite !e scalerAl; apply: (lecMr _ (down b)).
by apply: nnM => //; exact: nnXn.
Qed.

Lemma nn_group b : nn (gf (group b)).
Proof.
rewrite gf_group; apply: nnM; last exact: nn_I.
by apply: nnM; [apply: nn_noise => //; exact: B_gt0 b | apply: nn_prod => a; exact: nn_nub].
Qed.
(* condition (a): beta_u * beta_d >= e^-eps, E = e^eps *)
Theorem group_pure_dp (E : R) : 0 < E -> E^-1 <= bu * bd -> pure_dp m E group.
Proof.
move=> hE cond_a b' b; apply: (costs_le nn_group) (group_costs b b').
by rewrite -[X in _ <= X]invrK lef_pinv // posrE ?invr_gt0 // mulr_gt0.
Qed.

(* ---- it is a randomizer: total mass 1, at most B(z+z) + 2Z + 1 messages ---- *)
Lemma total_way a x : total (way a x) = 1.
Proof.
rewrite /way total_bind ?total_share // => j; rewrite total_scale /total !big_cons big_nil /=.
by rewrite addr0 mulVf // gt_eqF ?odds1_gt0.
Qed.
Lemma total_ways x : total (ways x) = 1.
Proof.
rewrite /ways; elim: (enum 'I_B) => [|a s IH] /=; first by rewrite /total big_seq1.
by rewrite total_both total_way IH mulr1.
Qed.
Theorem group_total b : total (group b) = 1.
Proof.
have hB := B_gt0 b.
rewrite /group; apply: etrans (total_scale _ _) _.
have -> (d d' : dist R (seq 'I_B)) : total (scale 1 d ++ scale Rd d') = total d + Rd * total d'.
  by rewrite total_cat !total_scale mul1r.
rewrite !total_both !total_ways.
by rewrite (total_noise Z m0 hB hbu) total_urn // !mulr1 mulVf // gt_eqF ?Rd1_gt0.
Qed.

Lemma ways_size x : supp (ways x) (fun ts => (size ts <= B * z.*2 + (x != None))%N).
Proof.
have -> : (B * z.*2 + (x != None) = \sum_(a <- enum 'I_B) (z.*2 + (x == Some a)))%N.
  rewrite big_enum /= big_split /= sum_nat_const card_ord; congr (_ + _)%N.
  case: x => [b|]; last by rewrite big1.
  rewrite (bigD1 b) //= eqxx big1 // => a ab.
  by rewrite (inj_eq Some_inj) eq_sym (negbTE ab).
rewrite /ways; elim: (enum 'I_B) => [|a s IH]; first by apply: supp_ret.
rewrite big_cons; apply: supp_both IH.
apply: (@supp_bind _ _ _ _ _ (fun=> True)) => // j _.
have h1 : (z - j <= z)%N by exact: leq_subr.
apply: supp_scale => w ts; rewrite !inE => /orP[] /eqP[_ ->]; rewrite size_nseq -addnn.
  by rewrite addnAC leq_add2r leq_add2l.
by rewrite -addnA (leq_trans h1) // leq_addr.
Qed.
Theorem group_size b : supp (group b) (fun ts => (size ts <= B * (z + z) + 2 * Z + 1)%N).
Proof.
have hn : supp noise (fun ts => (size ts <= Z)%N) by exact: noise_size.
have hu : supp (urn Z.+1) (fun ts => (size ts <= Z.+1)%N) by move=> w ts /urn_size ->.
have e : (B * (z + z) + 2 * Z + 1 = Z + 1 + (Z + B * z.*2))%N by rewrite -addnn; lia.
apply: supp_scale; apply: supp_cat; apply: supp_scale.
  by apply: (supp_le (supp_both hn (@ways_size (Some b)))); rewrite e /=; lia.
by apply: (supp_le (supp_both hu (supp_both hn (@ways_size None)))); rewrite e /=; lia.
Qed.
Theorem group_nonneg b : nonneg (group b).
Proof.
have hB := B_gt0 b; have hn := nonneg_noise Z m0 hB hbu; have hu := nonneg_urn R m hB Z.+1.
have hw x : nonneg (ways x).
  rewrite /ways; elim: (enum 'I_B) => [|a s IH]; first exact: nonneg_ret.
  apply: nonneg_both => //; apply: nonneg_bind => [|j]; first exact: nonneg_share.
  have h := odds1_gt0 (x == Some a); apply: nonneg_scale; first by rewrite invr_ge0 ltW.
  by rewrite /nonneg /= ler01 odds_ge0.
apply: nonneg_scale; first by rewrite invr_ge0 ltW // Rd1_gt0.
apply: nonneg_cat; apply: nonneg_scale; rewrite ?ler01 //; first by apply: nonneg_both.
by apply: nonneg_both => //; apply: nonneg_both.
Qed.
End Group.

(* The hypotheses can hold: B = m = 2, Z = z = 1, beta_u = beta_d = kappa = 1/2, R = 1/3, o = 1/4. *)
Section Instance.
Let half : rat := 2%:R^-1.
Let Rd : rat := 3%:R^-1.
Let o : rat := 4%:R^-1.
Example group_instance : pure_dp 2 4%:R (group (B := 2) 2 1 1 half half Rd o half).
Proof.
have c2 : c 2 half 2 = 3%:R / 32%:R by rewrite /c /rise !big_ord_recl big_ord0.
have s2 : s 2 2 half 2 = 4%:R^-1 by rewrite /s /rise !big_ord_recl !big_ord0.
by apply: group_pure_dp; rewrite ?c2 ?s2.
Qed.
End Instance.
