/** Loading a task: its text, its policy, its proofs. */
import { hex, sha256, utf8 } from "../bytes.js";
import type { CellKind } from "../cells/base.js";
import { checkPolicy, readPolicy, type PolicySettings } from "../device/policy.js";
import { bad } from "../errors.js";
import type { Ephemeral } from "../task/hpke.js";
import type { Verify } from "../task/log.js";
import { readTask, type Task } from "../task/task.js";
import { direct, notLoaded, toShuffler } from "./requests.js";

const MOST_TASK_BYTES = 8 << 20;

export interface LoadOptions {
  /** The id that the task must have: 64 hexadecimal digits. */
  readonly id?: string;
  readonly policy?: PolicySettings;
  /** Kinds of cells beside those that every client knows: see @shuffledp/client/paper. */
  readonly cells?: readonly CellKind[];
  /** The task's proof, if it should not be loaded from beside the task. */
  readonly proof?: string;
  /** A check of Ed25519 signatures other than WebCrypto's: see @shuffledp/client/noble. */
  readonly verify?: Verify;
  /** A relay through which the proof is loaded and the report is sent, so that the shuffler does
   * not learn this device's address. */
  readonly relay?: string;
  /** For `loadCurrentTask` with a relay: the shuffler's gateway key (82 hexadecimal digits), which
   * the page has from the collector, or `gateway` of an earlier task. The list and the task then
   * come through the relay. */
  readonly gateway?: string;
  /** For `loadCurrentTask` with a relay: the server is not the shuffler, and is asked directly. */
  readonly direct?: boolean;
  /** A source of X25519 keys other than WebCrypto: see @shuffledp/client/noble. */
  readonly ephemeral?: Ephemeral;
  /** Ends waiting for servers: `loadTask` then throws the signal's reason. */
  readonly signal?: AbortSignal;
  /** Milliseconds since 1970; for tests. */
  readonly clock?: () => number;
}

/** Loads the task in a text or at a URL. This device checks every number of it and proves its
 * privacy.
 *
 * If an id is given, or the URL ends with one (…/tasks/<id>), the task must have it. */
export async function loadTask(source: string | URL, options: LoadOptions = {}): Promise<Task> {
  const { policy, cells = [], relay, ephemeral, verify, signal, clock = Date.now } = options;
  const url = String(source);
  let text = url;
  let { id: wanted } = options;
  if (!text.trimStart().startsWith("{")) {
    wanted ??= /([0-9a-f]{64})$/.exec(text)?.[1];
    const answer = await direct(text, signal)("");
    if (!answer?.ok) return notLoaded(text, answer, "The task");
    text = await answer.text();
  }
  if (text.length > MOST_TASK_BYTES) bad("The task is longer than 8 MiB");
  const id = hex(await sha256(utf8(text)));
  if (wanted !== undefined && wanted !== id) bad("The task does not match its id: it was changed");
  const [{ logged }, { checkSize, prove }, task] = await Promise.all([
    import("../task/log.js"),
    import("../task/proving.js"),
    readTask(text, { id, policy: readPolicy(policy), cells, clock }),
  ]);
  // cheapest first: a task that nobody has signed must not keep this device busy
  task.checkTime();
  checkPolicy(task);
  await checkSize(task);
  if (task.issuer !== undefined) (await import("./tokens.js")).checkIssuer(task.issuer);
  task.relay = relay;
  task.ephemeral = ephemeral;
  const load = async () => {
    const ask = relay || text === url ? await toShuffler({ ...task, signal }) : direct(url, signal);
    const path = relay || text === url ? `/tasks/${id}/proof` : "/proof";
    return (await ask(path)) ?? notLoaded(ask.server, null, "The proof of this task");
  };
  task.logged = await logged(task, { load, proof: options.proof, verify });
  await prove(task);
  return task;
}

/** Loads the task of a series that is asked now: the one whose name begins with `name` in the list
 * of a shuffler, or of a site that copies the shuffler's answers. With a relay the proof comes
 * through it, and with `gateway` everything else does too. */
export const loadCurrentTask = async (
  server: string,
  name: string,
  options: LoadOptions = {},
): Promise<Task> => (await import("./current.js")).current({ server, name, options, loadTask });
