/** Sending a value: check, randomize, encrypt, charge, store, send; the same bytes again after an
 * interruption. */
import { hex, join, randomBytes, sha256, utf8, type Bytes } from "../bytes.js";
import { checkBudget, checkPolicy } from "../device/policy.js";
import { deviceStorage, type DeviceRecord, type Storage } from "../device/storage.js";
import { fail } from "../errors.js";
import { text } from "../numbers/rational.js";
import { systemWords } from "../numbers/sampling.js";
import type { Answer } from "../queries/base.js";
import type { Ephemeral } from "../task/hpke.js";
import type { Task } from "../task/task.js";
import { deliver, post, toShuffler, type Ask, type Patience } from "./requests.js";

/** Reports of at least this many messages are made in a Worker: the page stays responsive. */
const LARGE_REPORT = 400;

const reporting = () => import("../task/report.js");

export interface ClientOptions {
  /** The token with which this device was enrolled: at the issuer if the task has one, else at the
   * shuffler. */
  readonly token: string;
  /** An address of the shuffler other than the one that the task names. */
  readonly shuffler?: string;
  /** A relay for the report, if `loadTask` was given none. */
  readonly relay?: string;
  readonly storage?: Storage;
  /** How often to try before `send` gives up for now (8). */
  readonly attempts?: number;
  /** Whether to make the report in a Worker (from 400 messages on, if the browser has Workers), or
   * what starts one with the file `@shuffledp/client/worker`. */
  readonly worker?: boolean | (() => Worker);
  /** A source of X25519 keys other than WebCrypto: see @shuffledp/client/noble. */
  readonly ephemeral?: Ephemeral;
}

/** What became of a report. "sent": the shuffler has it (201: a new one, 200: it had it already).
 * "stored": this device is offline and has stored it; it is sent when the device is online again,
 * or by `resume` on a later visit. */
export type Receipt =
  | { readonly state: "sent"; readonly status: number }
  | { readonly state: "stored" };

export interface SendOptions {
  /** Ends waiting: the call then throws the signal's reason. `state` says whether a report was
   * stored before; `resume` sends it. */
  readonly signal?: AbortSignal | undefined;
}

export class Client {
  private readonly storage: Storage;
  private readonly shuffler: string;
  private readonly ephemeral: Ephemeral | undefined;

  constructor(
    readonly task: Task,
    private readonly options: ClientOptions,
  ) {
    this.storage = options.storage ?? deviceStorage();
    this.shuffler = (options.shuffler ?? task.shuffler).replace(/\/+$/, "");
    this.ephemeral = options.ephemeral ?? task.ephemeral;
    reporting().catch(() => undefined); // loaded now: the device may be offline when it is needed
  }

  /** Gets the task's one-time token, if it has an issuer. Call it long before `send`, so that the
   * times of the two requests are unrelated; `send` calls it otherwise. */
  async prepare({ signal }: SendOptions = {}): Promise<void> {
    this.task.checkTime();
    checkPolicy(this.task);
    await this.storage.update((record) => this.admit(record));
    await this.bearer(signal);
  }

  /** Sends a value, once; `true` and `false` answer a yes-or-no question. Throws with code
   * "answered" if this device has answered this task. Offline it returns at once, and the stored
   * report is sent later. */
  async send(value: Answer | boolean, { signal }: SendOptions = {}): Promise<Receipt> {
    const { task } = this;
    const yesNo = typeof value === "boolean" && task.protocol.query === "count";
    const ask = await this.asking(signal);
    await this.prepare({ signal });
    const body = await this.storage.alone(async () => {
      await this.storage.update((record) => this.admit(record));
      const id = join((await this.bearer(signal))[1].slice(0, 8), randomBytes(8));
      const made = await this.encrypt((yesNo ? +value : value) as Answer, id);
      signal?.throwIfAborted();
      await this.storage.update((record) => {
        this.admit(record);
        record.charges.push({
          report: hex(id),
          task: task.id,
          name: task.name,
          question: task.question,
          operators: task.operators,
          shuffler: this.shuffler,
          epsilon: text(task.epsilon),
          bytes: made.length,
          expires: task.expires,
          when: this.now(),
        });
        record.reports[task.id] = made;
      });
      return made;
    });
    return this.post(ask, body, signal);
  }

