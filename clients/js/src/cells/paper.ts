/** The paper's cells, for tasks that use them:
 *
 *     loadTask(text, { cells: [paperCell] })
 */
import { bad, notPrivate } from "../errors.js";
import { expBetween, type Between } from "../numbers/exponential.js";
import {
  atMost as floatAtMost,
  fromRational,
  fromWhole,
  NOTHING,
  power,
  product,
  scaled,
  sum,
  toRational,
  type Float,
} from "../numbers/floating.js";
import {
  atMost,
  holds,
  larger,
  ONE,
  over,
  rational,
  subtract,
  times,
  ZERO,
  type Rational,
} from "../numbers/rational.js";
import { draw, zeroWith } from "../numbers/sampling.js";
import { negativeBinomial, poisson } from "../numbers/unboundedLaws.js";
import { choice, exactly, record, whole } from "../schema.js";
import { EPSILON, MASS_BITS, USERS, type CellKind, type IndependentCell } from "./base.js";

/** A muted term below 2^NEGLIGIBLE that only falls decides nothing: it is compared with 1. */
const NEGLIGIBLE = -4096;
/** Down for the lower bound of an enclosure, up for the upper one. */
const between = (side: (up: boolean, i: 0 | 1) => Float): Between<Float> => [
  side(false, 0),
  side(true, 1),
];

const PAPER = record({
  kind: choice("paper"),
  users: USERS,
  largest: whole(1, 10 ** 6),
  up_epsilon: EPSILON,
  down_epsilon: EPSILON,
  mute_probability: exactly(ZERO, ONE),
  input_pairs: whole(0, 10 ** 9),
  flood_mean: exactly(ZERO, [10n ** 100n, 1n]),
  stand_in: whole(0, 10 ** 6),
});

type Given = ReturnType<typeof PAPER>;

/** The noises of one user in `copies` cells together. */
function noiseOf({ users, largest, up_epsilon, down_epsilon, flood_mean }: Given, copies = 1) {
  const share = rational(copies, users);
  return {
    plus: negativeBinomial(share, over(up_epsilon, rational(largest))),
    minus: negativeBinomial(share, over(down_epsilon, rational(largest))),
    flood: poisson(times(flood_mean, share)),
  };
}

function cellOf(data: Given): IndependentCell {
  const { users, largest, up_epsilon: upLoss, input_pairs: s, stand_in: h, flood_mean } = data;
  const mute = zeroWith(subtract(ONE, data.mute_probability));
  const noise = noiseOf(data);
  // for each change, g at a few points per bit of the flood; s + h + δ factors each, both ways
  const points = 4 * (flood_mean[0] / flood_mean[1] + 1n).toString(2).length + 16;
  return {
    kind: "paper",
    users,
    largest,
    upLoss,
    absentValue: h,
    mostMessages: Infinity,
    leastMessages: 2 * s + h,
    proofSteps: 2 * points * (h ? 2 : 1) * largest * (s + h + (largest + 1) / 2),

    agrees: ({ inequality }: { inequality?: unknown }) => inequality === "down",

    randomize(value, words) {
      const kept = draw(mute, words) === 0;
      const plus = draw(noise.plus, words);
      const minus = draw(noise.minus, words);
      const both = draw(noise.flood, words);
      return [(kept ? s + value : 0) + plus + both, (kept ? s + h : 0) + minus + both];
    },

    async messageLaws(copies, most) {
      const { plus, minus, flood } = noiseOf(data, copies);
      const pairs = flood
        .masses(MASS_BITS, flood.last ? Math.floor(most / 2) : 0)
        .flatMap((mass) => [mass, 0n]);
      return {
        sure: copies * (2 * s + h) + largest,
        parts: [plus.masses(MASS_BITS, most), minus.masses(MASS_BITS, most), pairs].map(
          (masses) => ({ masses, count: 1 }),
        ),
      };
    },

    prove(up, down) {
      if (!holds("loss", upLoss, up) || atMost(down, ZERO))
        notPrivate("a direction's loss exceeds what it may cost");
      for (let delta = 1; delta <= largest; delta++)
        for (const x of new Set(h ? [0, largest - delta] : [largest - delta]))
          if (!exceedsOne(data, { loss: down, delta, x }))
            notPrivate("a change downwards costs more than it may");
    },
  };
}

