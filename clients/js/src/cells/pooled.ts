/** Pooled cells: the buckets of a histogram share one noise upwards (docs/protocol.md, "The pooled
 * cell"; docs/mathematics.md, "Histograms with one way up"). Loaded only for tasks that have one. */
import { bad, notPrivate } from "../errors.js";
import {
  add,
  holds,
  ONE,
  over,
  rational,
  subtract,
  times,
  type Rational,
} from "../numbers/rational.js";
import { above } from "../numbers/rounding.js";
import { CutNoise, draw, zeroWith, type Law } from "../numbers/sampling.js";
import { anything, choice, record, whole } from "../schema.js";
import { needsExactPadding, USERS, type Cell, type CellGroup, type GroupKind } from "./base.js";
import { boundedCell, type BoundedCell } from "./bounded.js";
import { proveDirection, proveLoss } from "./boundedProof.js";
import { urn } from "./urn.js";

const POOLED = record({
  kind: choice("pooled"),
  users: USERS,
  buckets: whole(1, 10 ** 6),
  up: anything,
  down: anything,
});

/** A pooled cell; `bounded` is the bounded cell with the same directions, noises downwards and
 * limits. */
function pooledCell(bounded: BoundedCell, buckets: number, mostMessages: number): Cell {
  const { users, up, down, upLoss, proofSteps } = bounded;
  return {
    kind: "pooled",
    largest: 1,
    absentValue: 0,
    users,
    upLoss,
    proofSteps,

    prove(most, mostDown) {
      if (!holds("ratio", up.decay, down.ratio ?? ONE))
        notPrivate("the ratio downwards is below the decay upwards");
      proveLoss(up, 1, most);
      if (!holds("drop", dropClaim(bounded, buckets), ONE))
        notPrivate("labels are dropped too rarely for the cut of the noise upwards");
      proveDirection(down, { users, largest: 1 }, mostDown);
    },

    agrees: (proof) => bounded.agrees(proof, mostMessages, ["pooled way up"]),
  };
}

/** At least β_d·m·s_(Z+1)/((1 − β_u·β_d)·R), where s_(t+1)/s_t = β_u(B + t·m)/(m(t + 1)). */
function dropClaim({ users, up, down }: BoundedCell, buckets: number): Rational {
  const [m, b] = [BigInt(users), BigInt(buckets)];
  const spare = subtract(ONE, times(up.decay, down.decay));
  let claim = above(over(times(down.decay, [m, 1n]), times(spare, up.odds[0]!)));
  for (let t = 0n; t <= up.cut; t++)
    claim = above(times(claim, times(up.decay, [b + t * m, m * (t + 1n)])));
  return claim;
}

/** 1 with these odds, against 1 for 0. */
const withOdds = (odds: Rational): Law => zeroWith(over(ONE, add(ONE, odds)));

/** All buckets of a pooled cell; a user's value is the number of its bucket. */
function allBuckets(bounded: BoundedCell, buckets: number): CellGroup {
  const { users, up, down, upLoss, noise } = bounded;
  const mostMessages = buckets * (down.cut + down.muted_cut) + 2 * up.cut + 1;
  const cell = pooledCell(bounded, buckets, mostMessages);
  const drop = withOdds(up.odds[0]!);
  const odds = down.odds[0]!;
  // the jumps downwards of buckets that hold 0, and 1
  const jumps = [withOdds(times(down.ratio ?? ONE, odds)), withOdds(odds)] as const;
  const tokens = new CutNoise(rational(buckets, users), up.decay, up.cut);
  return {
    uses: [{ cell, copies: buckets, up: upLoss, down: down.epsilon }],
    counters: buckets,
    mostMessages,
    leastMessages: mostMessages,
    messageLaws: needsExactPadding("pooled"),
    draw([label], words) {
      const kept = !draw(drop, words);
      const dealt = kept ? [] : urn({ users, buckets }, up.cut + 1, words);
      dealt.push(...urn({ users, buckets }, draw(tokens, words), words));
      const sent = Array<number>(buckets).fill(0);
      for (const bucket of dealt) sent[bucket]!++;
      const plus: number[] = [];
      sent.forEach((count, bucket) => {
        const value = kept && bucket === label ? 1 : 0;
        if (draw(jumps[value], words)) count += down.muted_cut - draw(noise.downMuted, words);
        else count += down.cut + down.muted_cut + value - draw(noise.down, words);
        for (let i = 0; i < count; i++) plus.push(bucket);
      });
      return [plus, []];
    },
  };
}

export const kind = {
  read(data, name) {
    const { users, buckets, up, down } = POOLED(data, name);
    const bounded = boundedCell.read({ kind: "bounded", users, largest: 1, up, down }, name);
    const { cut, muted_cut, ratio } = bounded.up;
    if (cut !== muted_cut || ratio) bad(`${name} needs equal cuts and no ratio upwards`);
    if (buckets + cut * users > 2 ** 53) bad(`${name} has too long a cut upwards`);
    return allBuckets(bounded, buckets);
  },
} satisfies GroupKind;
