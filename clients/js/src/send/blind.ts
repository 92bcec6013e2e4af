/** Blind RSA signatures after RFC 9474 (RSABSSA-SHA384-PSS), the client's side: the signer never
 * sees what it signs.
 *
 *     const { blinded, inverse } = await blind(modulus, message);
 *     const signature = await finalize({ modulus, message, answer: answerOf(blinded), inverse });
 *
 * The blinded message is uniform among all that the key can sign, whatever the message. The time
 * that BigInt takes depends on its numbers, but a program that can measure this device so closely
 * could read the value itself. */
import { base64Url, bytesOf, fromHex, hex, join, randomBytes, type Bytes } from "../bytes.js";
import { fail } from "../errors.js";

const HASH_BYTES = 48;
export const SALT_BYTES = 48;

const sha384 = async (...parts: readonly Bytes[]): Promise<Bytes> =>
  new Uint8Array(await crypto.subtle.digest("SHA-384", join(...parts)));
const bitsOf = (modulus: bigint): number => modulus.toString(2).length;
const sizeOf = (modulus: bigint): number => Math.ceil(bitsOf(modulus) / 8);
/** A number from bytes, the most significant first. */
export const numberOf = (bytes: Uint8Array): bigint => BigInt(`0x0${hex(bytes)}`);
const written = (number: bigint, size: number): Bytes =>
  fromHex(number.toString(16).padStart(2 * size, "0"));

/** The base to the power of 65537. */
function power(base: bigint, modulus: bigint): bigint {
  let found = base;
  for (let square = 0; square < 16; square++) found = (found * found) % modulus;
  return (found * base) % modulus;
}

/** 1/number modulo the modulus; null if there is none. */
function inverseOf(number: bigint, modulus: bigint): bigint | null {
  let [last, rest, before, found] = [modulus, number % modulus, 0n, 1n];
  while (rest) {
    const times = last / rest;
    [last, rest] = [rest, last - times * rest];
    [before, found] = [found, before - times * found];
  }
  return last === 1n ? (before + modulus) % modulus : null;
}

/** A uniform number from 1 to modulus − 1. */
function below(modulus: bigint): bigint {
  const bits = bitsOf(modulus);
  for (;;) {
    const drawn = numberOf(randomBytes(sizeOf(modulus))) & ((1n << BigInt(bits)) - 1n);
    if (drawn && drawn < modulus) return drawn;
  }
}

/** MGF1 of RFC 8017, B.2.1, with SHA-384. */
async function mask(seed: Bytes, size: number): Promise<Bytes> {
  const parts = Array.from({ length: Math.ceil(size / HASH_BYTES) }, (_, i) =>
    sha384(seed, bytesOf(i, 4)),
  );
  return join(...(await Promise.all(parts))).slice(0, size);
}

/** EMSA-PSS-ENCODE of RFC 8017, 9.1.1, with SHA-384 and MGF1. */
async function encoded(message: Bytes, salt: Bytes, bits: number): Promise<Bytes> {
  const size = Math.ceil(bits / 8);
  const stamp = await sha384(new Uint8Array(8), await sha384(message), salt);
  const data = join(new Uint8Array(size - HASH_BYTES - salt.length - 2), bytesOf(1, 1), salt);
  const masked = (await mask(stamp, data.length)).map((byte, i) => byte ^ data[i]!);
  masked[0]! &= 0xff >> (8 * size - bits);
  return join(masked, stamp, bytesOf(0xbc, 1));
}

export interface Blinded {
  /** What the signer is asked to sign. */
  readonly blinded: Bytes;
  /** What `finalize` needs. Secret. */
  readonly inverse: bigint;
}

/** What is drawn unless a test gives it. */
export interface BlindOptions {
  readonly salt?: Bytes | undefined;
  readonly blinding?: bigint | undefined;
}

/** Blinds a message. */
export async function blind(
  modulus: bigint,
  message: Bytes,
  { salt = randomBytes(SALT_BYTES), blinding }: BlindOptions = {},
): Promise<Blinded> {
  const number = numberOf(await encoded(message, salt, bitsOf(modulus) - 1));
  if (inverseOf(number, modulus) === null)
    fail("task", "This message cannot be signed with this key; try again.");
  let drawn = blinding ?? below(modulus);
  let inverse = inverseOf(drawn, modulus);
  while (inverse === null) {
    drawn = below(modulus);
    inverse = inverseOf(drawn, modulus);
  }
  const product = (number * power(drawn, modulus)) % modulus;
  return { blinded: written(product, sizeOf(modulus)), inverse };
}

export interface Signed {
  readonly modulus: bigint;
  readonly message: Bytes;
  /** Bytes of the salt (48). */
  readonly saltLength?: number;
}

/** Whether a signature is valid for this message. */
export async function verifies(
  signature: Bytes,
  { modulus, message, saltLength = SALT_BYTES }: Signed,
): Promise<boolean> {
  const n = base64Url(written(modulus, sizeOf(modulus))).replace(/=+$/, "");
  const key = await crypto.subtle.importKey(
    "jwk",
    { kty: "RSA", n, e: "AQAB" },
    { name: "RSA-PSS", hash: "SHA-384" },
    false,
    ["verify"],
  );
  return (
    signature.length === sizeOf(modulus) &&
    crypto.subtle.verify({ name: "RSA-PSS", saltLength }, key, signature, message)
  );
}

/** The signature of a message, from the signer's answer to its blinded form; throws unless it is
 * valid. */
export async function finalize({
  answer,
  inverse,
  ...signed
}: Signed & { readonly answer: Bytes; readonly inverse: bigint }): Promise<Bytes> {
  const { modulus } = signed;
  const number = numberOf(answer);
  if (answer.length === sizeOf(modulus) && number < modulus) {
    const signature = written((number * inverse) % modulus, sizeOf(modulus));
    if (await verifies(signature, signed)) return signature;
  }
  return fail(
    "refused",
    "The issuer's answer is not a signature under the task's key. Nothing was sent; tell the people who ask this question.",
  );
}
