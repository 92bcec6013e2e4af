/** A task: everything that device, shuffler and analyzer agree on, named by the SHA-256 of its text. */
import { direct, toShuffler } from "./asking.js";
import type { CellKind } from "./cells.js";
import type { Description } from "./describe.js";
import { fail } from "./errors.js";
import type { Logged, Verify } from "./logged.js";
import { ascii, fromHex, hex, sha256, type Bytes, type Ephemeral } from "./hpke.js";
import { checkPolicy, readPolicy, type Policy, type PolicySettings } from "./policy.js";
import { questionOf, readersFor, type Question, type Readers } from "./questions.js";
import { text as written, type Rational } from "./rational.js";
import { anything, choice, list, readCanonical, record, textOf, whole, type Check } from "./schema.js";
import type { Storage } from "./storage.js";

export const TASK_FORMAT = "shuffledp task 3";
export const MESSAGE_BYTES = 52;
export const HEADER_BYTES = 59;
const MOST_TASK_BYTES = 8 << 20;
export const SHOWN = /^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*$/;
const URL_FORM =
  /^(https:\/\/([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])|http:\/\/(127\.0\.0\.1|localhost|\[::1\]))(:[1-9][0-9]{0,4})?(\/[A-Za-z0-9._~-]+)*$/;
const LATEST = 253_402_300_799;
const OPERATOR = textOf(1, 200, SHOWN);
export const SERVER = textOf(1, 300, URL_FORM);
/** A key configuration of RFC 9458: number, X25519, public key, HKDF-SHA256 and AES-128-GCM. */
export const GATEWAY = textOf(82, 82, /^[0-9a-f]{2}0020[0-9a-f]{64}000400010001$/);

export interface Operators {
  readonly collector: string;
  readonly shuffler: string;
  readonly analyzer: string;
}

/** Who gives the one-time tokens that reports carry. */
export interface Issuer {
  readonly url: string;
  /** In hexadecimal digits; used for this task and no other. */
  readonly key: string;
  /** Whether tokens are for attested enrolments only. */
  readonly attested: boolean;
}

export interface LoadOptions {
  /** The id that the task must have: 64 hexadecimal digits. */
  readonly id?: string;
  readonly policy?: PolicySettings;
  /** Further kinds of cells than bounded ones. */
  readonly cells?: readonly CellKind[];
  /** The task's proof, where it is not to be loaded from beside the task. */
  readonly proof?: string;
  /** Another check of Ed25519 signatures than WebCrypto's: see @shuffledp/client/noble. */
  readonly verify?: Verify;
  /** A relay through which the proof is loaded and the report is sent, so that the shuffler does not learn this
   * device's address. */
  readonly relay?: string;
  /** For `loadCurrentTask` with a relay: the shuffler's gateway key (82 hexadecimal digits), which the page has from
   * the collector, or `gateway` of an earlier task; list and task then come through the relay. */
  readonly gateway?: string;
  /** For `loadCurrentTask` with a relay: the server is not the shuffler, and is asked without the relay. */
  readonly direct?: boolean;
  /** Another maker of X25519 keys than WebCrypto: see @shuffledp/client/noble. */
  readonly ephemeral?: Ephemeral;
  /** Milliseconds since 1970; for tests. */
  readonly clock?: () => number;
}

/** A task whose every number was checked on this device. */
export class Task {
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
  /** Whether batches may leave with fewer reports than planned. */
  readonly shortBatches: boolean;
  readonly batchReports: number;
  readonly users: number;
  readonly protocol: Question;
  /** Who gives the one-time tokens that reports carry, where somebody does. */
  readonly issuer: Issuer | undefined;
  /** The shuffler's key for requests that come through a relay. */
  readonly gateway: string | undefined;
  /** As `loadTask` was told. */
  relay: string | undefined;
  ephemeral: Ephemeral | undefined;
  /** Its place in a series of tasks, as it was written; `prove` checks it. */
  readonly series: unknown;
  /** Who has signed it; `loadTask` finds that out. */
  logged!: Logged;
  readonly key: { readonly id: number; readonly epoch: number; readonly raw: Bytes };

  constructor(
    /** The canonical text. */
    readonly text: string,
    /** Its SHA-256, in hexadecimal digits. */
    readonly id: string,
    readonly policy: Policy,
    readers: Readers,
    readonly cells: readonly CellKind[],
    readonly clock: () => number,
  ) {
    const task = record({
      format: choice(TASK_FORMAT),
      suite: choice("HPKE X25519 HKDF-SHA256 AES-128-GCM"),
      order: choice("canonical", "uniform"),
      name: textOf(1, 100, SHOWN),
      question: textOf(1, 1000, SHOWN),
      operators: record({ collector: OPERATOR, shuffler: OPERATOR, analyzer: OPERATOR }),
      shuffler: SERVER,
      not_before: whole(0, LATEST),
      expires: whole(1, LATEST),
      report_size: whole(1, 65535),
      padding: choice("exact", "2^-64"),
      repeat: choice(true, false),
      analyzer_key: record({ key_id: whole(1, 65535), epoch: whole(1, 2 ** 32 - 1), public: textOf(64, 64, /^[0-9a-f]*$/) }),
      batch: record({
        reports: whole(1, 2e9),
        top_up: choice("none", "missing", "full"),
        at_least: whole(0, 2e9),
        wait_seconds: whole(0, 1e8),
      }),
      publish_noise: choice("none", "full"),
      certificate: certificateOf(readers, cells),
    }, {
      gateway: GATEWAY,
      issuer: anything,
      series: anything,
    })(readCanonical(text), "task");
    const { batch, analyzer_key: key } = task;
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
    this.protocol = task.certificate;
    this.users = this.protocol.users;
    this.issuer = task.issuer as Issuer | undefined; // `loadTask` checks it
    this.gateway = task.gateway;
    this.series = task.series;
    this.batchReports = batch.reports;
    this.shortBatches = batch.at_least > 0 && batch.at_least < batch.reports;
    const added = batch.top_up !== "none";
    if (
      this.expires <= this.notBefore || batch.reports < this.users || batch.at_least > batch.reports ||
      (!added && (batch.at_least || batch.wait_seconds)) || (task.repeat && "issuer" in task) ||
      (!this.protocol.allowsTopUp && (added || task.publish_noise !== "none"))
    )
      fail("task", "The task's dates or its batches do not fit; ask for a new task.");
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
    return (await import("./describe.js")).describe(this, storage);
  }

