// The verifier accepts what holds, refuses every attack, and shows both sides of each inequality.
import assert from "node:assert/strict";
import { test } from "node:test";

import { supportedQueries } from "@shuffledp/client";
import { directions, isTrue, meaning, verify } from "@shuffledp/client/verify";
import { PLANS } from "../dist/pages/seePlans.js";
import { readVectors, vectors } from "../test-support.mjs";

const certificates = readVectors("certificates");
const known = ({ certificate }) => supportedQueries.includes(certificate.protocol.query);
const inequalities = ({ total, cells, padding }) => [
  ...total,
  ...cells.flatMap((cell) => cell.inequalities),
  ...padding,
];

for (const { name, holds, certificate } of certificates)
  test(`certificate ${holds ? "accepted" : "refused"}: ${name}`, async () => {
    const plan = JSON.stringify({ format: "shuffledp plan 2", certificate }, null, 2);
    if (!holds || !known({ certificate }))
      return assert.rejects(verify(plan), { name: "ShuffledpError" });
    const verdict = await verify(plan);
    assert.equal(verdict.protocol.users, certificate.users);
    const shown = inequalities(verdict);
    assert.ok(shown.length >= 3 && shown.every(isTrue));
    assert.deepEqual(
      [...new Set(shown.map(({ name }) => name))].filter((one) => !meaning(one)),
      [],
    );
    verdict.cells.forEach(checkDirections);
  });

/** What is shown below each direction are its own inequalities. */
function checkDirections(cell) {
  const names = directions(cell).map(([title, some]) => [title, some.map(({ name }) => name)]);
  const { kind } = cell.use.cell;
  if (kind === "sparse")
    return assert.deepEqual(names, [["Any replacement", ["loss", "spill", "cover"]]]);
  assert.deepEqual(
    names.map(([title]) => title),
    ["A change upwards", "A change downwards"],
  );
  const [up, down] = names.map(([, some]) => some);
  const losses = (some) => some.filter((name) => name === "loss").length;
  const own = { bounded: "ratio", pooled: "drop", shared: "stray 2", kept: "taken", paper: "loss" };
  assert.deepEqual([losses(up), losses(down)], [1, kind === "paper" ? 0 : 1]);
  assert.ok(up.includes(own[kind]) && !down.includes(own[kind]), `${kind}: ${up} | ${down}`);
}

test("an inequality is not the paper's because its name begins with a g", () => {
  const [left, right] = [
    [1n, 2n],
    [1n, 1n],
  ];
  assert.ok(
    isTrue({ name: "given", left, right }) && !isTrue({ name: "given", left: right, right: left }),
  );
  assert.ok(
    !isTrue({ name: "g(7), δ=1", left, right }) &&
      isTrue({ name: "g, δ=1", left: right, right: left }),
  );
});

// ε = 1/1000 for cells that lose 50 upwards: what is left for changes downwards is negative.
const overspent = (cell) => ({
  format: "shuffledp certificate 2",
  statement: "pure differential privacy in the shuffle model",
  neighbours: "replace one user's value",
  epsilon: "1/1000",
  loss: "1/1000",
  rule: "up + down",
  users: 1000,
  protocol: { query: "histogram", epsilon: "1/1000", cell, labels: 2, other: null },
  cells: [
    { kind: "paper", copies: 2, up: "50", down: "-49999/1000", proof: { inequality: "down" } },
  ],
});
const muted = (flood_mean) => ({
  kind: "paper",
  users: 1000,
  largest: 1,
  up_epsilon: "50",
  down_epsilon: "1/1000000000",
  mute_probability: "16777216/16777217",
  input_pairs: 0,
  flood_mean,
  stand_in: 0,
});
for (const flood of ["115077441947/10000000000000000000000000000000000000000", "1", "0"])
  test(`a change downwards cannot pay for one upwards: flood ${flood}`, async () => {
    const text = JSON.stringify(overspent(muted(flood)));
    await assert.rejects(verify(text), { name: "ShuffledpError" });
  });

const every = [
  vectors.tasks,
  vectors.frequencies.tasks,
  vectors.groups.tasks,
  vectors.shared.tasks,
];
test("tasks are accepted, with their ids and the length of their reports", async () => {
  for (const { id, text } of every.flat()) {
    const verdict = await verify(`${text}\n`);
    assert.deepEqual([verdict.kind, verdict.id, verdict.padding.length], ["task", id, 1]);
    assert.ok(inequalities(verdict).every(isTrue));
  }
});

const refused = [...vectors.refused, ...vectors.shared.refused];
test("every task that clients must refuse is refused, except for its date and name", async () => {
  let tried = 0;
  for (const { stage, why, text } of refused) {
    if (!["text", "proof"].includes(stage)) continue; // dates and ids are not in the file
    if (text !== text.trimEnd()) continue; // the end of a file is not part of the task
    await assert.rejects(verify(text), { name: "ShuffledpError" }, why);
    tried++;
  }
  assert.ok(tried > 100, String(tried));
});

test("a published result stands on its certificate, and names the same ε", async () => {
  const { certificate } = certificates.find(({ name }) => name === "bounded count");
  const result = { query: "count", estimate: 3, epsilon_exact: certificate.epsilon, certificate };
  const one = { task: "ab".repeat(32), number: 1, result };
  for (const document of [one, { results: [one] }, result])
    assert.equal((await verify(JSON.stringify(document))).kind, "result");
  const other = { ...one, result: { ...result, epsilon_exact: "1/1000" } };
  await assert.rejects(verify(JSON.stringify(other)), /another ε/);
});

test("anything else is refused in one sentence", async () => {
  for (const text of [
    "",
    "null",
    "[]",
    "7",
    "{}",
    '{"format":"shuffledp plan 2"}',
    "{",
    '{"result":{}}',
  ])
    await assert.rejects(verify(text), { name: "ShuffledpError", code: "task" }, text);
});

test("every plan of the page that shows an answer on its way is private", async () => {
  for (const { users, certificate } of PLANS)
    assert.equal((await verify(JSON.stringify(certificate))).protocol.users, users);
});
