/** What a task asks for and what an answer costs, in words for a consent screen. */
import { hex } from "../bytes.js";
import { add, show, subtract } from "../numbers/rational.js";
import type { Values } from "../queries/base.js";
import type { Signers } from "../task/log.js";
import type { Operators, Task } from "../task/task.js";
import { recently, spent } from "./policy.js";
import { deviceStorage, type Storage } from "./storage.js";

export interface Description {
  readonly question: string;
  /** Which values can be sent. */
  readonly values: Values;
  /** What an answer costs, as a number for people. */
  readonly epsilon: string;
  /** How many users' answers hide this one. */
  readonly users: number;
  readonly messages: number;
  /** Bytes of the report, whatever the answer. */
  readonly bytes: number;
  readonly guarantee: string;
  readonly operators: Operators;
  readonly shuffler: string;
  /** The server that gives the one-time token which the report carries, if the task has one. */
  readonly issuer: string | undefined;
  /** The relay that passes the report on, if there is one. */
  readonly relay: string | undefined;
  readonly analyzerKey: string;
  /** The keys with which collector, shuffler and analyzer have signed the task. */
  readonly signers: Signers;
  /** Whether some of these keys are new to this device and not named by its policy: it would trust
   * them on first use. */
  readonly newKeys: boolean;
  readonly expires: Date;
  /** ε: spent by this device in the policy's period, allowed in it, and left after this answer. */
  readonly spent: string;
  readonly allowed: string;
  readonly remains: string;
  readonly days: number;
  readonly answered: boolean;
  /** All of this in sentences. */
  readonly sentences: readonly string[];
}

/** A server's name for people; `otherwise` if it has an address and no name. */
function named(url: string, otherwise: string): string {
  const { hostname } = new URL(url);
  return /^[\d.]+$|[:[]|^localhost$/.test(hostname) ? otherwise : hostname;
}

export async function describe(
  task: Task,
  storage: Storage = deviceStorage(),
): Promise<Description> {
  const { policy, operators } = task;
  const [before, answered, newKeys] = await storage.update((record) => {
    const known = Object.keys(record.keys[task.shuffler] ?? {}).length;
    const trusted = structuredClone(record);
    trusted.keys[task.shuffler] = {};
    task.logged.trust(trusted, task.shuffler);
    const asked = Object.keys(trusted.keys[task.shuffler]!).length;
    return [
      spent(record, recently(policy, task.clock() / 1000)),
      task.id in record.reports,
      known < asked,
    ] as const;
  });
  const about = {
    question: task.question,
    values: task.protocol.values,
    epsilon: show(task.epsilon),
    users: task.users,
    messages: task.reportSize,
    bytes: task.reportBytes,
    guarantee:
      task.padding === "exact"
        ? "pure ε-differential privacy in the shuffle model"
        : "ε-differential privacy in the shuffle model, up to a probability of 2⁻⁶⁴ per batch",
    operators,
    shuffler: task.shuffler,
    issuer: task.issuer?.url,
    relay: task.relay,
    analyzerKey: hex(task.key.raw),
    signers: task.logged.signers,
    newKeys,
    expires: new Date(task.expires * 1000),
    spent: show(before),
    allowed: show(policy.mostEpsilonPerPeriod),
    remains: show(
      subtract(policy.mostEpsilonPerPeriod, answered ? before : add(before, task.epsilon)),
    ),
    days: policy.periodDays,
    answered,
  };
  const number = (value: number): string => value.toLocaleString("en");
  return {
    ...about,
    sentences: [
      `Your answer is randomized and encrypted on this device before it is sent. It is hidden among those of ${number(about.users)} people (ε = ${about.epsilon}, ${about.guarantee}).`,
      `${number(about.messages)} encrypted messages are sent, ${number(about.bytes)} bytes, whatever you answer.`,
      `Who asks: ${operators.collector}. Who mixes the answers: ${operators.shuffler}. Who computes the result: ${operators.analyzer}. Neither ${operators.shuffler} nor ${operators.analyzer} can read your answer; they could only by combining what they hold.`,
      ...(task.issuer
        ? [
            `${named(task.issuer.url, "The issuer")} gives this device one token for this question and cannot recognize it later; the mixer sees that token and not who you are.`,
          ]
        : []),
      ...(task.relay
        ? [
            `The answer goes through ${named(task.relay, "a relay")}, which sees your address and cannot read the answer; the mixer does not see your address.`,
          ]
        : []),
      `All three have signed this question, and a public log lists it, so everybody is asked the same.${newKeys ? " This device sees their keys for the first time and would trust them from now on." : ""}`,
      answered
        ? `You have already answered this question. This device has spent ε = ${about.spent} of ${about.allowed} in ${about.days} days.`
        : `This device has spent ε = ${about.spent} of the ${about.allowed} that it allows in ${about.days} days; after this answer ${about.remains} are left.`,
    ],
  };
}
