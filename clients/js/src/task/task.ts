/** A task: everything that device, shuffler and analyzer agree on, named by the SHA-256 of its
 * text. */
import { fromHex, type Bytes } from "../bytes.js";
import type { CellKind } from "../cells/base.js";
import type { Description } from "../device/describe.js";
import type { Policy } from "../device/policy.js";
import type { Storage } from "../device/storage.js";
import { bad, fail } from "../errors.js";
import { text as written, type Rational } from "../numbers/rational.js";
import type { Protocol } from "../queries/base.js";
import { protocolReader } from "../queries/registry.js";
import {
  anything,
  choice,
  list,
  readCanonical,
  record,
  textOf,
  whole,
  type Check,
} from "../schema.js";
import { GATEWAY, HEX32, NAME, seconds, SERVER, SHOWN } from "./forms.js";
import type { Ephemeral } from "./hpke.js";
import type { Logged } from "./log.js";

export const MESSAGE_BYTES = 52;
const HEADER_BYTES = 59;
const OPERATOR = textOf(1, 200, SHOWN);

export interface Operators {
  readonly collector: string;
  readonly shuffler: string;
  readonly analyzer: string;
}

/** The server that gives the one-time tokens which reports carry. */
export interface Issuer {
  readonly url: string;
  /** In hexadecimal digits; used for this task and no other. */
  readonly key: string;
  /** Whether tokens are for attested enrolments only. */
  readonly attested: boolean;
}

export interface TaskOptions {
  /** SHA-256 of the text, in hexadecimal digits. */
  readonly id: string;
  readonly policy: Policy;
  /** Kinds of cells beside those that every client knows. */
  readonly cells: readonly CellKind[];
  /** Milliseconds since 1970. */
  readonly clock: () => number;
}

/** Reads a task's text and checks every number in it; `prove` (proving.ts) then proves its
 * privacy. */
export async function readTask(text: string, options: TaskOptions): Promise<Task> {
  const data = readCanonical(text) as { certificate?: { protocol?: { query?: unknown } } } | null;
  const { query } = data?.certificate?.protocol ?? {};
  const protocol = await protocolReader(query, text, options.cells);
  return new Task(text, formOf(protocol)(data, "task"), options);
}

/** A task whose every number was checked on this device. */
export class Task {
  readonly id: string;
  readonly policy: Policy;
  readonly cells: readonly CellKind[];
  readonly clock: () => number;
  readonly name: string;
  /** What people are asked. */
  readonly question: string;
  /** Who runs what, as the task says. */
  readonly operators: Operators;
  /** Where reports are sent. */
  readonly shuffler: string;
  readonly notBefore: number;
  readonly expires: number;
  /** How many messages every report holds. */
  readonly reportSize: number;
  /** "exact", or "2^-64". */
  readonly padding: string;
  readonly repeat: boolean;
  /** Whether batches may be closed with fewer reports than planned. */
  readonly shortBatches: boolean;
  readonly batchReports: number;
  readonly users: number;
  readonly protocol: Protocol;
  readonly issuer: Issuer | undefined;
  /** The shuffler's key for requests that come through a relay. */
  readonly gateway: string | undefined;
  /** The relay and the source of X25519 keys that `loadTask` was given. */
  relay: string | undefined;
  ephemeral: Ephemeral | undefined;
  /** Its position in a series of tasks, as written; `checkSize` checks it. */
  readonly series: unknown;
  /** Who has signed it; `loadTask` finds that out. */
  logged!: Logged;
  readonly key: { readonly id: number; readonly epoch: number; readonly raw: Bytes };

