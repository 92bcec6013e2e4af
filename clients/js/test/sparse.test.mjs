// Sparse cells: the verdicts and draws of the vectors, and what a histogram makes of them.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { givenWords, sparseBuckets } from "@shuffledp/client/testing";

const read = (name) =>
  JSON.parse(readFileSync(new URL(`../../../vectors/${name}.json`, import.meta.url), "utf8"));

const fraction = (text) => {
  const [n, d = "1"] = text.split("/");
  return [BigInt(n), BigInt(d)];
};

/** Whether the client accepts an entry. */
function accepted({ cell, users, buckets, most_messages, epsilon }) {
  try {
    const group = sparseBuckets.read(cell, "cell");
    group.uses[0].cell.prove(fraction(epsilon), fraction(epsilon));
    const told = [group.uses[0].cell.users, group.counters, group.mostMessages];
    return String(told) === String([users, buckets, most_messages]);
  } catch (error) {
    assert.match(error.constructor.name, /Error$/);
    assert.ok(error.code, String(error)); // an error of the client, with its code
    return false;
  }
}

for (const entry of read("sparse"))
  test(`sparse cell: ${entry.name}`, () => assert.equal(accepted(entry), entry.holds));

test("draws are those of the vectors, word by word", () => {
  let jumps = 0;
  for (const { cell, code, words, tokens } of read("sparse_draws")) {
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
  const { cell } = sparseBuckets.read(read("sparse")[0].cell, "cell").uses[0];
  assert.ok(cell.agrees({ rule: "sparse histogram", replacement: "1" }));
  assert.ok(!cell.agrees({ rule: "sparse histogram", replacement: "1/2" }));
  assert.ok(!cell.agrees({ rule: "equal cuts", replacement: "1" }));
});

test("reports have exact padding only", async () => {
  const group = sparseBuckets.read(read("sparse")[0].cell, "cell");
  assert.throws(() => group.messageLaws(), /exact padding/);
});