  /** Throws unless the parameters are private and reports are long enough, proved here. */
  async prove(): Promise<void> {
    if (this.series !== undefined) (await import("./series.js")).checkSeries(this);
    for (const { cell, up, down } of this.protocol.uses) cell.prove(up, down);
    const size = this.reportSize - this.protocol.calls;
    let most: number | null = 0;
    let copies = 0;
    for (const use of this.protocol.uses) {
      most = most === null || use.cell.mostMessages === null ? null : most + use.cell.mostMessages * use.copies;
      copies += use.copies;
    }
    const enough = this.padding === "exact"
      ? most !== null && size >= most
      : await (await import("./reserve.js")).reserveHolds(this.protocol.uses, size, this.batchReports);
    if (!enough || copies > 1 << 30) fail("task", `Reports of ${this.reportSize} messages are too short for this task; ask for a new one.`);
  }

  /** Throws unless the task is valid now. */
  checkTime(): void {
    const now = this.clock() / 1000;
    if (now < this.notBefore) fail("expired", "This task is not valid yet; look at the clock, and answer it later.");
    if (now >= this.expires) fail("expired", "This task has expired; ask for the task that follows.");
  }
}

const certificateOf =
  (readers: Readers, kinds: readonly CellKind[]): Check<Question> =>
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
        protocol: questionOf(readers, kinds),
        cells: list(record({ kind: anything, copies: anything, up: anything, down: anything, proof: anything }), 1, 25),
      },
      { version: textOf(0, 40) },
    )(data, name);
    const { uses } = protocol;
    const claims = [
      epsilon, loss, rule, users, cells.length,
      ...cells.flatMap(({ kind, copies, up, down, proof }, i) => [kind, copies, up, down, uses[i]?.cell.agrees(proof ?? {})]),
    ];
    const facts = [
      written(protocol.epsilon), written(protocol.loss), protocol.lossRule, protocol.users, uses.length,
      ...uses.flatMap(({ cell, copies, up, down }) => [cell.kind, copies, written(up), written(down), true]),
    ];
    if (claims.some((claim, i) => claim !== facts[i]))
      fail("task", "The certificate does not follow from its parameters; it was changed: ask for a new task.");
    return protocol;
  };

/** The task in a text, or at a URL; every number of it is checked, and its privacy proved, here.
 *
 * Where an id is given, or the URL ends with one (…/tasks/<id>), the task must have it. */
export async function loadTask(source: string | URL, options: LoadOptions = {}): Promise<Task> {
  let text = String(source);
  let { id } = options;
  if (!text.trimStart().startsWith("{")) {
    id ??= /([0-9a-f]{64})$/.exec(text)?.[1];
    const answer = await direct(text)("");
    if (!answer?.ok) fail("unreachable", `The task could not be loaded (HTTP ${answer?.status ?? 0}); try again later.`);
    text = await answer.text();
  }
  if (text.length > MOST_TASK_BYTES) fail("task", "The task is longer than 8 MiB; ask for a smaller one.");
  const found = hex(await sha256(ascii(text)));
  if (id !== undefined && id !== found) fail("task", "The task's content does not match its id; it was changed on its way.");
  const task = new Task(text, found, readPolicy(options.policy), await readersFor(text), options.cells ?? [], options.clock ?? Date.now);
  task.checkTime();
  checkPolicy(task, task.policy);
  await task.prove();
  if (task.issuer !== undefined) (await import("./tokens.js")).checkIssuer(task.issuer);
  task.relay = options.relay;
  task.ephemeral = options.ephemeral;
  const proof = async () => options.relay || text === String(source)
    ? (await toShuffler(task.shuffler, task.gateway, options.relay, options.ephemeral))(`/tasks/${found}/proof`)
    : direct(String(source))("/proof");
  task.logged = await (await import("./logged.js")).logged(task, proof, options.proof, options.verify);
  return task;
}

/** The task of a series that is asked now: the one whose name begins so, in the list of a shuffler, or of a site
 * that copies the shuffler's answers. With a relay the proof comes through it, and with `gateway` all the rest. */
export const loadCurrentTask = async (server: string, name: string, options: LoadOptions = {}): Promise<Task> =>
  (await import("./series.js")).current(loadTask, server, name, options);