/** Whether g(m) > 1 for every m ≥ 0 (docs/mathematics.md, "The inequality"), which is convex in m. */
function exceedsOne(
  data: Given,
  { loss, delta, x }: { loss: Rational; delta: number; x: number },
): boolean {
  const {
    down_epsilon: b,
    up_epsilon: a,
    mute_probability: q,
    flood_mean,
    largest,
    stand_in: h,
    input_pairs,
  } = data;
  const t = Math.min(x, h);
  const fade = ([n, d]: Rational): Between<Float> => {
    const found = expBetween([-n, d * BigInt(largest)]);
    return between((up, i) => fromRational(found[i], up));
  };
  const odds = over(q, subtract(ONE, q));
  const expLoss = expBetween(loss);
  const [fadeUp, fadeDown] = [fade(a), fade(b)];
  const [lift, swapped, flood] = [
    between((up, i) =>
      [
        fromRational(larger(subtract(expLoss[i], ONE), ZERO), up), // the lower end may be below 0
        fromRational(odds, up),
        power(fadeUp[i], x - t, up),
        power(fadeDown[i], h - t, up),
      ].reduce((one, other) => product(one, other, up)),
    ),
    between((up, i) => product(fromRational(expLoss[i], up), power(fadeDown[i], delta, up), up)),
    between((up) => fromRational(flood_mean, up)),
  ];
  if (flood_mean[0] === 0n) return !holds(`g, δ=${delta}, x=${x}`, toRational(lift[0]), ONE);
  const known = new Map<bigint, Between<Float>>();
  const g = (m: bigint): Between<Float> => {
    let found = known.get(m);
    if (!found) {
      found = between((up, i) => {
        let muted = lift[i];
        for (let k = 1; k <= input_pairs + t; k++) {
          const place = m + BigInt(k);
          muted = scaled(muted, [flood[i], fromWhole(place, !up)], up);
          if (muted[1] < NEGLIGIBLE && atMost(flood_mean, [place, 1n])) {
            if (!up) muted = NOTHING; // from here on it only falls
            break;
          }
        }
        if (m < BigInt(delta)) return muted;
        let falling = swapped[i];
        for (let k = 0; k < delta; k++)
          falling = scaled(falling, [fromWhole(m - BigInt(k), up), flood[(1 - i) as 0 | 1]], up);
        return sum(muted, falling, up);
      });
      known.set(m, found);
    }
    return found;
  };
  const rises = (m: bigint): boolean => !floatAtMost(g(m + 1n)[0], g(m)[1]);
  let [left, right] = [0n, 1n]; // the least place at which g certainly rises
  while (!rises(right)) {
    right *= 2n;
    if (right > 1n << 400n) return false;
  }
  while (left < right) {
    const middle = (left + right) / 2n;
    if (rises(middle)) right = middle;
    else left = middle + 1n;
  }
  for (let [place, steps] = [right, 0]; steps < 16; place--, steps++) {
    if (holds(`g(${place}), δ=${delta}, x=${x}`, toRational(g(place)[0]), ONE)) return false;
    if (place === 0n || !floatAtMost(g(place - 1n)[0], g(place)[1])) return true;
  }
  return false;
}

export const paperCell: CellKind = {
  kind: "paper",
  read(data, name) {
    const cell = PAPER(data, name);
    const { mute_probability: q, flood_mean, input_pairs, stand_in, largest } = cell;
    const bare = input_pairs === 0 && stand_in === 0;
    if (q[0] === 0n || q[0] === q[1] || stand_in > largest || (flood_mean[0] === 0n && !bare))
      bad(`${name} has parameters that are not allowed`);
    return cellOf(cell);
  },
};
