// What the tests share: vectors, a clock, pauses that are not waited for, tasks that were changed.
import assert from "node:assert/strict";
import { createHash, createPrivateKey } from "node:crypto";
import { readFileSync } from "node:fs";

import { createClient, loadTask } from "@shuffledp/client";
import { fromHex, hex, madeProof, memoryStorage } from "@shuffledp/client/testing";

export const readVectors = (name) =>
  JSON.parse(readFileSync(new URL(`../../vectors/${name}.json`, import.meta.url), "utf8"));
export const vectors = readVectors("client");
export const clock = () => vectors.now * 1000;
export const idOf = (text) => createHash("sha256").update(text).digest("hex");
export const textOf = (name) =>
  [...vectors.tasks, ...vectors.frequencies.tasks, ...vectors.groups.tasks].find(
    (task) => task.name === name,
  ).text;
export const loadText = async (text, options) =>
  loadTask(text, { proof: await madeProof(idOf(text)), clock, ...options });

/** A client with an enrolment, and with nothing stored unless it is given. */
export const clientOf = (task, options) =>
  createClient(task, { token: "each-x", attempts: 4, storage: memoryStorage(), ...options });

const fraction = (text) => {
  const [n, d = "1"] = text.split("/");
  return [BigInt(n), BigInt(d)];
};

/** Whether the client accepts a vector of a cell that has all buckets, with these losses. */
export function accepts(kind, { cell, users, buckets, most_messages }, up, down) {
  try {
    const group = kind.read(cell, "cell");
    group.uses[0].cell.prove(fraction(up), fraction(down));
    const told = [group.uses[0].cell.users, group.counters, group.mostMessages];
    return String(told) === String([users, buckets, most_messages]);
  } catch (error) {
    assert.match(error.constructor.name, /Error$/);
    assert.ok(error.code, String(error)); // an error of the client, with its code
    return false;
  }
}

/** The canonical text of a task after a change. */
export function changedText(text, change) {
  const sorted = (one) =>
    Array.isArray(one)
      ? one.map(sorted)
      : one && typeof one === "object"
        ? Object.fromEntries(
            Object.keys(one)
              .sort()
              .map((field) => [field, sorted(one[field])]),
          )
        : one;
  const data = JSON.parse(text);
  change(data);
  return JSON.stringify(sorted(data));
}

const { fetch: realFetch, setTimeout: realTimeout } = globalThis;

/** No pause is really waited for; gives those that were asked for, in milliseconds. */
export function withoutPauses() {
  const pauses = [];
  globalThis.setTimeout = (work, pause) => {
    pauses.push(pause);
    return realTimeout(work, 0);
  };
  return pauses;
}
export const restore = () =>
  void Object.assign(globalThis, { fetch: realFetch, setTimeout: realTimeout });

/** A shuffler that gives these answers, one after the other; "away" for none. */
export function shuffler(...answers) {
  const bodies = [];
  globalThis.fetch = async (url, { body, headers, method }) => {
    bodies.push({ url, hex: hex(body), size: body.length, headers, method });
    const next = answers.length > 1 ? answers.shift() : answers[0];
    if (next === "away") throw new TypeError("Failed to fetch");
    return next.clone();
  };
  return bodies;
}

export const refusal = (status, code, headers = {}) =>
  new Response(JSON.stringify({ type: `urn:shuffledp:problem:${code}`, detail: "No." }), {
    status,
    headers,
  });
export const fails = (code) => (error) => {
  assert.equal(error.code, code, String(error));
  return true;
};

/** An issuer's private key (hexadecimal digits of its PEM): signs blinded messages. */
export function signer(pem) {
  const { n, d } = createPrivateKey(Buffer.from(pem, "hex")).export({ format: "jwk" });
  const number = (text) => BigInt(`0x${Buffer.from(text, "base64url").toString("hex")}`);
  return signing(number(n), number(d));
}

/** What signs with a modulus and a private exponent. */
export const signing = (modulus, exponent) => (blinded) => {
  let [found, base] = [1n, BigInt(`0x${hex(blinded)}`)];
  for (let left = exponent; left; left >>= 1n) {
    if (left & 1n) found = (found * base) % modulus;
    base = (base * base) % modulus;
  }
  return fromHex(found.toString(16).padStart(2 * blinded.length, "0"));
};
