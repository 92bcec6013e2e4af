/** Whether everybody is asked the same task: three signatures, and an entry in the public log of
 * tasks, which the analyzer keeps and the shuffler watches. Loaded with every task. */
import { bytesOf, fromHex, hex, join, sha256, utf8, type Bytes } from "../bytes.js";
import type { DeviceRecord } from "../device/storage.js";
import { fail } from "../errors.js";
import { choice, list, record, textOf, whole } from "../schema.js";
import { HEX32 } from "./forms.js";
import { cosigned } from "./notes.js";
import type { Task } from "./task.js";

/** Whether an Ed25519 signature of a text is valid under a key. */
export type Verify = (key: Bytes, signature: Bytes, text: Bytes) => Promise<boolean>;

/** The keys, in hexadecimal digits, with which each role has signed. */
export interface Signers {
  readonly collector: string;
  readonly shuffler: string;
  readonly analyzer: string;
}

/** Who has signed a task. */
export interface Logged {
  readonly signers: Signers;
  /** Trust on first use: throws if a key differs from the first one that this device has seen at
   * this shuffler, and remembers new ones. Keys that the policy names are not remembered. */
  trust(record: DeviceRecord, shuffler: string): void;
}

const ROLES = ["collector", "shuffler", "analyzer"] as const;
const MOST_PROOF_BYTES = 48 << 10;
const SIGNATURE = textOf(128, 128, /^[0-9a-f]*$/);
const KEYS = list(HEX32, 0, 1000);
const PINNED = record({}, { collector: KEYS, shuffler: KEYS, analyzer: KEYS });
const PROOF = record({
  format: choice("shuffledp task proof 1"),
  task: HEX32,
  keys: record({ collector: HEX32, shuffler: HEX32, analyzer: HEX32 }),
  signatures: record({ collector: SIGNATURE, shuffler: SIGNATURE, analyzer: SIGNATURE }),
  log: record(
    {
      index: whole(0, Number.MAX_SAFE_INTEGER),
      size: whole(1, Number.MAX_SAFE_INTEGER),
      root: HEX32,
      path: list(HEX32, 0, 64),
      analyzer_signature: SIGNATURE,
      shuffler_signature: SIGNATURE,
    },
    { checkpoint: textOf(1, 16 << 10) },
  ),
});

const webVerify: Verify = async (key, signature, text) => {
  let imported: CryptoKey;
  try {
    imported = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
  } catch (error) {
    if ((error as Error).name !== "NotSupportedError") return false;
    return fail(
      "task",
      "This browser has no Ed25519, so it cannot check who signed this task; update it, or use @shuffledp/client/noble.",
    );
  }
  return crypto.subtle.verify("Ed25519", imported, signature, text);
};

const refuse = (what: string): never =>
  fail("task", `${what}. Do not answer this task, and tell the people who ask it.`);

async function loaded(answer: Response): Promise<string> {
  if (answer.status === 404)
    refuse("The shuffler has no proof that this task is in the public log of tasks");
  if (!answer.ok)
    fail(
      "network",
      `The proof of this task could not be loaded (HTTP ${answer.status}); try again later.`,
    );
  return answer.text();
}

function read(text: string): ReturnType<typeof PROOF> {
  let data: unknown;
  try {
    data = text.length <= MOST_PROOF_BYTES ? JSON.parse(text) : null;
  } catch {
    data = null;
  }
  return PROOF(data, "proof");
}

/** Whether the path leads from an entry to the root of the log (RFC 9162, 2.1.3.2). */
async function includes(
  { index, size, path, root }: ReturnType<typeof PROOF>["log"],
  entry: Bytes,
): Promise<boolean> {
  if (index >= size) return false;
  const half = (number: number): number => Math.floor(number / 2);
  let [at, last] = [index, size - 1];
  let found = await sha256(join(bytesOf(0, 1), entry));
  for (const text of path) {
    if (!last) return false;
    const other = fromHex(text);
    const right = at % 2 === 1 || at === last;
    found = await sha256(join(bytesOf(1, 1), ...(right ? [other, found] : [found, other])));
    if (right) while (at % 2 === 0 && at) [at, last] = [half(at), half(last)];
    [at, last] = [half(at), half(last)];
  }
  return !last && hex(found) === root;
}

export interface LogOptions {
  /** Loads the proof from beside the task. */
  readonly load: () => Promise<Response>;
  /** The proof, if the page has it already. */
  readonly proof?: string | undefined;
  readonly verify?: Verify | undefined;
}

/** Checks the proof of a task; throws unless everybody else is asked the same task, as far as the
 * keys can tell. */
export async function logged(
  task: Task,
  { load, proof, verify = webVerify }: LogOptions,
): Promise<Logged> {
  const { task: id, keys, signatures, log } = read(proof ?? (await loaded(await load())));
  const pinned = PINNED(task.policy.signingKeys ?? {}, "policy.signingKeys");
  if (id !== task.id) refuse("The proof belongs to another task");
  const signed = (role: "collector" | "shuffler" | "analyzer", signature: string, text: Bytes) =>
    verify(fromHex(keys[role]), fromHex(signature), text);
  for (const role of ROLES) {
    const allowed = pinned[role] ?? [];
    if (allowed.length && !allowed.includes(keys[role]))
      fail(
        "policy",
        `This task is signed with a key of the ${role} that your policy does not name; ask the ${role}'s operator.`,
      );
    const text = join(utf8(`shuffledp/v1 task ${role} `), fromHex(id));
    if (!(await signed(role, signatures[role], text)))
      refuse(`The ${role} has not signed this task`);
  }
  const head = join(fromHex(keys.analyzer), bytesOf(log.size, 8), fromHex(log.root));
  for (const role of ["analyzer", "shuffler"] as const) {
    const text = join(utf8(`shuffledp/v1 head ${role} `), head);
    if (!(await signed(role, log[`${role}_signature`], text)))
      refuse(
        role === "analyzer"
          ? "The head of the log of tasks is not signed"
          : "The shuffler has not witnessed the log of this task",
      );
  }
  const { witnesses, leastWitnesses } = task.policy;
  const have = log.checkpoint
    ? await cosigned(log.checkpoint, {
        size: log.size,
        root: log.root,
        log: fromHex(keys.analyzer),
        witnesses,
        verify,
      })
    : 0;
  if (have < leastWitnesses)
    fail(
      "policy",
      `${have} of the witnesses that this device trusts have cosigned the log of tasks, and it asks for ${leastWitnesses}; try again later.`,
    );
  const entry = join(fromHex(id), fromHex(keys.collector), fromHex(signatures.collector));
  if (!(await includes(log, entry))) refuse("The public log of tasks does not hold this task");
  const encryption = task.policy.analyzerKeys.length ? {} : { encryption: hex(task.key.raw) };
  const unpinned = ROLES.filter((role) => !pinned[role]?.length);
  const first = {
    ...encryption,
    ...Object.fromEntries(unpinned.map((role) => [role, keys[role]])),
  };
  return { signers: keys, trust: (record, shuffler) => trust(record, shuffler, first) };
}

function trust(record: DeviceRecord, shuffler: string, keys: Record<string, string>): void {
  const known = (record.keys[shuffler] ??= {});
  for (const [name, key] of Object.entries(keys))
    if ((known[name] ?? key) !== key)
      fail(
        "policy",
        `This task comes with another ${name === "encryption" ? "analyzer key" : `signing key of the ${name}`} than this device has seen before at this shuffler; ask the operator, and name the right key in your policy.`,
      );
  Object.assign(known, keys);
}
