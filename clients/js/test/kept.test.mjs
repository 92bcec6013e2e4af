// Kept cells beside heavy labels: the verdicts of the vectors, and what is refused. What is sent is
// in vectors/client.json.
import assert from "node:assert/strict";
import { test } from "node:test";

import { keptBuckets } from "@shuffledp/client/testing";

import { accepts, changedText, loadText, readVectors, textOf } from "../test-support.mjs";

for (const entry of readVectors("kept"))
  test(`kept cell: ${entry.name}`, () =>
    assert.equal(accepts(keptBuckets, entry, entry.up, entry.down), entry.holds));

test("what a certificate says of the proof must be true", () => {
  const { cell } = keptBuckets.read(readVectors("kept")[0].cell, "cell").uses[0];
  const rule = "sparse histogram beside exact cells";
  assert.ok(cell.agrees({ rule, up: "1/2", down: "1/2" }));
  assert.ok(!cell.agrees({ rule, up: "1/3", down: "1/2" }));
  assert.ok(!cell.agrees({ rule, up: "1/2", down: "1/3" }));
  assert.ok(!cell.agrees({ rule: "sparse histogram", up: "1/2", down: "1/2" }));
});

test("reports have exact padding only", () => {
  const group = keptBuckets.read(readVectors("kept")[0].cell, "cell");
  assert.throws(() => group.messageLaws(), /exact padding/);
});

test("tasks whose heavy labels or cells do not fit are refused", async () => {
  const name = "histogram with heavy labels";
  const wrong = [
    (one) => (one.heavy.labels = ["b", "b"]),
    (one) => (one.heavy.labels = ["b"]),
    (one) => (one.heavy.labels = ["b", "unknown"]),
    (one) => (one.heavy.labels = []),
    (one) => (one.heavy.labels = one.labels),
    (one) => delete one.heavy,
    (one) => (one.heavy.cell = one.cell),
    (one) => (one.cell = one.heavy.cell),
    (one) => (one.cell.up = "1/10"),
    (one) => (one.cell.down = "19/10"),
    (one) => (one.epsilon = "1"),
    (one) => (one.heavy.more = 1),
  ];
  await loadText(changedText(textOf(name), () => {}));
  for (const [place, change] of wrong.entries())
    await assert.rejects(
      loadText(changedText(textOf(name), ({ certificate }) => change(certificate.protocol))),
      (error) => {
        assert.ok(["task", "privacy"].includes(error.code), `${place}: ${error}`);
        return true;
      },
    );
});
