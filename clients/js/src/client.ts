/** Sending a value: check, randomize, encrypt, charge, store, send; the same bytes again after an
 * interruption. */
import { toShuffler, type Ask } from "./asking.js";
import { fail, ShuffledpError } from "./errors.js";
import { ascii, hex, join, sha256, webKey, type Bytes, type Ephemeral } from "./hpke.js";
import { checkBudget, checkPolicy } from "./policy.js";
import type { Answer } from "./questions.js";
import { text } from "./rational.js";
import { encryptReport } from "./report.js";
import { systemWords } from "./sampling.js";
import { deviceStorage, type DeviceRecord, type Storage } from "./storage.js";
import type { Task } from "./task.js";

const [FIRST_PAUSE, LONGEST_PAUSE, MOST_WAIT] = [0.25, 30, 300]; // seconds
/** From so many messages on a report is made in a Worker, so that the page stays responsive. */
const LARGE_REPORT = 400;

export interface ClientOptions {
  /** The token with which this device was enrolled: at the issuer if the task has one, else at the shuffler. */
  readonly token: string;
  /** Another address of the shuffler than the one that the task names. */
  readonly shuffler?: string;
  /** A relay for the report, as `loadTask` takes one, if it was not told. */
  readonly relay?: string;
  readonly storage?: Storage;
  /** How often to try before `send` gives up for now (8). */
  readonly attempts?: number;
  /** Whether to make the report in a Worker (from 400 messages on, where there is one). */
  readonly worker?: boolean;
  /** Another maker of X25519 keys than WebCrypto: see @shuffledp/client/noble. */
  readonly ephemeral?: Ephemeral;
}

/** What a shuffler's answer was: 201 for a new report, 200 for one that it had already. */
export interface Receipt {
  readonly status: number;
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
  }

  /** Gets the task's one-time token, where it has an issuer; best long before `send`, so that the times of the
   * two say nothing. `send` does this if it was not done. */
  async prepare(): Promise<void> {
    this.task.checkTime();
    checkPolicy(this.task, this.task.policy);
    await this.storage.update((record) => this.admit(record));
    await this.bearer();
  }

  /** Sends a value, once; throws with code "answered" if this device has answered this task. */
  async send(value: Answer): Promise<Receipt> {
    const { task } = this;
    const ask = await this.asking();
    await this.prepare();
    const body = await this.storage.alone(async () => {
      await this.storage.update((record) => this.admit(record));
      const id = join((await this.bearer())[1].slice(0, 8), crypto.getRandomValues(new Uint8Array(8)));
      const made = await this.encrypt(value, id);
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
    return this.post(ask, body);
  }

  /** Sends the stored report again, the very same bytes; null if the shuffler has it already. */
  async resume(): Promise<Receipt | null> {
    const stored = await this.stored();
    if (stored === undefined) fail("refused", "Nothing is stored for this task; use send.");
    return stored && this.post(await this.asking(), stored);
  }

  /** Whether a report of this device waits to be sent, was acknowledged, or is not there. */
  async state(): Promise<"none" | "waiting" | "answered"> {
    const stored = await this.stored();
    return stored === undefined ? "none" : stored ? "waiting" : "answered";
  }

  private stored(): Promise<Bytes | null | undefined> {
    return this.storage.update((record) => record.reports[this.task.id]);
  }

  private now(): number {
    return Math.floor(this.task.clock() / 1000);
  }

  private admit(record: DeviceRecord): void {
    if (this.task.id in record.reports)
      fail("answered", "This device has answered this task; a second value would weaken the guarantee: use resume to send what is stored.");
    checkBudget(this.task, this.task.policy, record, this.now());
    this.task.logged.trust(record, this.shuffler);
  }

  private async encrypt(value: Answer, reportId: Bytes): Promise<Bytes> {
    const { task, options } = this;
    const wanted = options.worker ?? task.reportSize >= LARGE_REPORT;
    if (wanted && typeof Worker !== "undefined" && !this.ephemeral && !task.cells.length) {
      const made = await (await import("./offload.js")).inWorker(task, value, reportId);
      if (made) return made;
    }
    return encryptReport(task, value, reportId, systemWords, this.ephemeral ?? webKey);
  }

  /** How the shuffler is asked. */
  private asking(): Promise<Ask> {
    return toShuffler(this.shuffler, this.task.gateway, this.options.relay ?? this.task.relay, this.ephemeral);
  }

  /** The token that the report carries, and the hash by which the shuffler knows it. */
  private async bearer(): Promise<readonly [string, Bytes]> {
    const { task, storage, options: { token } } = this;
    if (!task.issuer) return [token, await sha256(ascii(token))];
    return (await import("./tokens.js")).oneTimeToken(task, storage, token, this.deliver.bind(this));
  }

  private async post(ask: Ask, body: Bytes): Promise<Receipt> {
    const { task } = this;
    const [token] = await this.bearer();
    const { status } = await this.deliver(ask, "reports", token, "application/octet-stream", body, "The shuffler refused the report", "The shuffler did not take the report; it is stored: send it later with resume.");
    await this.storage.update((record) => {
      if (task.repeat) delete record.reports[task.id];
      else record.reports[task.id] = null;
      delete record.tokens?.[task.id];
    });
    return { status };
  }

  /** Posts the same bytes until they are taken or refused for good. */
  async deliver(ask: Ask, what: string, token: string, type: string, body: Bytes, refusal: string, vain: string): Promise<Response> {
    const attempts = this.options.attempts ?? 8;
    for (let attempt = 0; attempt < attempts; attempt++) {
      const answer = await ask(`/tasks/${this.task.id}/${what}`, {
        method: "POST",
        headers: { Authorization: `Bearer ${token}`, "Content-Type": type },
        body,
      });
      const status = answer?.status ?? 0;
      if (status === 200 || status === 201) return answer!;
      if (answer && status < 500 && ![408, 425, 429].includes(status)) {
        const data = (await answer.json().catch(() => null)) as { type?: unknown; detail?: unknown } | null;
        const code = String(data?.type).split(":").at(-1)!;
        if (code !== "interrupted") throw new ShuffledpError("refused", `${refusal}: ${String(data?.detail ?? status).slice(0, 500)}`, status, code);
      }
      const asked = Number(answer?.headers.get("Retry-After")) || 0;
      if (asked > MOST_WAIT || attempt === attempts - 1) break;
      const pause = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** attempt) * (0.5 + Math.random());
      await new Promise((resolve) => setTimeout(resolve, 1000 * Math.max(asked, pause)));
    }
    return fail("unreachable", vain);
  }
}

export type Deliver = Client["deliver"];

export const createClient = (task: Task, options: ClientOptions): Client => new Client(task, options);
