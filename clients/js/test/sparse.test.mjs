// Sparse cells: the verdicts and draws of the vectors, and what a histogram makes of them.
import assert from "node:assert/strict";
import { test } from "node:test";

import { givenWords, sparseBuckets } from "@shuffledp/client/testing";

import { accepts, readVectors } from "../test-support.mjs";

for (const entry of readVectors("sparse"))
  test(`sparse cell: ${entry.name}`, () =>
    assert.equal(accepts(sparseBuckets, entry, entry.epsilon, entry.epsilon), entry.holds));

test("draws are those of the vectors, word by word", () => {
  let jumps = 0;
  for (const { cell, code, words, tokens } of readVectors("sparse_draws")) {
    const group = sparseBuckets.read(cell, "cell");
    const given = givenWords(words);
    const ordered = tokens.toSorted((a, b) => a - b);
    assert.deepEqual(group.draw([code], given), [ordered, []]);
    assert.equal(given.left(), 0);
    assert.ok(tokens.length <= group.mostMessages);
    jumps += Number(tokens.length === group.mostMessages && group.mostMessages > 1);
  }
  assert.ok(jumps > 0);
});

test("what a certificate says of the proof must be true", () => {
  const { cell } = sparseBuckets.read(readVectors("sparse")[0].cell, "cell").uses[0];
  assert.ok(cell.agrees({ rule: "sparse histogram", replacement: "1" }));
  assert.ok(!cell.agrees({ rule: "sparse histogram", replacement: "1/2" }));
  assert.ok(!cell.agrees({ rule: "equal cuts", replacement: "1" }));
});

test("reports have exact padding only", async () => {
  const group = sparseBuckets.read(readVectors("sparse")[0].cell, "cell");
  assert.throws(() => group.messageLaws(), /exact padding/);
});
