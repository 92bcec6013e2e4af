// Tasks that would keep a device busy: refused before anything is proved.
import assert from "node:assert/strict";
import { test } from "node:test";

import { loadTask } from "@shuffledp/client";
import { paperCell } from "@shuffledp/client/paper";
import { madeProof } from "@shuffledp/client/testing";
import { changedText, clock, fails, idOf, loadText, textOf } from "../test-support.mjs";

const PAPER = "count, paper";
const MOST_MILLISECONDS = 2000;
const options = { cells: [paperCell], policy: { leastUsers: 1 } };

const paper = (change) =>
  changedText(textOf(PAPER), (task) => change(task.certificate.protocol.cell, task));

async function refusedSoon(text, message) {
  const begun = performance.now();
  await assert.rejects(loadText(text, options), (error) => {
    assert.match(error.message, message);
    return fails("task")(error);
  });
  assert.ok(performance.now() - begun < MOST_MILLISECONDS, `${performance.now() - begun} ms`);
}

test("many pairs of messages are refused by the size of a report", async () => {
  for (const pairs of [65535, 10 ** 9])
    await refusedSoon(
      paper((cell) => (cell.input_pairs = pairs)),
      /too short/,
    );
});

test("a long proof is refused before it begins", async () => {
  await refusedSoon(
    paper((cell, task) => {
      Object.assign(cell, { input_pairs: 32767, flood_mean: "1000000000000" });
      task.report_size = 65535;
    }),
    /takes too long/,
  );
  await refusedSoon(
    changedText(textOf("count, bounded"), (task) => {
      const { up } = task.certificate.protocol.cell;
      const { proof } = task.certificate.cells[0];
      proof.most_messages += 60000 - up.cut - up.muted_cut;
      proof.up.rule = "equal cuts";
      up.cut = up.muted_cut = 30000;
      task.report_size = 65535;
    }),
    /takes too long/,
  );
});

/** How many hexadecimal digits of large numbers an action writes: rounding measures with them, so
 * they grow with the number of steps and with the bits of each. */
async function digitsWritten(action) {
  const { toString } = BigInt.prototype;
  let digits = 0;
  BigInt.prototype.toString = function (base) {
    const text = toString.call(this, base);
    digits += text.length;
    return text;
  };
  try {
    await action();
  } finally {
    BigInt.prototype.toString = toString;
  }
  return digits;
}

const smallFloods = {
  1: "1",
  "1e-100": `1/1${"0".repeat(100)}`,
  61.7: "617/10",
  "61.7 with 190 digits": `617${"1".repeat(190)}/1${"0".repeat(190)}1`,
};
for (const [pairs, flood] of [
  [2000, "1"],
  [4000, "1"],
  [32000, "1"],
  [2000, "1e-100"],
  [4000, "1e-100"],
  [32000, "1e-100"],
  [20000, "61.7"],
  [20000, "61.7 with 190 digits"],
])
  test(`${pairs} pairs in a flood of ${flood} are refused after a few steps`, async () => {
    const text = paper((cell, task) => {
      Object.assign(cell, { input_pairs: pairs, flood_mean: smallFloods[flood] });
      task.report_size = 65535;
    });
    const refused = () => assert.rejects(loadText(text, options), fails("privacy"));
    assert.ok((await digitsWritten(refused)) < 5e6);
  });

test("a paper cell's way down has the limit of every loss", () =>
  refusedSoon(
    paper((cell) => (cell.down_epsilon = "1024")),
    /down_epsilon must be an exact number as text, like "1\/3", from 1e-9 to 1000/,
  ));

test("a huge flood takes many steps, but no numbers of many bits", async () => {
  const text = paper((cell, task) => {
    Object.assign(cell, { input_pairs: 300, flood_mean: `1${"0".repeat(100)}` });
    task.report_size = 65535;
  });
  const refused = () => assert.rejects(loadText(text, options), fails("privacy"));
  assert.ok((await digitsWritten(refused)) < 1e8);
});

test("the same task with its own numbers is proved", async () => {
  assert.equal((await loadText(textOf(PAPER), options)).name.length > 0, true);
});

test("a task that nobody has signed is not proved", async () => {
  // the odds are too small for the proof, but the signatures are looked at first
  const text = changedText(textOf("count, bounded"), (task) => {
    const { up } = task.certificate.protocol.cell;
    up.odds = up.odds.map(() => "1/1000000");
  });
  const other = await madeProof(idOf(textOf("count, bounded")));
  const load = (proof) => loadTask(text, { proof, clock, policy: { leastUsers: 1 } });
  await assert.rejects(load(other), (error) => {
    assert.match(error.message, /belongs to another task/);
    return true;
  });
  await assert.rejects(load(await madeProof(idOf(text))), fails("privacy")); // the twin
});
