// Every case of vectors/client.json, which Python's client and an independent one pass too.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { loadTask, ShuffledpError } from "@shuffledp/client";
import { nobleVerify } from "@shuffledp/client/noble";
import { paperCell } from "@shuffledp/client/paper";
import {
  CutNoise,
  draw,
  encryptReport,
  finite,
  fromHex,
  givenKeys,
  givenWords,
  hex,
  madeProof,
  negativeBinomial,
  plainNumbers,
  poisson,
  readCanonical,
  sealer,
  zeroWith,
} from "@shuffledp/client/testing";

const vectors = JSON.parse(
  readFileSync(new URL("../../../vectors/client.json", import.meta.url), "utf8"),
);
const policy = {
  mostEpsilonPerTask: 1000,
  leastUsers: 1,
  allowRepeat: true,
  allowShortBatches: true,
};
const load = async (text, id, now) =>
  loadTask(text, {
    id,
    policy,
    proof: await madeProof(id),
    cells: [paperCell],
    clock: () => now * 1000,
  });

const loaded = {};
const { frequencies, groups, shared } = vectors;
const tasks = [...vectors.tasks, ...frequencies.tasks, ...groups.tasks, ...shared.tasks];
for (const task of tasks) loaded[task.name] = await load(task.text, task.id, vectors.now);

test("canonical texts", async () => {
  for (const { data, text, sha256 } of vectors.canonical) {
    assert.deepEqual(readCanonical(text), data);
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
    assert.equal(hex(new Uint8Array(digest)), sha256);
  }
});

test("tasks are proved", () => {
  for (const { name, id, epsilon, users, cells, report_bytes, needed_report_size } of tasks) {
    const task = loaded[name];
    const { protocol } = task;
    assert.deepEqual(
      [
        task.id,
        `${protocol.epsilon[0]}/${protocol.epsilon[1]}`.replace(/\/1$/, ""),
        task.users,
        task.reportBytes,
      ],
      [id, epsilon, users, report_bytes],
    );
    const groups = JSON.parse(task.text).certificate.protocol.groups ?? 1;
    assert.equal(groups * protocol.groups.reduce((sum, { counters }) => sum + counters, 0), cells);
    assert.ok(task.reportSize >= needed_report_size);
  }
});

const CODES = { text: ["task"], hash: ["task"], time: ["expired"], proof: ["privacy", "task"] };
for (const { stage, why, id, now, text } of [...vectors.refused, ...shared.refused])
  test(`refused: ${why}`, async () => {
    await assert.rejects(load(text, id, now), (error) => {
      assert.ok(error instanceof ShuffledpError, String(error));
      assert.ok(CODES[stage].includes(error.code), `${error.code}: ${error.message}`);
      return true;
    });
  });

const proved = vectors.tasks.find(({ name }) => name === vectors.proofs.task);
for (const [kind, verify] of [
  ["WebCrypto", undefined],
  ["noble", nobleVerify],
])
  for (const { name, proof, accepted } of vectors.proofs.cases)
    test(`proof of a task, ${kind}: ${name}`, async () => {
      const loading = loadTask(proved.text, {
        policy: {
          ...policy,
          signingKeys: Object.fromEntries(
            Object.entries(vectors.proofs.signing_keys).map(([role, key]) => [role, [key]]),
          ),
        },
        proof: JSON.stringify(proof),
        verify,
        clock: () => vectors.now * 1000,
      });
      if (accepted) assert.deepEqual((await loading).logged.signers, vectors.proofs.signing_keys);
      else await assert.rejects(loading, (error) => ["task", "policy"].includes(error.code));
    });

const fraction = (text) => {
  const [n, d = "1"] = text.split("/");
  return [BigInt(n), BigInt(d)];
};
const LAWS = {
  bernoulli: ({ probability: p }) => {
    const [n, d] = fraction(p);
    return zeroWith([d - n, d]);
  },
  finite: ({ weights }) => {
    const fractions = weights.map(fraction);
    const scale = fractions.reduce((all, [, d]) => all * d, 1n);
    return finite(fractions.map(([n, d]) => (n * scale) / d));
  },
  "cut negative binomial": ({ shape, beta, cut }) =>
    new CutNoise(fraction(shape), fraction(beta), cut),
  "negative binomial": ({ shape, decay }) => negativeBinomial(fraction(shape), fraction(decay)),
  poisson: ({ mean }) => poisson(fraction(mean)),
};

for (const { law, cases } of vectors.draws)
  test(`draws: ${JSON.stringify(law)}`, () => {
    for (const one of cases) {
      const words = givenWords(one.words);
      assert.equal(draw(LAWS[law.law](law), words), one.draw);
      assert.equal(words.left(), 0, "fewer words were drawn than the case has");
    }
  });

test("values become messages", async () => {
  for (const { task, value, words: given, numbers } of [
    ...vectors.values,
    ...frequencies.values,
    ...groups.values,
    ...shared.values,
  ]) {
    const words = givenWords(given);
    assert.deepEqual(await plainNumbers(loaded[task], value, words), numbers, `${task}: ${value}`);
    assert.equal(words.left(), 0, `${task}: ${value}`);
  }
});

test("ciphertexts", async () => {
  const { analyzer_key, info, cases } = vectors.encryption;
  for (const { number, ephemeral, message } of cases) {
    const seal = await sealer(fromHex(analyzer_key.public), fromHex(info), givenKeys([ephemeral]));
    assert.equal(hex(await seal(fromHex(number.toString(16).padStart(8, "0")))), message);
  }
});

test("whole reports", async () => {
  for (const { task, value, report_id, words, ephemeral, body } of [
    ...vectors.reports,
    ...shared.reports,
  ]) {
    const made = await encryptReport(loaded[task], value, {
      id: fromHex(report_id),
      words: givenWords(words),
      ephemeral: givenKeys(ephemeral),
    });
    assert.equal(hex(made), body);
  }
});
