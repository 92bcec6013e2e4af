(* Sections 7 and 17: several cells or groups of one user.

   A user runs independent randomizers j in K on its values x_j; a message says which one sent it.
   The losses multiply: a change costs at most the product of what it costs each randomizer.
   Budget by direction and several groups of one user are instances.  Parallel composition: batches
   of disjoint users, of which one changes, cost what that one costs. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum.
Require Import definitions lemmas.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Together.
Variables (R : realFieldType) (K : finType) (T : eqType) (V : K -> Type).
Variable f : forall j, V j -> dist R (seq T).
Local Notation input := (forall j, V j).
Local Notation RO := [lmodType R of R^o].

(* the messages of randomizer j carry the number j *)
Definition tagged (j : K) (d : dist R (seq T)) : dist R (seq (K * T)) :=
  [seq (wt.1, [seq (j, t) | t <- wt.2]) | wt <- d].
Definition together (x : input) : dist R (seq (K * T)) :=
  foldr (fun j => both (tagged j (f (x j)))) (ret R [::]) (enum K).
(* what the view shows of randomizer j *)
Definition part (j : K) (v : seq (K * T)) : seq T := [seq t.2 | t <- v & t.1 == j].

Lemma part_cat j u v : part j (u ++ v) = part j u ++ part j v.
Proof. by rewrite /part filter_cat map_cat. Qed.
Lemma part_tag i j (t : seq T) : part i [seq (j, u) | u <- t] = if j == i then t else [::].
Proof.
rewrite /part filter_map -map_comp; case: ifP => h.
  by rewrite (eq_filter (a2 := predT)) ?filter_predT ?map_id.
by rewrite (eq_filter (a2 := pred0)) ?filter_pred0.
Qed.
Lemma perm_parts (u v : seq (K * T)) :
  perm_eq u v = [forall j, perm_eq (part j u) (part j v)].
Proof.
apply/idP/forallP => [h j|h]; first by apply: perm_map; exact: perm_filter.
have cE (w : seq (K * T)) a : count_mem a w = count_mem a.2 (part a.1 w).
  rewrite /part count_map count_filter; apply: eq_count => -[j t] /=.
  by rewrite -pair_eqE /= andbC; case: a => i s /=.
by apply/allP => a _ /=; rewrite !cE (permP (h a.1)).
Qed.

Lemma lin_tagged (W : lmodType R) j (d : dist R (seq T)) (F : seq (K * T) -> W) :
  lin (tagged j d) F = lin d (fun t => F [seq (j, u) | u <- t]).
Proof. by rewrite /lin big_map. Qed.

(* expectations of products of functions of the parts factor *)
Lemma lin_together (x : input) (F : K -> seq T -> R) :
  lin (V := RO) (together x) (fun ts => \prod_j F j (part j ts))
  = \prod_j lin (V := RO) (f (x j)) (F j).
Proof.
rewrite /together -[index_enum _]enumT.
have gen (s : seq K) : uniq s -> forall G : K -> seq T -> R,
    lin (V := RO) (foldr (fun j => both (tagged j (f (x j)))) (ret R [::]) s)
      (fun ts => \prod_(j <- enum K) G j (part j ts))
    = \prod_(j <- enum K) (if j \in s then lin (V := RO) (f (x j)) (G j) else G j [::]).
  elim: s => [|i s IH] /=.
    by move=> _ G; rewrite lin_ret; apply: eq_bigr.
  move=> /andP[hi hs] G; rewrite lin_both lin_tagged.
  transitivity (lin (V := RO) (f (x i)) (fun t => \prod_(j <- enum K)
     (if j \in s then lin (V := RO) (f (x j)) (G j) else if j == i then G i t else G j [::]))).
    apply: eq_linx => t.
    set d := foldr _ _ _; transitivity (lin (V := RO) d (fun ts => \prod_(j <- enum K)
      G j ((if i == j then t else [::]) ++ part j ts))).
      by apply: eq_linx => ts; apply: eq_bigr => j _; rewrite part_cat part_tag.
    rewrite (IH hs (fun j u => G j ((if i == j then t else [::]) ++ u))).
    apply: eq_bigr => j _; rewrite [j == i]eq_sym; case: (eqVneq i j) => [<-|hj]; last by [].
    by rewrite (negbTE hi) cats0.
  rewrite [in RHS](bigD1_seq i) ?enum_uniq ?mem_enum //= inE eqxx /= lin_mulr.
  apply: eq_linx => t; rewrite (bigD1_seq i) ?enum_uniq ?mem_enum //= (negbTE hi) eqxx.
  by congr (_ * _); apply: eq_bigr => j hj; rewrite inE (negbTE hj).
rewrite (gen _ (enum_uniq _) F) /=; apply: eq_bigr => j _; by rewrite mem_enum.
Qed.

Lemma lin_batch_together (xs : seq input) (F : K -> seq T -> R) :
  lin (V := RO) (batch together xs) (fun ts => \prod_j F j (part j ts))
  = \prod_j lin (V := RO) (batch (@f j) [seq x j | x <- xs]) (F j).
Proof.
elim: xs F => [|x xs IH] F /=.
  by rewrite lin_ret; apply: eq_bigr => j _; rewrite lin_ret.
rewrite lin_both; transitivity (lin (V := RO) (together x) (fun ts =>
    \prod_j lin (V := RO) (batch (@f j) [seq x j | x <- xs]) (fun u => F j (part j ts ++ u)))).
  apply: eq_linx => ts; rewrite -(IH (fun j u => F j (part j ts ++ u))).
  by apply: eq_linx => us; apply: eq_bigr => j _; rewrite part_cat.
rewrite (lin_together x (fun j t => lin (V := RO) (batch (@f j) [seq x j | x <- xs])
  (fun u => F j (t ++ u)))).
by apply: eq_bigr => j _; rewrite lin_both.
Qed.

Lemma PrE (U : eqType) (d : dist R (seq U)) v :
  Pr d v = lin (V := RO) d (fun ts => (perm_eq ts v)%:R).
Proof.
rewrite /Pr big_mkcond; apply: eq_bigr => wt _.
by rewrite /GRing.scale /=; case: ifP; rewrite ?mulr1 ?mulr0.
Qed.

(* the view of all randomizers is as likely as the product of their views *)
Theorem together_law (xs : seq input) v :
  Pr (batch together xs) v = \prod_j Pr (batch (@f j) [seq x j | x <- xs]) (part j v).
Proof.
rewrite PrE; transitivity (lin (V := RO) (batch together xs)
    (fun ts => \prod_j (perm_eq (part j ts) (part j v))%:R)).
  apply: (@eq_linx R RO) => ts; rewrite perm_parts.
  case: (boolP [forall j, _]) => [/forallP h|].
    by rewrite big1 // => j _; rewrite h.
  by rewrite negb_forall => /existsP[j hj]; rewrite (bigD1 j) //= (negbTE hj) mul0r.
rewrite (lin_batch_together xs (fun j u => (perm_eq u (part j v))%:R)).
by apply: eq_bigr => j _; rewrite -PrE.
Qed.

Hypothesis hf : forall j x, nonneg (f (j := j) x).
Theorem together_costs (m : nat) (E : K -> R) (x y : input) :
  (forall j, costs m (E j) (@f j) (x j) (y j)) -> costs m (\prod_j E j) together x y.
Proof.
move=> h xs1 xs2 v hsz; rewrite !together_law -big_split /=.
apply: ler_prod => j _; apply/andP; split.
  by apply: Pr_ge0; apply: nonneg_batch => ?; exact: hf.
by rewrite !map_cat /=; apply: h; rewrite !size_map.
Qed.
End Together.

(* a value is mapped before it is randomized *)
Lemma costs_map (R : realFieldType) (V W : Type) (T : eqType) (g : W -> V)
    (f : V -> dist R (seq T)) m E x y :
  costs m E f (g x) (g y) -> costs m E (fun z => f (g z)) x y.
Proof.
move=> h xs1 xs2 v hsz.
have e xs : batch (fun z => f (g z)) xs = batch f (map g xs) by rewrite /batch foldr_map.
by rewrite !e !map_cat /=; apply: h; rewrite !size_map.
Qed.
Lemma costs_same (R : realFieldType) (V : Type) (T : eqType) (f : V -> dist R (seq T)) m x :
  costs m 1 f x x.
Proof. by move=> xs1 xs2 v _; rewrite mul1r. Qed.

(* ---- section 7: budget by direction ----
   One cell per bucket with value 0 or 1; another label sends one bucket up and another one down. *)
Section Direction.
Variables (R : realFieldType) (B m : nat) (T : eqType) (cell : bool -> dist R (seq T)).
Variables (up down : R).
Hypothesis hf : forall x, nonneg (cell x).
Hypothesis cost_up : costs m up cell true false.
Hypothesis cost_down : costs m down cell false true.

Definition histogram (b : 'I_B) : dist R (seq ('I_B * T)) :=
  together (fun (_ : 'I_B) x => cell x) (fun j => j == b).

Theorem histogram_costs (b b' : 'I_B) : b != b' -> costs m (up * down) histogram b b'.
Proof.
move=> hb; pose E (j : 'I_B) := if j == b then up else if j == b' then down else 1.
have -> : up * down = \prod_j E j.
  rewrite (bigD1 b) //= (bigD1 b') /=; last by rewrite eq_sym.
  rewrite /E eqxx [b' == b]eq_sym (negbTE hb) eqxx big1 ?mulr1 // => j /andP[h1 h2].
  by rewrite (negbTE h1) (negbTE h2).
apply: (costs_map (g := fun b j => j == b)); apply: together_costs => // j; rewrite /E.
case: (eqVneq j b) => [->|h1]; first by rewrite (negbTE hb).
by case: (eqVneq j b') => [_|h2] //; exact: costs_same.
Qed.
End Direction.

(* ---- section 17: private groups ----
   Digit j of the user's value goes to the cell (g, j) of its own group; all other cells get 0. *)
Section ByGroup.
Variables (R : realFieldType) (G J : finType) (m : nat) (T : eqType).
Variables (cell : J -> nat -> dist R (seq T)) (up down : J -> R).
Hypothesis hf : forall j x, nonneg (cell j x).
Hypotheses (hup : forall j, 0 <= up j).
(* a digit instead of 0, and 0 instead of a digit *)
Hypothesis cost_up : forall j d, costs m (up j) (cell j) d 0%N.
Hypothesis cost_down : forall j d, costs m (down j) (cell j) 0%N d.

Definition digits_of (gx : G * (J -> nat)) : G * J -> nat :=
  fun gj => if gj.1 == gx.1 then gx.2 gj.2 else 0%N.
Definition by_group (gx : G * (J -> nat)) : dist R (seq (G * J * T)) :=
  together (fun gj : G * J => cell gj.2) (digits_of gx).

Lemma costs_via0 j d d' : costs m (up j * down j) (cell j) d d'.
Proof.
move=> xs1 xs2 v hsz; apply: (le_trans (@cost_up j d xs1 xs2 v hsz)).
by rewrite -mulrA; apply: ler_wpmul2l => //; exact: cost_down.
Qed.
Theorem by_group_costs gx hy : costs m (\prod_j (up j * down j)) by_group gx hy.
Proof.
case: gx hy => [g x] [h y].
pose E (gj : G * J) := if g == h then (if gj.1 == g then up gj.2 * down gj.2 else 1)
  else if gj.1 == g then up gj.2 else if gj.1 == h then down gj.2 else 1.
have -> : \prod_j (up j * down j) = \prod_gj E gj.
  rewrite -(pair_bigA _ (fun a j => E (a, j))) /= /E /=; case: (eqVneq g h) => [_|hgh].
    rewrite (bigD1 g) //= [X in _ = _ * X]big1 ?mulr1 => [|a ha]; last first.
      by rewrite (negbTE ha) big1.
    by rewrite eqxx.
  rewrite (bigD1 g) //= (bigD1 h) /=; last by rewrite eq_sym.
  rewrite eqxx [h == g]eq_sym (negbTE hgh) eqxx [X in _ = _ * (_ * X)]big1 ?mulr1 ?big_split //.
  by move=> a /andP[h1 h2]; rewrite (negbTE h1) (negbTE h2) big1.
apply: (costs_map (g := digits_of)); apply: together_costs => [gj z|[a j]] //.
rewrite /E /digits_of /=; case: (eqVneq g h) => [->|hgh].
  by case: ifP => _; [exact: costs_via0 | exact: costs_same].
case: (eqVneq a g) => [->|_]; first by rewrite (negbTE hgh).
by case: ifP => _ //; exact: costs_same.
Qed.
End ByGroup.

(* ---- section 17, public groups: parallel composition ----
   Every group is a batch of its own users; one user of group g changes. *)
Section Parallel.
Variables (R : realFieldType) (G : finType) (m : G -> nat) (T : eqType) (V : G -> Type).
Variables (f : forall g, V g -> dist R (seq T)) (E : R).
Hypothesis hf : forall g x, nonneg (f (g := g) x).

Definition batches (xs : forall g, seq (V g)) : dist R (seq (G * T)) :=
  together (fun g => batch (@f g)) xs.

Theorem parallel_costs (xs ys : forall g, seq (V g)) g x y us ws v :
  costs (m g) E (@f g) x y -> (m g <= size us + 1 + size ws)%N ->
  xs g = us ++ x :: ws -> ys g = us ++ y :: ws -> (forall h, h != g -> xs h = ys h) ->
  Pr (batches xs) v <= E * Pr (batches ys) v.
Proof.
move=> cost hsz hx hy same.
have law zs : Pr (batches zs) v = \prod_h Pr (batch (@f h) (zs h)) (part h v).
  have := together_law (fun g => batch (@f g)) [:: zs] v; rewrite /= !PrE lin_both.
  under eq_linx do rewrite lin_ret cats0.
  move=> ->; apply: eq_bigr => h _; rewrite !PrE lin_both.
  by apply: (@eq_linx R [lmodType R of R^o]) => t; rewrite lin_ret cats0.
rewrite !law (bigD1 g) //= [in X in _ <= X](bigD1 g) //= hx hy mulrA.
rewrite (eq_bigr (fun h => Pr (batch (@f h) (ys h)) (part h v))) => [|h hg]; last by rewrite same.
apply: ler_wpmul2r; last exact: cost.
by apply: prodr_ge0 => h _; apply: Pr_ge0; apply: nonneg_batch => ?; exact: hf.
Qed.
End Parallel.

(* ---- section 9: values that are rounded at random ----
   A value w is first mapped to a random value of the randomizer, by draws that the others do not see.
   If any two values that can come out cost at most E, so do any two values that go in. *)
Section Rounded.
Variables (R : realFieldType) (V : eqType) (W : Type) (T : eqType) (m : nat) (E : R).
Variables (pre : W -> dist R V) (f : V -> dist R (seq T)) (S : V -> Prop).
Local Notation RO := [lmodType R of R^o].
Hypotheses (hpre : forall w, nonneg (pre w)) (hone : forall w, total (pre w) = 1).
Hypothesis hS : forall w, supp (pre w) S.
Hypothesis hcost : forall v v', S v -> S v' -> costs m E f v v'.

Definition rounded (w : W) : dist R (seq T) := bind (pre w) f.
(* the values that come out, of all users *)
Definition choices (ws : seq W) : dist R (seq V) :=
  foldr (fun w d => bind (pre w) (fun v => bind d (fun vs => ret R (v :: vs)))) (ret R [::]) ws.

Lemma lin_swap (A B : Type) (d : dist R A) (d' : dist R B) (F : A -> B -> R) :
  lin (V := RO) d (fun a => lin (V := RO) d' (F a))
  = lin (V := RO) d' (fun b => lin (V := RO) d (fun a => F a b)).
Proof.
rewrite /lin; under eq_bigr do rewrite scaler_sumr; rewrite exchange_big /=.
apply: eq_bigr => b _; rewrite scaler_sumr; apply: eq_bigr => a _.
by rewrite /GRing.scale /= mulrCA.
Qed.
Lemma lin_choices w ws (G : seq V -> R) : lin (V := RO) (choices (w :: ws)) G
  = lin (V := RO) (pre w) (fun v => lin (V := RO) (choices ws) (fun vs => G (v :: vs))).
Proof.
rewrite /= lin_bind; apply: eq_linx => v; rewrite lin_bind.
by apply: eq_linx => vs; rewrite lin_ret.
Qed.
Lemma rounded_batch ws (F : seq T -> R) : lin (V := RO) (batch rounded ws) F
  = lin (V := RO) (choices ws) (fun vs => lin (V := RO) (batch f vs) F).
Proof.
elim: ws F => [|w ws IH] F; first by rewrite /= !lin_ret.
rewrite lin_choices /= lin_both lin_bind; apply: eq_linx => v.
rewrite (@eq_linx _ RO _ (f v) _ (fun ts => lin (V := RO) (choices ws)
  (fun vs => lin (V := RO) (batch f vs) (fun us => F (ts ++ us))))) => [|ts]; last exact: IH.
by rewrite lin_swap; apply: eq_linx => vs; rewrite lin_both.
Qed.
Lemma choices_cat ws1 w ws2 (G : seq V -> R) : lin (V := RO) (choices (ws1 ++ w :: ws2)) G
  = lin (V := RO) (choices ws1) (fun us => lin (V := RO) (choices ws2)
      (fun vs => lin (V := RO) (pre w) (fun v => G (us ++ v :: vs)))).
Proof.
elim: ws1 G => [|w1 ws1 IH] G; first by rewrite cat0s lin_choices lin_ret lin_swap.
by rewrite cat_cons !lin_choices; apply: eq_linx => v; rewrite IH.
Qed.
Lemma choices_size ws : supp (choices ws) (fun vs => size vs = size ws).
Proof.
elim: ws => [|w ws IH]; first exact: supp_ret.
apply: (@supp_bind _ _ _ _ _ (fun=> True)) => // v _; apply: (supp_bind IH) => vs hvs.
by apply: supp_ret; rewrite /= hvs.
Qed.
Lemma nonneg_choices ws : nonneg (choices ws).
Proof.
elim: ws => [|w ws IH]; first exact: nonneg_ret.
by do 2![apply: nonneg_bind => // ?]; exact: nonneg_ret.
Qed.
Lemma lin_le (U : eqType) (d : dist R U) (P : U -> Prop) (F G : U -> R) :
  nonneg d -> supp d P -> (forall u, P u -> F u <= G u) ->
  lin (V := RO) d F <= lin (V := RO) d G.
Proof.
move=> /allP hd hP h; rewrite /lin !big_seq; apply: ler_sum => -[w u] hwu.
by apply: ler_wpmul2l; [exact: (hd _ hwu) | apply: h; exact: hP hwu].
Qed.

Lemma lin_mulE U (a : R) (d : dist R U) (F : U -> R) :
  a * lin (V := RO) d F = lin (V := RO) d (fun u => a * F u).
Proof. by rewrite /lin mulr_sumr; apply: eq_bigr => wt _; rewrite /GRing.scale /= mulrCA. Qed.
Lemma lin_mulrE U (a : R) (d : dist R U) (F : U -> R) :
  lin (V := RO) d F * a = lin (V := RO) d (fun u => F u * a).
Proof. by rewrite /lin mulr_suml; apply: eq_bigr => wt _; rewrite /GRing.scale /= mulrA. Qed.

Theorem rounded_costs w w' : costs m E rounded w w'.
Proof.
move=> xs1 xs2 v hsz; rewrite !PrE !rounded_batch !choices_cat.
rewrite [X in _ <= X](_ : _ = lin (V := RO) (choices xs1) (fun us => lin (V := RO) (choices xs2)
  (fun vs => E * lin (V := RO) (pre w') (fun u => Pr (batch f (us ++ u :: vs)) v)))); last first.
  rewrite lin_mulE; apply: eq_linx => us; rewrite lin_mulE; apply: eq_linx => vs.
  by congr (_ * _); apply: eq_linx => u; rewrite PrE.
apply: (lin_le (nonneg_choices _) (@choices_size _)) => us hus.
apply: (lin_le (nonneg_choices _) (@choices_size _)) => vs hvs.
rewrite (@eq_linx _ RO _ _ _ (fun u => Pr (batch f (us ++ u :: vs)) v)) => [|u]; last by rewrite PrE.
set P := fun u => Pr (batch f (us ++ u :: vs)) v.
have cost u u' : S u -> S u' -> P u <= E * P u'.
  by move=> hu hu'; apply: (hcost hu hu'); rewrite hus hvs.
rewrite lin_mulE -[X in X <= _]mul1r -(hone w') totalE lin_mulrE.
apply: (lin_le (hpre w') (@hS w')) => u' hu'; rewrite mul1r.
rewrite -[X in _ <= X]mul1r -(hone w) totalE lin_mulrE.
by apply: (lin_le (hpre w) (@hS w)) => u hu; rewrite mul1r; exact: cost.
Qed.
End Rounded.