  /** Sends the report that waits on this device, byte for byte as it was made; null if there is
   * none. Call it when a page loads. */
  async resume({ signal }: SendOptions = {}): Promise<Receipt | null> {
    const stored = await this.stored();
    return stored ? this.post(await this.asking(signal), stored, signal) : null;
  }

  /** Whether this device has made no report for the task, has stored one that waits to be sent, or
   * has sent it. */
  async state(): Promise<"none" | "stored" | "sent"> {
    const stored = await this.stored();
    return stored === undefined ? "none" : stored ? "stored" : "sent";
  }

  private stored(): Promise<Bytes | null | undefined> {
    return this.storage.update((record) => record.reports[this.task.id]);
  }

  private now(): number {
    return Math.floor(this.task.clock() / 1000);
  }

  private admit(record: DeviceRecord): void {
    const { task } = this;
    if (task.id in record.reports)
      fail(
        "answered",
        "You have already answered this question. If the answer was not sent yet, resume sends it.",
      );
    checkBudget(task, record, this.now());
    task.logged.trust(record, this.shuffler);
  }

  private async encrypt(value: Answer, id: Bytes): Promise<Bytes> {
    const { task, options, ephemeral } = this;
    const { worker = task.reportSize >= LARGE_REPORT } = options;
    if (worker && typeof Worker !== "undefined" && !ephemeral && !task.cells.length) {
      const { inWorker } = await import("./offload.js");
      const order = { text: task.text, id: task.id, value, reportId: id };
      const made = await inWorker(order, worker === true ? undefined : worker);
      if (made) return made;
    }
    return (await reporting()).encryptReport(task, value, { id, words: systemWords, ephemeral });
  }

  /** How to ask the shuffler. */
  private asking(signal?: AbortSignal): Promise<Ask> {
    const { task, shuffler, ephemeral } = this;
    const relay = this.options.relay ?? task.relay;
    return toShuffler({ shuffler, gateway: task.gateway, relay, ephemeral, signal });
  }

  private patience(signal?: AbortSignal): Patience {
    return { attempts: this.options.attempts, signal };
  }

  /** The token that the report carries, and the hash by which the shuffler knows it. */
  private async bearer(signal?: AbortSignal): Promise<readonly [string, Bytes]> {
    const { task, storage } = this;
    const { token } = this.options;
    if (!task.issuer) return [token, await sha256(utf8(token))];
    const { oneTimeToken } = await import("./tokens.js");
    return oneTimeToken(task, { storage, token, ...this.patience(signal) });
  }

  private async post(ask: Ask, body: Bytes, signal?: AbortSignal): Promise<Receipt> {
    const { task } = this;
    if (globalThis.navigator?.onLine === false) {
      addEventListener("online", () => this.resume().catch(() => undefined), { once: true });
      return { state: "stored" };
    }
    const [token] = await this.bearer(signal);
    const { status } = await deliver(
      {
        ask,
        path: `/tasks/${task.id}/reports`,
        request: post("application/octet-stream", token, body),
        refused: "The shuffler refused the report",
        unreachable: "The shuffler did not take the report. It is stored; resume sends it later.",
      },
      this.patience(signal),
    );
    await this.storage.update((record) => {
      if (task.repeat) delete record.reports[task.id];
      else record.reports[task.id] = null;
      delete record.tokens?.[task.id];
    });
    return { state: "sent", status };
  }
}

export const createClient = (task: Task, options: ClientOptions): Client =>
  new Client(task, options);
