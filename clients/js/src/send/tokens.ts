/** One-time tokens of a task: the structures of Privacy Pass (RFC 9577, RFC 9578 type 2). Loaded
 * only for tasks with an issuer.
 *
 * What the issuer is asked to sign is stored before it is asked: an enrolment gets one signature
 * per task, so a second request would be refused. After an interruption the same request is sent
 * again, and gets the same answer. */
import {
  base64Url,
  bytesOf,
  fromBase64,
  fromHex,
  hex,
  join,
  randomBytes,
  sha256,
  utf8,
  type Bytes,
} from "../bytes.js";
import type { Storage, TokenState } from "../device/storage.js";
import { bad } from "../errors.js";
import { choice, record, textOf } from "../schema.js";
import { SERVER } from "../task/forms.js";
import type { Task } from "../task/task.js";
import { blind, finalize, type BlindOptions } from "./blind.js";
import { deliver, direct, post, type Patience } from "./requests.js";

const TYPE = bytesOf(2, 2);
const INPUT_BYTES = 98;
const PREFIX = "task-";
const HEAD =
  "30820152303d06092a864886f70d01010a3030a00d300b0609608648016503040202a11a301806092a864886f70d010108300b0609608648016503040202a2030201300382010f003082010a0282010100";
const KEY_FORM = new RegExp(`^${HEAD}([89a-f][0-9a-f]{510}[13579bdf])0203010001$`);

const ISSUER = record({ url: SERVER, key: textOf(684, 684), attested: choice(true, false) });

/** Throws unless a task's issuer has the right form. */
export function checkIssuer(issuer: unknown): void {
  modulusOf(ISSUER(issuer, "task.issuer").key);
}

/** The modulus of an issuer's key: RSA of 2,048 bits with the exponent 65537, written as RFC 9578,
 * 6.5, does. */
export function modulusOf(key: string): bigint {
  const found = KEY_FORM.exec(key) ?? bad("The issuer's key is malformed");
  return BigInt(`0x${found[1]}`);
}

const sized = (bytes: Bytes, size: number): Bytes => join(bytesOf(bytes.length, size), bytes);
const host = (url: string): Bytes => utf8(url.replace(/^https?:\/\//, "").split("/")[0]!);

/** The challenge of a task (RFC 9577, 2.1.1): its issuer's and its shuffler's host and port, and
 * its id. */
export const challengeOf = (issuer: string, id: string, shuffler: string): Bytes =>
  join(TYPE, sized(host(issuer), 2), sized(fromHex(id), 1), sized(host(shuffler), 2));

/** What a device asks the issuer to sign, and what it keeps to use the answer. Secret. */
export interface TokenRequest {
  /** What is signed. */
  readonly input: string;
  /** What is sent (RFC 9578, 6.1). */
  readonly body: string;
  readonly inverse: string;
}

/** A fresh request; tests give the nonce and what `blind` draws. */
export async function tokenRequest(
  key: string,
  challenge: Bytes,
  { nonce = randomBytes(32), ...drawn }: BlindOptions & { readonly nonce?: Bytes } = {},
): Promise<TokenRequest> {
  const keyId = await sha256(fromHex(key));
  const input = join(TYPE, nonce, await sha256(challenge), keyId);
  const { blinded, inverse } = await blind(modulusOf(key), input, drawn);
  return {
    input: hex(input),
    body: hex(join(TYPE, keyId.slice(-1), blinded)),
    inverse: inverse.toString(16),
  };
}

/** The token, as the shuffler takes it, from the issuer's answer; throws unless the signature is
 * valid. */
export async function tokenOf(
  key: string,
  { input, inverse }: TokenRequest,
  answer: Bytes,
): Promise<string> {
  const message = fromHex(input);
  const signature = await finalize({
    modulus: modulusOf(key),
    message,
    answer,
    inverse: BigInt(`0x${inverse}`),
  });
  return PREFIX + base64Url(join(message, signature));
}

/** What a report carries: the token, and the hash by which the shuffler remembers it as spent. */
const carried = async (token: string): Promise<readonly [string, Bytes]> => [
  token,
  await sha256(fromBase64(token.slice(PREFIX.length)).slice(0, INPUT_BYTES)),
];

export interface TokenOptions extends Patience {
  readonly storage: Storage;
  /** The token with which this device is enrolled at the issuer. */
  readonly token: string;
}

/** The one-time token of a task, from storage or from the issuer. */
export async function oneTimeToken(
  task: Task,
  { storage, token: enrolment, ...patience }: TokenOptions,
): Promise<readonly [string, Bytes]> {
  const { id, issuer } = task;
  const stored = (fresh?: TokenState): Promise<TokenState | undefined> =>
    storage.update((record) => {
      const all = (record.tokens ??= {});
      if (fresh) all[id] ??= fresh; // another tab may have been faster: its request counts
      return all[id];
    });
  const state = (await stored()) ?? (await stored(await freshState(task)));
  if ("token" in state!) return carried(state.token);
  const request = post("application/private-token-request", enrolment, fromHex(state!.body));
  const answer = await deliver(
    {
      ask: direct(issuer!.url, patience.signal),
      path: `/tasks/${id}/tokens`,
      request,
      refused: "The issuer gave no token",
      unreachable:
        "The issuer does not answer, so there is no token yet. Nothing was sent; try later.",
    },
    patience,
  );
  const token = await tokenOf(issuer!.key, state!, new Uint8Array(await answer.arrayBuffer()));
  await storage.update(({ tokens = {} }) => {
    if (id in tokens) tokens[id] = { token, expires: task.expires };
  });
  return carried(token);
}

const freshState = async ({ id, issuer, shuffler, expires }: Task): Promise<TokenState> => ({
  ...(await tokenRequest(issuer!.key, challengeOf(issuer!.url, id, shuffler))),
  expires,
});
