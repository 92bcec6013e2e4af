(* Section 12: the bounded cell with values 0..D.

   The randomizer is the one of the page, with its four cuts.  The theorem is the rule of equal cuts:
   a change upwards costs beta_u^-D if w_u = z_u, a change downwards beta_d^-D if w_d = z_d.  The
   cuts of the other direction may be anything.  The closed-form and per-index rules (w < z) are
   not proved here. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum rat.
From mathcomp Require Import ring zify.
From SsrMultinomials Require Import mpoly.
Require Import definitions lemmas.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Randomizer.
Variables (R : realFieldType) (m D zu wu zd wd : nat) (bu bd : R).
(* the odds o_y of the jumps y = 1..D *)
Variables (ou od : nat -> R).

(* n equal messages *)
Definition messages (n : nat) : seq 'I_1 := nseq n ord0.
Definition weight : R := 1 + \sum_(1 <= y < D.+1) ou y + \sum_(1 <= y < D.+1) od y.
Definition cell (x : nat) : dist R (seq 'I_1) :=
  scale weight^-1
    (* data: z_d + w_d + x + Z+ - Z-, where w_d + (z_d - Z-) avoids negative numbers *)
    (bind (share m bu zu) (fun a => bind (share m bd zd) (fun b =>
       ret R (messages (wd + x + a + (zd - b)))))
    (* up y: z_d + w_d + z_u + y + Z+ - Z- *)
    ++ flatten [seq scale (ou y) (bind (share m bu wu) (fun a => bind (share m bd zd) (fun b =>
         ret R (messages (wd + (zu + y) + a + (zd - b)))))) | y <- index_iota 1 D.+1]
    (* down y: z_d + w_d + D - z_d - y + Z+ - Z- *)
    ++ flatten [seq scale (od y) (bind (share m bu zu) (fun a => bind (share m bd wd) (fun b =>
         ret R (messages ((D - y) + a + (wd - b)))))) | y <- index_iota 1 D.+1]).
End Randomizer.

Section Law.
Variables (R : realFieldType) (m D zu wu zd wd : nat) (bu bd : R) (ou od : nat -> R).
Local Notation mp := {mpoly R[1]}.
Local Notation X := (X R).
Local Notation cell := (cell m D zu wu zd wd bu bd ou od).
Local Notation T := (weight D ou od).
Local Notation Mu := (mu m zu bu).
Local Notation Nu := (nu m zd bd).

Lemma gf_draw (z w k : nat) :
  gf (bind (share m bu z) (fun a => bind (share m bd w) (fun b =>
        ret R (messages (k + a + (w - b)))))) = mu m z bu * (X ^+ k * nu m w bd).
Proof.
rewrite /mu /nu; move: (share m bu z) (share m bd w) => U V.
rewrite gf_bind lin_mulr; apply: eq_linx => a; rewrite gf_bind mulrA lin_mull.
by apply: eq_linx => b; rewrite gf_ret X_nseq !exprD [X ^+ a * _]mulrC.
Qed.
Lemma gf_flatten (I : Type) (s : seq I) (F : I -> dist R (seq 'I_1)) :
  gf (flatten [seq F i | i <- s]) = \sum_(i <- s) gf (F i).
Proof.
elim: s => [|i s IH]; first by rewrite big_nil /gf /lin big_nil.
by rewrite big_cons /= gf_cat IH.
Qed.

Lemma gf_cat3 (d d' d'' : dist R (seq 'I_1)) : gf (d ++ d' ++ d'') = gf d + gf d' + gf d''.
Proof. by rewrite gf_cat [gf (d' ++ d'')]gf_cat addrA. Qed.

Lemma gf_cell x : gf (cell x) = T^-1 *:
  (Mu * (X ^+ (wd + x) * Nu)
   + \sum_(1 <= y < D.+1) ou y *: (mu m wu bu * (X ^+ (wd + (zu + y)) * Nu))
   + \sum_(1 <= y < D.+1) od y *: (Mu * (X ^+ (D - y) * nu m wd bd))).
Proof.
apply: etrans (gf_scale _ _) _; congr (_ *: _).
apply: etrans (gf_cat3 _ _ _) _; rewrite gf_draw 2!gf_flatten; congr (_ + _ + _).
  by apply: eq_bigr => y _; rewrite gf_scale gf_draw.
by apply: eq_bigr => y _; rewrite gf_scale gf_draw.
Qed.

(* with equal cuts a noise is a factor of the law *)
Definition up_part x : mp := T^-1 *:
  (X ^+ wd * Nu * (X ^+ x + \sum_(1 <= y < D.+1) ou y *: X ^+ (zu + y))
   + (\sum_(1 <= y < D.+1) od y *: X ^+ (D - y)) * nu m wd bd).
Definition down_part x : mp := T^-1 *:
  (Mu * (X ^+ (wd + x) + \sum_(1 <= y < D.+1) od y *: X ^+ (D - y))
   + (\sum_(1 <= y < D.+1) ou y *: X ^+ (wd + (zu + y))) * mu m wu bu).

Lemma pull (I : Type) (s : seq I) (o : I -> R) (F G : I -> mp) (P : mp) :
  (forall y, F y = P * G y) -> \sum_(y <- s) o y *: F y = P * \sum_(y <- s) o y *: G y.
Proof. by move=> h; rewrite mulr_sumr; apply: eq_bigr => y _; rewrite h scalerAr. Qed.

Lemma cell_up x : wu = zu -> gf (cell x) = Mu * up_part x.
Proof.
move=> e; rewrite gf_cell e /up_part -scalerAr; congr (_ *: _).
rewrite (@pull _ _ ou _ (fun y => X ^+ (zu + y)) (Mu * (X ^+ wd * Nu))); last first.
  by move=> y; rewrite exprD; ring.
rewrite (@pull _ _ od _ (fun y => X ^+ (D - y)) (Mu * nu m wd bd)); last by move=> y; ring.
move: (\sum_(_ <= _ < _) _) (\sum_(_ <= _ < _) _) => S S'; rewrite exprD; ring.
Qed.
Lemma cell_down x : wd = zd -> gf (cell x) = Nu * down_part x.
Proof.
move=> e; rewrite gf_cell e /down_part -scalerAr e; congr (_ *: _).
rewrite (@pull _ _ ou _ (fun y => X ^+ (zd + (zu + y))) (mu m wu bu * Nu)); last first.
  by move=> y; ring.
rewrite (@pull _ _ od _ (fun y => X ^+ (D - y)) (Mu * Nu)); last by move=> y; ring.
move: (\sum_(_ <= _ < _) _) (\sum_(_ <= _ < _) _) => S S'; ring.
Qed.

(* ---- it is a randomizer ---- *)
Hypotheses (m0 : (0 < m)%N) (hbu : 0 < bu) (hbd : 0 < bd).
Hypotheses (hou : forall y, 0 <= ou y) (hod : forall y, 0 <= od y).

Lemma weight_gt0 : 0 < T.
Proof. by rewrite /weight -addrA ltr_paddr ?ltr01 // addr_ge0 // sumr_ge0. Qed.
Lemma weight_inv : 0 <= T^-1.
Proof. by rewrite invr_ge0 ltW // weight_gt0. Qed.

Lemma total_flatten (I U : Type) (s : seq I) (F : I -> dist R U) :
  total (flatten [seq F i | i <- s]) = \sum_(i <- s) total (F i).
Proof.
elim: s => [|i s IH]; first by rewrite big_nil /total big_nil.
by rewrite big_cons /= total_cat IH.
Qed.
Theorem cell_total x : total (cell x) = 1.
Proof.
have tot z w (k : nat -> nat -> seq 'I_1) : total (bind (share m bu z) (fun a =>
    bind (share m bd w) (fun b => ret R (k a b)))) = 1.
  rewrite total_bind ?total_share // => a; rewrite total_bind ?total_share // => b.
  exact: total_ret.
apply: etrans (total_scale _ _) _.
have -> : forall d d' d'' : dist R (seq 'I_1),
    total (d ++ d' ++ d'') = total d + total d' + total d''.
  by move=> d d' d''; rewrite total_cat [total (d' ++ _)]total_cat addrA.
rewrite tot 2!total_flatten.
under eq_bigr do rewrite total_scale tot mulr1.
under [X in _ + X]eq_bigr do rewrite total_scale tot mulr1.
by rewrite mulVf // gt_eqF ?weight_gt0.
Qed.
Lemma supp_flatten (U : eqType) (s : seq nat) (F : nat -> dist R U) P :
  (forall i, i \in s -> supp (F i) P) -> supp (flatten [seq F i | i <- s]) P.
Proof. by move=> h w u /flattenP[l /mapP[i hi ->]]; exact: h. Qed.
(* at most K = z_u + w_u + z_d + w_d + D messages *)
Theorem cell_size x : (wu <= zu)%N -> (wd <= zd)%N -> (x <= D)%N ->
  supp (cell x) (fun ts => (size ts <= zu + wu + zd + wd + D)%N).
Proof.
move=> hu hd hx.
have sup z w k : (k + z + w <= zu + wu + zd + wd + D)%N ->
    supp (bind (share m bu z) (fun a => bind (share m bd w) (fun b =>
      ret R (messages (k + a + (w - b)))))) (fun ts => (size ts <= zu + wu + zd + wd + D)%N).
  move=> h; apply: (supp_bind (@share_size _ _ _ _)) => a ha.
  apply: (supp_bind (@share_size _ _ _ _)) => b hb; apply: supp_ret.
  by rewrite size_nseq (leq_trans _ h) // leq_add ?leq_subr // leq_add2l.
apply: supp_scale; apply: supp_cat; first by apply: sup; lia.
apply: supp_cat; apply: supp_flatten => y; rewrite mem_index_iota => hy; apply: supp_scale.
  by apply: sup; lia.
by apply: sup; lia.
Qed.
Theorem cell_nonneg x : nonneg (cell x).
Proof.
have non z w k : nonneg (bind (share m bu z) (fun a => bind (share m bd w) (fun b =>
    ret R (k a b : seq 'I_1)))).
  apply: nonneg_bind => [|a]; first exact: nonneg_share.
  by apply: nonneg_bind => [|b]; [exact: nonneg_share | exact: nonneg_ret].
have fl (s : seq nat) F : (forall i, nonneg (F i : dist R (seq 'I_1))) ->
    nonneg (flatten [seq F i | i <- s]).
  by move=> h; elim: s => //= i s IH; exact: nonneg_cat.
apply: nonneg_scale; first exact: weight_inv.
apply: nonneg_cat; first exact: non.
by apply: nonneg_cat; apply: fl => y; apply: nonneg_scale => //; exact: non.
Qed.

Lemma nn_up_part x : nn (up_part x).
Proof.
apply: nnZ; first exact: weight_inv.
have nX n : nn (X ^+ n) by exact: nnXX.
apply: nnD; apply: nnM; try exact: nn_nu.
- by apply: nnM => //; exact: nn_nu.
- by apply: nnD => //; apply: nn_sum => y; exact: nnZ.
- by apply: nn_sum => y; exact: nnZ.
Qed.
Lemma nn_down_part x : nn (down_part x).
Proof.
apply: nnZ; first exact: weight_inv.
have nX n : nn (X ^+ n) by exact: nnXX.
apply: nnD; apply: nnM; try exact: nn_mu.
- by apply: nnD => //; apply: nn_sum => y; exact: nnZ.
- by apply: nn_sum => y; exact: nnZ.
Qed.
End Law.

Section EqualCuts.
Variables (R : realFieldType) (m D zu wu zd wd : nat) (bu bd : R) (ou od : nat -> R).
Local Notation X := (X R).
Local Notation cell := (cell m D zu wu zd wd bu bd ou od).
Local Notation Mu := (mu m zu bu).
Local Notation Nu := (nu m zd bd).
Hypotheses (m0 : (0 < m)%N) (hbu : 0 < bu) (hbd : 0 < bd) (hbu1 : bu <= 1) (hbd1 : bd <= 1).
Hypotheses (hou : forall y, 0 <= ou y) (hod : forall y, 0 <= od y).
(* phi <= 1: o_y >= m*c_(z+1)*beta^(y-D-1) / (beta^-D - 1), multiplied out *)
Hypothesis cond_u : forall y, (0 < y <= D)%N ->
  m%:R * c m bu zu.+1 * bu ^+ y.-1 <= (1 - bu ^+ D) * ou y.
Hypothesis cond_d : forall y, (0 < y <= D)%N ->
  m%:R * c m bd zd.+1 * bd ^+ y.-1 <= (1 - bd ^+ D) * od y.

Let Tu : R := m%:R * c m bu zu.+1.
Let Td : R := m%:R * c m bd zd.+1.
Lemma Tu_ge0 : 0 <= Tu. Proof. by rewrite mulr_ge0 ?ler0n // ltW // c_gt0. Qed.
Lemma Td_ge0 : 0 <= Td. Proof. by rewrite mulr_ge0 ?ler0n // ltW // c_gt0. Qed.
Lemma lecZZ (B : nat) (a e : R) (P Q : {mpoly R[B]}) :
  0 <= e -> lec P (a *: Q) -> lec (e *: P) (a *: (e *: Q)).
Proof. by move=> he h; rewrite scalerA [a * e]mulrC -scalerA; exact: lecZ. Qed.

Lemma up x d : (x + d <= D)%N ->
  lec (up_part m D zu zd wd bd ou od (x + d) * Mu ^+ m)
      (bu^-1 ^+ D *: (up_part m D zu zd wd bd ou od x * Mu ^+ m)).
Proof.
move=> hd; set M := Mu ^+ m; have nM : nn M by apply: nnXn; exact: nn_mu.
rewrite /up_part -!scalerAl; apply: lecZZ; first exact: weight_inv.
set S := \sum_(1 <= y < D.+1) ou y *: X ^+ _; set S' := (\sum_(1 <= y < D.+1) _) * _.
have nK : nn (X ^+ wd * Nu) by apply: nnM; [exact: nnXX | exact: nn_nu].
have nS' : nn (S' * M).
  apply: nnM => //; apply: nnM; last exact: nn_nu.
  by apply: nn_sum => y; apply: nnZ => //; exact: nnXX.
have e k : (X ^+ wd * Nu * (X ^+ k + S) + S') * M
    = X ^+ wd * Nu * (X ^+ k * M + S * M) + S' * M by ring.
rewrite !e scalerDr scalerAr; apply: lecD; last first.
  by rewrite -{1}[_ * M]scale1r; apply: lecZr => //; exact: ib_ge1.
apply: lecMl => //.
apply: (@steps_paid _ _ D bu Tu (fun k => X ^+ k * M) (fun k => X ^+ (zu + k.+1) * M) hbu hbu1
          Tu_ge0 _ _ _ (fun k => ou k.+1)) => // k.
- by apply: nnM => //; exact: nnXX.
- by apply: nnM => //; exact: nnXX.
- move=> _; have := lecMl (@nnXX R k) (up_bound zu m0 hbu).
  by rewrite -/M mulrDr -!scalerAr !mulrA -exprSr -exprD addnC addSnnS.
- by move=> hk; exact: (@cond_u k.+1).
- rewrite /S mulr_suml (big_add1 _ _ 0 D.+1) /= le_eqVlt; apply/orP; left; apply/eqP.
  by congr (_@_k); apply: eq_bigr => i _; rewrite scalerAl.
Qed.

(* the way down alone: values through z_d, jumps to D - y *)
Lemma down_values x d : (x + d <= D)%N ->
  let S := \sum_(1 <= y < D.+1) od y *: X ^+ (D - y) in
  lec ((X ^+ (zd + x) + S) * Nu ^+ m) (bd^-1 ^+ D *: ((X ^+ (zd + (x + d)) + S) * Nu ^+ m)).
Proof.
move=> hd S; set N := Nu ^+ m; have nN : nn N by apply: nnXn; exact: nn_nu.
have e1 : (D - (x + d) + d <= D)%N by clear -hd; lia.
have := @steps_paid _ _ D bd Td (fun k => X ^+ (zd + (D - k)) * N)
  (fun k => X ^+ (D - k.+1) * N) hbd hbd1 Td_ge0 _ _ _ (fun k => od k.+1) (S * N) _ _
  (D - (x + d))%N d e1.
have -> : (D - (D - (x + d) + d) = x)%N by clear -hd; lia.
rewrite subKn // -!mulrDl; apply => k.
- by apply: nnM => //; exact: nnXX.
- by apply: nnM => //; exact: nnXX.
- move=> hk; have := lecMl (@nnXX R (D - k.+1)) (down_bound zd m0 hbd).
  rewrite -/N mulrDr -!scalerAr !mulrA -!exprD [(D - k.+1 + zd)%N]addnC.
  by rewrite [(_ + zd.+1)%N]addnC addSnnS subnSK.
- by move=> hk; exact: (@cond_d k.+1).
- rewrite /S mulr_suml (big_add1 _ _ 0 D.+1) /= le_eqVlt; apply/orP; left; apply/eqP.
  by congr (_@_k); apply: eq_bigr => i _; rewrite scalerAl.
Qed.

Lemma down x d : wd = zd -> (x + d <= D)%N ->
  lec (down_part m D zu wu wd bu ou od x * Nu ^+ m)
      (bd^-1 ^+ D *: (down_part m D zu wu wd bu ou od (x + d) * Nu ^+ m)).
Proof.
move=> ed hd; set N := Nu ^+ m; have nN : nn N by apply: nnXn; exact: nn_nu.
rewrite /down_part ed -!scalerAl; apply: lecZZ; first exact: weight_inv.
set S := \sum_(1 <= y < D.+1) od y *: X ^+ _; set S' := (\sum_(1 <= y < D.+1) _) * _.
have nK : nn Mu by exact: nn_mu.
have nS' : nn (S' * N).
  apply: nnM => //; apply: nnM; last exact: nn_mu.
  by apply: nn_sum => y; apply: nnZ => //; exact: nnXX.
have e k : (Mu * (X ^+ k + S) + S') * N = Mu * ((X ^+ k + S) * N) + S' * N by ring.
rewrite !e scalerDr scalerAr; apply: lecD; last first.
  by rewrite -{1}[_ * N]scale1r; apply: lecZr => //; exact: ib_ge1.
by apply: lecMl => //; exact: down_values.
Qed.

(* a larger value instead of a smaller one *)
Theorem cell_equal_cuts_up x y : wu = zu -> (x <= y <= D)%N -> costs m (bu^-1 ^+ D) cell y x.
Proof.
move=> e /andP[hxy hy]; have nM := nn_mu zu m0 hbu.
apply: (@costs_noise _ _ _ m _ cell Mu (up_part m D zu zd wd bd ou od)) => // [k|k|].
- exact: nn_up_part.
- exact: cell_up.
by rewrite -(subnKC hxy); apply: up; rewrite subnKC.
Qed.
(* a smaller value instead of a larger one *)
Theorem cell_equal_cuts_down x y : wd = zd -> (x <= y <= D)%N -> costs m (bd^-1 ^+ D) cell x y.
Proof.
move=> e /andP[hxy hy]; have nN := nn_nu zd m0 hbd.
apply: (@costs_noise _ _ _ m _ cell Nu (down_part m D zu wu wd bu ou od)) => // [k|k|].
- exact: nn_down_part.
- exact: cell_down.
by rewrite -(subnKC hxy); apply: down; rewrite ?subnKC.
Qed.
(* D * ln(1/beta) <= epsilon in both directions *)
Theorem cell_equal_cuts_pure_dp (E : R) x y : wu = zu -> wd = zd -> (x <= D)%N -> (y <= D)%N ->
  bu^-1 ^+ D <= E -> bd^-1 ^+ D <= E -> costs m E cell x y.
Proof.
move=> eu ed hx hy hu hd; have nf k : nn (gf (cell k)).
  by rewrite cell_up //; apply: nnM; [exact: nn_mu | exact: nn_up_part].
have [h|h] := leqP x y; [apply: (costs_le nf hd) | apply: (costs_le nf hu)].
  by apply: cell_equal_cuts_down; rewrite ?h.
by apply: cell_equal_cuts_up; rewrite ?(ltnW h).
Qed.
End EqualCuts.

(* The hypotheses can hold: m = 2, D = 2, all cuts 1, beta = 1/2, o_1 = 1/4, o_2 = 1/8. *)
Section Instance.
Let half : rat := 2%:R^-1.
Let o (y : nat) : rat := if y == 1%N then 4%:R^-1 else 8%:R^-1.
Example cell_instance x y : (x <= 2)%N -> (y <= 2)%N ->
  costs 2 4%:R (cell 2 2 1 1 1 1 half half o o) x y.
Proof.
move=> hx hy; have c2 : c 2 half 2 = 3%:R / 32%:R by rewrite /c /rise !big_ord_recl big_ord0.
have ho k : 0 <= o k by rewrite /o; case: eqP.
have hc k : (0 < k <= 2)%N -> 2%:R * c 2 half 2 * half ^+ k.-1 <= (1 - half ^+ 2) * o k.
  by rewrite c2; case: k => [|[|[|k]]].
exact: cell_equal_cuts_pure_dp.
Qed.
End Instance.
