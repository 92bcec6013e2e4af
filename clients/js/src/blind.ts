/** Blind RSA signatures after RFC 9474 (RSABSSA-SHA384-PSS), the side of the device: the signer never sees what
 * it signs.
 *
 *     const { blinded, inverse } = await blind(modulus, message);
 *     const signature = await finalize(modulus, message, answerOf(blinded), inverse);
 *
 * The blinded message is uniform among all that the key can sign, whatever the message. BigInt's time depends
 * on its numbers: a program that can measure this device so closely could as well read the value itself. */
import { fail } from "./errors.js";
import { bytesOf, fromHex, hex, join, type Bytes } from "./hpke.js";

const HASH_BYTES = 48;
export const SALT_BYTES = 48;

export const random = (size: number): Bytes => crypto.getRandomValues(new Uint8Array(size));
const sha384 = async (...parts: readonly Bytes[]): Promise<Bytes> => new Uint8Array(await crypto.subtle.digest("SHA-384", join(...parts)));
const bitsOf = (modulus: bigint): number => modulus.toString(2).length;
const sizeOf = (modulus: bigint): number => Math.ceil(bitsOf(modulus) / 8);
/** A number from bytes, the most significant first. */
export const numberOf = (bytes: Uint8Array): bigint => BigInt(`0x0${hex(bytes)}`);
const written = (number: bigint, size: number): Bytes => fromHex(number.toString(16).padStart(2 * size, "0"));

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
    const drawn = numberOf(random(sizeOf(modulus))) & ((1n << BigInt(bits)) - 1n);
    if (drawn && drawn < modulus) return drawn;
  }
}

/** MGF1 of RFC 8017, B.2.1, with SHA-384. */
async function mask(seed: Bytes, size: number): Promise<Bytes> {
  const parts = Array.from({ length: Math.ceil(size / HASH_BYTES) }, (_, i) => sha384(seed, bytesOf(i, 4)));
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

/** Blinds a message; salt and blinding are given by tests alone, and drawn otherwise. */
export async function blind(modulus: bigint, message: Bytes, salt = random(SALT_BYTES), blinding?: bigint): Promise<Blinded> {
  const number = numberOf(await encoded(message, salt, bitsOf(modulus) - 1));
  if (inverseOf(number, modulus) === null) fail("task", "This message cannot be signed with this key; try again.");
  let drawn = blinding ?? below(modulus);
  let inverse = inverseOf(drawn, modulus);
  while (inverse === null) {
    drawn = below(modulus);
    inverse = inverseOf(drawn, modulus);
  }
  return { blinded: written((number * power(drawn, modulus)) % modulus, sizeOf(modulus)), inverse };
}

/** Whether a signature is one of this message. */
export async function verifies(modulus: bigint, message: Bytes, signature: Bytes, saltLength = SALT_BYTES): Promise<boolean> {
  const n = webBase64(written(modulus, sizeOf(modulus))).replace(/=+$/, "");
  const key = await crypto.subtle.importKey("jwk", { kty: "RSA", n, e: "AQAB" }, { name: "RSA-PSS", hash: "SHA-384" }, false, ["verify"]);
  return signature.length === sizeOf(modulus) && crypto.subtle.verify({ name: "RSA-PSS", saltLength }, key, signature, message);
}

/** The signature of a message, from the signer's answer to its blinded form; throws unless it holds. */
export async function finalize(modulus: bigint, message: Bytes, answer: Bytes, inverse: bigint, saltLength = SALT_BYTES): Promise<Bytes> {
  const number = numberOf(answer);
  if (answer.length === sizeOf(modulus) && number < modulus) {
    const signature = written((number * inverse) % modulus, sizeOf(modulus));
    if (await verifies(modulus, message, signature, saltLength)) return signature;
  }
  return fail("refused", "The issuer's answer is no signature under the task's key; nothing was sent. Tell whoever asks this question.");
}

/** Base64 for URLs, with padding. */
export const webBase64 = (bytes: Bytes): string => btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_");
