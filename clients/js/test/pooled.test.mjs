// Pooled cells: the verdicts and draws of the vectors, and what a histogram makes of them.
import assert from "node:assert/strict";
import { test } from "node:test";

import { givenWords, pooledBuckets } from "@shuffledp/client/testing";

import { accepts, changedText, loadText, readVectors } from "../test-support.mjs";

for (const entry of readVectors("pooled"))
  test(`pooled cell: ${entry.name}`, () =>
    assert.equal(accepts(pooledBuckets, entry, entry.up, entry.down), entry.holds));

test("draws are those of the vectors, word by word", () => {
  const runs = readVectors("pooled_draws");
  for (const { cell, code, words, sent } of runs) {
    const group = pooledBuckets.read(cell, "cell");
    const given = givenWords(words);
    const plus = sent.flatMap((count, bucket) => Array(count).fill(bucket));
    assert.deepEqual(group.draw([code], given), [plus, []]);
    assert.equal(given.left(), 0);
    assert.ok(plus.length <= group.mostMessages);
  }
  assert.ok(runs.length >= 40);
});

test("what a certificate says of the proof must be true", () => {
  const entry = readVectors("pooled")[0];
  const { cell } = pooledBuckets.read(entry.cell, "cell").uses[0];
  const proof = {
    most_messages: entry.most_messages,
    up: { rule: "pooled way up" },
    down: { rule: "per index" },
  };
  assert.ok(cell.agrees(proof));
  assert.ok(!cell.agrees({ ...proof, most_messages: entry.most_messages - 1 }));
  assert.ok(!cell.agrees({ ...proof, up: { rule: "equal cuts" } }));
  assert.ok(!cell.agrees({ ...proof, down: { rule: "equal cuts" } }));
});

test("reports have exact padding only", () => {
  const group = pooledBuckets.read(readVectors("pooled")[0].cell, "cell");
  assert.throws(() => group.messageLaws(), /exact padding/);
});

test("a task on a pooled cell is proved again when it is loaded", async () => {
  const text = JSON.stringify(readVectors("pooled_task"));
  const { reportSize } = await loadText(text);
  assert.equal(reportSize, JSON.parse(text).report_size);
  const damages = {
    "dropped too rarely": [
      (t) => (t.certificate.protocol.cell.up.odds = ["1/10000000"]),
      "privacy",
    ],
    "fewer labels": [(t) => t.certificate.protocol.labels.pop(), "task"],
    "another epsilon": [(t) => (t.certificate.protocol.epsilon = "3"), "task"],
    "another rule": [(t) => (t.certificate.cells[0].proof.up.rule = "equal cuts"), "task"],
    "too short reports": [(t) => (t.report_size -= 1), "task"],
    "padding with a reserve": [(t) => (t.padding = "2^-64"), "task"],
  };
  await refuses(text, damages);
});

test("quantiles on pooled levels are proved again when they are loaded", async () => {
  const text = JSON.stringify(readVectors("pooled_levels"));
  const { reportSize } = await loadText(text);
  const { report_size, certificate } = JSON.parse(text);
  assert.equal(reportSize, report_size);
  const buckets = certificate.protocol.levels.map((level) => level.buckets);
  assert.ok(buckets.length > 1);
  const first = (t) => t.certificate.protocol.levels[0];
  await refuses(text, {
    "dropped too rarely": [(t) => (first(t).cell.up.odds = ["1/10000000"]), "privacy"],
    "other buckets": [(t) => (first(t).buckets = buckets[0] / 2), "task"],
    "another loss": [(t) => (first(t).down = "1/100"), "task"],
    "another epsilon": [(t) => (t.certificate.protocol.epsilon = "3"), "task"],
    "too short reports": [(t) => (t.report_size -= 1), "task"],
    "padding with a reserve": [(t) => (t.padding = "2^-64"), "task"],
  });
});

test("a value is one bucket of each pooled level", async () => {
  const { protocol } = readVectors("pooled_levels").certificate;
  const { query } = await import("../dist/queries/quantiles.js");
  const cells = { groups: new Map([["pooled", pooledBuckets]]) };
  const { encode, groups } = query(protocol, cells);
  for (const value of [0, 17.5, 63, 64]) {
    const bin = Math.min(Math.floor(value), 63);
    const held = protocol.levels.map(({ buckets }) => [Math.floor((bin * buckets) / 64)]);
    assert.deepEqual(encode(value).held, held);
  }
  assert.deepEqual(
    groups.map((group) => group.counters),
    protocol.levels.map((level) => level.buckets),
  );
});

async function refuses(text, damages) {
  for (const [name, [damage, code]] of Object.entries(damages))
    await assert.rejects(loadText(changedText(text, damage)), (error) => {
      assert.equal(error.code, code, `${name}: ${error}`);
      return true;
    });
}
