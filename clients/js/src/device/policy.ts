/** What this device agrees to; no task can raise it. The defaults are those of Python's policy. */
import { hex } from "../bytes.js";
import { fail } from "../errors.js";
import { add, atMost, parse, rational, show, ZERO, type Rational } from "../numbers/rational.js";
import { anything, choice, list, record, textOf, whole, type Check } from "../schema.js";
import { HEX32 } from "../task/forms.js";
import type { Task } from "../task/task.js";
import type { DeviceRecord } from "./storage.js";

export interface PolicySettings {
  /** All reports for one task together cost no more ε than this (2). */
  readonly mostEpsilonPerTask?: string | number;
  /** All reports of `periodDays` days together cost no more ε than this (4). */
  readonly mostEpsilonPerPeriod?: string | number;
  readonly periodDays?: number;
  /** A report is hidden among those of at least this many users (100). */
  readonly leastUsers?: number;
  /** Whether to answer tasks that take more than one report of the same device (false). */
  readonly allowRepeat?: boolean;
  /** Whether to answer tasks whose batches may be closed early (false). */
  readonly allowShortBatches?: boolean;
  /** The analyzer keys that this device encrypts for, in hexadecimal digits. Without any: trust on
   * first use, for each shuffler. */
  readonly analyzerKeys?: readonly string[];
  /** The keys that must have signed a task, in hexadecimal digits, by role. For a role without any:
   * trust on first use, for each shuffler. */
  readonly signingKeys?: {
    readonly collector?: readonly string[];
    readonly shuffler?: readonly string[];
    readonly analyzer?: readonly string[];
  };
  /** Verifier keys (name+id+key) of witnesses of the log of tasks. */
  readonly witnesses?: readonly string[];
  /** How many of `witnesses` must have cosigned the log that holds a task (0). */
  readonly leastWitnesses?: number;
}

/** An ε above 0, as a decimal or a fraction; `otherwise` if none is given. */
const positive =
  (otherwise: Rational): Check<Rational> =>
  (given, name) => {
    if (given === undefined) return otherwise;
    const [, whole, part = ""] = /^(\d{1,20})(?:\.(\d{1,20}))?$/.exec(String(given)) ?? [];
    const found = whole ? rational(BigInt(whole + part), 10n ** BigInt(part.length)) : parse(given);
    return found && found[0] > 0n
      ? found
      : fail("policy", `${name} must be a number above 0, like "0.5"; correct your policy.`);
  };
const BOOLEAN = choice(true, false);
const DEFAULTS = {
  mostEpsilonPerTask: rational(2),
  mostEpsilonPerPeriod: rational(4),
  periodDays: 30,
  leastUsers: 100,
  allowRepeat: false,
  allowShortBatches: false,
  analyzerKeys: [] as readonly string[],
  signingKeys: undefined as unknown,
  witnesses: [] as readonly string[],
  leastWitnesses: 0,
};
const SETTINGS = record(
  {},
  {
    mostEpsilonPerTask: positive(DEFAULTS.mostEpsilonPerTask),
    mostEpsilonPerPeriod: positive(DEFAULTS.mostEpsilonPerPeriod),
    periodDays: whole(1, 36500),
    leastUsers: whole(1, 1e13),
    allowRepeat: BOOLEAN,
    allowShortBatches: BOOLEAN,
    analyzerKeys: list(HEX32, 0, 1000),
    signingKeys: anything,
    witnesses: list(textOf(1, 400), 0, 100),
    leastWitnesses: whole(0, 100),
  },
);

export type Policy = Readonly<typeof DEFAULTS>;

/** The policy with these settings; everything else has its default. */
export const readPolicy = (settings: PolicySettings = {}): Policy => ({
  ...DEFAULTS,
  ...SETTINGS(settings, "policy"),
});

const refuse = (message: string): never => fail("policy", message);

/** Throws if a task asks for more than the policy allows any task. */
export function checkPolicy({ epsilon, users, repeat, shortBatches, key, policy }: Task): void {
  if (!atMost(epsilon, policy.mostEpsilonPerTask))
    refuse(
      `This task costs ε = ${show(epsilon)}; this device allows ${show(policy.mostEpsilonPerTask)} per task. Ask for a task with a smaller ε.`,
    );
  if (users < policy.leastUsers)
    refuse(
      `This task hides you among ${users} users; this device asks for ${policy.leastUsers}. Ask for a task with more users.`,
    );
  if (repeat && !policy.allowRepeat)
    refuse("This task takes several answers, and each costs ε. Ask for a task without repeats.");
  if (shortBatches && !policy.allowShortBatches)
    refuse(
      "This task may close batches before enough users have answered. Ask for a task without at_least.",
    );
  if (policy.analyzerKeys.length && !policy.analyzerKeys.includes(hex(key.raw)))
    refuse(
      "This task has an analyzer key that analyzerKeys does not name. Ask the analyzer's operator.",
    );
}

/** The sum of the ε of the charges for which `counts` is true. */
export function spent(
  record: DeviceRecord,
  counts: (charge: DeviceRecord["charges"][number]) => boolean,
): Rational {
  let total = ZERO;
  for (const charge of record.charges)
    if (counts(charge)) total = add(total, parse(charge.epsilon)!);
  return total;
}

/** Whether a charge falls into the policy's period. */
export const recently =
  (policy: Policy, now: number) =>
  (charge: { readonly when: number }): boolean =>
    charge.when > now - policy.periodDays * 86400;

/** Throws if one more report for this task is more than this device allows now. */
export function checkBudget(
  { id, epsilon, policy }: Task,
  record: DeviceRecord,
  now: number,
): void {
  const same = spent(record, (charge) => charge.task === id);
  if (!atMost(add(same, epsilon), policy.mostEpsilonPerTask))
    refuse(
      `This device has spent ε = ${show(same)} on this task; it allows ${show(policy.mostEpsilonPerTask)} per task. Do not answer it again.`,
    );
  const recent = spent(record, recently(policy, now));
  if (!atMost(add(recent, epsilon), policy.mostEpsilonPerPeriod))
    refuse(
      `This task costs ε = ${show(epsilon)}; this device has spent ${show(recent)} of ${show(policy.mostEpsilonPerPeriod)} in ${policy.periodDays} days. Answer it later.`,
    );
}
