/** What a device agrees to: limits that no task can raise. The names are those of Python's policy. */
import { fail } from "./errors.js";
import { hex } from "./hpke.js";
import { add, atMost, parse, rational, show, ZERO, type Rational } from "./rational.js";
import { anything, choice, list, record, textOf, whole } from "./schema.js";
import type { DeviceRecord } from "./storage.js";
import type { Task } from "./task.js";

export interface PolicySettings {
  /** All reports for one task together cost no more ε than this (2). */
  readonly most_epsilon_per_task?: string | number;
  /** All reports of `period_days` days together cost no more ε than this (4). */
  readonly most_epsilon_per_period?: string | number;
  readonly period_days?: number;
  /** A report hides among at least so many others (100). */
  readonly least_users?: number;
  /** Whether to answer tasks that take more than one report of the same device (false). */
  readonly allow_repeat?: boolean;
  /** Whether to answer tasks whose batches may leave early (false). */
  readonly allow_short_batches?: boolean;
  /** The analyzer keys that this device encrypts for, in hexadecimal digits; if there are none, the
   * first key of each shuffler is remembered, and another one is refused. */
  readonly analyzer_keys?: readonly string[];
  /** The keys that must have signed a task, in hexadecimal digits, by role; for a role without any, the
   * first key of each shuffler is remembered, and another one is refused. */
  readonly signing_keys?: { readonly collector?: readonly string[]; readonly shuffler?: readonly string[]; readonly analyzer?: readonly string[] };
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
}

/** The policy behind its settings; what they do not say has its default. */
export function readPolicy(settings: PolicySettings = {}): Policy {
  const epsilon = (name: "most_epsilon_per_task" | "most_epsilon_per_period", standard: Rational): Rational => {
    const given = settings[name];
    if (given === undefined) return standard;
    const decimal = /^(\d{1,20})(?:\.(\d{1,20}))?$/.exec(String(given));
    const found = decimal
      ? ([BigInt(decimal[1]! + (decimal[2] ?? "")), 10n ** BigInt(decimal[2]?.length ?? 0)] as const)
      : parse(given);
    return found && found[0] > 0n ? found : fail("policy", `${name} must be a number above 0, like "0.5"; correct your policy.`);
  };
  const other = record({}, {
    most_epsilon_per_task: anything,
    most_epsilon_per_period: anything,
    period_days: whole(1, 36500),
    least_users: whole(1, 1e13),
    allow_repeat: choice(true, false),
    allow_short_batches: choice(true, false),
    analyzer_keys: list(textOf(64, 64, /^[0-9a-f]*$/), 0, 1000),
    signing_keys: anything,
  })(settings, "policy");
  return {
    perTask: epsilon("most_epsilon_per_task", rational(2)),
    perPeriod: epsilon("most_epsilon_per_period", rational(4)),
    days: other.period_days ?? 30,
    leastUsers: other.least_users ?? 100,
    repeat: other.allow_repeat ?? false,
    shortBatches: other.allow_short_batches ?? false,
    keys: other.analyzer_keys ?? [],
    signing: other.signing_keys,
  };
}

const refuse = (message: string): never => fail("policy", message);

/** Throws if a task asks for more than the policy allows to any task. */
export function checkPolicy(task: Task, policy: Policy): void {
  if (!atMost(task.epsilon, policy.perTask))
    refuse(`This task costs ε = ${show(task.epsilon)} and this device allows ${show(policy.perTask)} per task; ask for a task with a smaller ε.`);
  if (task.users < policy.leastUsers)
    refuse(`This task hides your value among ${task.users} users and this device asks for ${policy.leastUsers}; ask for a task with more users.`);
  if (task.repeat && !policy.repeat) refuse("This task takes more than one answer, and each costs ε again; answer a task without repeats.");
  if (task.shortBatches && !policy.shortBatches)
    refuse("This task's batches may leave before enough users have answered; answer a task without at_least.");
  if (policy.keys.length && !policy.keys.includes(hex(task.key.raw)))
    refuse("This task is encrypted for an analyzer key that analyzer_keys does not name; ask the analyzer's operator.");
}

/** The ε of the charges that count now, added up. */
export function spent(record: DeviceRecord, counts: (charge: DeviceRecord["charges"][number]) => boolean): Rational {
  let total = ZERO;
  for (const charge of record.charges) if (counts(charge)) total = add(total, parse(charge.epsilon)!);
  return total;
}

/** Those of the policy's period. */
export const recently = (policy: Policy, now: number) => (charge: { readonly when: number }): boolean =>
  charge.when > now - policy.days * 86400;

/** Throws if one more report for this task is more than this device allows now. */
export function checkBudget(task: Task, policy: Policy, record: DeviceRecord, now: number): void {
  const same = spent(record, (charge) => charge.task === task.id);
  if (!atMost(add(same, task.epsilon), policy.perTask))
    refuse(`This device has spent ε = ${show(same)} on this task and allows ${show(policy.perTask)} per task; do not answer it again.`);
  const recent = spent(record, recently(policy, now));
  if (!atMost(add(recent, task.epsilon), policy.perPeriod))
    refuse(`This task costs ε = ${show(task.epsilon)} and this device has spent ${show(recent)} of the ${show(policy.perPeriod)} that it allows in ${policy.days} days; answer it later.`);
}
