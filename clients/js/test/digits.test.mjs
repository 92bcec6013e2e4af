// Digits that share their way up: what the vectors do not hold.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { givenWords, sharedDigits, uniform } from "@shuffledp/client/testing";

const { tasks } = JSON.parse(
  readFileSync(new URL("../../../vectors/client.json", import.meta.url), "utf8"),
).shared;
const { certificate } = JSON.parse(tasks[0].text);

const digits = sharedDigits.read(certificate.protocol.digits, "digits");

test("what a certificate says of a shared cell's proof must be true", () => {
  const cells = digits.uses.map(({ cell }) => cell);
  const { proof } = certificate.cells[0];
  assert.ok(cells[0].agrees(proof));
  for (const wrong of [
    { most_messages: proof.most_messages - 1 },
    { up: { rule: "equal cuts" } },
    { up: undefined },
    { down: { rule: "shared way up" } },
    { down: undefined },
  ])
    assert.ok(!cells[0].agrees({ ...proof, ...wrong }), JSON.stringify(wrong));
});

test("uniform draws take another word where a border lies inside the bits that are known", () => {
  const third = "5555555555555555";
  for (const [size, words, found] of [
    [1, ["ffffffffffffffff"], 0],
    [2, ["7fffffffffffffff"], 0],
    [2, ["8000000000000000"], 1],
    [3, [third, "0000000000000000"], 0],
    [3, [third, "ffffffffffffffff"], 1],
    [3, [third, third, "ffffffffffffffff"], 1],
    [3, ["ffffffffffffffff"], 2],
  ]) {
    const given = givenWords(words);
    assert.equal(uniform(BigInt(size), given), found);
    assert.equal(given.left(), 0);
  }
});

/** Words that depend on a counter alone; good enough to meet many branches. */
function* scrambled() {
  for (let state = 1n; ; ) {
    state = BigInt.asUintN(64, state * 6364136223846793005n + 1442695040888963407n);
    yield state ^ (state >> 29n);
  }
}

test("all digits together never send more than a report holds, whatever the words", () => {
  const cells = digits.uses.map(({ cell }) => cell);
  const most = digits.mostMessages;
  const source = scrambled();
  let reached = 0;
  for (let run = 0; run < 3000; run++) {
    let left = run % 16; // the first words are the least or the largest ones
    const words = () => {
      const word = source.next().value;
      return left-- > 0 ? (word & (1n << 40n) ? (1n << 64n) - 1n : 0n) : word;
    };
    const values = cells.map(({ largest }) => run % (largest + 1));
    const [plus, minus] = digits.draw(values, words); // a negative number of messages would throw
    assert.ok(minus.length === 0 && plus.every((one) => one >= 0 && one < cells.length));
    reached = Math.max(reached, plus.length);
  }
  assert.ok(reached <= most && reached > 0.6 * most, `${reached} of ${most}`);
});
