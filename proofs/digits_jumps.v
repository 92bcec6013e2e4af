(* Section 18: the jumps of the page satisfy the theorem of digits.v.

   own jump (a, y): zeta_a = y-1, the other values uniform, n = (Z+1) e_a, odds o_(a,y)
   stray jump q:    zeta uniform, n uniform among the vectors with |n| = Z+1 and q parts above 0,
                    odds s_q, q = 2..k
   The number of these vectors is size (parts q); the page writes it C(k,q)*C(Z,q-1). *)
From mathcomp Require Import all_ssreflect ssralg ssrnum rat.
From mathcomp Require Import ring zify.
From SsrMultinomials Require Import mpoly.
Require Import definitions lemmas bounded_cell digits.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Values.
Variables (k : nat) (D : 'I_k -> nat).
Definition vectors (P : 'I_k -> pred nat) : seq 'X_{1..k} :=
  [seq [multinom (f a : nat) | a < k] | f : {ffun 'I_k -> 'I_(\max_a D a).+1}
    in family (fun a => [pred v : 'I_(\max_a D a).+1 | P a v])].
Definition all_values := vectors (fun a v => v <= D a)%N.
Definition values_at (a : 'I_k) (i : nat) :=
  vectors (fun b v => if b == a then v == i else (v <= D b)%N).

Lemma mem_vectors (P : 'I_k -> pred nat) (zeta : 'X_{1..k}) :
  (forall a, zeta a <= D a)%N -> (forall a, P a (zeta a)) -> zeta \in vectors P.
Proof.
move=> hz hP; have h a : (zeta a < (\max_a D a).+1)%N by rewrite ltnS (leq_trans (hz a)) // leq_bigmax.
apply/imageP; exists [ffun a => Ordinal (h a)].
  by apply/familyP => a; rewrite ffunE inE /=.
by apply/mnmP => a; rewrite mnmE ffunE.
Qed.
Lemma size_vectors (P : 'I_k -> pred nat) : size (vectors P) = (\prod_a #|[pred v : 'I_(\max_a D a).+1 | P a v]|)%N.
Proof. by rewrite size_image card_family foldrE big_map big_enum. Qed.
Lemma card_le a : #|[pred v : 'I_(\max_a D a).+1 | (v <= D a)%N]| = (D a).+1.
Proof.
have h : ((D a).+1 <= (\max_a D a).+1)%N by rewrite ltnS leq_bigmax.
rewrite -[RHS]card_ord -(card_image (f := widen_ord h)) => [|i j /(congr1 val) /= E]; last exact: val_inj.
apply: eq_card => v; rewrite !inE; apply/idP/imageP => [hv|[i _ ->]]; last by rewrite /= -ltnS.
by exists (Ordinal (hv : v < (D a).+1)%N) => //; apply: val_inj.
Qed.
Lemma size_all : size all_values = (\prod_a (D a).+1)%N.
Proof. by rewrite size_vectors; apply: eq_bigr => a _; rewrite card_le. Qed.
Lemma size_at a i : (i <= D a)%N -> size (values_at a i) = (\prod_(b | b != a) (D b).+1)%N.
Proof.
move=> hi; rewrite size_vectors (bigD1 a) //= eqxx.
have hM : (i < (\max_a D a).+1)%N by rewrite ltnS (leq_trans hi) // leq_bigmax.
rewrite (eq_card1 (x := Ordinal hM)) ?mul1n => [|v]; last by rewrite !inE.
by apply: eq_bigr => b hb; rewrite (negbTE hb) card_le.
Qed.
End Values.

Section Jumps.
Variables (R : realFieldType) (k m Z : nat) (D : 'I_k -> nat) (beta : 'I_k -> R).
Variables (o : 'I_k -> nat -> R) (sq : nat -> R).
Local Notation RO := [lmodType R of R^o].

Definition filled (n : 'X_{1..k}) : nat := #|[pred b : 'I_k | (0 < n b)%N]|.
Definition parts (q : nat) : seq 'X_{1..k} :=
  [seq bmnm n | n : 'X_{1..k < Z.+2} in [pred n : 'X_{1..k < Z.+2} | (mdeg n == Z.+1) && (filled n == q)]].
Definition own (a : 'I_k) (y : nat) : dist R ('X_{1..k} * 'X_{1..k}) :=
  scale (o a y) (bind (uniform R (values_at D a y.-1)) (fun zeta => ret R (zeta, (U_(a) *+ Z.+1)%MM))).
Definition stray (q : nat) : dist R ('X_{1..k} * 'X_{1..k}) :=
  scale (sq q) (bind (uniform R (all_values D)) (fun zeta =>
    bind (uniform R (parts q)) (fun n => ret R (zeta, n)))).
Definition jumps : dist R ('X_{1..k} * 'X_{1..k}) :=
  flatten [seq flatten [seq own a y | y <- index_iota 1 (D a).+1] | a <- enum 'I_k]
  ++ flatten [seq stray q | q <- index_iota 2 k.+1].

Hypotheses (ho : forall a y, 0 <= o a y) (hs : forall q, 0 <= sq q).

Lemma nonneg_fl (I : Type) (s : seq I) (F : I -> dist R ('X_{1..k} * 'X_{1..k})) :
  (forall i, nonneg (F i)) -> nonneg (flatten [seq F i | i <- s]).
Proof. by move=> h; elim: s => //= i s IH; exact: nonneg_cat. Qed.
Theorem nonneg_jumps : nonneg jumps.
Proof.
apply: nonneg_cat; [apply: nonneg_fl => a | apply: nonneg_fl => q].
  apply: nonneg_fl => y; apply: nonneg_scale => //.
  by apply: nonneg_bind => [|z]; [exact: nonneg_uniform | exact: nonneg_ret].
apply: nonneg_scale => //; apply: nonneg_bind => [|z]; first exact: nonneg_uniform.
by apply: nonneg_bind => [|n]; [exact: nonneg_uniform | exact: nonneg_ret].
Qed.

(* ---- lower bounds on the odds of (zeta, n) ---- *)
Implicit Types (d : dist R ('X_{1..k} * 'X_{1..k})) (p : 'X_{1..k} * 'X_{1..k}).
Lemma oddsE d p : odds d p = lin (V := RO) d (fun u => (u == p)%:R).
Proof.
rewrite /odds big_mkcond; apply: eq_bigr => wt _ /=.
by rewrite /GRing.scale /=; case: ifP; rewrite ?mulr1 ?mulr0.
Qed.
Lemma odds_ge0 d p : nonneg d -> 0 <= odds d p.
Proof.
move=> h; rewrite /odds big_seq_cond sumr_ge0 // => wt /andP[hwt _]; exact: (allP h).
Qed.
Lemma odds_cat d d' p : odds (d ++ d') p = odds d p + odds d' p.
Proof. by rewrite /odds big_cat. Qed.
Lemma odds_flatten (I : eqType) (s : seq I) (F : I -> dist R ('X_{1..k} * 'X_{1..k})) i p :
  (forall i, nonneg (F i)) -> i \in s -> odds (F i) p <= odds (flatten [seq F i | i <- s]) p.
Proof.
move=> h; elim: s => //= j s IH; rewrite inE odds_cat => /orP[/eqP <-|/IH hi].
  by rewrite ler_addl; apply: odds_ge0; exact: nonneg_fl.
by apply: (le_trans hi); rewrite ler_addr; exact: odds_ge0.
Qed.
Lemma lin_uniform_ge (U : eqType) (us : seq U) (F : U -> R) u : (forall u, 0 <= F u) -> u \in us ->
  (size us)%:R^-1 * F u <= lin (V := RO) (uniform R us) F.
Proof.
move=> h hu; rewrite lin_uniform /GRing.scale /=; apply: ler_wpmul2l; first by rewrite invr_ge0 ler0n.
by rewrite (big_rem u) //= ler_addl sumr_ge0.
Qed.

Lemma odds_own a (zeta : 'X_{1..k}) : (forall b, zeta b <= D b)%N -> (zeta a < D a)%N ->
  o a (zeta a).+1 / (\prod_(b | b != a) (D b).+1)%:R <= odds jumps (zeta, (U_(a) *+ Z.+1)%MM).
Proof.
move=> hz ha; have non := nonneg_jumps.
have n1 b y : nonneg (own b y).
  apply: nonneg_scale => //.
  by apply: nonneg_bind => [|z]; [exact: nonneg_uniform | exact: nonneg_ret].
have n2 q : nonneg (stray q).
  apply: nonneg_scale => //; apply: nonneg_bind => [|z]; first exact: nonneg_uniform.
  by apply: nonneg_bind => [|n]; [exact: nonneg_uniform | exact: nonneg_ret].
rewrite /jumps odds_cat -[X in X <= _]addr0; apply: ler_add; last first.
  by apply: odds_ge0; exact: nonneg_fl.
have ha' : a \in enum 'I_k by rewrite mem_enum.
apply: le_trans (odds_flatten _ (fun b => nonneg_fl _ (n1 b)) ha').
have hy : (zeta a).+1 \in index_iota 1 (D a).+1 by rewrite mem_index_iota.
apply: le_trans (odds_flatten _ (n1 a) hy).
rewrite oddsE lin_scale lin_bind /GRing.scale /=; apply: ler_wpmul2l => //.
have hin : zeta \in values_at D a (zeta a).
  by apply: mem_vectors => // b; case: eqP => [->|_].
set F := (fun t : 'X_{1..k} => lin _ _).
have F0 t : 0 <= F t by rewrite /F lin_ret ler0n.
apply: le_trans (lin_uniform_ge F0 hin).
by rewrite /F lin_ret eqxx mulr1 size_at // ltnW.
Qed.
Lemma odds_stray (zeta n : 'X_{1..k}) : (forall b, zeta b <= D b)%N -> mdeg n = Z.+1 ->
  (1 < filled n <= k)%N ->
  sq (filled n) / ((\prod_b (D b).+1)%:R * (size (parts (filled n)))%:R) <= odds jumps (zeta, n).
Proof.
move=> hz hn hq; have non := nonneg_jumps.
have n1 b y : nonneg (own b y).
  apply: nonneg_scale => //.
  by apply: nonneg_bind => [|z]; [exact: nonneg_uniform | exact: nonneg_ret].
have n2 q : nonneg (stray q).
  apply: nonneg_scale => //; apply: nonneg_bind => [|z]; first exact: nonneg_uniform.
  by apply: nonneg_bind => [|i]; [exact: nonneg_uniform | exact: nonneg_ret].
rewrite /jumps odds_cat -[X in X <= _]add0r; apply: ler_add.
  by apply: odds_ge0; apply: nonneg_fl => b; exact: nonneg_fl.
have hq' : filled n \in index_iota 2 k.+1 by rewrite mem_index_iota.
apply: le_trans (odds_flatten _ n2 hq').
rewrite oddsE lin_scale lin_bind /GRing.scale /= invfM; apply: ler_wpmul2l => //.
have hin : zeta \in all_values D by exact: mem_vectors.
have hnin : n \in parts (filled n).
  have hd : (mdeg n < Z.+2)%N by rewrite hn.
  by apply/imageP; exists (BMultinom hd) => //=; rewrite inE /= hn !eqxx.
set F := (fun t : 'X_{1..k} => lin _ _).
have G0 t u : 0 <= lin (V := RO) (ret R (t, u)) (fun p => (p == (zeta, n))%:R).
  by rewrite lin_ret ler0n.
have F0 t : 0 <= F t.
  rewrite /F lin_bind lin_uniform /GRing.scale /=.
  by rewrite mulr_ge0 ?invr_ge0 ?ler0n // sumr_ge0.
apply: le_trans (lin_uniform_ge F0 hin); rewrite size_all; apply: ler_wpmul2l.
  by rewrite invr_ge0 ler0n.
rewrite /F lin_bind; apply: le_trans (lin_uniform_ge (G0 zeta) hnin).
by rewrite lin_ret eqxx mulr1.
Qed.
End Jumps.

(* ---- c_n <= (r rho_Z)^q beta*^(Z+1) / (Z+2-q) for q parts above 0 ---- *)
Section Bound.
Variables (R : realFieldType) (k m Z : nat) (beta : 'I_k -> R) (bs : R).
Hypotheses (m0 : (0 < m)%N) (hb : forall a, 0 < beta a) (hbs : forall a, beta a <= bs) (hbs0 : 0 <= bs).
Local Notation r := (m%:R^-1 : R).
Definition rho : R := \prod_(1 <= i < Z.+1) (1 + r / i%:R).

Lemma r_ge0 : 0 <= r. Proof. by rewrite invr_ge0 ler0n. Qed.
Lemma rise_fact j : rise r j.+1 / j.+1`!%:R = r / j.+1%:R * \prod_(1 <= i < j.+1) (1 + r / i%:R).
Proof.
elim: j => [|j IH].
  by rewrite /rise big_ord_recl big_ord0 big_geq // addr0 !mulr1.
rewrite riseS factS natrM big_nat_recr //=.
have h1 : j.+1%:R != 0 :> R by rewrite pnatr_eq0.
have h2 : j.+2%:R != 0 :> R by rewrite pnatr_eq0.
rewrite [j.+2%:R * _]mulrC -mulf_div IH.
move: (\prod_(1 <= i < j.+1) (1 + r / i%:R)) => P; move: (j.+1%:R) (j.+2%:R) h1 h2 r => x y h1 h2 u.
by field; rewrite h1 h2.
Qed.
Lemma step_ge1 i : 1 <= 1 + r / i%:R.
Proof. by rewrite ler_addl mulr_ge0 ?invr_ge0 ?ler0n. Qed.
Lemma prod_ge1 (s : seq nat) : 1 <= \prod_(i <- s) (1 + r / i%:R).
Proof.
elim: s => [|i s IH]; first by rewrite big_nil.
by rewrite big_cons -[X in X <= _]mulr1; apply: ler_pmul; rewrite ?ler01 ?step_ge1.
Qed.
Lemma c_le b j : (0 < j <= Z.+1)%N -> c m (beta b) j <= bs ^+ j * (r * rho / j%:R).
Proof.
case: j => // j /= hj; rewrite /c -mulrA; apply: ler_pmul.
- by rewrite exprn_ge0 // ltW.
- by rewrite mulr_ge0 ?invr_ge0 ?ler0n // prodr_ge0 // => i _; rewrite addr_ge0 ?r_ge0 ?ler0n.
- by apply: ler_expn2r; rewrite ?nnegrE ?hbs ?(ltW (hb b)) // (le_trans (ltW (hb b))) // hbs.
rewrite rise_fact mulrAC; apply: ler_wpmul2r; first by rewrite invr_ge0 ler0n.
apply: ler_wpmul2l; first exact: r_ge0.
rewrite /rho (big_cat_nat _ _ _ (ltn0Sn j) hj) /= -[X in X <= _]mulr1.
by apply: ler_wpmul2l; [apply: le_trans ler01 (prod_ge1 _) | exact: prod_ge1].
Qed.
Lemma prod_sum (I : Type) (s : seq I) (P : pred I) (F : I -> nat) :
  (forall i, P i -> 0 < F i)%N ->
  (\sum_(i <- s | P i) F i + 1 <= \prod_(i <- s | P i) F i + count P s)%N.
Proof.
move=> h; elim: s => [|i s IH]; first by rewrite !big_nil.
rewrite !big_cons /=; case: ifP => hi //=; have hf := h i hi.
have p0 : (0 < \prod_(i <- s | P i) F i)%N by apply: prodn_cond_gt0.
move: IH p0 hf; move: (\sum_(i <- s | P i) F i)%N => a.
move: (\prod_(i <- s | P i) F i)%N => p; move: (count P s) (F i) => d f IH p0 hf.
case: p IH p0 => // p IH _; case: f hf => // f _; rewrite mulSn mulnS.
by move: (f * p)%N IH => t; clear; lia.
Qed.
Lemma cv_le (n : 'X_{1..k}) : mdeg n = Z.+1 ->
  cv m beta n * (Z.+2 - filled n)%:R <= (r * rho) ^+ filled n * bs ^+ Z.+1.
Proof.
move=> hn; set q := filled n.
have hj b : (0 < n b)%N -> (0 < n b <= Z.+1)%N.
  by move=> ->; rewrite /= -hn mdegE (bigD1 b) //= leq_addr.
have e1 : cv m beta n = \prod_(b | (0 < n b)%N) c m (beta b) (n b).
  rewrite /cv [LHS](bigID (fun b => (0 < n b)%N)) /= [X in _ * X]big1 ?mulr1 // => b.
  by rewrite -eqn0Ngt => /eqP ->; rewrite c0.
have sE : (\sum_(b | (0 < n b)%N) n b = Z.+1)%N.
  rewrite -hn mdegE [RHS](bigID (fun b => (0 < n b)%N)) /= [X in (_ + X)%N]big1 ?addn0 // => b.
  by rewrite -eqn0Ngt => /eqP.
have cE : (\sum_(b < k | (0 < n b)%N) 1 = q)%N.
  by rewrite /q /filled -sum1_card; apply: eq_bigl => b; rewrite inE.
have le1 : cv m beta n <= bs ^+ Z.+1 * ((r * rho) ^+ q / (\prod_(b | (0 < n b)%N) n b)%:R).
  rewrite e1; apply: (@le_trans _ _ (\prod_(b | (0 < n b)%N) (bs ^+ n b * (r * rho / (n b)%:R)))).
    by apply: ler_prod => b hnb; rewrite c_le ?hj // andbT ltW // c_gt0.
  rewrite big_split /= prodrXr sE [X in _ * X]big_split /= prodfV natr_prod.
  have -> : \prod_(b < k | (0 < n b)%N) (r * rho) = (r * rho) ^+ q; last exact: lexx.
  rewrite (eq_bigr (fun=> (r * rho) ^+ 1)) => [|b _]; last by rewrite expr1.
  by rewrite prodrXr cE.
have pr : (Z.+2 - q <= \prod_(b | (0 < n b)%N) n b)%N.
  have := prod_sum (index_enum _) (fun b (h : (0 < n b)%N) => h).
  by rewrite sE -sum1_count cE addn1 addnC leq_subLR.
have p0 : 0 < (\prod_(b | (0 < n b)%N) n b)%:R :> R by rewrite ltr0n prodn_cond_gt0.
have rr : 0 <= (r * rho) ^+ q.
  by rewrite exprn_ge0 // mulr_ge0 ?r_ge0 // (le_trans ler01 (prod_ge1 _)).
have q1 : 0 <= (r * rho) ^+ q * bs ^+ Z.+1 by rewrite mulr_ge0 // exprn_ge0.
apply: (@le_trans _ _ (cv m beta n * (\prod_(b | (0 < n b)%N) n b)%:R)).
  by apply: ler_wpmul2l; [exact/ltW/cv_gt0 | rewrite ler_nat].
by rewrite -ler_pdivl_mulr // (le_trans le1) // mulrCA mulrA.
Qed.
End Bound.

(* ---- the theorem of section 18 ---- *)
Section PageJumps.
Variables (R : realFieldType) (k m Z : nat).
Variables (D : 'I_k -> nat) (beta : 'I_k -> R) (bs : R).
Variables (zd wd : 'I_k -> nat) (bd : 'I_k -> R) (od : 'I_k -> nat -> R).
Variables (o : 'I_k -> nat -> R) (sq : nat -> R).
Local Notation jumps := (jumps Z D o sq).
Local Notation digits := (digits m Z D beta zd wd bd od jumps).
Local Notation r := (m%:R^-1 : R).
Hypotheses (m0 : (0 < m)%N) (hb : forall a, 0 < beta a) (hbd : forall a, 0 < bd a).
Hypotheses (hb1 : forall a, beta a < 1) (hbd1 : forall a, bd a <= 1).
Hypotheses (hbs : forall a, beta a <= bs) (hbs0 : 0 <= bs).
Hypotheses (hod : forall a y, 0 <= od a y) (ho : forall a y, 0 <= o a y) (hs : forall q, 0 <= sq q).
(* N_s * phi <= 1 *)
Hypothesis cond_own : forall a y, (0 < y <= D a)%N ->
  (\prod_(b | b != a) (D b).+1)%:R * (m%:R * c m (beta a) Z.+1 * beta a ^+ y.-1)
    <= (1 - beta a ^+ D a) * o a y.
(* m (r rho_Z)^q beta*^(Z+1) C(k,q) C(Z,q-1) prod (D_c + 1) <= (Z+2-q) A_s s_q *)
Hypothesis cond_stray : forall a q, (1 < q <= k)%N ->
  m%:R * ((r * rho R m Z) ^+ q * bs ^+ Z.+1)
    * ((\prod_b (D b).+1)%:R * (size (parts k Z q))%:R)
    <= (Z.+2 - q)%:R * (1 - beta a ^+ D a) * sq q.

Lemma one_part (n : 'X_{1..k}) a : mdeg n = Z.+1 -> (0 < n a)%N -> (filled n <= 1)%N ->
  n = (U_(a) *+ Z.+1)%MM.
Proof.
move=> hn ha hq.
have z b : b != a -> n b = 0%N.
  move=> hba; apply/eqP; rewrite eqn0Ngt; apply/negP => hnb.
  have : (#|pred2 a b| <= filled n)%N.
    by apply: subset_leq_card; apply/subsetP => i; rewrite !inE => /orP[] /eqP ->.
  by rewrite card2 eq_sym hba => h; have := leq_trans h hq.
apply/mnmP => b; rewrite mulmnE mnm1E; case: (eqVneq a b) => [<-|hab].
  by rewrite ?mul1n ?muln1 -hn mdegE (bigD1 a) //= big1 ?addn0.
by rewrite ?mul0n ?muln0 z // eq_sym.
Qed.

Lemma page_cond_u (a : 'I_k) (zeta n : 'X_{1..k}) :
  (zeta a < D a)%N -> (forall b, zeta b <= D b)%N -> mdeg n = Z.+1 -> (0 < n a)%N ->
  m%:R * cv m beta n * beta a ^+ zeta a <= (1 - beta a ^+ D a) * odds jumps (zeta, n).
Proof.
move=> ha hz hn hna.
have b1 : 0 < 1 - beta a ^+ D a.
  by rewrite subr_gt0 exprn_ilt1 // ?ltW //; rewrite -lt0n (leq_ltn_trans _ ha).
have [hq|hq] := leqP (filled n) 1.
  rewrite (one_part hn hna hq).
  have -> : cv m beta (U_(a) *+ Z.+1)%MM = c m (beta a) Z.+1.
    rewrite /cv (bigD1 a) //= mulmnE mnm1E eqxx ?mul1n ?muln1 big1 ?mulr1 // => b hba.
    by rewrite mulmnE mnm1E eq_sym (negbTE hba) ?mul0n ?muln0 c0.
  have N0 : 0 < (\prod_(b | b != a) (D b).+1)%:R :> R by rewrite ltr0n prodn_gt0.
  have h := @cond_own a (zeta a).+1 ha; rewrite /= mulrC -ler_pdivl_mulr // in h.
  apply: (le_trans h); rewrite -mulrA; apply: ler_wpmul2l; first exact: ltW.
  exact: odds_own.
have hqk : (1 < filled n <= k)%N by rewrite hq /= -[X in (_ <= X)%N](card_ord k) max_card.
have P0 : 0 < (\prod_b (D b).+1)%:R * (size (parts k Z (filled n)))%:R :> R.
  rewrite mulr_gt0 // ltr0n ?prodn_gt0 // size_image; apply/card_gt0P.
  have hd : (mdeg n < Z.+2)%N by rewrite hn.
  by exists (BMultinom hd); rewrite inE /= hn !eqxx.
have hle : (filled n <= Z.+1)%N.
  rewrite -hn mdegE /filled -sum1_card big_mkcond /=; apply: leq_sum => b _; rewrite inE.
  by case: (n b).
have q0 : 0 < (Z.+2 - filled n)%:R :> R by rewrite ltr0n subn_gt0.
have h1 := cv_le m0 hb hbs hbs0 hn; have h2 := cond_stray a hqk.
have h3 := odds_stray ho hs hz hn hqk.
apply: (@le_trans _ _ (m%:R * cv m beta n)).
  rewrite -[X in _ <= X]mulr1; apply: ler_wpmul2l.
    by rewrite mulr_ge0 ?ler0n // ltW // cv_gt0.
  by rewrite exprn_ile1 // ltW.
have b1' := ltW b1; apply: le_trans (ler_wpmul2l b1' h3).
rewrite mulrA ler_pdivl_mulr // -(ler_pmul2l q0) [X in _ <= X]mulrA; apply: le_trans h2.
have e (q u w P : R) : q * (u * w * P) = u * (w * q) * P by ring.
rewrite e; apply: ler_wpmul2r; first exact: ltW.
by apply: ler_wpmul2l; first exact: ler0n.
Qed.

Theorem digits_page_up (x : 'X_{1..k}) a v y :
  (forall b, x b <= D b)%N -> (v <= y <= D a)%N ->
  costs m ((beta a)^-1 ^+ D a) digits (upd x a y) (upd x a v).
Proof. by move=> hx; apply: digits_up => //; [exact: nonneg_jumps | exact: page_cond_u]. Qed.
Theorem digits_page_down (x : 'X_{1..k}) a v y : wd a = zd a ->
  (forall y, (0 < y <= D a)%N ->
     m%:R * c m (bd a) (zd a).+1 * bd a ^+ y.-1 <= (1 - bd a ^+ D a) * od a y) ->
  (v <= y <= D a)%N -> costs m ((bd a)^-1 ^+ D a) digits (upd x a v) (upd x a y).
Proof. by move=> e hd; apply: digits_down => //; exact: nonneg_jumps. Qed.
(* a report: total mass 1, and at most sum (z_d + w_d + D) + 2Z + 1 messages *)
Theorem digits_page_total (x : 'X_{1..k}) : total (digits x) = 1.
Proof. by apply: digits_total => //; exact: nonneg_jumps. Qed.
End PageJumps.
