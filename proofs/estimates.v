(* Sections 4, 12 and 19: unbiased estimates and their exact mean squared error.

   stat is what the analyzer reads off the view, a sum over messages.  Where a user's mean is
   e0 + P*val(x), the estimate (stat - n*e0) / P is unbiased and its mean squared error is the sum of
   the users' variances, divided by P^2.  Instances: the bounded cell with any cuts, the sparse
   histogram. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum.
From mathcomp Require Import ring zify.
From SsrMultinomials Require Import mpoly.
Require Import definitions lemmas bounded_cell sparse.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* expectation of a number *)
Definition Ex (R : realFieldType) T (d : dist R T) (F : T -> R) : R := \sum_(wt <- d) wt.1 * F wt.2.

Section Expectation.
Variable R : realFieldType.
Lemma Ex_lin T (d : dist R T) F : Ex d F = lin (V := [lmodType R of R^o]) d F.
Proof. by []. Qed.
Lemma Ex_ret T (t : T) F : Ex (ret R t) F = F t. Proof. by rewrite Ex_lin lin_ret. Qed.
Lemma Ex_bind T U (d : dist R T) (f : T -> dist R U) F : Ex (bind d f) F = Ex d (fun t => Ex (f t) F).
Proof. by rewrite Ex_lin lin_bind. Qed.
Lemma Ex_cat T (d d' : dist R T) F : Ex (d ++ d') F = Ex d F + Ex d' F.
Proof. by rewrite Ex_lin lin_cat. Qed.
Lemma Ex_scale T w (d : dist R T) F : Ex (scale w d) F = w * Ex d F.
Proof. by rewrite Ex_lin lin_scale. Qed.
Lemma Ex_both T (d d' : dist R (seq T)) F :
  Ex (both d d') F = Ex d (fun ts => Ex d' (fun us => F (ts ++ us))).
Proof. by rewrite Ex_lin lin_both. Qed.
Lemma eq_Ex T (d : dist R T) F G : F =1 G -> Ex d F = Ex d G.
Proof. by move=> h; apply: eq_bigr => wt _; rewrite h. Qed.
Lemma ExD T (d : dist R T) F G : Ex d (fun t => F t + G t) = Ex d F + Ex d G.
Proof. by rewrite /Ex -big_split; apply: eq_bigr => wt _; rewrite mulrDr. Qed.
Lemma ExZ T (d : dist R T) a F : Ex d (fun t => a * F t) = a * Ex d F.
Proof. by rewrite /Ex mulr_sumr; apply: eq_bigr => wt _; rewrite mulrCA. Qed.
Lemma Ex1 T (d : dist R T) a : Ex d (fun=> a) = a * total d.
Proof. by rewrite /Ex /total mulr_sumr; apply: eq_bigr => wt _; rewrite mulrC. Qed.
Lemma Ex_shift T (d : dist R T) F G a : total d = 1 -> (forall t, F t = G t + a) ->
  Ex d F = Ex d G + a.
Proof. by move=> h1 h; rewrite (eq_Ex _ h) ExD Ex1 h1 mulr1. Qed.
Lemma Ex_square T (d : dist R T) F a : total d = 1 ->
  Ex d (fun t => (F t + a) ^+ 2) = Ex d (fun t => F t ^+ 2) - Ex d F ^+ 2 + (Ex d F + a) ^+ 2.
Proof.
move=> h1; rewrite (@eq_Ex _ _ _ (fun t => F t ^+ 2 + (a *+ 2 * F t + a ^+ 2))); last first.
  by move=> t; ring.
by rewrite !ExD ExZ Ex1 h1; ring.
Qed.
End Expectation.

Section Estimate.
Variables (R : realFieldType) (V T : Type) (f : V -> dist R (seq T)) (stat : seq T -> R).
Hypotheses (stat0 : stat [::] = 0) (statD : forall ts us, stat (ts ++ us) = stat ts + stat us).
Hypothesis hone : forall x, total (f x) = 1.
Definition mean x := Ex (f x) stat.
Definition variance x := Ex (f x) (fun ts => stat ts ^+ 2) - mean x ^+ 2.

Lemma batch_square xs a : Ex (batch f xs) (fun ts => (stat ts + a) ^+ 2)
  = \sum_(x <- xs) variance x + (\sum_(x <- xs) mean x + a) ^+ 2.
Proof.
elim: xs a => [|x xs IH] a; first by rewrite !big_nil Ex_ret stat0 !add0r.
rewrite /= Ex_both !big_cons.
rewrite (@eq_Ex _ _ _ _ (fun ts => \sum_(x <- xs) variance x
  + (stat ts + (\sum_(x <- xs) mean x + a)) ^+ 2)) => [|ts]; last first.
  transitivity (\sum_(x <- xs) variance x + (\sum_(x <- xs) mean x + (stat ts + a)) ^+ 2).
    by rewrite -IH; apply: eq_Ex => us; rewrite statD [in RHS]addrCA addrA.
  by congr (_ + _ ^+ 2); rewrite addrCA.
rewrite ExD Ex1 hone Ex_square // -/(mean x) -[_ - mean x ^+ 2]/(variance x) mulr1.
by rewrite [mean x + (_ + a)]addrA addrCA addrA.
Qed.
Lemma batch_mean xs : total (batch f xs) = 1 /\ Ex (batch f xs) stat = \sum_(x <- xs) mean x.
Proof.
elim: xs => [|x xs [h1 IH]]; first by rewrite big_nil Ex_ret stat0 /= total_ret.
rewrite /= total_both h1 hone mulr1 Ex_both big_cons; split=> //.
rewrite (@eq_Ex _ _ _ _ (fun ts => stat ts + Ex (batch f xs) stat)) => [|ts].
  by rewrite ExD Ex1 hone mulr1 IH.
by rewrite (eq_Ex _ (statD ts)) ExD Ex1 h1 mulr1.
Qed.

Variables (val : V -> R) (e0 P : R).
Hypotheses (hP : P != 0) (affine : forall x, mean x = e0 + P * val x).
Definition estimate (n : nat) (ts : seq T) : R := (stat ts - n%:R * e0) / P.

Lemma sum_mean xs : \sum_(x <- xs) mean x = (size xs)%:R * e0 + P * \sum_(x <- xs) val x.
Proof.
elim: xs => [|x xs IH]; first by rewrite !big_nil mulr0 mul0r addr0.
by rewrite !big_cons IH affine /= -natr1; ring.
Qed.
Theorem estimate_unbiased xs : Ex (batch f xs) (estimate (size xs)) = \sum_(x <- xs) val x.
Proof.
have [h1 h] := batch_mean xs.
rewrite (@eq_Ex _ _ _ _ (fun ts => P^-1 * (stat ts + - ((size xs)%:R * e0)))) => [|ts]; last first.
  by rewrite /estimate mulrC.
by rewrite ExZ ExD Ex1 h1 h sum_mean mulr1 addrAC subrr add0r mulKf.
Qed.
Theorem estimate_mse xs :
  Ex (batch f xs) (fun ts => (estimate (size xs) ts - \sum_(x <- xs) val x) ^+ 2)
  = (\sum_(x <- xs) variance x) / P ^+ 2.
Proof.
rewrite (@eq_Ex _ _ _ _ (fun ts => P^-1 ^+ 2 * (stat ts - \sum_(x <- xs) mean x) ^+ 2)) => [|ts].
  by rewrite ExZ batch_square subrr expr0n addr0 mulrC exprVn.
by rewrite sum_mean /estimate; move: (\sum_(x <- xs) val x) (stat ts) ((size xs)%:R) => a b c'; field.
Qed.
End Estimate.

(* ---- section 12: the bounded cell, any cuts ---- *)
Section Cell.
Variables (R : realFieldType) (m D zu wu zd wd : nat) (bu bd : R) (ou od : nat -> R).
Hypotheses (m0 : (0 < m)%N) (hbu : 0 < bu) (hbd : 0 < bd).
Hypotheses (hou : forall y, 0 <= ou y) (hod : forall y, 0 <= od y).
Local Notation cell := (cell m D zu wu zd wd bu bd ou od).
Definition number (ts : seq 'I_1) : R := (size ts)%:R.
Local Notation P := (weight D ou od)^-1.
(* a user's mean is affine in its value; P is the chance of the data branch *)
Lemma cell_affine x : mean cell number x = mean cell number 0%N + P * x%:R.
Proof.
rewrite /mean; have e (d d' d2 : dist R (seq 'I_1)) :
    Ex d number = Ex d' number + x%:R ->
    Ex (scale P (d ++ d2)) number = Ex (scale P (d' ++ d2)) number + P * x%:R.
  by move=> h; rewrite !Ex_scale !Ex_cat h; ring.
apply: e; rewrite !Ex_bind; apply: Ex_shift => [|a]; first exact: total_share.
rewrite !Ex_bind; apply: Ex_shift => [|b]; first exact: total_share.
by rewrite !Ex_ret /number !size_nseq -natrD; congr (_%:R); clear; lia.
Qed.
Theorem cell_unbiased xs : Ex (batch cell xs)
  (estimate number (mean cell number 0%N) P (size xs)) = \sum_(x <- xs) x%:R.
Proof.
apply: (@estimate_unbiased _ _ _ cell number _ _ _ (fun x => x%:R)) => //.
- by move=> ts us; rewrite /number size_cat natrD.
- by move=> x; exact: cell_total.
- by rewrite invr_neq0 // gt_eqF // weight_gt0.
- exact: cell_affine.
Qed.
Theorem cell_mse xs : Ex (batch cell xs)
  (fun ts => (estimate number (mean cell number 0%N) P (size xs) ts - \sum_(x <- xs) x%:R) ^+ 2)
  = (\sum_(x <- xs) variance cell number x) / P ^+ 2.
Proof.
apply: (@estimate_mse _ _ _ cell number _ _ _ (fun x => x%:R)) => //.
- by move=> ts us; rewrite /number size_cat natrD.
- by move=> x; exact: cell_total.
- by rewrite invr_neq0 // gt_eqF // weight_gt0.
- exact: cell_affine.
Qed.
End Cell.

(* ---- section 19: the sparse histogram ---- *)
Section Sparse.
Variables (R : realFieldType) (B m Z : nat) (beta p q o : R) (b : 'I_B).
Hypotheses (m0 : (0 < m)%N) (B0 : (0 < B)%N) (hb : 0 < beta) (hp : p != 0) (one : p + q + o = 1).
Local Notation urn := (urn R B m).
Local Notation noise := (noise B m beta Z).
Local Notation randomizer := (randomizer (B := B) m Z beta p q o).
Definition tally (ts : seq 'I_B) : R := (count_mem b ts)%:R.

Lemma Ex_token (ts : seq 'I_B) : Ex (token R m ts) (fun t => (t == b)%:R)
  = (1 + m%:R * tally ts) / (B%:R + (size ts)%:R * m%:R).
Proof.
have hB : B%:R != 0 :> R by rewrite pnatr_eq0 -lt0n; exact: B0.
have hBJ : B%:R + (size ts)%:R * m%:R != 0 :> R by rewrite gt_eqF // ltr_paddr ?mulr_ge0 ?ler0n ?ltr0n //; exact: B0.
have sumb (us : seq 'I_B) : \sum_(t <- us) (t == b)%:R = (count_mem b us)%:R :> R.
  elim: us => [|t us IH]; first by rewrite big_nil.
  by rewrite big_cons IH /= natrD.
rewrite /token Ex_cat !Ex_scale !Ex_lin !lin_uniform !sumb size_enum_ord /GRing.scale /=.
have -> : count_mem b (enum 'I_B) = 1%N by rewrite count_uniq_mem ?enum_uniq // mem_enum.
rewrite -/(tally ts); case: ts hBJ => [|t ts] hBJ.
  rewrite /tally /= (_ : 0%:R = 0 :> R) // mul0r addr0 divff // subrr mul0r addr0 mulr0 addr0.
  by rewrite !mul1r mulr1.
move: (tally _) => n; have hs : (size (t :: ts))%:R != 0 :> R by rewrite pnatr_eq0.
by move: (size _)%:R hs hBJ => s hs hBJ; field; rewrite hB hs hBJ.
Qed.

(* the urn: mean J/B, mean of squares J(J-1)P2 + J/B *)
Definition P2 : R := (m%:R^-1 + 1) / (B%:R * (B%:R / m%:R + 1)).
Lemma urn_step J (F : R -> R) : Ex (urn J.+1) (fun ts => F (tally ts))
  = Ex (urn J) (fun ts => Ex (token R m ts) (fun t => F ((t == b)%:R + tally ts))).
Proof.
rewrite /= Ex_bind; apply: eq_Ex => ts; rewrite Ex_bind; apply: eq_Ex => t.
by rewrite Ex_ret /tally /= natrD.
Qed.
Lemma total_token (ts : seq 'I_B) : total (token R m ts) = 1.
Proof.
have hB : B%:R != 0 :> R by rewrite pnatr_eq0 -lt0n; exact: B0.
have h1 : total (uniform R (enum 'I_B)) = 1 by apply: total_uniform; rewrite size_enum_ord.
rewrite /token total_cat !total_scale h1 mulr1.
case: ts => [|t ts].
  by rewrite /= (_ : 0%:R = 0 :> R) // mul0r addr0 divff // subrr mul0r addr0.
by rewrite total_uniform // mulr1 addrC subrK.
Qed.
Lemma eq_Ex_urn J (F G : seq 'I_B -> R) : (forall ts, size ts = J -> F ts = G ts) ->
  Ex (urn J) F = Ex (urn J) G.
Proof. by move=> h; exact: (@eq_lin R [lmodType R of R^o] _ _ _ _ _ (@urn_size _ _ _ J) h). Qed.
Lemma urn_moments J : Ex (urn J) tally = J%:R / B%:R /\
  Ex (urn J) (fun ts => tally ts ^+ 2) = J%:R * (J%:R - 1) * P2 + J%:R / B%:R.
Proof.
have hB : B%:R != 0 :> R by rewrite pnatr_eq0 -lt0n; exact: B0.
have hm : m%:R != 0 :> R by rewrite pnatr_eq0 -lt0n.
have hBm : B%:R + m%:R != 0 :> R by rewrite gt_eqF // ltr_paddr ?ler0n ?ltr0n //; exact: B0.
elim: J => [|J [IH1 IH2]].
  by rewrite /= !Ex_ret /tally /= !mul0r expr0n addr0.
have hBJ : B%:R + J%:R * m%:R != 0 :> R by rewrite gt_eqF // ltr_paddr ?mulr_ge0 ?ler0n ?ltr0n //; exact: B0.
have tot := total_urn R m B0 J; pose d : R := (B%:R + J%:R * m%:R)^-1.
split.
  rewrite (urn_step J (fun x => x)).
  rewrite (@eq_Ex_urn J _ (fun ts => d + (d * m%:R + 1) * tally ts)) => [|ts hs].
    rewrite ExD Ex1 ExZ tot IH1 /d -natr1; move: (J%:R) hBJ => j hBJ; by field; rewrite hB hBJ.
  rewrite ExD Ex1 total_token Ex_token hs -/d; move: (tally ts) => n; by rewrite mulrC; ring.
rewrite (urn_step J (fun x => x ^+ 2)).
rewrite (@eq_Ex_urn J _ (fun ts => d + (d * (m%:R + 2%:R) * tally ts
  + (d * (2%:R * m%:R) + 1) * tally ts ^+ 2))) => [|ts hs].
  rewrite !ExD Ex1 !ExZ tot IH1 IH2 /d /P2 -(natr1 _ J); move: (J%:R) hBJ => j hBJ.
  have -> : (m%:R^-1 + 1) / (B%:R * (B%:R / m%:R + 1)) = (1 + m%:R) / (B%:R * (B%:R + m%:R)) :> R.
    by move: (B%:R) (m%:R) hB hm hBm => x y hx hy hxy; field; rewrite ?hx ?hy ?hxy // mulrC mulr1 hxy.
  move: (B%:R) (m%:R) hB hBm hBJ => x y hx hxy hj; by field; rewrite ?hx ?hxy ?hj.
rewrite (@eq_Ex _ _ _ _ (fun t => (1 + 2%:R * tally ts) * (t == b)%:R + tally ts ^+ 2)).
  rewrite ExD ExZ Ex1 total_token Ex_token hs -/d; clearbody d; move: (tally ts) => n.
  by rewrite ?mulr1; ring.
by move=> t; case: eqP => _ /=; ring.
Qed.

(* the letters of section 19; EJ and EJ2 are E[J] and E[J(J-1)] *)
Local Notation weightJ J := (s B m beta J / Cs B m beta Z).
Definition EJ : R := \sum_(J < Z.+1) weightJ J * J%:R.
Definition EJ2 : R := \sum_(J < Z.+1) weightJ J * (J%:R * (J%:R - 1)).
Definition mean0 : R := ((1 - o) * EJ + o * Z.+1%:R) / B%:R.
Definition N2 : R := EJ2 * P2 + EJ / B%:R.
Definition M2 : R := Z.+1%:R * Z%:R * P2 + Z.+1%:R / B%:R.
Definition v0 : R := (1 - o) * N2 + o * M2 - mean0 ^+ 2.
Definition v1 : R :=
  p * (N2 + 2%:R * EJ / B%:R + 1) + q * N2 + o * M2 - (mean0 + p) ^+ 2.

Lemma noise_moments : Ex noise tally = EJ / B%:R /\ Ex noise (fun ts => tally ts ^+ 2) = N2.
Proof.
rewrite !Ex_lin !lin_noise /GRing.scale /= /N2 /EJ /EJ2 !mulr_suml -big_split /=.
split; apply: eq_bigr => J _; have [h1 h2] := urn_moments J.
  by rewrite -Ex_lin h1 mulrA.
by rewrite -Ex_lin h2 mulrDr !mulrA.
Qed.
Lemma jump_moments : Ex (urn Z.+1) tally = Z.+1%:R / B%:R /\
  Ex (urn Z.+1) (fun ts => tally ts ^+ 2) = M2.
Proof.
have [h1 h2] := urn_moments Z.+1; split=> //; rewrite h2 /M2; congr (_ * _ * _ + _).
by rewrite -natr1 addrK.
Qed.
Definition holds (x : option 'I_B) : R := (x == Some b)%:R.
Lemma Ex_randomizer x (F : R -> R) : Ex (randomizer x) (fun ts => F (tally ts))
  = o * Ex (urn Z.+1) (fun ts => F (tally ts))
  + (p * Ex noise (fun ts => F (tally ts + holds x)) + q * Ex noise (fun ts => F (tally ts))).
Proof.
rewrite /sparse.randomizer; move: noise (urn Z.+1) => N U.
rewrite !Ex_cat !Ex_scale Ex_bind; congr (_ + (_ * _ + _)); apply: eq_Ex => ts.
rewrite Ex_ret /tally /holds; case: x => [a|] /=; last by rewrite addr0.
by rewrite natrD addrC (inj_eq Some_inj).
Qed.
Lemma sparse_affine x : mean randomizer tally x = mean0 + p * holds x.
Proof.
have [h1 _] := noise_moments; have [h2 _] := jump_moments.
rewrite /mean (Ex_randomizer x (fun y => y)) ExD Ex1 (total_noise Z m0 B0 hb) h1 h2 /mean0.
have -> : 1 - o = p + q by rewrite -one addrK.
by move: (holds x) EJ (B%:R^-1) (Z.+1%:R) => h e i z; ring.
Qed.
Lemma sparse_variance x : variance randomizer tally x = if x == Some b then v1 else v0.
Proof.
have [h1 h1'] := noise_moments; have [h2 h2'] := jump_moments.
rewrite /variance sparse_affine (Ex_randomizer x (fun y => y ^+ 2)) h1' h2'.
rewrite Ex_square ?(total_noise Z m0 B0 hb) // h1 h1' /v1 /v0.
have -> : 1 - o = p + q by rewrite -one addrK.
rewrite /holds; case: eqP => _ /=; move: mean0 N2 M2 EJ (B%:R^-1) => e n k j i; ring.
Qed.

Theorem sparse_unbiased xs : Ex (batch randomizer xs) (estimate tally mean0 p (size xs))
  = (count_mem (Some b) xs)%:R.
Proof.
rewrite (@estimate_unbiased _ _ _ randomizer tally _ _ _ holds) //; last exact: sparse_affine.
- elim: xs => [|x xs IH]; first by rewrite big_nil.
  by rewrite big_cons IH /= natrD.
- by move=> ts us; rewrite /tally count_cat natrD.
- by move=> x; exact: sparse_total.
Qed.
(* MSE(f) = (f*v1 + (n-f)*v0) / p^2 *)
Theorem sparse_mse xs : let f := count_mem (Some b) xs in
  Ex (batch randomizer xs) (fun ts => (estimate tally mean0 p (size xs) ts - f%:R) ^+ 2)
  = (f%:R * v1 + ((size xs)%:R - f%:R) * v0) / p ^+ 2.
Proof.
move=> f; have fE : f%:R = \sum_(x <- xs) holds x.
  rewrite /f; elim: xs {f} => [|x xs IH]; first by rewrite big_nil.
  by rewrite big_cons -IH /= natrD.
rewrite {1}fE (@estimate_mse _ _ _ randomizer tally _ _ _ holds) //; last exact: sparse_affine.
- congr (_ / _); rewrite /f; elim: xs {f fE} => [|x xs IH].
    by rewrite big_nil /= subr0 !mul0r addr0.
  rewrite big_cons IH sparse_variance /= -natr1 natrD.
  by case: eqP => _ /=; move: v1 v0 ((count _ _)%:R) ((size xs)%:R) => a c k n; ring.
- by move=> ts us; rewrite /tally count_cat natrD.
- by move=> x; exact: sparse_total.
Qed.
End Sparse.
