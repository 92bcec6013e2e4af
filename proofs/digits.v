(* Section 18: cells that share their way up (shared digits).

   k cells with values 0..D_c; a user's values x and additions n are vectors, written as multinomials.
   Upwards: the common cut Z, a beta for each cell.  Downwards: each cell's way down of section 12 with
   its own cuts z_d, w_d and odds.

   The first theorem is for any table of jumps (values zeta, addition n); the second is for the jumps
   of the page, o_(s,y) and s_q.  Upwards the cuts downwards may be anything; downwards equal cuts are
   proved (w_d = z_d). *)
From mathcomp Require Import all_ssreflect ssralg ssrnum rat.
From mathcomp Require Import ring zify.
From SsrMultinomials Require Import mpoly.
Require Import definitions lemmas bounded_cell.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Randomizer.
Variables (R : realFieldType) (k m Z : nat).
Variables (D : 'I_k -> nat) (beta : 'I_k -> R).
Variables (zd wd : 'I_k -> nat) (bd : 'I_k -> R) (od : 'I_k -> nat -> R).
(* weights of the jumps against 1 for a user's own values *)
Variable jumps : dist R ('X_{1..k} * 'X_{1..k}).
Local Notation dist := (dist R).

(* n_c messages to each cell c *)
Definition tokens (n : 'X_{1..k}) : seq 'I_k := flatten [seq nseq (n a) a | a <- enum 'I_k].
(* step 2: Z+ with probability c_j / C on |j| <= Z *)
Definition Cn : R := \sum_(n : 'X_{1..k < Z.+1}) cv m beta n.
Definition shared_noise : dist 'X_{1..k} :=
  [seq (cv m beta (bmnm n) / Cn, bmnm n) | n : 'X_{1..k < Z.+1}].
(* step 3: one cell's way down *)
Definition down_weight a : R := 1 + \sum_(1 <= y < (D a).+1) od a y.
Definition way_down (a : 'I_k) (v : nat) : dist (seq 'I_k) :=
  scale (down_weight a)^-1
    (bind (share m (bd a) (zd a)) (fun j => ret R (nseq (wd a + v + (zd a - j)) a))
    ++ flatten [seq scale (od a y) (bind (share m (bd a) (wd a)) (fun j =>
         ret R (nseq (D a - y + (wd a - j)) a))) | y <- index_iota 1 (D a).+1]).
Definition ways_down (zeta : 'X_{1..k}) : dist (seq 'I_k) :=
  foldr (fun a => both (way_down a (zeta a))) (ret R [::]) (enum 'I_k).
(* step 1: the user's own values without an addition, or a jump *)
Definition chosen (x : 'X_{1..k}) : dist ('X_{1..k} * 'X_{1..k}) :=
  scale (1 + total jumps)^-1 ((1, (x, 0%MM)) :: jumps).
Definition digits (x : 'X_{1..k}) : dist (seq 'I_k) :=
  bind (chosen x) (fun zn => bind shared_noise (fun a =>
    both (ret R (tokens zn.2 ++ tokens a)) (ways_down zn.1))).
End Randomizer.

Section Law.
Variables (R : realFieldType) (k m Z : nat).
Variables (D : 'I_k -> nat) (beta : 'I_k -> R).
Variables (zd wd : 'I_k -> nat) (bd : 'I_k -> R) (od : 'I_k -> nat -> R).
Variable jumps : dist R ('X_{1..k} * 'X_{1..k}).
Local Notation mp := {mpoly R[k]}.
Local Notation Cn := (Cn m Z beta).
Local Notation shared_noise := (shared_noise m Z beta).
Local Notation way_down := (way_down m D zd wd bd od).
Local Notation ways_down := (ways_down m D zd wd bd od).
Local Notation digits := (digits m Z D beta zd wd bd od jumps).
Local Notation T := (1 + total jumps).

Lemma cnt_tokens (n : 'X_{1..k}) : cnt (tokens n) = n.
Proof.
apply/mnmP => b; rewrite cntE /tokens count_flatten -map_comp.
rewrite sumnE big_map (bigD1_seq b) ?enum_uniq ?mem_enum //= count_nseq /= eqxx mul1n.
by rewrite big1 ?addn0 // => a ha; rewrite count_nseq /= (negbTE ha).
Qed.
Definition mu : mp := lin shared_noise (fun n => 'X_[n]).
Definition W (zeta : 'X_{1..k}) : mp := gf (ways_down zeta).
Definition J : mp := lin jumps (fun zn => 'X_[zn.2] * W zn.1).

Lemma lin_cons (V : lmodType R) U w (u : U) (d : dist R U) (F : U -> V) :
  lin ((w, u) :: d) F = w *: F u + lin d F.
Proof. by rewrite /lin big_cons. Qed.
Lemma gf_digits (x : 'X_{1..k}) : gf (digits x) = mu * (T^-1 *: (W x + J)).
Proof.
rewrite /digits /mu; move: shared_noise => N; rewrite gf_bind /chosen lin_scale -scalerAr.
congr (_ *: _); rewrite lin_cons scale1r mulrDr; congr (_ + _).
  rewrite gf_bind lin_mulr; apply: eq_linx => a.
  by rewrite gf_both gf_ret cnt_cat !cnt_tokens add0m.
rewrite /J lin_mull; apply: eq_linx => zn /=.
rewrite gf_bind lin_mulr; apply: eq_linx => a.
by rewrite gf_both gf_ret cnt_cat !cnt_tokens mpolyXD -/(W _); ring.
Qed.
Lemma lin_shared (V : lmodType R) (F : 'X_{1..k} -> V) :
  lin shared_noise F = \sum_(n : 'X_{1..k < Z.+1}) (cv m beta n / Cn) *: F n.
Proof. by rewrite /lin /digits.shared_noise big_map big_enum. Qed.
Lemma mu_coef j : mu@_j = (mdeg j <= Z)%N%:R * cv m beta j / Cn.
Proof.
rewrite /mu lin_shared; have [h|h] := leqP (mdeg j) Z.
  by rewrite (mcoeff_mpoly (fun n : 'X_{1..k} => cv m beta n / Cn)) // mul1r.
rewrite !mul0r raddf_sum big1 //= => n _; rewrite mcoeffZ mcoeffX.
case: eqP => [E|]; last by rewrite mulr0.
by have := bmdeg n; rewrite E ltnS leqNgt h.
Qed.

Hypotheses (m0 : (0 < m)%N) (hb : forall a, 0 < beta a) (hbd : forall a, 0 < bd a).
Hypotheses (hod : forall a y, 0 <= od a y) (hj : nonneg jumps).

Lemma Cn_gt0 : 0 < Cn.
Proof.
have h (n : 'X_{1..k < Z.+1}) : 0 <= cv m beta n by exact/ltW/cv_gt0.
have z0 : (mdeg (0%MM : 'X_{1..k}) < Z.+1)%N by rewrite mdeg0.
rewrite /digits.Cn (bigD1 (BMultinom z0)) //= ltr_paddr ?sumr_ge0 //; exact: cv_gt0.
Qed.
Lemma down_weight_gt0 a : 0 < down_weight D od a.
Proof. by rewrite ltr_paddr ?ltr01 // sumr_ge0. Qed.
Lemma T_gt0 : 0 < T.
Proof.
rewrite ltr_paddr ?ltr01 // /total big_seq sumr_ge0 // => wt hwt.
exact: (allP hj).
Qed.

(* ---- it is a randomizer ---- *)
Lemma total_shared : total shared_noise = 1.
Proof.
rewrite totalE lin_shared /GRing.scale /=; under eq_bigr do rewrite mulr1.
by rewrite -mulr_suml divff // gt_eqF ?Cn_gt0.
Qed.
Lemma total_way_down a v : total (way_down a v) = 1.
Proof.
have tb z (n : nat -> nat) : total (bind (share m (bd a) z) (fun j => ret R (nseq (n j) a))) = 1.
  by rewrite total_bind ?total_share // => j; exact: total_ret.
apply: etrans (total_scale _ _) _.
have -> (d d' : dist R (seq 'I_k)) : total (d ++ d') = total d + total d' by exact: total_cat.
rewrite tb total_flatten (eq_bigr (od a)) => [|y _]; last by rewrite total_scale tb mulr1.
by rewrite mulVf // gt_eqF ?down_weight_gt0.
Qed.
Theorem digits_total (x : 'X_{1..k}) : total (digits x) = 1.
Proof.
have tw zeta : total (ways_down zeta) = 1.
  rewrite /digits.ways_down; elim: (enum _) => [|a s IH] /=; first exact: total_ret.
  by rewrite total_both total_way_down IH mulr1.
rewrite total_bind => [|zn]; last first.
  by rewrite total_bind ?total_shared // => a; rewrite total_both total_ret tw mulr1.
apply: etrans (total_scale _ _) _; rewrite {2}/total big_cons -/(total _) mulVf //.
by rewrite gt_eqF ?T_gt0.
Qed.
(* at most sum (z_d + w_d + D) + 2Z + 1 messages over all cells *)
Theorem digits_size (x : 'X_{1..k}) : (forall a, wd a <= zd a)%N -> (forall a, x a <= D a)%N ->
  supp jumps (fun zn => (forall a, zn.1 a <= D a)%N /\ mdeg zn.2 = Z.+1) ->
  supp (digits x) (fun ts => (size ts <= \sum_a (zd a + wd a + D a) + 2 * Z + 1)%N).
Proof.
move=> hw hx hs.
have tk (n : 'X_{1..k}) : size (tokens n) = mdeg n by rewrite -{2}(cnt_tokens n) mdeg_cnt.
have wsz (zeta : 'X_{1..k}) : (forall a, zeta a <= D a)%N ->
    supp (ways_down zeta) (fun ts => (size ts <= \sum_a (zd a + wd a + D a))%N).
  move=> hz; rewrite /digits.ways_down -[index_enum _]enumT.
  elim: (enum _) => [|a s IH]; first exact: supp_ret.
  rewrite big_cons; apply: supp_both IH; have hza := hz a; have hwa := hw a.
  apply: supp_scale; apply: supp_cat.
    apply: (supp_bind (@share_size _ _ _ _)) => j _; apply: supp_ret.
    by rewrite size_nseq; have := leq_subr j (zd a); lia.
  apply: supp_flatten => y _; apply: supp_scale.
  apply: (supp_bind (@share_size _ _ _ _)) => j _; apply: supp_ret.
  by rewrite size_nseq; have := leq_subr j (wd a); have := leq_subr y (D a); lia.
have h1 : supp (chosen jumps x)
    (fun zn => (forall a, zn.1 a <= D a)%N /\ (mdeg zn.2 <= Z.+1)%N).
  apply: supp_scale => w zn; rewrite inE => /orP[/eqP[_ ->]|/hs[h2 ->]] //.
  by split => //; rewrite mdeg0.
apply: (supp_bind h1) => zn [hz hn].
apply: (@supp_bind _ _ _ _ _ (fun a => (mdeg a <= Z)%N)).
  by move=> w a /imageP[n _ [_ ->]]; have := bmdeg n; rewrite ltnS.
move=> a ha; rewrite [(\sum_a _ + _ + _)%N](_ : _ = (Z.+1 + Z) + \sum_a (zd a + wd a + D a))%N.
  apply: supp_both (wsz _ hz); apply: supp_ret.
  by rewrite size_cat !tk leq_add.
by lia.
Qed.

(* ---- the law of a way down ---- *)
Definition kept a v : mp := 'X_a ^+ (wd a + v) * sub a (nu m (zd a) (bd a)).
Definition lost a : mp := \sum_(1 <= y < (D a).+1)
  od a y *: ('X_a ^+ (D a - y) * sub a (nu m (wd a) (bd a))).
Lemma sub_nuE a z : sub a (nu m z (bd a)) = lin (share m (bd a) z) (fun j => 'X_a ^+ (z - j)).
Proof.
rewrite /nu; move: (share _ _ _) => d; rewrite /lin /sub raddf_sum; apply: eq_bigr => -[w j] _ /=.
by rewrite comp_mpolyZ -/(sub a _) subX.
Qed.
Lemma gf_fl (I : Type) (s : seq I) (F : I -> dist R (seq 'I_k)) :
  gf (flatten [seq F i | i <- s]) = \sum_(i <- s) gf (F i).
Proof.
elim: s => [|i s IH]; first by rewrite big_nil /gf /lin big_nil.
by rewrite big_cons /= gf_cat IH.
Qed.
Lemma gf_way_down a v : gf (way_down a v) = (down_weight D od a)^-1 *: (kept a v + lost a).
Proof.
have e z n : gf (bind (share m (bd a) z) (fun j => ret R (nseq (n + (z - j)) a)))
    = 'X_a ^+ n * sub a (nu m z (bd a)).
  rewrite sub_nuE; move: (share _ _ _) => d; rewrite gf_bind lin_mull; apply: eq_linx => j.
  by rewrite gf_ret X_nseq exprD.
apply: etrans (gf_scale _ _) _; congr (_ *: _).
have -> (d d' : dist R (seq 'I_k)) : gf (d ++ d') = gf d + gf d' by exact: gf_cat.
rewrite e gf_fl; congr (_ + _); apply: eq_bigr => y _.
by rewrite gf_scale e.
Qed.
Lemma W_prod (zeta : 'X_{1..k}) : W zeta = \prod_a gf (way_down a (zeta a)).
Proof. by rewrite /W /digits.ways_down gf_foldr -[index_enum _]enumT. Qed.

Lemma nn_kept a v : nn (kept a v).
Proof. by apply: nnM; [apply: nnXn; exact: nnX | apply: sub_nn; exact: nn_nu]. Qed.
Lemma nn_lost a : nn (lost a).
Proof.
apply: nn_sum => y; apply: nnZ => //.
by apply: nnM; [apply: nnXn; exact: nnX | apply: sub_nn; exact: nn_nu].
Qed.
Lemma nn_gf_way a v : nn (gf (way_down a v)).
Proof.
rewrite gf_way_down; apply: nnZ; first by rewrite invr_ge0 ltW // down_weight_gt0.
by apply: nnD; [exact: nn_kept | exact: nn_lost].
Qed.
Lemma nn_W zeta : nn (W zeta).
Proof. by rewrite W_prod; apply: nn_prod => a; exact: nn_gf_way. Qed.
Lemma nn_J : nn J.
Proof.
move=> i; rewrite /J /lin raddf_sum big_seq sumr_ge0 // => wt hwt /=.
rewrite mcoeffZ mulr_ge0 //; first exact: (allP hj).
by apply: nnM; [exact: nnX | exact: nn_W].
Qed.
End Law.

(* ---- any table of jumps ---- *)
Section AnyJumps.
Variables (R : realFieldType) (k m Z : nat).
Variables (D : 'I_k -> nat) (beta : 'I_k -> R).
Variables (zd wd : 'I_k -> nat) (bd : 'I_k -> R) (od : 'I_k -> nat -> R).
Variable jumps : dist R ('X_{1..k} * 'X_{1..k}).
Local Notation mp := {mpoly R[k]}.
Local Notation cv := (cv m beta).
Local Notation Cn := (Cn m Z beta).
Local Notation way_down := (way_down m D zd wd bd od).
Local Notation digits := (digits m Z D beta zd wd bd od jumps).
Local Notation T := (1 + total jumps).
Local Notation mu := (mu m Z beta).
Local Notation W := (W m D zd wd bd od).
Local Notation J := (J m D zd wd bd od jumps).
Hypotheses (m0 : (0 < m)%N) (hb : forall a, 0 < beta a) (hbd : forall a, 0 < bd a).
Hypotheses (hb1 : forall a, beta a < 1) (hbd1 : forall a, bd a <= 1).
Hypotheses (hod : forall a y, 0 <= od a y) (hj : nonneg jumps).

(* x with the value i in cell a *)
Definition upd (x : 'X_{1..k}) (a : 'I_k) (i : nat) : 'X_{1..k} :=
  [multinom if b == a then i else x b | b < k].
(* the odds of the values zeta with the addition n *)
Definition odds (zn : 'X_{1..k} * 'X_{1..k}) : R := \sum_(wt <- jumps | wt.2 == zn) wt.1.
Hypothesis cond_u : forall (a : 'I_k) (zeta n : 'X_{1..k}),
  (zeta a < D a)%N -> (forall b, zeta b <= D b)%N -> mdeg n = Z.+1 -> (0 < n a)%N ->
  m%:R * cv n * beta a ^+ zeta a <= (1 - beta a ^+ D a) * odds (zeta, n).

Lemma nn_noise_digits : nn mu.
Proof. exact: (cut_nn m0 hb (Cn_gt0 Z m0 hb) (@mu_coef R k m Z beta)). Qed.
Lemma updE x a i b : upd x a i b = if b == a then i else x b.
Proof. by rewrite mnmE. Qed.

Section Up.
Variables (x : 'X_{1..k}) (a : 'I_k).
Hypothesis hx : forall b, (x b <= D b)%N.
Let rest : mp := \prod_(b | b != a) gf (way_down b (x b)).
Let S : mp := \sum_(n : 'X_{1..k < Z.+2} | (mdeg n == Z.+1) && (0 < n a)%N) cv n *: 'X_[n].

Lemma W_upd i : W (upd x a i) = gf (way_down a i) * rest.
Proof.
rewrite W_prod (bigD1 a) //= updE eqxx; congr (_ * _).
by apply: eq_bigr => b hba; rewrite updE (negbTE hba).
Qed.
Lemma nn_rest : nn rest.
Proof. by apply: nn_prod => b; exact: nn_gf_way. Qed.
Lemma nn_S : nn S.
Proof.
move=> i; rewrite /S raddf_sum sumr_ge0 // => n _ /=.
by rewrite mcoeffZ mulr_ge0 //; [exact/ltW/cv_gt0 | exact: nnX].
Qed.
Lemma S_coef (i : 'X_{1..k}) : (0 < i a)%N -> S@_i = (mdeg i == Z.+1)%:R * cv i.
Proof.
move=> hi; rewrite /S big_mkcond raddf_sum /=.
have [h|h] := ltnP (mdeg i) Z.+2; last first.
  rewrite gtn_eqF // mul0r big1 // => n _; case: ifP => _; last exact: mcoeff0.
  rewrite mcoeffZ mcoeffX; case: eqP => [E|]; last by rewrite mulr0.
  by have := bmdeg n; rewrite E ltnNge h.
rewrite (bigD1 (BMultinom h)) //= hi andbT big1 ?addr0 => [|n hn].
  case: eqP => _; last by rewrite mcoeff0 mul0r.
  by rewrite mcoeffZ mcoeffX eqxx mulr1 mul1r.
case: ifP => _; last exact: mcoeff0.
rewrite mcoeffZ mcoeffX; case: eqP => [E|]; last by rewrite mulr0.
by case/eqP: hn; apply: val_inj.
Qed.
Lemma digit_claims :
  lec ('X_a * mu ^+ m) ((beta a)^-1 *: mu ^+ m + ((beta a)^-1 * m%:R) *: (S * mu ^+ m)).
Proof.
have hC := Cn_gt0 Z m0 hb.
have nH : nn (Cn^-1 *: S) by apply: nnZ; [rewrite invr_ge0 ltW | exact: nn_S].
have hH (i : 'X_{1..k}) : (0 < i a)%N -> (Cn^-1 *: S)@_i = (mdeg i == Z.+1)%:R * cv i / Cn.
  by move=> hi; rewrite mcoeffZ S_coef // mulrC.
have := cut_claims m0 hb hC (@mu_coef R k m Z beta) nH hH.
rewrite -scalerAl scalerA; congr (lec _ (_ + _ *: _)); by field; rewrite !gt_eqF.
Qed.

Lemma lec_eq (P P' Q Q' : mp) : P = P' -> Q = Q' -> lec P' Q' -> lec P Q.
Proof. by move=> -> ->. Qed.
Lemma digit_step i : lec (W (upd x a i.+1) * mu ^+ m)
  ((beta a)^-1 *: (W (upd x a i) * mu ^+ m)
   + ((beta a)^-1 * m%:R) *: (S * W (upd x a i) * mu ^+ m)).
Proof.
have ib : 1 <= (beta a)^-1 by rewrite invf_ge1 // ltW.
have nM : nn (mu ^+ m) by apply: nnXn; exact: nn_noise_digits.
have hw := down_weight_gt0 D hod a; have nS := nn_S; have nr := nn_rest.
have nl := nn_lost D wd m0 hbd hod a; have nk := nn_kept zd wd m0 hbd a i.
have h := lecMl nk digit_claims; set M := mu ^+ m in nM h *.
rewrite !W_upd !gf_way_down /kept addnS exprSr -/(kept m zd wd bd a i).
set tau := (down_weight D od a)^-1; have ht : 0 <= tau by rewrite invr_ge0 ltW.
have h2 : lec (lost m D wd bd od a * M) ((beta a)^-1 *: (lost m D wd bd od a * M)
    + ((beta a)^-1 * m%:R) *: (S * lost m D wd bd od a * M)).
  apply: (@lec_trans _ _ ((beta a)^-1 *: (lost m D wd bd od a * M))).
    by rewrite -{1}[_ * M]scale1r; apply: lecZr => //; exact: nnM.
  apply: lec_nnr; apply: nnZ; first by rewrite mulr_ge0 ?ler0n // (le_trans ler01).
  by apply: nnM => //; exact: nnM.
have := lecZ ht (lecMr nr (lecD h h2)).
rewrite /kept -!mul_mpolyC; set t := tau%:MP; set b := (_^-1)%:MP; set bm := (_ * _)%:MP.
move: (lost _ _ _ _ _ _) ('X_a ^+ _) (sub _ _) => Lo X0 N0 h3.
by apply: lec_eq h3; ring.
Qed.

Lemma regroup (F : 'X_{1..k} * 'X_{1..k} -> mp) (L : seq ('X_{1..k} * 'X_{1..k})) :
  uniq L -> (forall p, nn (F p)) -> lec (\sum_(p <- L) odds p *: F p) (lin jumps F).
Proof.
move=> hL nF; rewrite /odds; elim: jumps hj => [|[w u] d IH] /=.
  move=> _; rewrite /lin big_nil big1 => [|p _]; last by rewrite big_nil scale0r.
  exact: lecxx.
move=> /andP[hw hd]; rewrite lin_cons.
have -> : \sum_(p <- L) (\sum_(wt <- (w, u) :: d | wt.2 == p) wt.1) *: F p
    = \sum_(p <- L) (if u == p then w *: F u else 0)
      + \sum_(p <- L) (\sum_(wt <- d | wt.2 == p) wt.1) *: F p.
  rewrite -big_split /=; apply: eq_bigr => p _; rewrite big_cons /=.
  by case: eqP => [->|_]; rewrite ?add0r // scalerDl.
apply: lecD; last exact: IH.
have [hu|hu] := boolP (u \in L).
  rewrite (bigD1_seq u) //= eqxx big1 ?addr0 => [|p hp]; first exact: lecxx.
  by rewrite eq_sym (negbTE hp).
rewrite big_seq big1 => [|p hp]; first by move=> i; rewrite mcoeff0; apply: nnZ.
by case: eqP => // E; rewrite E hp in hu.
Qed.

Lemma jumps_pay : lec (\sum_(0 <= i < D a) (m%:R * beta a ^+ i / (1 - beta a ^+ D a)) *:
    (S * W (upd x a i) * mu ^+ m)) (J * mu ^+ m).
Proof.
have nM : nn (mu ^+ m) by apply: nnXn; exact: nn_noise_digits.
have nW zeta : nn (W zeta) by exact: nn_W.
pose F (p : 'X_{1..k} * 'X_{1..k}) : mp := 'X_[p.2] * W p.1.
have nF p : nn (F p) by apply: nnM => //; exact: nnX.
pose ns := [seq bmnm n | n <- enum [pred n : 'X_{1..k < Z.+2} | (mdeg n == Z.+1) && (0 < n a)%N]].
pose L := [seq (upd x a i, n) | i <- iota 0 (D a), n <- ns].
have uL : uniq L.
  apply: allpairs_uniq; rewrite ?iota_uniq //.
    by rewrite map_inj_uniq ?enum_uniq // => ? ?; exact: val_inj.
  move=> [i n] [i' n'] _ _ /= E; have /= -> := congr1 snd E; congr (_, _).
  by have := congr1 (fun p : 'X_{1..k} * 'X_{1..k} => p.1 a) E; rewrite /= !updE eqxx.
apply: lec_trans (lecMr nM (regroup uL nF)).
rewrite /L big_flatten big_map mulr_suml /index_iota subn0 [X in lec X _]big_seq [X in lec _ X]big_seq.
apply: lec_sum => i; rewrite mem_iota add0n /= => hi.
rewrite scalerAl; apply: lecMr => //; rewrite !big_map big_enum_cond /= /S mulr_suml scaler_sumr.
rewrite [X in lec X _]big_mkcond [X in lec _ X]big_mkcond /=.
apply: lec_sum => n _; rewrite inE andbT; case: ifP => [/andP[/eqP hn hna]|_]; last exact: lecxx.
rewrite -/(F (upd x a i, bmnm n)) -scalerAl scalerA -/(F (upd x a i, bmnm n)).
apply: (@lecZr _ _ _ _ (F (upd x a i, bmnm n))) => [|]; last exact: (nF (upd x a i, bmnm n)).
have b1 : 0 < 1 - beta a ^+ D a.
  rewrite subr_gt0 exprn_ilt1 // ?ltW //; by rewrite -lt0n (leq_ltn_trans _ hi).
rewrite mulrAC ler_pdivr_mulr // mulrAC [X in _ <= X]mulrC.
have := @cond_u a (upd x a i) n; rewrite updE eqxx; apply => // b.
by rewrite updE; case: eqP => [->|_] //; exact: ltnW.
Qed.

Theorem digits_up v y : (v <= y <= D a)%N ->
  costs m ((beta a)^-1 ^+ D a) digits (upd x a y) (upd x a v).
Proof.
move=> /andP[hvy hy].
have nmu : nn mu by exact: nn_noise_digits.
have nM : nn (mu ^+ m) by exact: nnXn.
have hT := T_gt0 hj; have iT : 0 <= T^-1 by rewrite invr_ge0 ltW.
have nW zeta : nn (W zeta) by exact: nn_W.
have nJ : nn J by exact: nn_J.
apply: (@costs_noise _ _ _ m _ digits mu (fun z => T^-1 *: (W z + J))) => // [z|z|].
- by apply: nnZ => //; exact: nnD.
- exact: gf_digits.
rewrite -!scalerAl; apply: lecZZ => //; rewrite !mulrDl -(subnKC hvy).
have hm : 0 <= m%:R :> R by rewrite ler0n.
have nP i : nn (W (upd x a i) * mu ^+ m) by exact: nnM.
have nQ i : nn (S * W (upd x a i) * mu ^+ m).
  by apply: nnM => //; apply: nnM => //; exact: nn_S.
have ho i : (i < D a)%N ->
    m%:R * beta a ^+ i <= (1 - beta a ^+ D a) * (m%:R * beta a ^+ i / (1 - beta a ^+ D a)).
  move=> hi; have b1 : 0 < 1 - beta a ^+ D a.
    by rewrite subr_gt0 exprn_ilt1 // ?ltW //; rewrite -lt0n (leq_ltn_trans _ hi).
  by rewrite [X in _ <= X]mulrC divfK // gt_eqF.
have hd : (v + (y - v) <= D a)%N by rewrite subnKC.
exact: (steps_paid (hb a) (ltW (hb1 a)) hm nP nQ (fun i _ => digit_step i) ho jumps_pay hd).
Qed.
End Up.

Section Down.
Variables (x : 'X_{1..k}) (a : 'I_k).
Hypothesis equal_cuts : wd a = zd a.
Hypothesis cond_d : forall y, (0 < y <= D a)%N ->
  m%:R * c m (bd a) (zd a).+1 * bd a ^+ y.-1 <= (1 - bd a ^+ D a) * od a y.
Local Notation N := (sub a (nu m (zd a) (bd a))).
Let S : {mpoly R[1]} := \sum_(1 <= y < (D a).+1) od a y *: X R ^+ (D a - y).
(* the law without the noise downwards of cell a *)
Definition others (zeta : 'X_{1..k}) : mp := \prod_(b | b != a) gf (way_down b (zeta b)).
Definition V (zeta : 'X_{1..k}) : mp :=
  (down_weight D od a)^-1 *: (sub a (X R ^+ (zd a + zeta a) + S) * others zeta).
Lemma subS : sub a S = \sum_(1 <= y < (D a).+1) od a y *: 'X_a ^+ (D a - y).
Proof.
rewrite /S /sub raddf_sum; apply: eq_bigr => y _ /=.
by rewrite comp_mpolyZ -/(sub a _) subX.
Qed.
Lemma W_V zeta : W zeta = N * V zeta.
Proof.
rewrite W_prod (bigD1 a) //= gf_way_down /V -/(others zeta) -scalerAr -scalerAl; congr (_ *: _).
rewrite mulrA; congr (_ * _); rewrite subD mulrDr /kept /lost equal_cuts subX mulrC.
congr (_ + _); rewrite subS mulr_sumr; apply: eq_bigr => y _.
by rewrite -scalerAr mulrC.
Qed.

Theorem digits_down v y : (v <= y <= D a)%N ->
  costs m ((bd a)^-1 ^+ D a) digits (upd x a v) (upd x a y).
Proof.
move=> /andP[hvy hy].
have nN : nn N by apply: sub_nn; exact: nn_nu.
have hT := T_gt0 hj; have iT : 0 <= T^-1 by rewrite invr_ge0 ltW.
have hw := down_weight_gt0 D hod a; have iw : 0 <= (down_weight D od a)^-1 by rewrite invr_ge0 ltW.
have nmu := nn_noise_digits.
have no zeta : nn (others zeta) by apply: nn_prod => b; exact: nn_gf_way.
have nS : nn S by apply: nn_sum => i; apply: nnZ => //; exact: nnXX.
have nV zeta : nn (V zeta).
  by apply: nnZ => //; apply: nnM => //; apply: sub_nn; apply: nnD => //; exact: nnXX.
pose J' : mp := lin jumps (fun zn => 'X_[zn.2] * V zn.1).
have nJ' : nn J'.
  move=> i; rewrite /J' /lin raddf_sum big_seq sumr_ge0 // => wt hwt /=.
  rewrite mcoeffZ mulr_ge0 //; first exact: (allP hj).
  by apply: nnM => //; exact: nnX.
have JE : J = N * J'.
  by rewrite /digits.J /J' lin_mull; apply: eq_linx => zn; rewrite W_V mulrCA.
apply: (@costs_noise _ _ _ m _ digits N (fun z => T^-1 *: (mu * (V z + J')))) => // [z|z|].
- by apply: nnZ => //; apply: nnM => //; exact: nnD.
- by rewrite gf_digits W_V JE -mulrDr -!scalerAr mulrCA.
rewrite -!scalerAl; apply: lecZZ => //.
have e z : mu * (V z + J') * N ^+ m = mu * (V z * N ^+ m + J' * N ^+ m) by ring.
rewrite !e scalerAr; apply: lecMl => //; rewrite scalerDr; apply: lecD; last first.
  rewrite -{1}[J' * _]scale1r; apply: lecZr; first exact: ib_ge1.
  by apply: nnM => //; exact: nnXn.
have oE i : others (upd x a i) = others x.
  by apply: eq_bigr => b hba; rewrite updE (negbTE hba).
rewrite /V !oE !updE eqxx -!scalerAl; apply: lecZZ => //.
rewrite ![_ * others x * _]mulrAC scalerAl; apply: lecMr => //.
have hd : (v + (y - v) <= D a)%N by rewrite subnKC.
have := @down_values R m (D a) (zd a) (bd a) (od a) m0 (hbd a) (hbd1 a) cond_d v (y - v) hd.
by move=> /(sub_lec a); rewrite !(subZ, subM, subXn) subnKC.
Qed.
End Down.
End AnyJumps.
