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

export interface Policy {
  readonly perTask: Rational;
  readonly perPeriod: Rational;
  readonly days: number;
  readonly leastUsers: number;
  readonly repeat: boolean;
  readonly shortBatches: boolean;
  readonly keys: readonly string[];
  readonly signing: unknown;
  readonly witnesses: readonly string[];
  readonly leastWitnesses: number;
}

/** An ε above 0, as a decimal or a fraction; undefined for the default. */
const POSITIVE: Check<Rational | undefined> = (given, name) => {
  if (given === undefined) return given;
  const [, whole, part = ""] = /^(\d{1,20})(?:\.(\d{1,20}))?$/.exec(String(given)) ?? [];
  const found = whole ? rational(BigInt(whole + part), 10n ** BigInt(part.length)) : parse(given);
  return found && found[0] > 0n
    ? found
    : fail("policy", `${name} must be a number above 0, like "0.5"; correct your policy.`);
};
const BOOLEAN = choice(true, false);
const SETTINGS = record(
  {},
  {
    mostEpsilonPerTask: POSITIVE,
    mostEpsilonPerPeriod: POSITIVE,
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

/** The policy with these settings; everything else has its default. */
export function readPolicy(settings: PolicySettings = {}): Policy {
  const {
    mostEpsilonPerTask: perTask = rational(2),
    mostEpsilonPerPeriod: perPeriod = rational(4),
    periodDays: days = 30,
    leastUsers = 100,
    allowRepeat: repeat = false,
    allowShortBatches: shortBatches = false,
    analyzerKeys: keys = [],
    signingKeys: signing,
    witnesses = [],
    leastWitnesses = 0,
  } = SETTINGS(settings, "policy");
  return {
    perTask,
    perPeriod,
    days,
    leastUsers,
    repeat,
    shortBatches,
    keys,
    signing,
    witnesses,
    leastWitnesses,
  };
}

const refuse = (message: string): never => fail("policy", message);

/** Throws if a task asks for more than the policy allows any task. */
export function checkPolicy({ epsilon, users, repeat, shortBatches, key, policy }: Task): void {
  if (!atMost(epsilon, policy.perTask))
    refuse(
      `This task costs ε = ${show(epsilon)}; this device allows ${show(policy.perTask)} per task. Ask for a task with a smaller ε.`,
    );
  if (users < policy.leastUsers)
    refuse(
      `This task hides you among ${users} users; this device asks for ${policy.leastUsers}. Ask for a task with more users.`,
    );
  if (repeat && !policy.repeat)
    refuse("This task takes several answers, and each costs ε. Ask for a task without repeats.");
  if (shortBatches && !policy.shortBatches)
    refuse(
      "This task may close batches before enough users have answered. Ask for a task without at_least.",
    );
  if (policy.keys.length && !policy.keys.includes(hex(key.raw)))
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
    charge.when > now - policy.days * 86400;

/** Throws if one more report for this task is more than this device allows now. */
export function checkBudget(
  { id, epsilon, policy }: Task,
  record: DeviceRecord,
  now: number,
): void {
  const same = spent(record, (charge) => charge.task === id);
  if (!atMost(add(same, epsilon), policy.perTask))
    refuse(
      `This device has spent ε = ${show(same)} on this task; it allows ${show(policy.perTask)} per task. Do not answer it again.`,
    );
  const recent = spent(record, recently(policy, now));
  if (!atMost(add(recent, epsilon), policy.perPeriod))
    refuse(
      `This task costs ε = ${show(epsilon)}; this device has spent ${show(recent)} of ${show(policy.perPeriod)} in ${policy.days} days. Answer it later.`,
    );
}
