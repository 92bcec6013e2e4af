// Tasks by group: what is refused, and which pairs are taken. The vectors show what is sent.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { memoryStorage } from "@shuffledp/client/testing";
import {
  changedText,
  clientOf,
  fails,
  loadText,
  restore,
  shuffler,
  textOf,
} from "../test-support.mjs";

afterEach(restore);

const load = (name) => loadText(textOf(name));
const changed = (name, change) => changedText(textOf(name), change);

test("tasks by group whose labels, bounds or cells do not fit are refused", async () => {
  const [count, whole, real, mean] = ["count", "integer sum", "real sum", "mean"].map(
    (one) => `${one} by group`,
  );
  const wrong = [
    [count, (one) => (one.labels = ["a", "a"])],
    [count, (one) => (one.labels = ["a", 7])],
    [count, (one) => (one.labels = ["a"])],
    [count, (one) => (one.high = "2")],
    [count, (one) => (one.answer = "mode")],
    [count, (one) => (one.answer = "mean")],
    [count, (one) => (one.sizes = one.digits[0])],
    [count, (one) => (one.digits[0].down = "1/1000")],
    [whole, (one) => (one.answer = "count")],
    [whole, (one) => (one.low = "-1")],
    [whole, (one) => (one.high = "4")],
    [real, (one) => (one.answer = "integer-sum")],
    [real, (one) => delete one.sizes],
    [real, (one) => (one.low = one.high)],
    [mean, (one) => (one.sizes.cell = one.digits[0].cell)],
    [mean, (one) => (one.unknown = 1)],
  ];
  const sparse = "sparse count by group";
  wrong.push(
    [sparse, (one) => one.labels.push("more")],
    [sparse, (one) => one.labels.pop()],
    [sparse, (one) => (one.answer = "integer-sum")],
    [sparse, (one) => (one.high = "2")],
    [sparse, (one) => (one.digits[0].down = "1/2")],
    [sparse, (one) => one.digits.push(one.digits[0])],
    [sparse, (one) => (one.digits[0].cell.kind = "pooled")],
  );
  for (const name of [count, sparse, whole, real, mean]) await loadText(changed(name, () => {}));
  for (const [place, [name, change]] of wrong.entries())
    await assert.rejects(
      loadText(changed(name, ({ certificate }) => change(certificate.protocol))),
      (error) => {
        assert.ok(["task", "privacy"].includes(error.code), `${place}: ${error}`);
        return true;
      },
    );
  const bodies = shuffler(new Response(null, { status: 201 }));
  const values = {
    [count]: [
      ["ä", 2],
      ["ä", 0.5],
      ["ä", "1"],
      ["other", 1],
      ["ä"],
      "ä",
      1,
      ["ä", 1, 1],
      null,
      { 0: "ä", 1: 1 },
    ],
    [sparse]: [["ä", 2], ["other", 1], ["ä"]],
    [whole]: [
      ["7", 1],
      [7, 4],
      [7, -1],
    ],
    [real]: [
      ["a", 2.6],
      ["a", NaN],
      ["a", "0"],
    ],
  };
  for (const [name, all] of Object.entries(values))
    for (const value of all)
      await assert.rejects(
        clientOf(await load(name)).send(value),
        fails("value"),
        JSON.stringify(value),
      );
  assert.equal(bodies.length, 0);
  for (const value of [
    ["ä", 0],
    ["", 1],
  ])
    await clientOf(await load(count)).send(value);
  assert.equal(bodies[0].size, bodies[1].size);
  const { values: about } = await (await load(whole)).describe(memoryStorage());
  assert.deepEqual(about, {
    kind: "group",
    labels: [7, -1, 0],
    value: { kind: "whole", least: 0, most: 3 },
  });
});