  constructor(
    /** The canonical text. */
    readonly text: string,
    task: ReturnType<ReturnType<typeof formOf>>,
    { id, policy, cells, clock }: TaskOptions,
  ) {
    const { batch, analyzer_key: key, certificate: protocol } = task;
    this.id = id;
    this.policy = policy;
    this.cells = cells;
    this.clock = clock;
    this.name = task.name;
    this.question = task.question;
    this.operators = task.operators;
    this.shuffler = task.shuffler;
    this.notBefore = task.not_before;
    this.expires = task.expires;
    this.reportSize = task.report_size;
    this.padding = task.padding;
    this.repeat = task.repeat;
    this.key = { id: key.key_id, epoch: key.epoch, raw: fromHex(key.public) };
    this.protocol = protocol;
    this.users = protocol.users;
    this.issuer = task.issuer as Issuer | undefined; // `loadTask` checks it
    this.gateway = task.gateway;
    this.series = task.series;
    this.batchReports = batch.reports;
    this.shortBatches = batch.at_least > 0 && batch.at_least < batch.reports;
    const added = batch.top_up !== "none";
    if (
      this.expires <= this.notBefore ||
      batch.reports < this.users ||
      batch.at_least > batch.reports ||
      (!added && (batch.at_least || batch.wait_seconds)) ||
      (task.repeat && "issuer" in task) ||
      (!protocol.allowsTopUp && (added || task.publish_noise !== "none"))
    )
      bad("The task's dates or its batches do not fit");
  }

  /** Bytes of every report. */
  get reportBytes(): number {
    return HEADER_BYTES + this.reportSize * MESSAGE_BYTES;
  }

  get epsilon(): Rational {
    return this.protocol.epsilon;
  }

  /** What will be sent and what it costs, for a screen that asks for consent. */
  async describe(storage?: Storage): Promise<Description> {
    return (await import("../device/describe.js")).describe(this, storage);
  }

  /** Throws unless the task is valid now. */
  checkTime(): void {
    const now = this.clock() / 1000;
    if (now < this.notBefore) fail("expired", "This task is not valid yet; answer it later.");
    if (now >= this.expires)
      fail("expired", "This task has expired; ask for the task that follows.");
  }
}

const formOf = (protocol: Check<Protocol>) =>
  record(
    {
      format: choice("shuffledp task 3"),
      suite: choice("HPKE X25519 HKDF-SHA256 AES-128-GCM"),
      order: choice("canonical", "uniform"),
      name: NAME,
      question: textOf(1, 1000, SHOWN),
      operators: record({ collector: OPERATOR, shuffler: OPERATOR, analyzer: OPERATOR }),
      shuffler: SERVER,
      not_before: seconds(0),
      expires: seconds(1),
      report_size: whole(1, 65535),
      padding: choice("exact", "2^-64"),
      repeat: choice(true, false),
      analyzer_key: record({
        key_id: whole(1, 65535),
        epoch: whole(1, 2 ** 32 - 1),
        public: HEX32,
      }),
      batch: record({
        reports: whole(1, 2e9),
        top_up: choice("none", "missing", "full"),
        at_least: whole(0, 2e9),
        wait_seconds: whole(0, 1e8),
      }),
      publish_noise: choice("none", "full"),
      certificate: certificateOf(protocol),
    },
    {
      gateway: GATEWAY,
      issuer: anything,
      series: anything,
    },
  );

/** The protocol in a certificate; everything else that the certificate says must follow from it. */
export const certificateOf =
  (read: Check<Protocol>): Check<Protocol> =>
  (data, name) => {
    const { epsilon, loss, rule, users, protocol, cells } = record(
      {
        format: choice("shuffledp certificate 2"),
        statement: choice("pure differential privacy in the shuffle model"),
        neighbours: choice("replace one user's value"),
        epsilon: anything,
        loss: anything,
        rule: anything,
        users: anything,
        protocol: read,
        cells: list(anything, 1, 25),
      },
      { version: textOf(0, 40) },
    )(data, name);
    const uses = protocol.groups.flatMap((group) => group.uses);
    // the names in canonical JSON are sorted, so that equal entries have equal texts
    const entries = cells as readonly { readonly proof: object | null }[];
    const stated = [epsilon, loss, rule, users, entries.map((one) => ({ ...one, proof: 0 }))];
    const expected = [
      written(protocol.epsilon),
      written(protocol.loss),
      protocol.lossRule,
      protocol.users,
      uses.map(({ cell: { kind }, copies, up, down }) => ({
        copies,
        down: written(down),
        kind,
        proof: 0, // decided below
        up: written(up),
      })),
    ];
    if (
      JSON.stringify(stated) !== JSON.stringify(expected) ||
      !uses.every(({ cell }, i) => cell.agrees(entries[i]!.proof ?? {}))
    )
      bad("The certificate does not follow from its parameters");
    return protocol;
  };
