(* Section 19: the sparse histogram.  At most Z+1 tokens of each user, for any number of buckets.

   A user holds a bucket or no value.  Parameters: m planned users, B buckets, beta, the cut Z, the
   weights p (data), q (muted), o (jump), and phi. *)
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
Variables (R : realFieldType) (B m Z : nat) (beta p q o : R).
Local Notation noise := (noise B m beta Z).
Local Notation urn := (urn R B m).

Definition add_value (x : option 'I_B) ts := if x is Some b then b :: ts else ts.
Definition randomizer (x : option 'I_B) : dist R (seq 'I_B) :=
  scale o (urn Z.+1)                                          (* jump *)
  ++ scale p (bind noise (fun ts => ret R (add_value x ts)))  (* data *)
  ++ scale q noise.                                           (* muted *)
End Randomizer.

(* ---- Lemma B and the final sum, on generating functions ---- *)
Section Polynomials.
Variables (R : realFieldType) (B : nat).
(* ---- the others: R_a, the sum over which a of them jump ---- *)
Section Others.
Variables (P mu : {mpoly R[B]}) (q : R).
Hypotheses (hP : nn P) (hmu : nn mu) (hq : 0 <= q).

Fixpoint Ra (ys : seq {mpoly R[B]}) (a : nat) : {mpoly R[B]} :=
  match ys with
  | [::] => if a is 0 then 1 else 0
  | y :: ys' => y * Ra ys' a + (if a is a'.+1 then P * Ra ys' a' else 0)
  end.

Lemma Ra_big ys a : (size ys < a)%N -> Ra ys a = 0.
Proof.
elim: ys a => [|y ys IH] [|a] //= h.
by rewrite !IH ?mulr0 ?addr0 // ltnW.
Qed.

Definition ge_q (y : {mpoly R[B]}) := lec (q *: 1) y.

Lemma ge_q_nn y : ge_q y -> nn y.
Proof.
move=> h k; apply: le_trans (h k).
by rewrite mcoeffZ mulr_ge0 //; exact: nn1.
Qed.

Lemma nn_Ra ys a : (forall y, y \in ys -> ge_q y) -> nn (Ra ys a).
Proof.
elim: ys a => [|y ys IH] a h /=.
  by case: a => [|a]; [exact: nn1 | exact: nn0].
have hy : nn y by apply/ge_q_nn/h; rewrite inE eqxx.
have hs : forall y', y' \in ys -> ge_q y'.
  by move=> y' hy'; apply: h; rewrite inE hy' orbT.
apply: nnD; first by apply: nnM => //; exact: IH.
by case: a => [|a]; [exact: nn0 | apply: nnM => //; exact: IH].
Qed.

Lemma expand ys : \prod_(y <- ys) (y * mu + P)
  = \sum_(a < (size ys).+1) Ra ys a * mu ^+ (size ys - a).
Proof.
elim: ys => [|y ys IH].
  by rewrite big_nil big_ord_recl big_ord0 addr0 /= subn0 expr0 mulr1.
rewrite big_cons IH /= mulrDl.
under [X in _ = X]eq_bigr do rewrite mulrDl.
rewrite big_split /=; congr (_ + _).
  rewrite [RHS]big_ord_recr /= (@Ra_big ys (size ys).+1) // mulr0 mul0r addr0.
  rewrite mulr_sumr; apply: eq_bigr => a _.
  rewrite subSn; last by rewrite -ltnS.
  by rewrite exprS; ring.
rewrite [RHS]big_ord_recl /= mul0r add0r mulr_sumr; apply: eq_bigr => a _.
by rewrite /bump /= add1n subSS mulrA.
Qed.

(* Lemma B (swap) *)
Lemma lemmaB ys a : (forall y, y \in ys -> ge_q y) ->
  (a <= size ys)%N ->
  lec ((q * a.+1%:R) *: Ra ys a.+1) ((size ys - a)%:R *: (P * Ra ys a)).
Proof.
elim: ys a => [|y ys IH] a h /= ha.
  move: ha; rewrite leqn0 => /eqP ->.
  by rewrite scaler0 sub0n scale0r; exact: lecxx.
have hy : ge_q y by apply: h; rewrite inE eqxx.
have hs : forall y', y' \in ys -> ge_q y'.
  by move=> y' hy'; apply: h; rewrite inE hy' orbT.
have ny := ge_q_nn hy.
have nR b : nn (Ra ys b) by exact: nn_Ra.
have qy b : lec (q *: (P * Ra ys b)) (y * (P * Ra ys b)).
  have -> : q *: (P * Ra ys b) = (q *: 1) * (P * Ra ys b) by rewrite -scalerAl mul1r.
  by apply: lecMr => //; exact: nnM.
move: ha; rewrite leq_eqVlt => /orP[/eqP ->|]; last rewrite ltnS => ha.
  rewrite (@Ra_big ys (size ys).+2) // (@Ra_big ys (size ys).+1) //.
  by rewrite subnn scale0r !mulr0 addr0 scaler0; exact: lecxx.
have part1 : lec ((q * a.+1%:R) *: (y * Ra ys a.+1) + q *: (P * Ra ys a))
                 (((size ys).+1 - a)%:R *: (P * (y * Ra ys a))).
  rewrite subSn // -(natr1 _ (size ys - a)) scalerDl scale1r.
  apply: lecD; last by rewrite mulrCA; exact: qy.
  by rewrite [P * (y * _)]mulrCA !(scalerAr _ y); apply: lecMl => //; exact: IH.
have part2 : lec ((q * a%:R) *: (P * Ra ys a)) (((size ys).+1 - a)%:R *:
    (P * (if a is a'.+1 then P * Ra ys a' else 0))).
  case: a ha {part1} => [|a] ha.
    by rewrite !mulr0 scale0r scaler0; exact: lecxx.
  rewrite subSS [X in lec X _]scalerAr [X in lec _ X]scalerAr.
  by apply: lecMl => //; apply: IH => //; exact: ltnW.
have -> : (q * a.+1%:R) *: (y * Ra ys a.+1 + P * Ra ys a)
  = ((q * a.+1%:R) *: (y * Ra ys a.+1) + q *: (P * Ra ys a)) + (q * a%:R) *: (P * Ra ys a).
  by rewrite scalerDr -addrA -scalerDl -natr1 mulrDr mulr1 [q + _]addrC.
by rewrite mulrDr scalerDr; exact: lecD.
Qed.

Lemma swapped ys : (forall y, y \in ys -> ge_q y) ->
  lec (\sum_(a < (size ys).+1) (q * a%:R / ((size ys).+1 - a)%:R) *:
          (Ra ys a * mu ^+ ((size ys).+1 - a)))
      (P * \prod_(y <- ys) (y * mu + P)).
Proof.
move=> h; rewrite expand mulr_sumr.
rewrite big_ord_recl mulr0 mul0r scale0r add0r [X in lec _ X]big_ord_recr /=.
apply: lec_trans (lec_nnr _ _); last first.
  by apply: nnM => //; apply: nnM; [exact: nn_Ra | exact: nnXn].
apply: lec_sum => a _; rewrite /bump /= add1n subSS mulrA scalerAl.
apply: lecMr; first exact: nnXn.
have na : 0 < (size ys - a)%:R :> R by rewrite ltr0n subn_gt0.
have := lemmaB h (ltnW (ltn_ord a)).
have inva : 0 <= (size ys - a)%:R^-1 :> R by rewrite invr_ge0 ltW.
move/(lecZ inva); rewrite !scalerA mulVf ?gt_eqF // scale1r.
by rewrite [_^-1 * _]mulrC.
Qed.
End Others.

(* ---- the final sum ---- *)
Section Final.
Variables (Pi mu : {mpoly R[B]}) (x : 'I_B) (ys : seq {mpoly R[B]}).
Variables (beta p q o phi e1 h : R).
Let m := (size ys).+1.
Let r : R := m%:R^-1.
Hypotheses (hPi : nn Pi) (hmu : nn mu) (hb : 0 < beta) (hp : 0 <= p)
  (hq : 0 <= q) (ho : 0 <= o) (hphi0 : 0 <= phi) (hphi1 : phi <= 1)
  (he1 : 0 <= e1) (hh : 0 <= h).
Hypothesis hys : forall y, y \in ys -> ge_q q y.
Hypothesis ode :
  mu^`M(x) = beta *: ('X_x * mu^`M(x)) + (beta * r) *: mu - (h *: Pi)^`M(x).
Hypothesis cond1 : p * m%:R * h <= phi * o * beta * e1.
Hypothesis cond2 : p * m%:R <= (m%:R - phi * (m%:R - 1)) * q * beta * e1.

Lemma final_sum :
  lec (p *: ('X_x * mu * \prod_(y <- ys) (y * mu + o *: Pi)))
      (e1 *: ((q *: mu + o *: Pi) * \prod_(y <- ys) (y * mu + o *: Pi))).
Proof.
set P := o *: Pi; have hP : nn P by exact: nnZ.
set S := \prod_(y <- ys) _.
have m0 : 0 < m%:R :> R by rewrite ltr0n.
have rE : r^-1 = m%:R by rewrite /r invrK.
have r0 : 0 < r by rewrite invr_gt0.
have nR a : nn (Ra P ys a) by apply: nn_Ra hys.
have nW a : nn (Ra P ys a * mu ^+ (m - a)) by apply: nnM => //; exact: nnXn.
have Sexp : S = \sum_(a < m) Ra P ys a * mu ^+ (m.-1 - a) by rewrite /S expand.
have nS : nn S.
  by rewrite Sexp; apply: nn_sum => a; apply: nnM => //; exact: nnXn.
have pow (a : 'I_m) : mu * mu ^+ (m.-1 - a) = mu ^+ (m - a).
  by rewrite -exprS -subSn // -ltnS.
have muS : mu * S = \sum_(a < m) Ra P ys a * mu ^+ (m - a).
  by rewrite Sexp mulr_sumr; apply: eq_bigr => a _; rewrite mulrCA pow.
have I1 : lec ('X_x * mu * S)
  (\sum_(a < m) (beta * ((m - a)%:R * r))^-1 *: (Ra P ys a * mu ^+ (m - a))
   + (beta * r)^-1 *: (h *: Pi * S)).
  rewrite -mulrA muS Sexp !mulr_sumr scaler_sumr -big_split /=.
  apply: lec_sum => a _; rewrite mulrCA.
  have -> : (beta * ((m - a)%:R * r))^-1 *: (Ra P ys a * mu ^+ (m - a)) +
     (beta * r)^-1 *: (h *: Pi * (Ra P ys a * mu ^+ (m.-1 - a)))
     = Ra P ys a * ((beta * ((m - a)%:R * r))^-1 *: mu ^+ (m - a) +
         (beta * r)^-1 *: (h *: Pi * mu ^+ (m - a).-1)).
    by rewrite mulrDr -!scalerAr -subnS subSS [h *: Pi * _]mulrCA.
  apply: lecMl => //; apply: lemmaA => //; first exact: nnZ.
  - by rewrite subn_gt0.
  - by rewrite ler_pdivr_mulr // mul1r ler_nat leq_subr.
have I2 := swapped hP hmu hq hys; rewrite -/S -/m in I2.
(* the jump terms, condition (i) *)
have J1 : lec (p *: ((beta * r)^-1 *: (h *: Pi * S))) ((e1 * phi) *: (P * S)).
  rewrite /P -!scalerAl !scalerA; apply: lecZr; last exact: nnM.
  rewrite invfM rE; move: m%:R m0 cond1 => M m0 cond1'.
  rewrite (_ : p * _ * h = p * M * h / beta); last by field; rewrite gt_eqF.
  rewrite ler_pdivr_mulr // (le_trans cond1') //.
  by rewrite le_eqVlt; apply/orP; left; apply/eqP; ring.
(* condition (ii) *)
have J2 : lec (p *: \sum_(a < m) (beta * ((m - a)%:R * r))^-1 *: (Ra P ys a * mu ^+ (m - a)))
   ((e1 * q) *: (mu * S) + (e1 * (1 - phi)) *:
     \sum_(a < m) (q * a%:R / (m - a)%:R) *: (Ra P ys a * mu ^+ (m - a))).
  rewrite muS !scaler_sumr -big_split /=; apply: lec_sum => a _.
  rewrite !scalerA -scalerDl; apply: lecZr => //.
  have am : (a <= m.-1)%N by rewrite -ltnS.
  have ma0 : 0 < (m - a)%:R :> R by rewrite ltr0n subn_gt0.
  rewrite !invfM rE.
  rewrite (_ : p * _ = p * m%:R / (beta * (m - a)%:R)); last first.
    by field; rewrite !gt_eqF.
  rewrite ler_pdivr_mulr ?mulr_gt0 //.
  have -> : (e1 * q + e1 * (1 - phi) * (q * a%:R / (m - a)%:R)) * (beta * (m - a)%:R)
     = ((m - a)%:R + (1 - phi) * a%:R) * q * beta * e1.
    by field; rewrite !gt_eqF.
  have b0 := ltW hb; apply: (le_trans cond2); do 3![apply: ler_wpmul2r => //].
  rewrite natrB; last by rewrite ltnW.
  have -> : m%:R - a%:R + (1 - phi) * a%:R = m%:R - phi * a%:R :> R by ring.
  rewrite ler_add2l ler_opp2 ler_wpmul2l // ler_subr_addr natr1 ler_nat.
  by rewrite ltn_ord.
apply: (lec_trans (lecZ hp I1)); rewrite scalerDr.
apply: (lec_trans (lecD J2 J1)).
have e1p : 0 <= e1 * (1 - phi) by rewrite mulr_ge0 // subr_ge0.
apply: (lec_trans (lecD (lecD (lecxx _) (lecZ e1p I2)) (lecxx _))).
rewrite -addrA -scalerDl -mulrDr subrK mulr1 -scalerA -scalerDr.
by rewrite mulrDl scalerAl; exact: lecxx.
Qed.
End Final.
End Polynomials.

Section Privacy.
Variables (R : realFieldType) (B m Z : nat) (beta p q o : R).
Local Notation D T := (dist R T).
Local Notation noise := (noise B m beta Z).
Local Notation urn := (urn R B m).
Local Notation s := (s B m beta).
Local Notation C := (Cs B m beta Z).
Local Notation randomizer := (randomizer (B := B) m Z beta p q o).
Local Notation mu := (gf noise).
Local Notation Pi := (gf (urn Z.+1)).

(* the factor of the data branch *)
Definition xm (x : option 'I_B) : {mpoly R[B]} := if x is Some b then 'X_b else 1.
Lemma gf_add_value x ts : 'X_[R, cnt (add_value x ts)] = xm x * 'X_[cnt ts].
Proof. by case: x => [b|] /=; rewrite ?mul1r // cnt_cons mpolyXD. Qed.
Lemma nn_xm x : nn (xm x).
Proof. by case: x => [b|]; [exact: nnX | exact: nn1]. Qed.
Lemma gf_randomizer x : gf (randomizer x) = (q *: 1 + p *: xm x) * mu + o *: Pi.
Proof.
rewrite /sparse.randomizer; move: noise (urn Z.+1) => N U.
rewrite !gf_cat !gf_scale gf_bind.
have -> : lin N (fun t => gf (ret R (add_value x t))) = xm x * gf N.
  by rewrite lin_mull; apply: eq_linx => ts; rewrite gf_ret gf_add_value.
by rewrite mulrDl -!scalerAl mul1r addrC [q *: _ + _]addrC.
Qed.

Hypotheses (m0 : (0 < m)%N) (B0 : (0 < B)%N) (hb : 0 < beta).

(* ---- it is a randomizer: total mass 1, at most Z+1 messages ---- *)
Theorem sparse_total x : p + q + o = 1 -> total (randomizer x) = 1.
Proof.
move=> h; rewrite /sparse.randomizer.
move: (total_noise Z m0 B0 hb) (total_urn R m B0 Z.+1); move: noise (urn Z.+1) => N U hN hU.
rewrite !total_cat !total_scale total_bind => [|t]; last exact: total_ret.
by rewrite hN hU !mulr1 addrC.
Qed.
Theorem sparse_size x : supp (randomizer x) (fun ts => (size ts <= Z.+1)%N).
Proof.
apply: supp_cat; first by apply: supp_scale => w ts /urn_size ->.
apply: supp_cat; apply: supp_scale; last by move=> w ts /noise_size h; rewrite ltnW.
apply: (supp_bind (@noise_size _ _ _ _ _)) => ts h; apply: supp_ret.
by case: x => [b|] /=; rewrite ?ltnS // ltnW.
Qed.

(* ---- the theorem ---- *)
Variables (phi E : R).
Hypotheses (hb1 : beta <= 1) (hp : 0 <= p) (hq : 0 <= q) (ho : 0 <= o).
Hypotheses (hphi0 : 0 <= phi) (hphi1 : phi <= 1) (hE : 1 <= E).
Hypothesis cond_i : p * m%:R * s Z.+1 <= phi * o * C * beta * (E - 1).
Hypothesis cond_ii :
  p <= (1 - phi * (m%:R - 1) / m%:R) * q * beta * (E - 1).

Theorem sparse_nonneg x : nonneg (randomizer x).
Proof.
apply: nonneg_cat; first by apply: nonneg_scale => //; exact: nonneg_urn.
apply: nonneg_cat; apply: nonneg_scale => //; last exact: nonneg_noise.
by apply: nonneg_bind => [|t]; [exact: nonneg_noise | exact: nonneg_ret].
Qed.
Lemma nn_randomizer x : nn (gf (randomizer x)).
Proof.
rewrite gf_randomizer; apply: nnD; last by apply: nnZ => //; exact: nn_urn.
apply: nnM; last exact: nn_noise.
by apply: nnD; apply: nnZ => //; [exact: nn1 | exact: nn_xm].
Qed.

Lemma exactly_m xs x : size xs = m.-1 ->
  lec (p *: (xm x * mu * gf (batch randomizer xs)))
      ((E - 1) *: ((q *: mu + o *: Pi) * gf (batch randomizer xs))).
Proof.
move=> hsz; have nS := nn_batch xs nn_randomizer; have nmu := nn_noise Z m0 B0 hb; have nPi := nn_urn (R := R) m0 B0 hb Z.+1.
have hE1 : 0 <= E - 1 by rewrite subr_ge0.
have hm : 0 < m%:R :> R by rewrite ltr0n.
case: x => [b|] /=; last first.
  rewrite mul1r mulrDl scalerDr; apply: lec_trans (lec_nnr _ _); last first.
    by apply: nnZ => //; apply: nnM => //; exact: nnZ.
  rewrite -scalerAl scalerA; apply: lecZr; last exact: nnM.
  apply: (le_trans cond_ii); rewrite [X in _ <= X]mulrC; apply: ler_wpmul2r => //.
  rewrite -mulrA mulrCA -[X in _ <= X]mulr1; apply: ler_wpmul2l => //.
  rewrite -[X in _ <= X]mulr1; apply: ler_pmul => //; last first.
  - rewrite ler_subl_addr ler_addl divr_ge0 ?(ltW hm) // mulr_ge0 // subr_ge0.
    by rewrite ler1n.
  - exact: ltW.
  - rewrite subr_ge0 ler_pdivr_mulr // mul1r -[X in _ <= X]mul1r.
    by apply: ler_pmul => //; rewrite ?subr_ge0 ?ler1n // ler_subl_addr ler_addl ler01.
have hm' : (size [seq q *: 1 + p *: xm x | x <- xs]).+1 = m.
  by rewrite size_map hsz prednK.
have -> : gf (batch randomizer xs) = \prod_(y <- [seq q *: 1 + p *: xm x | x <- xs]) (y * mu + o *: Pi).
  by rewrite gf_batch big_map; apply: eq_bigr => x _; rewrite gf_randomizer.
have hs := s_gt0 m0 B0 hb Z.+1; have hC := Cs_gt0 Z m0 B0 hb.
apply: (@final_sum _ _ Pi mu b _ beta p q o phi (E - 1) (s Z.+1 / C)) => //.
- by rewrite divr_ge0 ?ltW.
- move=> y /mapP[x _ ->]; apply: lec_nnr; apply: nnZ => //; exact: nn_xm.
- by rewrite hm'; exact: noise_ode.
- rewrite hm' mulrA ler_pdivr_mulr // (le_trans cond_i) //.
  by rewrite le_eqVlt; apply/orP; left; apply/eqP; ring.
- rewrite hm' -ler_pdivl_mulr // (le_trans cond_ii) //.
  rewrite le_eqVlt; apply/orP; left; apply/eqP; field.
  by rewrite gt_eqF.
Qed.

Theorem sparse_histogram_pure_dp : pure_dp m E randomizer.
Proof.
move=> x y; apply: (costs_m m0 nn_randomizer) => ys hys.
have nS := nn_batch ys nn_randomizer; have h := exactly_m x hys.
set S := gf (batch _ ys) in nS h *; set A := q *: mu + o *: Pi in h.
have gE z : gf (randomizer z) = p *: (xm z * mu) + A.
  by rewrite gf_randomizer /A mulrDl -!scalerAl mul1r addrA [_ + p *: _]addrC.
rewrite gE mulrDl -scalerAl.
apply: (lec_trans (lecD h (lecxx _))).
have -> : (E - 1) *: (A * S) + A * S = E *: (A * S).
  by rewrite -{2}[A * S]scale1r -scalerDl subrK.
apply: lecZ; first exact: le_trans ler01 hE.
apply: lecMr => //; rewrite gE addrC; apply: lec_nnr; apply: nnZ => //.
by apply: nnM; [exact: nn_xm | exact: nn_noise].
Qed.
End Privacy.

(* The hypotheses can hold: B = m = 2, Z = 1, beta = phi = 1/2, e^eps = 3. *)
Section Instance.
Let half : rat := 2%:R^-1.
Let p : rat := 3%:R / 10%:R.
Let q : rat := 4%:R / 10%:R.
Let o : rat := 3%:R / 10%:R.
Example sparse_instance : pure_dp 2 3%:R (randomizer (B := 2) 2 1 half p q o).
Proof.
have s0 : s 2 2 half 0 = 1 by rewrite /s /rise !big_ord0.
have s1 : s 2 2 half 1 = half by rewrite /s /rise big_ord_recl !big_ord0.
have s2 : s 2 2 half 2 = 4%:R^-1 by rewrite /s /rise !big_ord_recl !big_ord0.
have C1 : Cs 2 2 half 1 = 3%:R / 2%:R by rewrite /Cs !big_ord_recl big_ord0 /bump /= s0 s1.
by apply: (@sparse_histogram_pure_dp _ 2 2 1 half p q o _ _ _ half 3%:R) => //; rewrite ?s2 ?C1.
Qed.
End Instance.
