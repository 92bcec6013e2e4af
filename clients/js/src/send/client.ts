/** Sending a value: check, randomize, encrypt, charge, store, send; the same bytes again after an
 * interruption. */
import { hex, join, randomBytes, sha256, utf8, type Bytes } from "../bytes.js";
import { checkBudget, checkPolicy } from "../device/policy.js";
import { deviceStorage, type DeviceRecord, type Storage } from "../device/storage.js";
import { fail } from "../errors.js";
import { text } from "../numbers/rational.js";
import { systemWords } from "../numbers/sampling.js";
import type { Answer } from "../queries/base.js";
import { webKey, type Ephemeral } from "../task/hpke.js";
import { encryptReport } from "../task/report.js";
import type { Task } from "../task/task.js";
import { post, refusal, toShuffler, type Ask } from "./requests.js";

const [FIRST_PAUSE, LONGEST_PAUSE, MOST_WAIT] = [0.25, 30, 300]; // seconds
/** Reports of at least this many messages are made in a Worker: the page stays responsive. */
const LARGE_REPORT = 400;

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
  /** Whether to make the report in a Worker (from 400 messages on, if the browser has Workers). */
  readonly worker?: boolean;
  /** A source of X25519 keys other than WebCrypto: see @shuffledp/client/noble. */
  readonly ephemeral?: Ephemeral;
}

/** The shuffler's answer: 201 for a new report, 200 for one that it had already. */
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

  /** Gets the task's one-time token, if it has an issuer. Call it long before `send`, so that the
   * times of the two requests are unrelated; `send` calls it otherwise. */
  async prepare(): Promise<void> {
    this.task.checkTime();
    checkPolicy(this.task);
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
      const id = join((await this.bearer())[1].slice(0, 8), randomBytes(8));
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

  /** Sends the stored report again, byte for byte; null if the shuffler has it already. */
  async resume(): Promise<Receipt | null> {
    const stored = await this.stored();
    if (stored === undefined) fail("refused", "No report is stored for this task; use send.");
    return stored && this.post(await this.asking(), stored);
  }

  /** Whether this device has no report for the task, one that waits to be sent, or has answered. */
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
    const { task, options, ephemeral = webKey } = this;
    const wanted = options.worker ?? task.reportSize >= LARGE_REPORT;
    if (wanted && typeof Worker !== "undefined" && !this.ephemeral && !task.cells.length) {
      const made = await (await import("./offload.js")).inWorker(task, value, id);
      if (made) return made;
    }
    return encryptReport(task, value, { id, words: systemWords, ephemeral });
  }

  /** How to ask the shuffler. */
  private asking(): Promise<Ask> {
    const { task, shuffler, ephemeral } = this;
    const { gateway } = task;
    return toShuffler({ shuffler, gateway, relay: this.options.relay ?? task.relay, ephemeral });
  }

  /** The token that the report carries, and the hash by which the shuffler knows it. */
  private async bearer(): Promise<readonly [string, Bytes]> {
    const { task, storage } = this;
    const { token } = this.options;
    if (!task.issuer) return [token, await sha256(utf8(token))];
    const { oneTimeToken } = await import("./tokens.js");
    return oneTimeToken(task, { storage, token, deliver: this.deliver.bind(this) });
  }

  private async post(ask: Ask, body: Bytes): Promise<Receipt> {
    const { task } = this;
    const [token] = await this.bearer();
    const { status } = await this.deliver(
      () => ask(`/tasks/${task.id}/reports`, post("application/octet-stream", token, body)),
      "The shuffler refused the report",
      "The shuffler did not take the report. It is stored; resume sends it later.",
    );
    await this.storage.update((record) => {
      if (task.repeat) delete record.reports[task.id];
      else record.reports[task.id] = null;
      delete record.tokens?.[task.id];
    });
    return { status };
  }

  /** Sends a request until it is taken or refused for good, and says so in these words. */
  async deliver(
    send: () => Promise<Response | null>,
    refused: string,
    unreachable: string,
  ): Promise<Response> {
    const attempts = this.options.attempts ?? 8;
    for (let attempt = 0; attempt < attempts; attempt++) {
      const answer = await send();
      const status = answer?.status ?? 0;
      if (status === 200 || status === 201) return answer!;
      if (answer && status < 500 && ![408, 425, 429].includes(status)) {
        const error = await refusal(answer, refused);
        if (error.problem !== "interrupted") throw error;
      }
      const asked = Number(answer?.headers.get("Retry-After")) || 0;
      if (asked > MOST_WAIT || attempt === attempts - 1) break;
      const pause = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** attempt) * (0.5 + Math.random());
      await new Promise((resolve) => setTimeout(resolve, 1000 * Math.max(asked, pause)));
    }
    return fail("unreachable", unreachable);
  }
}

export type Deliver = Client["deliver"];

export const createClient = (task: Task, options: ClientOptions): Client =>
  new Client(task, options);
