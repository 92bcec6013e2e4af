(* Lemmas that the theorems share: distributions, the coefficientwise order on polynomials,
   generating functions, and the laws of shares and of the urn. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum.
From mathcomp Require Import ring zify.
From SsrMultinomials Require Import mpoly.
Require Import definitions.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Lemma natr1 (T : ringType) n : n%:R + 1 = n.+1%:R :> T.
Proof. by rewrite mulrSr. Qed.

(* ---- distributions ---- *)
Section Dist.
Variable R : realFieldType.
Local Notation dist := (dist R).

Lemma lin_ret (V : lmodType R) T (t : T) (F : T -> V) : lin (ret R t) F = F t.
Proof. by rewrite /lin big_seq1 scale1r. Qed.
Lemma lin_scale (V : lmodType R) T w (d : dist T) (F : T -> V) :
  lin (scale w d) F = w *: lin d F.
Proof. by rewrite /lin big_map scaler_sumr; apply: eq_bigr => wt _; rewrite scalerA. Qed.
Lemma lin_cat (V : lmodType R) T (d d' : dist T) (F : T -> V) :
  lin (d ++ d') F = lin d F + lin d' F.
Proof. by rewrite /lin big_cat. Qed.
Lemma lin_bind (V : lmodType R) T U (d : dist T) (f : T -> dist U) (F : U -> V) :
  lin (bind d f) F = lin d (fun t => lin (f t) F).
Proof.
rewrite /lin /bind big_flatten big_map; apply: eq_bigr => wt _.
by rewrite big_map scaler_sumr; apply: eq_bigr => wu _; rewrite scalerA.
Qed.
Lemma lin_uniform (V : lmodType R) T (ts : seq T) (F : T -> V) :
  lin (uniform R ts) F = (size ts)%:R^-1 *: \sum_(t <- ts) F t.
Proof. by rewrite /lin big_map scaler_sumr. Qed.
Lemma lin_both (V : lmodType R) T (d d' : dist (seq T)) (F : seq T -> V) :
  lin (both d d') F = lin d (fun ts => lin d' (fun us => F (ts ++ us))).
Proof.
rewrite /both lin_bind; apply: eq_bigr => -[w ts] _ /=; congr (_ *: _).
by rewrite lin_bind; apply: eq_bigr => -[w' us] _ /=; rewrite lin_ret.
Qed.
Lemma lin_mulr (A : lalgType R) (P : A) U (d : dist U) (F : U -> A) :
  lin d F * P = lin d (fun t => F t * P).
Proof. by rewrite /lin mulr_suml; apply: eq_bigr => wt _; rewrite scalerAl. Qed.
Lemma lin_mull (A : algType R) (P : A) U (d : dist U) (F : U -> A) :
  P * lin d F = lin d (fun t => P * F t).
Proof. by rewrite /lin mulr_sumr; apply: eq_bigr => wt _; rewrite scalerAr. Qed.
Lemma eq_linx (V : lmodType R) U (d : dist U) (F G : U -> V) : F =1 G -> lin d F = lin d G.
Proof. by move=> e; apply: eq_bigr => wt _; rewrite e. Qed.

Lemma supp_bind (T U : eqType) (d : dist T) (f : T -> dist U) P Q :
  supp d P -> (forall t, P t -> supp (f t) Q) -> supp (bind d f) Q.
Proof.
move=> hP hQ w u /flattenP[l /mapP[[w' t] hwt ->] /mapP[[w2 u2] hu [_ ->]]].
exact: (hQ _ (hP _ _ hwt) _ _ hu).
Qed.
Lemma supp_ret (T : eqType) (t : T) (P : T -> Prop) : P t -> supp (ret R t) P.
Proof. by move=> h w u; rewrite inE => /eqP[_ ->]. Qed.
Lemma supp_cat (T : eqType) (d d' : dist T) (P : T -> Prop) :
  supp d P -> supp d' P -> supp (d ++ d') P.
Proof. by move=> h h' w u; rewrite mem_cat => /orP[/h|/h']. Qed.
Lemma supp_scale (T : eqType) w (d : dist T) (P : T -> Prop) :
  supp d P -> supp (scale w d) P.
Proof. by move=> h w' u /mapP[[w2 t] /h ht [_ ->]]. Qed.
Lemma supp_le (T : eqType) (d : dist (seq T)) k l :
  supp d (fun ts => (size ts <= k)%N) -> (k <= l)%N -> supp d (fun ts => (size ts <= l)%N).
Proof. by move=> h hkl w ts /h hs; exact: leq_trans hs hkl. Qed.
Lemma supp_both (T : eqType) (d d' : dist (seq T)) k l :
  supp d (fun ts => (size ts <= k)%N) -> supp d' (fun ts => (size ts <= l)%N) ->
  supp (both d d') (fun ts => (size ts <= k + l)%N).
Proof.
move=> h h'; apply: (supp_bind h) => ts ht; apply: (supp_bind h') => us hu.
by apply: supp_ret; rewrite size_cat leq_add.
Qed.
Lemma eq_lin (V : lmodType R) (T : eqType) (d : dist T) (P : T -> Prop) (F G : T -> V) :
  supp d P -> (forall t, P t -> F t = G t) -> lin d F = lin d G.
Proof.
move=> h e; apply: eq_big_seq => -[w t] hwt /=.
by rewrite (e _ (h _ _ hwt)).
Qed.

Lemma totalE T (d : dist T) : total d = lin (V := [lmodType R of R^o]) d (fun _ => 1).
Proof. by apply: eq_bigr => wt _; rewrite /GRing.scale /= mulr1. Qed.
Lemma lin1 U (d : dist U) (F : U -> R^o) :
  (forall t, F t = 1) -> lin (V := [lmodType R of R^o]) d F = total d.
Proof. by move=> h; apply: eq_bigr => wt _; rewrite h /GRing.scale /= mulr1. Qed.
Lemma total_ret T (t : T) : total (ret R t) = 1.
Proof. by rewrite /total big_seq1. Qed.
Lemma total_scale T w (d : dist T) : total (scale w d) = w * total d.
Proof. by rewrite !totalE lin_scale. Qed.
Lemma total_cat T (d d' : dist T) : total (d ++ d') = total d + total d'.
Proof. exact: big_cat. Qed.
Lemma total_bind T U (d : dist T) (f : T -> dist U) :
  (forall t, total (f t) = 1) -> total (bind d f) = total d.
Proof. by move=> h; rewrite totalE lin_bind lin1 // => t; rewrite -totalE. Qed.
Lemma total_both T (d d' : dist (seq T)) : total (both d d') = total d * total d'.
Proof.
rewrite totalE /both lin_bind [in RHS]/total mulr_suml; apply: eq_bigr => -[w ts] _ /=.
rewrite /GRing.scale /=; congr (_ * _); rewrite lin_bind lin1 // => us; exact: lin_ret.
Qed.
Lemma total_uniform T (ts : seq T) : (0 < size ts)%N -> total (uniform R ts) = 1.
Proof.
move=> h; rewrite totalE lin_uniform big_const_seq count_predT iter_addr addr0.
by rewrite /GRing.scale /= mulVf // pnatr_eq0 -lt0n.
Qed.

Lemma nonneg_ret T (t : T) : nonneg (ret R t).
Proof. by rewrite /nonneg /= ler01. Qed.
Lemma nonneg_cat T (d d' : dist T) : nonneg d -> nonneg d' -> nonneg (d ++ d').
Proof. by rewrite /nonneg all_cat => -> ->. Qed.
Lemma nonneg_scale T w (d : dist T) : 0 <= w -> nonneg d -> nonneg (scale w d).
Proof. by move=> hw; rewrite /nonneg all_map; apply: sub_all => wt /=; exact: mulr_ge0. Qed.
Lemma nonneg_bind T U (d : dist T) (f : T -> dist U) :
  nonneg d -> (forall t, nonneg (f t)) -> nonneg (bind d f).
Proof.
move=> hd hf; elim: d hd => //= -[w t] d IH /andP[hw hd].
rewrite /bind /= -/(bind d f); apply: nonneg_cat; last exact: IH.
exact: nonneg_scale.
Qed.
Lemma nonneg_uniform T (ts : seq T) : nonneg (uniform R ts).
Proof.
rewrite /nonneg all_map (eq_all (a2 := predT)) ?all_predT // => t /=.
by rewrite invr_ge0 ler0n.
Qed.
Lemma nonneg_both T (d d' : dist (seq T)) : nonneg d -> nonneg d' -> nonneg (both d d').
Proof. by move=> h h'; do 2![apply: nonneg_bind => // ?]; exact: nonneg_ret. Qed.
Lemma nonneg_batch V T (f : V -> dist (seq T)) xs :
  (forall x, nonneg (f x)) -> nonneg (batch f xs).
Proof.
by move=> h; elim: xs => [|x xs IH] /=; [exact: nonneg_ret | apply: nonneg_both].
Qed.
Lemma Pr_ge0 (T : eqType) (d : dist (seq T)) v : nonneg d -> 0 <= Pr d v.
Proof.
rewrite /Pr => /allP; elim: d => [|[w t] d IH] h; first by rewrite big_nil.
rewrite big_cons; have h0 : 0 <= w by apply: (h (w, t)); rewrite inE eqxx.
have {}IH : 0 <= \sum_(wt <- d | perm_eq wt.2 v) wt.1.
  by apply: IH => wt hwt; apply: h; rewrite inE hwt orbT.
by case: ifP => // _; exact: addr_ge0.
Qed.
End Dist.

Section Coefficientwise.
Variables (R : realFieldType) (B : nat).
Implicit Types (P Q T : {mpoly R[B]}) (c d : R) (x : 'I_B).

Definition nn P := forall k, 0 <= P@_k.
Definition lec P Q := forall k, P@_k <= Q@_k.

Lemma nnD P Q : nn P -> nn Q -> nn (P + Q).
Proof. by move=> hP hQ k; rewrite mcoeffD addr_ge0. Qed.

Lemma nnM P Q : nn P -> nn Q -> nn (P * Q).
Proof. by move=> hP hQ k; rewrite mcoeffM sumr_ge0 // => i _; rewrite mulr_ge0. Qed.

Lemma nnZ c P : 0 <= c -> nn P -> nn (c *: P).
Proof. by move=> hc hP k; rewrite mcoeffZ mulr_ge0. Qed.

Lemma nnX k : nn 'X_[k].
Proof. by move=> j; rewrite mcoeffX ler0n. Qed.

Lemma nn0 : nn 0. Proof. by move=> k; rewrite mcoeff0. Qed.
Lemma nn1 : nn 1. Proof. by move=> k; rewrite mcoeff1 ler0n. Qed.

Lemma nnXn P n : nn P -> nn (P ^+ n).
Proof. by move=> hP; elim: n => [|n IH]; [exact: nn1 | rewrite exprS; exact: nnM]. Qed.

Lemma nn_deriv x P : nn P -> nn P^`M(x).
Proof. by move=> hP k; rewrite mcoeff_deriv mulrn_wge0. Qed.

Lemma nn_sum (I : Type) (s : seq I) (F : I -> {mpoly R[B]}) :
  (forall i, nn (F i)) -> nn (\sum_(i <- s) F i).
Proof. by move=> h k; rewrite raddf_sum sumr_ge0 // => i _; exact: h. Qed.

Lemma lecxx P : lec P P. Proof. by move=> k. Qed.
Lemma lec_trans Q P T : lec P Q -> lec Q T -> lec P T.
Proof. by move=> h1 h2 k; exact: le_trans (h1 k) (h2 k). Qed.
Lemma lecD P Q P' Q' : lec P Q -> lec P' Q' -> lec (P + P') (Q + Q').
Proof. by move=> h1 h2 k; rewrite !mcoeffD ler_add. Qed.
Lemma lec_nnr P Q : nn Q -> lec P (P + Q).
Proof. by move=> h k; rewrite mcoeffD ler_addl. Qed.
Lemma lecZ c P Q : 0 <= c -> lec P Q -> lec (c *: P) (c *: Q).
Proof. by move=> hc h k; rewrite !mcoeffZ ler_wpmul2l. Qed.
Lemma lecZr c d P : c <= d -> nn P -> lec (c *: P) (d *: P).
Proof. by move=> hc h k; rewrite !mcoeffZ ler_wpmul2r. Qed.
Lemma lecMl T P Q : nn T -> lec P Q -> lec (T * P) (T * Q).
Proof.
move=> hT h k; rewrite !mcoeffM ler_sum // => i _.
by rewrite ler_wpmul2l.
Qed.
Lemma lecMr T P Q : nn T -> lec P Q -> lec (P * T) (Q * T).
Proof. by move=> hT h; rewrite ![_ * T]mulrC; exact: lecMl. Qed.
Lemma lec_sum (I : Type) (s : seq I) (p : pred I) (F G : I -> {mpoly R[B]}) :
  (forall i, p i -> lec (F i) (G i)) ->
  lec (\sum_(i <- s | p i) F i) (\sum_(i <- s | p i) G i).
Proof. by move=> h k; rewrite !raddf_sum ler_sum // => i pi; exact: h. Qed.

Lemma mcoeffXM0 x P (k : 'X_{1..B}) : k x = 0%N -> ('X_x * P)@_k = 0.
Proof.
move=> h; rewrite mcoeffM big1 // => -[k1 k2] /= /eqP E.
rewrite mcoeffX; case: eqP => [E1|]; last by rewrite mul0r.
move: (congr1 (fun j : 'X_{1..B} => j x) E).
by rewrite /= mnmDE -E1 mnm1E eqxx h.
Qed.

Lemma mcoeffXMS x P (k : 'X_{1..B}) : ('X_x * P)@_(k + U_(x)) = P@_k.
Proof. by rewrite mulrC addmC mcoeffMX. Qed.

Lemma mnm_pred x (k : 'X_{1..B}) : (0 < k x)%N -> exists j, k = (j + U_(x))%MM.
Proof.
move=> h; exists (k - U_(x))%MM; rewrite submK //.
by apply/mnm_lepP => i; rewrite mnm1E; case: eqP => [<-|].
Qed.

Lemma mcoeff_Xderiv x P (k : 'X_{1..B}) : ('X_x * P^`M(x))@_k = (k x)%:R * P@_k.
Proof.
case: (posnP (k x)) => [h|/mnm_pred[j ->]].
  by rewrite mcoeffXM0 // h mul0r.
by rewrite mcoeffXMS mcoeff_deriv mnmDE mnm1E eqxx addn1 mulr_natl.
Qed.

Lemma mderivXn x P n : (P ^+ n)^`M(x) = (P ^+ n.-1 * P^`M(x)) *+ n.
Proof.
elim: n => [|n IH]; first by rewrite expr0 mulr0n -mpolyC1 mderivC.
rewrite exprS mderivM IH /= mulrS mulrC; congr (_ + _).
case: n {IH} => [|n]; first by rewrite !mulr0n mulr0.
by rewrite mulrnAr mulrA -exprS.
Qed.

(* Lemma A of §19, from the differential equation of the truncated noise mu;
   H is C^-1 times the part of degree Z+1. *)
Lemma lemmaA (x : 'I_B) (mu H : {mpoly R[B]}) (beta r : R) (n : nat) :
  nn mu -> nn H -> 0 < beta -> 0 < r -> (0 < n)%N -> n%:R * r <= 1 ->
  mu^`M(x) = beta *: ('X_x * mu^`M(x)) + (beta * r) *: mu - H^`M(x) ->
  lec ('X_x * mu ^+ n)
      ((beta * (n%:R * r))^-1 *: mu ^+ n + (beta * r)^-1 *: (H * mu ^+ n.-1)).
Proof.
move=> hmu hH hb hr hn hs ode k.
have nr : 0 < n%:R * r :> R by rewrite mulr_gt0 // ltr0n.
have nG : nn (mu ^+ n) by exact: nnXn.
have nG1 : nn (mu ^+ n.-1) by exact: nnXn.
have nHG : nn (H * mu ^+ n.-1) by exact: nnM.
have ib : 0 <= (beta * r)^-1 by rewrite invr_ge0 mulr_ge0 ?ltW.
have ibs : 0 <= (beta * (n%:R * r))^-1 by rewrite invr_ge0 mulr_ge0 ?ltW.
case: (posnP (k x)) => [h|/mnm_pred[i ->]].
  by rewrite mcoeffXM0 // mcoeffD !mcoeffZ addr_ge0 // mulr_ge0.
rewrite mcoeffXMS mcoeffD !mcoeffZ.
set g := (mu ^+ n)@_i; set g' := (mu ^+ n)@_(_); set h' := (H * _)@_(_).
have g'0 : 0 <= g' by exact: nG.
have h'0 : 0 <= h' by exact: nHG.
(* the identity at coefficient i *)
have odeG : (mu ^+ n)^`M(x) = beta *: ('X_x * (mu ^+ n)^`M(x))
   + (beta * (n%:R * r)) *: mu ^+ n - n%:R *: (mu ^+ n.-1 * H^`M(x)).
  rewrite mderivXn.
  have nat (Y : {mpoly R[B]}) : Y *+ n = (n%:R)%:MP * Y.
    by rewrite mul_mpolyC scaler_nat.
  have -> : mu ^+ n = mu * mu ^+ n.-1 by rewrite -exprS prednK.
  rewrite !nat -!mul_mpolyC !mpolyCM.
  move: (n%:R%:MP) => N; move: ode; rewrite -!mul_mpolyC !mpolyCM.
  move: (beta%:MP) (r%:MP) (mu^`M(x)) (H^`M(x)) (mu ^+ n.-1) => b r' D HD M ode.
  by rewrite {1}ode; ring.
move/(congr1 (fun P => P@_i)): odeG.
rewrite mcoeffB mcoeffD !mcoeffZ mcoeff_Xderiv mcoeff_deriv -/g -/g'.
set w := (_ * H^`M(x))@_i => id1.
have lew : w <= h' *+ (i x).+1.
  rewrite /h' /w -mcoeff_deriv mderivM mcoeffD [H^`M(x) * _]mulrC ler_addl.
  by apply: nnM => //; exact: nn_deriv.
set a : R := (i x)%:R in id1.
have a0 : 0 <= a by rewrite ler0n.
have id2 : beta * (a + n%:R * r) * g = (a + 1) * g' + n%:R * w.
  have -> : beta * (a + n%:R * r) * g
     = beta * (a * g) + beta * (n%:R * r) * g by ring.
  by apply/eqP; rewrite -subr_eq -id1 -mulr_natl -natr1.
have as0 : 0 < a + n%:R * r by apply: ltr_paddl.
have bas0 : 0 < beta * (a + n%:R * r) by rewrite mulr_gt0.
rewrite -(ler_pmul2l bas0) id2.
have h1 : a + 1 <= (a + n%:R * r) / (n%:R * r).
  rewrite ler_pdivl_mulr // mulrDl mul1r ler_add2r.
  by rewrite -[X in _ <= X]mulr1 ler_wpmul2l.
have -> : beta * (a + n%:R * r) * ((beta * (n%:R * r))^-1 * g' + (beta * r)^-1 * h')
   = (a + n%:R * r) / (n%:R * r) * g' + n%:R * ((a + n%:R * r) / (n%:R * r) * h').
  have hn' : n%:R != 0 :> R by rewrite pnatr_eq0 -lt0n.
  have hr' : r != 0 by rewrite gt_eqF.
  have hb' : beta != 0 by rewrite gt_eqF.
  by field; rewrite hn' hr' hb'.
apply: ler_add; first by rewrite ler_wpmul2r.
rewrite ler_wpmul2l ?ler0n // (le_trans lew) // -mulr_natl -natr1 -/a.
by rewrite ler_wpmul2r.
Qed.

End Coefficientwise.

(* ---- generating functions of distributions over reports with B kinds of messages ---- *)
Section GeneratingFunctions.
Variables (R : realFieldType) (B : nat).
Local Notation mp := {mpoly R[B]}.
Local Notation D T := (dist R T).
Implicit Types (ts us v : seq 'I_B) (d : D (seq 'I_B)).

(* how many messages of each kind *)
Definition cnt ts : 'X_{1..B} := [multinom count_mem b ts | b < B].
Definition gf d : mp := lin d (fun ts => 'X_[cnt ts]).

Lemma cntE ts b : cnt ts b = count_mem b ts.
Proof. by rewrite mnmE. Qed.
Lemma cnt_nil : cnt [::] = 0%MM.
Proof. by apply/mnmP => b; rewrite [LHS]cntE [RHS]mnm0E. Qed.
Lemma cnt_cat ts us : cnt (ts ++ us) = (cnt ts + cnt us)%MM.
Proof. by apply/mnmP => b; rewrite mnmDE !cntE count_cat. Qed.
Lemma cnt_cons b ts : cnt (b :: ts) = (U_(b) + cnt ts)%MM.
Proof. by apply/mnmP => b'; rewrite mnmDE !cntE mnm1E. Qed.
Lemma mdeg_cnt ts : mdeg (cnt ts) = size ts.
Proof.
elim: ts => [|b ts IH]; first by rewrite cnt_nil mdeg0.
by rewrite cnt_cons mdegD mdeg1 IH.
Qed.
Lemma cnt_perm ts v : (cnt ts == cnt v) = perm_eq ts v.
Proof.
apply/eqP/idP => [h|/permP h]; last by apply/mnmP => b; rewrite !cntE h.
by apply/allP => b _ /=; rewrite -!cntE h.
Qed.
Lemma Pr_gf d v : Pr d v = (gf d)@_(cnt v).
Proof.
rewrite /Pr /gf /lin raddf_sum big_mkcond; apply: eq_bigr => -[w ts] _ /=.
by rewrite mcoeffZ mcoeffX cnt_perm; case: ifP; rewrite ?mulr1 ?mulr0.
Qed.

Lemma gf_both d d' : gf (both d d') = gf d * gf d'.
Proof.
rewrite /gf lin_both lin_mulr; apply: eq_linx => ts.
by rewrite lin_mull; apply: eq_linx => us; rewrite cnt_cat mpolyXD.
Qed.
Lemma gf_ret ts : gf (ret R ts) = 'X_[cnt ts].
Proof. by rewrite /gf lin_ret. Qed.
Lemma gf_ret0 : gf (ret R [::]) = 1.
Proof. by rewrite gf_ret cnt_nil mpolyX0. Qed.
Lemma gf_scale w d : gf (scale w d) = w *: gf d.
Proof. by rewrite /gf lin_scale. Qed.
Lemma gf_cat d d' : gf (d ++ d') = gf d + gf d'.
Proof. by rewrite /gf lin_cat. Qed.
Lemma gf_bind T (d : D T) (f : T -> D (seq 'I_B)) : gf (bind d f) = lin d (fun t => gf (f t)).
Proof. by rewrite /gf lin_bind. Qed.
Lemma X_nseq n (a : 'I_B) : 'X_[R, cnt (nseq n a)] = 'X_a ^+ n.
Proof.
elim: n => [|n IH]; first by rewrite cnt_nil mpolyX0.
by rewrite /= cnt_cons mpolyXD IH exprS.
Qed.
Lemma gf_foldr T (f : T -> D (seq 'I_B)) (xs : seq T) :
  gf (foldr (fun x => both (f x)) (ret R [::]) xs) = \prod_(x <- xs) gf (f x).
Proof.
elim: xs => [|x xs IH]; first by rewrite big_nil gf_ret0.
by rewrite big_cons /= gf_both IH.
Qed.
Lemma gf_batch V (f : V -> D (seq 'I_B)) xs : gf (batch f xs) = \prod_(x <- xs) gf (f x).
Proof. exact: gf_foldr. Qed.
Lemma nn_prod (I : Type) (r : seq I) (p : pred I) (F : I -> mp) :
  (forall a, nn (F a)) -> nn (\prod_(a <- r | p a) F a).
Proof. by move=> h; elim/big_ind: _ => [|P Q hP hQ|a _] //; [exact: nn1 | exact: nnM]. Qed.
Lemma nn_batch V (f : V -> D (seq 'I_B)) xs : (forall x, nn (gf (f x))) -> nn (gf (batch f xs)).
Proof. by move=> h; rewrite gf_batch; exact: nn_prod. Qed.

(* More than m users: what the surplus users send is a common factor. *)
Lemma costs_m V m (E : R) (f : V -> D (seq 'I_B)) x y :
  (0 < m)%N -> (forall x, nn (gf (f x))) ->
  (forall xs, size xs = m.-1 ->
     lec (gf (f x) * gf (batch f xs)) (E *: (gf (f y) * gf (batch f xs)))) ->
  costs m E f x y.
Proof.
move=> m0 nf h xs1 xs2 v hsz; rewrite !Pr_gf -mcoeffZ.
have gE z : gf (batch f (xs1 ++ z :: xs2)) = gf (f z) * gf (batch f (xs1 ++ xs2)).
  by rewrite !gf_batch !big_cat big_cons /= mulrCA.
rewrite !gE; set xs := xs1 ++ xs2.
have hs : (m.-1 <= size xs)%N.
  by rewrite size_cat -ltnS prednK // (leq_trans hsz) // addn1 addSn.
have -> : gf (batch f xs) = gf (batch f (take m.-1 xs)) * gf (batch f (drop m.-1 xs)).
  by rewrite !gf_batch -big_cat cat_take_drop.
rewrite !mulrA scalerAl; apply: lecMr; first exact: nn_batch.
by apply: h; rewrite size_takel.
Qed.

(* Where everybody's noise N is a factor of the law, whatever they hold, comparing the rest I under
   m such factors is enough. *)
Lemma costs_noise V m (E : R) (f : V -> D (seq 'I_B)) (N : mp) (I : V -> mp) x y :
  (0 < m)%N -> nn N -> (forall x, nn (I x)) -> (forall x, gf (f x) = N * I x) ->
  lec (I x * N ^+ m) (E *: (I y * N ^+ m)) -> costs m E f x y.
Proof.
move=> m0 nN nI fE h; apply: costs_m => // [z|xs hsz]; first by rewrite fE; exact: nnM.
have -> : gf (batch f xs) = N ^+ m.-1 * \prod_(z <- xs) I z.
  rewrite -hsz gf_batch; elim: xs {hsz} => [|z xs IH]; first by rewrite !big_nil mulr1.
  by rewrite !big_cons IH fE /= exprS; ring.
have e z : gf (f z) * (N ^+ m.-1 * \prod_(z <- xs) I z) = (I z * N ^+ m) * \prod_(z <- xs) I z.
  by rewrite fE -(prednK m0) exprS /=; ring.
by rewrite !e scalerAl; apply: lecMr => //; exact: nn_prod.
Qed.
Lemma costs_trans V (f : V -> D (seq 'I_B)) m E E' x y z :
  0 <= E -> costs m E f x y -> costs m E' f y z -> costs m (E * E') f x z.
Proof.
move=> hE h h' xs1 xs2 v hsz; apply: (le_trans (h xs1 xs2 v hsz)).
by rewrite -mulrA; apply: ler_wpmul2l => //; exact: h'.
Qed.
Lemma costs_le V (f : V -> D (seq 'I_B)) m E E' x y :
  (forall x, nn (gf (f x))) -> E <= E' -> costs m E f x y -> costs m E' f x y.
Proof.
move=> nf hE h xs1 xs2 v hsz; apply: (le_trans (h xs1 xs2 v hsz)).
by apply: ler_wpmul2r => //; rewrite Pr_gf; exact: nn_batch.
Qed.
End GeneratingFunctions.

(* ---- one variable: shares ---- *)
Section OneVariable.
Variable R : realFieldType.
Local Notation mp := {mpoly R[1]}.
Definition x0 : 'I_1 := ord0.
Definition X : mp := 'X_x0.
Definition mon (n : nat) : 'X_{1..1} := (U_(x0) *+ n)%MM.

Lemma mon0 n : mon n x0 = n.
Proof. by rewrite /mon mulmnE mnm1E eqxx ?mul1n ?muln1. Qed.
Lemma monE (k : 'X_{1..1}) : k = mon (k x0).
Proof. by apply/mnmP => i; rewrite (ord1 i) -/x0 mon0. Qed.
Lemma monS n : mon n.+1 = (mon n + U_(x0))%MM.
Proof. by apply/mnmP => i; rewrite (ord1 i) -/x0 mnmDE !mon0 mnm1E eqxx addn1. Qed.
Lemma coefXn n (k : 'X_{1..1}) : (X ^+ n)@_k = (n == k x0)%:R.
Proof.
rewrite /X mcoeffXn -/(mon n); congr (nat_of_bool _)%:R.
by apply/eqP/eqP => [<-|h]; [rewrite mon0 | rewrite h -monE].
Qed.
Lemma nnXX n : nn (X ^+ n). Proof. by apply: nnXn; exact: nnX. Qed.

Definition degb (P : mp) d := forall k : 'X_{1..1}, (d < k x0)%N -> P@_k = 0.
Lemma degbM P Q d e : degb P d -> degb Q e -> degb (P * Q) (d + e).
Proof.
move=> hP hQ k hk; rewrite mcoeffM big1 // => -[k1 k2] /= /eqP E.
have {E}hk' : (d + e < k1 x0 + k2 x0)%N by rewrite -mnmDE -E.
have [h|h] := leqP (k1 x0) d; last by rewrite hP // mul0r.
by rewrite hQ ?mulr0 // -(ltn_add2l d) (leq_trans hk') // leq_add2r.
Qed.
Lemma degbX P d n : degb P d -> degb (P ^+ n) (n * d).
Proof.
move=> hP; elim: n => [|n IH].
  by move=> k hk; rewrite expr0 mcoeff1 [k]monE; case: eqP => // E; move: hk; rewrite [k]monE E mnm0E.
by rewrite exprS mulSn; exact: degbM.
Qed.

(* ---- one truncated negative binomial share ---- *)
Section Share.
Variables (m z : nat) (beta : R).
Hypotheses (m0 : (0 < m)%N) (hb : 0 < beta).
Let r : R := m%:R^-1.
Local Notation cj := (c m beta).
Local Notation Cz := (C m beta z).
Local Notation share := (share m beta z).

Lemma lin_share (V : lmodType R) (F : nat -> V) :
  lin share F = \sum_(j < z.+1) (cj j / Cz) *: F j.
Proof.
have E : iota 0 z.+1 = index_iota 0 z.+1 by rewrite /index_iota subn0.
by rewrite /share {1}/lin big_map E big_mkord.
Qed.
Lemma r_gt0 : 0 < r. Proof. by rewrite invr_gt0 ltr0n. Qed.
Lemma c_gt0 j : 0 < cj j.
Proof.
by rewrite divr_gt0 ?ltr0n ?fact_gt0 // mulr_gt0 ?exprn_gt0 // prodr_gt0 // => i _; rewrite ltr_paddr ?invr_gt0 ?ltr0n ?ler0n.
Qed.
Lemma C_gt0 : 0 < Cz.
Proof.
rewrite /C big_ord_recl ltr_paddr ?c_gt0 // sumr_ge0 // => i _.
by rewrite ltW ?c_gt0.
Qed.
Lemma cS j : cj j.+1 * j.+1%:R = beta * (r + j%:R) * cj j.
Proof.
rewrite /c /rise -/r big_ord_recr /= factS exprS natrM.
have h1 : j.+1%:R != 0 :> R by rewrite pnatr_eq0.
have h2 : j`!%:R != 0 :> R by rewrite pnatr_eq0 -lt0n fact_gt0.
move: (\prod_(i < j) _) (j.+1%:R) (j`!%:R) h1 h2 => P v f h1 h2.
by field; rewrite h1 h2.
Qed.
Lemma c0 : cj 0 = 1.
Proof. by rewrite /c /rise big_ord0 expr0 fact0 divr1 mul1r. Qed.

Definition mu : mp := lin share (fun j => X ^+ j).
Definition nu : mp := lin share (fun j => X ^+ (z - j)).

Lemma mu_coef (k : 'X_{1..1}) : mu@_k = (k x0 <= z)%N%:R * cj (k x0) / Cz.
Proof.
rewrite /mu lin_share raddf_sum /=; under eq_bigr do rewrite mcoeffZ coefXn.
have [h|h] := leqP (k x0) z; last first.
  rewrite !mul0r big1 // => j _; case: eqP => [E|]; last by rewrite mulr0.
  by move: h; rewrite -E ltnNge -ltnS ltn_ord.
rewrite (bigD1 (Ordinal (h : k x0 < z.+1)%N)) //= eqxx mulr1 mul1r big1 ?addr0 //.
by move=> j /eqP hj; case: eqP => [E|]; [case: hj; exact: val_inj | rewrite mulr0].
Qed.
Lemma nu_coef (k : 'X_{1..1}) : nu@_k = (k x0 <= z)%N%:R * cj (z - k x0) / Cz.
Proof.
rewrite /nu lin_share raddf_sum /=; under eq_bigr do rewrite mcoeffZ coefXn.
have [h|h] := leqP (k x0) z; last first.
  rewrite !mul0r big1 // => j _; case: eqP => [E|]; last by rewrite mulr0.
  by move: h; rewrite -E ltnNge leq_subr.
have h' : (z - k x0 < z.+1)%N by rewrite ltnS leq_subr.
rewrite (bigD1 (Ordinal h')) //= subKn // eqxx mulr1 mul1r big1 ?addr0 //.
move=> j /eqP hj; case: eqP => [E|]; last by rewrite mulr0.
by case: hj; apply: val_inj; rewrite /= -E subKn // -ltnS.
Qed.
Lemma nn_mu : nn mu.
Proof.
move=> k; rewrite mu_coef; apply: divr_ge0; last exact: ltW C_gt0.
by apply: mulr_ge0; [rewrite ler0n | exact: ltW (c_gt0 _)].
Qed.
Lemma nn_nu : nn nu.
Proof.
move=> k; rewrite nu_coef; apply: divr_ge0; last exact: ltW C_gt0.
by apply: mulr_ge0; [rewrite ler0n | exact: ltW (c_gt0 _)].
Qed.
Lemma mu_ge : lec (Cz^-1 *: 1) mu.
Proof.
move=> k; have := nn_mu k; rewrite mcoeffZ mcoeff1.
case: eqP => [->|_]; last by rewrite mulr0.
by rewrite mu_coef mnm0E /= c0 !mul1r mulr1.
Qed.
Lemma nu_ge : lec (Cz^-1 *: X ^+ z) nu.
Proof.
move=> k; have := nn_nu k; rewrite mcoeffZ coefXn.
case: eqP => [E|_]; last by rewrite mulr0.
by rewrite nu_coef -E subnn leqnn c0 !mul1r mulr1.
Qed.
Lemma deg_nu : degb nu z.
Proof. by move=> k hk; rewrite nu_coef leqNgt hk /= !mul0r. Qed.

Lemma ode_mu : mu^`M(x0) = beta *: ('X_x0 * mu^`M(x0)) + (beta * r) *: mu
   - ((cj z.+1 / Cz) *: X ^+ z.+1)^`M(x0).
Proof.
apply/mpolyP => i; rewrite mcoeffB mcoeffD !mcoeffZ mcoeff_Xderiv !mcoeff_deriv.
rewrite -[X in X = _]mulr_natr -[X in _ = _ - X]mulr_natr.
rewrite mcoeffZ coefXn !mu_coef mnmDE mnm1E eqxx addn1 eqSS.
have E := cS (i x0); set ci := cj (i x0).+1 in E *; set n := (i x0).+1%:R in E *.
have -> : (i x0 < z)%N%:R * ci / Cz * n = (i x0 < z)%N%:R * (ci * n) / Cz by ring.
have -> : cj z.+1 / Cz * (z == i x0)%:R * n = (z == i x0)%:R * (ci * n) / Cz.
  by rewrite /ci /n; case: eqP => [->|_]; rewrite ?mulr1 ?mul1r ?mulr0 ?mul0r // mulrAC.
rewrite E; have -> : (i x0 < z)%N%:R = (i x0 <= z)%N%:R - (z == i x0)%:R :> R.
  by rewrite eq_sym; case: ltngtP => _; rewrite ?subr0 ?subrr.
move: ((i x0 <= z)%N%:R) ((z == i x0)%:R) ((i x0)%:R) (cj (i x0)) (Cz^-1) => a b n' ci' Ci.
by ring.
Qed.

Lemma up_bound : lec (X * mu ^+ m)
  (beta^-1 *: mu ^+ m + (beta^-1 * (m%:R * cj z.+1)) *: (X ^+ z.+1 * mu ^+ m)).
Proof.
have hm : 0 < m%:R :> R by rewrite ltr0n.
have hC := C_gt0; have hc := c_gt0 z.+1; have ib : 0 <= beta^-1 by rewrite invr_ge0 ltW.
have hH : nn ((cj z.+1 / Cz) *: X ^+ z.+1).
  by apply: nnZ; [rewrite divr_ge0 ?ltW | exact: nnXX].
have nr1 : m%:R * r = 1 by rewrite divff // gt_eqF.
have h1 : m%:R * r <= 1 by rewrite nr1.
apply: (lec_trans (lemmaA nn_mu hH hb r_gt0 m0 h1 ode_mu)).
rewrite nr1 mulr1; apply: lecD; first exact: lecxx.
have -> : (beta * r)^-1 *: (((cj z.+1 / Cz) *: X ^+ z.+1) * mu ^+ m.-1)
  = (beta^-1 * (m%:R * cj z.+1)) *: ((X ^+ z.+1 * mu ^+ m.-1) * (Cz^-1 *: 1)).
  rewrite -scalerAl -scalerAr mulr1 !scalerA; congr (_ *: _).
  by rewrite /r; field; rewrite !gt_eqF.
apply: lecZ; first by rewrite mulr_ge0 // mulr_ge0 ?ltW.
have -> : X ^+ z.+1 * mu ^+ m = (X ^+ z.+1 * mu ^+ m.-1) * mu.
  by rewrite -mulrA -exprSr prednK.
apply: lecMl mu_ge; apply: nnM; [exact: nnXX | apply: nnXn; exact: nn_mu].
Qed.

(* the mirror image *)
Lemma ode_nu : X * (z%:R *: nu - X * nu^`M(x0)) =
  beta *: (z%:R *: nu - X * nu^`M(x0)) + (beta * r) *: nu
  - (z.+1%:R * cj z.+1 / Cz) *: 1.
Proof.
have co (k : 'X_{1..1}) : (z%:R *: nu - X * nu^`M(x0))@_k
    = (k x0 <= z)%N%:R * ((z - k x0)%:R * cj (z - k x0)) / Cz.
  rewrite mcoeffB mcoeffZ mcoeff_Xderiv nu_coef.
  have [h|h] := leqP (k x0) z; last by rewrite !mul0r !mulr0 subr0.
  by rewrite natrB //; ring.
apply/mpolyP => k; rewrite mcoeffB mcoeffD !mcoeffZ co nu_coef mcoeff1.
case: (posnP (k x0)) => [h|/mnm_pred[j ->]].
  rewrite mcoeffXM0 // h subn0 leq0n.
  have -> : k == 0%MM by apply/eqP; rewrite [k]monE h; apply/mnmP => i; rewrite (ord1 i) -/x0 [LHS]mon0 [RHS]mnm0E.
  have -> : z.+1%:R * cj z.+1 / Cz * true%:R = (cj z.+1 * z.+1%:R) / Cz by rewrite mulr1 [cj _ * _]mulrC.
  by rewrite cS !mul1r; ring.
rewrite mcoeffXMS co.
have -> : (j + U_(x0) == 0)%MM = false.
  by apply/eqP => /(congr1 (fun i : 'X_{1..1} => i x0)); rewrite mnmDE mnm1E eqxx addn1 mnm0E.
rewrite mulr0 subr0 mnmDE mnm1E eqxx addn1.
case: (ltngtP (j x0) z) => h /=; last 2 first.
- by rewrite !mul0r !mulr0 addr0.
- by rewrite h subnn !mul0r !mulr0 !mul0r addr0.
have [d hd] : exists d, (z - j x0 = d.+1)%N by exists (z - j x0).-1; rewrite prednK // subn_gt0.
rewrite subnS hd /= !mul1r [d.+1%:R * _]mulrC cS; ring.
Qed.

Lemma down_bound : lec (X ^+ z * nu ^+ m)
  (beta^-1 *: (X ^+ z.+1 * nu ^+ m) + (beta^-1 * (m%:R * cj z.+1)) *: nu ^+ m).
Proof.
have hm : 0 < m%:R :> R by rewrite ltr0n.
have hC := C_gt0; have hc := c_gt0 z.+1; have ib : 0 <= beta^-1 by rewrite invr_ge0 ltW.
have nr1 : m%:R * r = 1 by rewrite divff // gt_eqF.
have w0 : 0 <= m%:R * (cj z.+1 / Cz).
  by apply: mulr_ge0; [exact: ltW | apply: divr_ge0; exact: ltW].
set N := nu ^+ m; set V := nu ^+ m.-1.
have nN : nn N by apply: nnXn; exact: nn_nu.
have nV : nn V by apply: nnXn; exact: nn_nu.
have NV : N = V * nu by rewrite /N /V -exprSr prednK.
(* the equation for the m-th power *)
have odeN : X * ((m%:R * z%:R) *: N - X * N^`M(x0)) =
    beta *: ((m%:R * z%:R) *: N - X * N^`M(x0)) + beta *: N
    - (m%:R * (z.+1%:R * cj z.+1 / Cz)) *: V.
  have E1 : (m%:R * z%:R) *: N - X * N^`M(x0) = m%:R *: (V * (z%:R *: nu - X * nu^`M(x0))).
    rewrite {2}/N mderivXn -/V NV -scaler_nat -!mul_mpolyC mpolyCM; ring.
  rewrite E1 -scalerAr mulrCA ode_nu NV.
  move: (z%:R *: nu - _) => Y; rewrite -!mul_mpolyC !mpolyCM.
  have -> : beta%:MP * (V * nu) = (m%:R%:MP * r%:MP) * (beta%:MP * (V * nu)) :> mp.
    by rewrite -mpolyCM nr1 mpolyC1 mul1r.
  by ring.
have key : lec N (beta^-1 *: (X * N) + (beta^-1 * (m%:R * (cj z.+1 / Cz))) *: V).
  move=> k; have dN := degbX deg_nu (n := m); have dV := degbX deg_nu (n := m.-1).
  have [hk|hk] := leqP (k x0) (m * z); last first.
    rewrite dN // mcoeffD !mcoeffZ; apply: addr_ge0; apply: mulr_ge0 => //.
      by apply: nnM => //; exact: nnX.
    exact: mulr_ge0.
  move/(congr1 (fun P => P@_k)): odeN.
  set i : R := m%:R * z%:R - (k x0)%:R.
  have i0 : 0 <= i by rewrite /i -natrM subr_ge0 ler_nat.
  have co (j : 'X_{1..1}) : ((m%:R * z%:R) *: N - X * N^`M(x0))@_j = (m%:R * z%:R - (j x0)%:R) * N@_j.
    by rewrite mcoeffB mcoeffZ mcoeff_Xderiv mulrBl.
  rewrite mcoeffB mcoeffD !mcoeffZ co -/i.
  have -> : (X * ((m%:R * z%:R) *: N - X * N^`M(x0)))@_k = (i + 1) * (X * N)@_k.
    case: (posnP (k x0)) => [h|/mnm_pred[j Ej]]; first by rewrite !mcoeffXM0 // mulr0.
    by rewrite /i Ej !mcoeffXMS co mnmDE mnm1E eqxx addn1 -natr1; ring.
  move=> Ek.
  have Ek2 : beta * (i + 1) * N@_k = (i + 1) * (X * N)@_k + m%:R * (z.+1%:R * cj z.+1 / Cz) * V@_k.
    by rewrite Ek; ring.
  have i1 : 0 < i + 1 by rewrite ltr_paddl // ltr01.
  rewrite -(ler_pmul2l (mulr_gt0 hb i1)) Ek2 mcoeffD !mcoeffZ.
  have -> : beta * (i + 1) * (beta^-1 * (X * N)@_k + beta^-1 * (m%:R * (cj z.+1 / Cz)) * V@_k)
     = (i + 1) * (X * N)@_k + (m%:R * (cj z.+1 / Cz)) * ((i + 1) * V@_k).
    by field; rewrite !gt_eqF.
  rewrite ler_add2l.
  have -> : m%:R * (z.+1%:R * cj z.+1 / Cz) * V@_k = (m%:R * (cj z.+1 / Cz)) * (z.+1%:R * V@_k) by ring.
  apply: ler_wpmul2l => //.
  have [hk2|hk2] := leqP (k x0) (m.-1 * z); last by rewrite dV // !mulr0.
  apply: ler_wpmul2r => //; rewrite -natr1 ler_add2r /i ler_subr_addr -natrM -natrD ler_nat.
  by rewrite -(prednK m0) mulSn leq_add2l.
have nXz : nn (X ^+ z) by exact: nnXX.
apply: (lec_trans (lecMl nXz key)).
rewrite mulrDr -!scalerAr [X ^+ z * (X * N)]mulrA -exprSr; apply: lecD; first exact: lecxx.
have -> : (beta^-1 * (m%:R * (cj z.+1 / Cz))) *: (X ^+ z * V)
   = (beta^-1 * (m%:R * cj z.+1)) *: (V * (Cz^-1 *: X ^+ z)).
  by rewrite -scalerAr scalerA [V * _]mulrC; congr (_ *: _); ring.
rewrite NV; apply: lecZ; first by rewrite mulr_ge0 // mulr_ge0 ?ltW.
by apply: lecMl nu_ge.
Qed.
Lemma total_share : total share = 1.
Proof.
rewrite totalE lin_share /GRing.scale /=; under eq_bigr do rewrite mulr1.
by rewrite -mulr_suml divff // gt_eqF ?C_gt0.
Qed.
Lemma share_size : supp share (fun j => (j <= z)%N).
Proof. by move=> w j /mapP[j' hj [_ ->]]; move: hj; rewrite mem_iota add0n ltnS. Qed.
Lemma nonneg_share : nonneg share.
Proof.
rewrite /nonneg all_map; apply/allP => j _ /=.
by rewrite divr_ge0 // ltW // ?c_gt0 ?C_gt0.
Qed.
End Share.
End OneVariable.

(* ---- several variables: noise cut at |j| <= Z, with a beta for each variable ---- *)
Section CutNoise.
Variables (R : realFieldType) (B m Z : nat) (beta : 'I_B -> R) (Cn : R).
Local Notation mp := {mpoly R[B]}.
Local Notation r := (m%:R^-1 : R).
Local Notation cv := (cv m beta).
Hypotheses (m0 : (0 < m)%N) (hb : forall b, 0 < beta b) (hC : 0 < Cn).

Lemma cv_gt0 (n : 'I_B -> nat) : 0 < cv n.
Proof. by apply: prodr_gt0 => b _; exact: c_gt0. Qed.
Lemma cv0 : cv (0%MM : 'X_{1..B}) = 1.
Proof. by apply: big1 => b _; rewrite mnm0E c0. Qed.
Lemma cvS (k : 'X_{1..B}) b :
  cv (k + U_(b))%MM * (k b).+1%:R = beta b * (r + (k b)%:R) * cv k.
Proof.
rewrite /definitions.cv (bigD1 b) //= [in RHS](bigD1 b) //=.
rewrite mnmDE mnm1E eqxx addn1.
have -> : \prod_(i < B | i != b) c m (beta i) ((k + U_(b))%MM i)
   = \prod_(i < B | i != b) c m (beta i) (k i).
  by apply: eq_bigr => i hi; rewrite mnmDE mnm1E eq_sym (negbTE hi) addn0.
by rewrite mulrAC cS // !mulrA.
Qed.

Variable mu : mp.
Hypothesis mu_coef : forall k, mu@_k = (mdeg k <= Z)%N%:R * cv k / Cn.

Lemma cut_nn : nn mu.
Proof.
move=> k; rewrite mu_coef; apply: divr_ge0; last exact: ltW.
by apply: mulr_ge0; [rewrite ler0n | exact: ltW (cv_gt0 _)].
Qed.
Lemma cut_ge : lec (Cn^-1 *: 1) mu.
Proof.
move=> k; have := cut_nn k; rewrite mcoeffZ mcoeff1.
case: eqP => [->|_]; last by rewrite mulr0.
by rewrite mu_coef mdeg0 cv0 !mul1r mulr1.
Qed.

(* H is the part of degree Z+1; only vectors with a message of kind x matter *)
Variables (x : 'I_B) (H : mp).
Hypothesis nH : nn H.
Hypothesis H_coef : forall k : 'X_{1..B}, (0 < k x)%N -> H@_k = (mdeg k == Z.+1)%:R * cv k / Cn.

(* the differential equation of sections 12, 18 and 19 *)
Lemma cut_ode : mu^`M(x) = beta x *: ('X_x * mu^`M(x)) + (beta x * r) *: mu - H^`M(x).
Proof.
apply/mpolyP => i; rewrite mcoeffB mcoeffD !mcoeffZ mcoeff_Xderiv !mcoeff_deriv.
rewrite H_coef ?mnmDE ?mnm1E ?eqxx ?addn1 // !mu_coef mdegD mdeg1 addn1 eqSS.
rewrite -[X in X = _]mulr_natr -[X in _ = _ - X]mulr_natr.
have E := cvS i x; set ci := cv (i + U_(x))%MM in E *; set n := (i x).+1%:R in E *.
have e (a : R) : a * ci / Cn * n = a * (ci * n) / Cn by ring.
rewrite !e E; have -> : (mdeg i < Z)%N%:R = (mdeg i <= Z)%N%:R - (mdeg i == Z)%:R :> R.
  by case: ltngtP => _; rewrite ?subr0 ?subrr.
move: ((mdeg i <= Z)%N%:R) ((mdeg i == Z)%:R) ((i x)%:R) (cv i) (Cn^-1) => a b n' ci' Ci.
by ring.
Qed.

(* one message more of kind x is paid with the vectors just beyond the cut *)
Lemma cut_claims : lec ('X_x * mu ^+ m)
  ((beta x)^-1 *: mu ^+ m + ((beta x)^-1 * (m%:R * Cn)) *: (H * mu ^+ m)).
Proof.
have hm : 0 < m%:R :> R by rewrite ltr0n.
have r0 : 0 < r by rewrite invr_gt0.
have nr1 : m%:R * r = 1 by rewrite divff // gt_eqF.
have h1 : m%:R * r <= 1 by rewrite nr1.
have nmu := cut_nn; have bx := hb x.
apply: (lec_trans (lemmaA nmu nH bx r0 m0 h1 cut_ode)).
rewrite nr1 mulr1; apply: lecD; first exact: lecxx.
have -> : (beta x * r)^-1 *: (H * mu ^+ m.-1)
  = ((beta x)^-1 * (m%:R * Cn)) *: ((H * mu ^+ m.-1) * (Cn^-1 *: 1)).
  by rewrite -scalerAr mulr1 !scalerA; congr (_ *: _); field; rewrite !gt_eqF.
have nV : nn (H * mu ^+ m.-1) by apply: nnM => //; exact: nnXn.
apply: lecZ; first by rewrite mulr_ge0 ?invr_ge0 ?ltW // mulr_gt0.
by apply: (lec_trans (lecMl nV cut_ge)); rewrite -mulrA -exprSr prednK //; exact: lecxx.
Qed.
End CutNoise.

(* ---- the urn's law (section 19) ---- *)
Section UrnLaw.
Variables (R : realFieldType) (B m Z : nat) (beta : R).
Local Notation r := (m%:R^-1 : R).
Local Notation s := (s B m beta).
Local Notation Cs := (Cs B m beta Z).
Local Notation noise := (noise B m beta Z).
Local Notation urn := (urn R B m).
Local Notation cv := (cv m (fun _ : 'I_B => beta)).
Hypotheses (m0 : (0 < m)%N) (B0 : (0 < B)%N) (hb : 0 < beta).

Lemma mR0 : 0 < m%:R :> R. Proof. by rewrite ltr0n. Qed.
Lemma BR0 : 0 < B%:R :> R. Proof. by rewrite ltr0n. Qed.
Lemma r0 : 0 < r. Proof. by rewrite invr_gt0 mR0. Qed.
Lemma riseS (a : R) k : rise a k.+1 = rise a k * (a + k%:R).
Proof. by rewrite /rise big_ord_recr. Qed.
Lemma rise_gt0 (a : R) k : 0 < a -> 0 < rise a k.
Proof. by move=> h; apply: prodr_gt0 => i _; rewrite ltr_paddr // ler0n. Qed.
Lemma fact_neq0 k : k`!%:R != 0 :> R.
Proof. by rewrite pnatr_eq0 -lt0n fact_gt0. Qed.
Lemma s_gt0 J : 0 < s J.
Proof.
by rewrite divr_gt0 ?ltr0n ?fact_gt0 // mulr_gt0 ?exprn_gt0 // rise_gt0 // divr_gt0 ?mR0 ?BR0.
Qed.
Lemma Cs_gt0 : 0 < Cs.
Proof.
rewrite /definitions.Cs big_ord_recl ltr_paddr ?s_gt0 //.
by rewrite sumr_ge0 // => i _; rewrite ltW ?s_gt0.
Qed.
Lemma sS J : s J.+1 * J.+1%:R * m%:R = beta * (B%:R + J%:R * m%:R) * s J.
Proof.
rewrite /definitions.s riseS factS exprS natrM.
have h1 : J.+1%:R != 0 :> R by rewrite pnatr_eq0.
have h2 := fact_neq0 J; have h3 : m%:R != 0 :> R by rewrite gt_eqF ?mR0.
move: (rise _ _) (J.+1%:R) (J`!%:R) h1 h2 (beta ^+ J) => u v f h1 h2 w.
by field; rewrite h1 h2 h3.
Qed.
Lemma urn_size J : supp (urn J) (fun ts => size ts = J).
Proof.
elim: J => [|J IH]; first exact: supp_ret.
apply: (supp_bind IH) => ts hs; apply: (@supp_bind _ _ _ _ _ (fun=> True)) => // b _.
by apply: supp_ret => /=; rewrite hs.
Qed.

Lemma sum_cnt (V : lmodType R) (G : 'I_B -> V) ts :
  \sum_(b <- ts) G b = \sum_(b < B) (cnt ts b)%:R *: G b.
Proof.
elim: ts => [|b ts IH].
  by rewrite big_nil big1 // => b _; rewrite cntE scale0r.
rewrite big_cons IH; under [in RHS]eq_bigr do rewrite cntE /= natrD scalerDl.
rewrite big_split /=; congr (_ + _).
  rewrite (bigD1 b) //= eqxx scale1r big1 ?addr0 // => i hi.
  by rewrite eq_sym (negbTE hi) scale0r.
by apply: eq_bigr => i _; rewrite cntE.
Qed.

(* one step of the urn on generating functions *)
Lemma gf_urnS J : gf (urn J.+1) = (B%:R + J%:R * m%:R)^-1 *:
  \sum_(b < B) 'X_b * (gf (urn J) + m%:R *: ('X_b * (gf (urn J))^`M(b))).
Proof.
pose F (k : 'X_{1..B}) : {mpoly R[B]} := \sum_(b < B) (1 + m%:R * (k b)%:R) *: ('X_b * 'X_[k]).
have BJ : 0 < B%:R + J%:R * m%:R :> R.
  by rewrite ltr_paddr ?BR0 // mulr_ge0 ?ler0n.
transitivity (lin (urn J) (fun ts => (B%:R + J%:R * m%:R)^-1 *: F (cnt ts))).
  rewrite {1}/gf lin_bind; apply: (eq_lin (@urn_size J)) => ts hs.
  rewrite lin_bind /token lin_cat !lin_scale !lin_uniform hs size_enum_ord !scalerA.
  rewrite [in X in X + _]big_enum /=.
  under eq_bigr do rewrite lin_ret cnt_cons mpolyXD.
  under [X in _ + _ *: X]eq_bigr do rewrite lin_ret cnt_cons mpolyXD.
  rewrite [X in _ + _ *: X]sum_cnt.
  rewrite /F !scaler_sumr -big_split /=; apply: eq_bigr => b _.
  rewrite !scalerA -scalerDl; congr (_ *: _).
  have hB : B%:R != 0 :> R by rewrite gt_eqF ?BR0.
  have hBJ : B%:R + J%:R * m%:R != 0 :> R by rewrite gt_eqF.
  case: J hs BJ hBJ => [|J] hs BJ hBJ.
    rewrite cntE; case: ts hs => //= _; rewrite !mulr0 !addr0 mul0r addr0 divff // mul1r.
    by rewrite mulr1.
  have hJ : J.+1%:R != 0 :> R by rewrite pnatr_eq0.
  move: (J.+1%:R) hJ hBJ => j hJ hBJ.
  by field; rewrite hB hBJ hJ.
set G := fun P : {mpoly R[B]} => (B%:R + J%:R * m%:R)^-1 *:
  \sum_(b < B) 'X_b * (P + m%:R *: ('X_b * P^`M(b))).
have GX k : G 'X_[k] = (B%:R + J%:R * m%:R)^-1 *: F k.
  rewrite /G /F; congr (_ *: _); apply: eq_bigr => b _.
  have -> : 'X_b * 'X_[k]^`M(b) = (k b)%:R *: 'X_[k] :> {mpoly R[B]}.
    by apply/mpolyP => j; rewrite mcoeff_Xderiv mcoeffZ mcoeffX; case: eqP => [->|]; rewrite ?mulr0.
  by rewrite scalerA -{1}['X_[k]]scale1r -scalerDl -scalerAr.
have G0 : G 0 = 0.
  rewrite /G big1 ?scaler0 // => b _.
  by rewrite mderiv0 mulr0 scaler0 addr0 mulr0.
have GD P Q w : G (w *: P + Q) = w *: G P + G Q.
  rewrite /G scalerA [w * _]mulrC -scalerA -scalerDr [X in _ = _ *: (X + _)]scaler_sumr -big_split /=.
  congr (_ *: _); apply: eq_bigr => b _.
  rewrite mderivD mderivZ -!mul_mpolyC; ring.
rewrite -/(G _) /gf /lin.
elim: (urn J) => [|[w ts] d IH]; first by rewrite !big_nil G0.
by rewrite !big_cons IH GD GX.
Qed.

Lemma gf_urn J k : (gf (urn J))@_k = (mdeg k == J)%:R * cv k / s J.
Proof.
elim: J k => [|J IH] k.
  rewrite /gf lin_ret cnt_nil mpolyX0 mcoeff1 mdeg_eq0 /s expr0 mul1r.
  rewrite /rise big_ord0 fact0 divr1 divr1.
  case: eqP => [->|_]; last by rewrite mul0r.
  by rewrite mul1r cv0.
rewrite gf_urnS mcoeffZ raddf_sum /=.
have hm := mR0; have hs := s_gt0 J; have hs1 := s_gt0 J.+1.
have BJ : 0 < B%:R + J%:R * m%:R :> R.
  by rewrite ltr_paddr ?BR0 // mulr_ge0 ?ler0n.
have step b : ('X_b * (gf (urn J) + m%:R *: ('X_b * (gf (urn J))^`M(b))))@_k
  = (k b)%:R * ((mdeg k == J.+1)%:R * m%:R * cv k / (beta * s J)).
  case: (posnP (k b)) => [h|/mnm_pred[j ->]].
    by rewrite mcoeffXM0 // h mul0r.
  rewrite mcoeffXMS mcoeffD mcoeffZ mcoeff_Xderiv IH mdegD mdeg1 addn1 eqSS.
  rewrite mnmDE mnm1E eqxx addn1.
  have E : (j b).+1%:R * cv (j + U_(b))%MM = beta * (r + (j b)%:R) * cv j.
    by rewrite mulrC (cvS m (fun=> beta)).
  have -> : (j b).+1%:R * ((mdeg j == J)%:R * m%:R * cv (j + U_(b))%MM / (beta * s J))
    = (mdeg j == J)%:R * m%:R * ((j b).+1%:R * cv (j + U_(b))%MM) / (beta * s J) by ring.
  rewrite E; move: ((mdeg j == J)%:R) (cv j) ((j b)%:R) => d cj n.
  by field; rewrite !gt_eqF.
under eq_bigr do rewrite step.
rewrite -mulr_suml -natr_sum -mdegE.
have := sS J; case: eqP => [->|_ _]; last by rewrite !mul0r !mulr0.
rewrite !mul1r => E.
have hJ : J.+1%:R != 0 :> R by rewrite pnatr_eq0.
have -> : s J.+1 = beta * (B%:R + J%:R * m%:R) * s J / (J.+1%:R * m%:R).
  by rewrite -E; move: (J.+1%:R) hJ => v hJ; field; rewrite hJ gt_eqF.
move: (J.+1%:R) hJ (cv k) => v hJ ck.
by field; rewrite hJ !gt_eqF.
Qed.

Lemma lin_noise (V : lmodType R) (F : seq 'I_B -> V) :
  lin noise F = \sum_(J < Z.+1) (s J / Cs) *: lin (urn J) F.
Proof.
have E : iota 0 Z.+1 = index_iota 0 Z.+1 by rewrite /index_iota subn0.
by rewrite /noise lin_bind {1}/lin big_map E big_mkord.
Qed.

Lemma gf_noise k : (gf noise)@_k = (mdeg k <= Z)%N%:R * cv k / Cs.
Proof.
rewrite /gf lin_noise raddf_sum /=.
under eq_bigr => J _ do rewrite mcoeffZ gf_urn.
have [hk|hk] := boolP (mdeg k <= Z)%N; last first.
  rewrite mul0r mul0r big1 // => J _; case: eqP => [E|]; last by rewrite !mul0r mulr0.
  by move: hk; rewrite E -ltnS ltn_ord.
rewrite (bigD1 (Ordinal (hk : mdeg k < Z.+1)%N)) //= eqxx !mul1r big1 ?addr0.
  have h := s_gt0 (mdeg k); have h' := Cs_gt0; by field; rewrite !gt_eqF.
by move=> J /eqP hJ; case: eqP => [E|]; [case: hJ; apply/val_inj | rewrite !mul0r mulr0].
Qed.

Lemma nn_urn J : nn (gf (urn J)).
Proof.
move=> k; rewrite gf_urn; apply: divr_ge0; last exact: ltW (s_gt0 J).
by apply: mulr_ge0; [rewrite ler0n | exact/ltW/cv_gt0].
Qed.
Lemma nn_noise : nn (gf noise).
Proof.
move=> k; rewrite gf_noise; apply: divr_ge0; last exact: ltW Cs_gt0.
by apply: mulr_ge0; [rewrite ler0n | exact/ltW/cv_gt0].
Qed.

Lemma total_urn J : total (urn J) = 1.
Proof.
elim: J => [|J IH]; first by rewrite /total big_seq1.
transitivity (total (urn J)); last exact: IH.
rewrite !totalE lin_bind -/(urn J).
refine (@eq_lin R [lmodType R of R^o] _ _ _ _ _ (@urn_size J) _) => ts hs.
rewrite lin_bind /token lin_cat !lin_scale !lin_uniform hs size_enum_ord.
have hB : B%:R != 0 :> R by rewrite gt_eqF ?BR0.
under eq_bigr do rewrite lin_ret.
under [X in _ + _ *: (_ *: X)]eq_bigr do rewrite lin_ret.
rewrite big_enum /= !sumr_const ?big_const_seq count_predT hs iter_addr addr0 card_ord.
rewrite /GRing.scale /= mulVf // mulr1.
case: J hs {IH} => [|J] hs; first by rewrite mul0r addr0 divff // subrr mul0r addr0.
have hJ : J.+1%:R != 0 :> R by rewrite pnatr_eq0.
by rewrite mulVf // mulr1 addrC subrK.
Qed.

Lemma total_noise : total noise = 1.
Proof.
rewrite totalE lin_noise.
under eq_bigr => J _ do rewrite -totalE total_urn /GRing.scale /= mulr1.
by rewrite -mulr_suml -/Cs divff // gt_eqF ?Cs_gt0.
Qed.


Lemma noise_size : supp noise (fun ts => (size ts <= Z)%N).
Proof.
apply: (@supp_bind _ _ _ _ _ (fun J => (J <= Z)%N)).
  by move=> w J /mapP[J' hJ [_ ->]]; move: hJ; rewrite mem_iota add0n ltnS.
by move=> J hJ w ts /urn_size ->.
Qed.
Lemma nonneg_urn J : nonneg (urn J).
Proof.
elim: J => [|J IH]; first exact: nonneg_ret.
apply: nonneg_bind => // ts; apply: nonneg_bind => [|b]; last exact: nonneg_ret.
have BJ : 0 < B%:R + (size ts)%:R * m%:R :> R.
  by rewrite ltr_paddr ?BR0 // mulr_ge0 ?ler0n.
apply: nonneg_cat; apply: nonneg_scale; rewrite ?nonneg_uniform //.
  by rewrite divr_ge0 ?ler0n ?ltW.
by rewrite subr_ge0 ler_pdivr_mulr // mul1r ler_addl mulr_ge0 ?ler0n.
Qed.
Lemma nonneg_noise : nonneg noise.
Proof.
apply: nonneg_bind => [|J]; last exact: nonneg_urn.
rewrite /nonneg all_map; apply/allP => j _ /=.
by rewrite divr_ge0 // ltW // ?s_gt0 ?Cs_gt0.
Qed.

(* The part of degree Z+1, which a jump with the urn pays for. *)
Local Notation H := ((s Z.+1 / Cs) *: gf (urn Z.+1)).
Lemma jump_coef k : H@_k = (mdeg k == Z.+1)%:R * cv k / Cs.
Proof.
rewrite mcoeffZ gf_urn; have h := s_gt0 Z.+1; have h' := Cs_gt0.
by field; rewrite !gt_eqF.
Qed.
Lemma noise_ode x : (gf noise)^`M(x) = beta *: ('X_x * (gf noise)^`M(x))
  + (beta * r) *: gf noise - H^`M(x).
Proof. exact: (cut_ode gf_noise (fun k _ => jump_coef k)). Qed.
Lemma noise_claims x : lec ('X_x * gf noise ^+ m)
  (beta^-1 *: gf noise ^+ m
   + (beta^-1 * (m%:R * s Z.+1)) *: (gf (urn Z.+1) * gf noise ^+ m)).
Proof.
have h := Cs_gt0; have nH : nn H.
  by apply: nnZ; [rewrite divr_ge0 // ltW ?s_gt0 | exact: nn_urn].
have := @cut_claims _ _ _ _ (fun=> beta) _ m0 (fun=> hb) h _ gf_noise x _ nH (fun k _ => jump_coef k).
rewrite -scalerAl scalerA; congr (lec _ (_ + _ *: _)); field; by rewrite !gt_eqF.
Qed.

(* Polya's urn has P(v) = c_v / s_J *)
Theorem urn_law J v : Pr (urn J) v = (size v == J)%:R * cv (cnt v) / s J.
Proof. by rewrite Pr_gf gf_urn mdeg_cnt. Qed.

(* s_J is the sum of c_j over |j| = J *)
Theorem urn_identity J : \sum_(k : 'X_{1..B < J.+1} | mdeg k == J) cv k = s J.
Proof.
have hs := s_gt0 J.
have E : gf (urn J) = \sum_(k : 'X_{1..B < J.+1}) (gf (urn J))@_k *: 'X_[k].
  apply/mpolyP => k; have [h|h] := ltnP (mdeg k) J.+1.
    by rewrite (mcoeff_mpoly (fun j => (gf (urn J))@_j) h).
  rewrite gf_urn gtn_eqF // !mul0r raddf_sum big1 //= => j _.
  rewrite mcoeffZ mcoeffX; case: eqP => [Ek|]; last by rewrite mulr0.
  by move: h; rewrite -Ek leqNgt bmdeg.
have T1 : (gf (urn J)).@[fun=> 1] = 1.
  rewrite -[RHS](total_urn J) /gf /lin raddf_sum; apply: eq_bigr => -[w ts] _ /=.
  by rewrite mevalZ mevalX big1 ?mulr1 // => b _; rewrite expr1n.
move: T1; rewrite E raddf_sum /=.
under eq_bigr do rewrite mevalZ mevalX gf_urn.
rewrite (eq_bigr (fun k : 'X_{1..B < J.+1} => (if mdeg k == J then cv k else 0) / s J)).
  rewrite -mulr_suml -big_mkcond /= => h.
  by rewrite -[RHS]mul1r -h divfK // gt_eqF.
move=> k _; rewrite [X in _ * X]big1 ?mulr1 => [|b _]; last by rewrite expr1n.
by case: eqP => _; rewrite ?mul1r ?mul0r.
Qed.
End UrnLaw.

(* ---- the net payment of a jump ---- *)
Section Payments.
Variable R : realFieldType.
(* (1/beta - kappa)*o covers the claims (1/beta)*a *)
Lemma pay (b k a o : R) : 0 < b -> a <= (1 - k * b) * o -> b^-1 * a + k * o <= b^-1 * o.
Proof.
move=> hb h; have ib : 0 <= b^-1 by rewrite invr_ge0 ltW.
have -> : b^-1 * o = b^-1 * ((1 - k * b) * o) + k * o by field; rewrite gt_eqF.
by rewrite ler_add2r ler_wpmul2l.
Qed.
(* the other jump: o <= (1/beta)*kappa*o *)
Lemma pay_other (b k a : R) : 0 < b -> b <= k -> 0 <= a -> a <= b^-1 * (k * a).
Proof.
move=> hb h ha; rewrite mulrA -{1}[a]mul1r ler_wpmul2r //.
by rewrite mulrC ler_pdivl_mulr // mul1r.
Qed.
End Payments.


(* ---- from one variable to the variable of bucket b ---- *)
Section Substitution.
Variables (R : realFieldType) (B : nat) (b : 'I_B).
Definition sub (P : {mpoly R[1]}) : {mpoly R[B]} := P \mPo [tuple 'X_b].

Lemma subX n : sub (X R ^+ n) = 'X_b ^+ n.
Proof. by rewrite /sub rmorphX /= /X comp_mpolyXU. Qed.
Lemma subD P Q : sub (P + Q) = sub P + sub Q. Proof. exact: rmorphD. Qed.
Lemma subM P Q : sub (P * Q) = sub P * sub Q. Proof. exact: rmorphM. Qed.
Lemma subXn P n : sub (P ^+ n) = sub P ^+ n. Proof. exact: rmorphX. Qed.
Lemma subZ c P : sub (c *: P) = c *: sub P. Proof. exact: comp_mpolyZ. Qed.
Lemma sub_nn P : nn P -> nn (sub P).
Proof.
move=> h; rewrite /sub comp_mpolyEX; apply: nn_sum => k; apply: nnZ => //.
rewrite comp_mpolyX big_ord_recl big_ord0 mulr1; apply: nnXn; exact: nnX.
Qed.
Lemma sub_lec P Q : lec P Q -> lec (sub P) (sub Q).
Proof.
move=> h; have {}h : nn (Q - P) by move=> k; rewrite mcoeffB subr_ge0.
have := sub_nn h; rewrite /sub comp_mpolyB => h' k.
by have := h' k; rewrite mcoeffB subr_ge0.
Qed.
End Substitution.

(* ---- a change by several steps (sections 12 and 18) ----
   P k belongs to the value k; one step costs 1/b and leaves a claim A on Q k.  Jumps J that contain
   every Q k with odds o k >= A*b^k / (1 - b^D) pay all claims of a change within 0..D. *)
Section Steps.
Variables (R : realFieldType) (B D : nat) (b A : R) (P Q : nat -> {mpoly R[B]}).
Hypotheses (hb : 0 < b) (hb1 : b <= 1) (hA : 0 <= A).
Hypotheses (nP : forall k, nn (P k)) (nQ : forall k, nn (Q k)).
Hypothesis step : forall k, (k < D)%N -> lec (P k.+1) (b^-1 *: P k + (b^-1 * A) *: Q k).

Lemma ib_ge1 n : 1 <= b^-1 ^+ n.
Proof. by rewrite exprn_ege1 // invf_ge1. Qed.
Lemma ib_ge0 n : 0 <= b^-1 ^+ n.
Proof. exact: le_trans ler01 (ib_ge1 n). Qed.

Lemma steps x d : (x + d <= D)%N -> lec (P (x + d))
  (b^-1 ^+ d *: P x + \sum_(0 <= k < x + d) (b^-1 ^+ (x + d - k) * A) *: Q k).
Proof.
elim: d => [|d IH] hd.
  rewrite expr0 scale1r addn0; apply: lec_nnr; apply: nn_sum => k.
  by apply: nnZ => //; rewrite mulr_ge0 // ib_ge0.
rewrite addnS in hd *; have ib : 0 <= b^-1 by rewrite -[b^-1]expr1 ib_ge0.
apply: (lec_trans (step hd)).
apply: (lec_trans (lecD (lecZ ib (IH (ltnW hd))) (lecxx _))).
rewrite big_nat_recr //= subSn // subnn expr1 scalerDr scalerA -exprS -addrA.
apply: lecD; first exact: lecxx.
apply: lecD; last exact: lecxx.
rewrite scaler_sumr !big_nat; apply: lec_sum => k /andP[_ hk].
by rewrite scalerA mulrA -exprS subSn // ltnW.
Qed.

Variables (o : nat -> R) (J : {mpoly R[B]}).
Hypothesis ho : forall k, (k < D)%N -> A * b ^+ k <= (1 - b ^+ D) * o k.
Hypothesis hJ : lec (\sum_(0 <= k < D) o k *: Q k) J.

Lemma steps_paid x d : (x + d <= D)%N -> lec (P (x + d) + J) (b^-1 ^+ D *: (P x + J)).
Proof.
move=> hd; have b0 : b != 0 by rewrite gt_eqF.
apply: (lec_trans (lecD (steps hd) (lecxx _))).
have e : b^-1 ^+ D *: (P x + J) = b^-1 ^+ D *: P x + ((b^-1 ^+ D - 1) *: J + J).
  by rewrite scalerBl scale1r subrK scalerDr.
rewrite e -addrA; apply: lecD.
  apply: lecZr => //; have hdD : (d <= D)%N by exact: leq_trans (leq_addl _ _) hd.
  rewrite -(subnK hdD) exprD -[X in X <= _]mul1r.
  by apply: ler_wpmul2r; [exact: ib_ge0 | exact: ib_ge1].
apply: lecD; last exact: lecxx.
have h0 : 0 <= b^-1 ^+ D - 1 by rewrite subr_ge0 ib_ge1.
apply: lec_trans (lecZ h0 hJ); rewrite scaler_sumr.
have pays k : (k < D)%N -> A * b^-1 ^+ (D - k) <= (b^-1 ^+ D - 1) * o k.
  move=> hk; have bD : b ^+ D != 0 by rewrite expf_neq0.
  have -> : A * b^-1 ^+ (D - k) = b^-1 ^+ D * (A * b ^+ k).
    rewrite mulrCA; congr (_ * _); rewrite -{2}(subnK (ltnW hk)) exprD -mulrA.
    by rewrite -exprMn mulVf // expr1n mulr1.
  have -> : (b^-1 ^+ D - 1) * o k = b^-1 ^+ D * ((1 - b ^+ D) * o k).
    by rewrite mulrA mulrBr mulr1 -exprMn mulVf // expr1n.
  by apply: ler_wpmul2l; [exact: ib_ge0 | exact: ho].
have nT k : (k < D)%N -> nn ((b^-1 ^+ D - 1) *: (o k *: Q k)).
  move=> hk; rewrite scalerA; apply: nnZ => //; apply: le_trans (pays _ hk).
  by rewrite mulr_ge0 // ib_ge0.
rewrite [X in lec _ X](big_cat_nat _ _ _ (leq0n (x + d)) hd) /=.
apply: lec_trans (lec_nnr _ _); last first.
  by rewrite big_nat; elim/big_ind: _ => [|? ? ? ?|k /andP[_ hk]]; [exact: nn0 | exact: nnD | exact: nT].
rewrite !big_nat; apply: lec_sum => k /andP[_ hk]; rewrite scalerA; apply: lecZr => //.
apply: le_trans (pays _ (leq_trans hk hd)); rewrite mulrC; apply: ler_wpmul2l => //.
rewrite -(subnK (leq_sub2r k hd)) exprD -[X in X <= _]mul1r.
by apply: ler_wpmul2r; [exact: ib_ge0 | exact: ib_ge1].
Qed.
End Steps.
