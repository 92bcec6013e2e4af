/** Checkpoints of the log of tasks as signed notes, and the cosignatures of witnesses (c2sp.org:
 * signed-note, tlog-checkpoint, tlog-cosignature with Ed25519). */
import { hex, join, sha256, utf8, type Bytes } from "../bytes.js";
import { fail } from "../errors.js";
import type { Verify } from "./log.js";

const [LOG, COSIGNATURE] = [1, 4];
const NAME = /^[^\s+\p{Cc}]{1,200}$/u;

const refuse = (): never =>
  fail(
    "task",
    "The checkpoint of the log of tasks is malformed or wrongly signed. Do not answer this task, and tell the people who ask it.",
  );

function decoded(text: string): Bytes {
  try {
    const raw = atob(text);
    if (btoa(raw) === text) return Uint8Array.from(raw, (letter) => letter.charCodeAt(0));
  } catch {
    // refused below
  }
  return refuse();
}

interface Key {
  readonly name: string;
  readonly kind: number;
  readonly key: Bytes;
}

/** A witness's verifier key, name+id+key. */
async function verifier(text: string): Promise<Key> {
  const [, name = "", id, key = ""] = /^([^+]*)\+([0-9a-f]{8})\+(.+)$/.exec(text) ?? [];
  const raw = decoded(key);
  const found = { name, kind: raw[0] ?? 0, key: raw.slice(1) };
  if (raw.length !== 33 || found.kind !== COSIGNATURE || (await idOf(found)) !== id)
    fail("policy", "witnesses must be verifier keys like name+id+key; correct your policy.");
  return found;
}

async function idOf({ name, kind, key }: Key): Promise<string> {
  const named = join(utf8(`${name}\n`), Uint8Array.of(kind), key);
  return hex(await sha256(named)).slice(0, 8);
}

/** The head that a checkpoint has to state, and who must have signed it. */
export interface Expected {
  readonly size: number;
  readonly root: string;
  /** The key of the log. */
  readonly log: Bytes;
  readonly witnesses: readonly string[];
  readonly verify: Verify;
}

/** How many of the witnesses have cosigned a checkpoint; throws unless it is the expected head and
 * the log has signed it. */
export async function cosigned(note: string, expected: Expected): Promise<number> {
  const cut = note.lastIndexOf("\n\n");
  const [body, rest] = [note.slice(0, cut + 1), note.slice(cut + 2)];
  const [origin = "", size, root = "", ...more] = body.split("\n");
  const well = cut > 0 && more.join("") === "" && more.length === 1 && rest.endsWith("\n");
  if (!well || !NAME.test(origin)) refuse();
  const same = size === String(expected.size) && hex(decoded(root)) === expected.root;
  if (!same || expected.root.length !== 64) refuse();
  const lines = rest
    .slice(0, -1)
    .split("\n")
    .map((line) => {
      const [, name = "", value = ""] = /^— (\S+) (\S+)$/.exec(line) ?? refuse();
      return { name, value: decoded(value) };
    });
  const holds = async (key: Key): Promise<boolean> => {
    const id = await idOf(key);
    const mine = lines.filter(({ name, value }) => {
      return name === key.name && hex(value.slice(0, 4)) === id;
    });
    for (const { value } of mine) {
      const time = key.kind === COSIGNATURE ? value.slice(4, 12) : new Uint8Array();
      const head = time.length ? `cosignature/v1\ntime ${BigInt(`0x${hex(time)}`)}\n` : "";
      const signature = value.slice(4 + time.length);
      const right =
        signature.length === 64 && (await expected.verify(key.key, signature, utf8(head + body)));
      if (!right) refuse();
    }
    return mine.length > 0;
  };
  if (!(await holds({ name: origin, kind: LOG, key: expected.log }))) refuse();
  const counted = new Set<string>();
  for (const key of await Promise.all(expected.witnesses.map(verifier)))
    if (await holds(key)) counted.add(hex(key.key));
  return counted.size;
}
