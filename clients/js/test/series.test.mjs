// The task of a series that is asked now, found in a server's list that is not believed.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { loadCurrentTask } from "@shuffledp/client";
import { madeProof } from "@shuffledp/client/testing";
import { changedText, fails, idOf, restore, textOf } from "../test-support.mjs";

afterEach(restore);

const DAY = 86400;
/** Three tasks, one for each of three days. */
const season = [0, 1, 2].map((day) =>
  changedText(textOf("count, bounded"), (task) =>
    Object.assign(task, {
      name: `bikes, day ${day + 1}`,
      not_before: day * DAY,
      expires: (day + 1) * DAY,
    }),
  ),
);
const entry = (text) => {
  const { name, not_before, expires } = JSON.parse(text);
  return { task: idOf(text), name, not_before, expires, series: null }; // as servers say it
};
const at = (seconds) => ({ clock: () => seconds * 1000 });

/** A server with a list of open tasks and their texts. */
async function server(tasks, texts = season) {
  const asked = [];
  const proofs = Object.fromEntries(
    await Promise.all(texts.map(async (text) => [idOf(text), await madeProof(idOf(text))])),
  );
  globalThis.fetch = async (url, how) => {
    asked.push(String(url));
    assert.deepEqual([how.credentials, how.referrerPolicy], ["omit", "no-referrer"]);
    if (String(url).endsWith("/current"))
      return typeof tasks === "number"
        ? new Response(null, { status: tasks })
        : Response.json(tasks);
    const [, id, proof] = /\/tasks\/([0-9a-f]+)(\/proof)?$/.exec(url);
    return new Response(proof ? proofs[id] : texts.find((text) => idOf(text) === id));
  };
  return asked;
}
const open = { tasks: season.map(entry) };

test("each day has its task", async () => {
  const asked = await server(open);
  for (const [day, text] of season.entries()) {
    const task = await loadCurrentTask("https://shuffler.example/v1/", "bikes", at(day * DAY + 7));
    assert.equal(task.id, idOf(text));
    assert.equal(task.name, `bikes, day ${day + 1}`);
  }
  assert.deepEqual(
    asked.slice(0, 3),
    ["current", `tasks/${idOf(season[0])}`, `tasks/${idOf(season[0])}/proof`].map(
      (path) => `https://shuffler.example/v1/${path}`,
    ),
  );
});

test("no task, several tasks, no list", async () => {
  await server(open);
  await assert.rejects(
    loadCurrentTask("https://s.example", "bikes", at(3 * DAY)),
    fails("expired"),
  );
  await assert.rejects(loadCurrentTask("https://s.example", "cars", at(1)), fails("expired"));
  await server({ tasks: [entry(season[0]), { ...entry(season[1]), not_before: 0 }] });
  await assert.rejects(
    loadCurrentTask("https://s.example", "bikes", at(1)),
    (error) => fails("task")(error) && /^2 tasks/.test(error.message),
  );
  for (const wrong of [
    {},
    { tasks: 1 },
    { tasks: [{}] },
    { tasks: [{ ...entry(season[0]), task: "00" }] },
    "no list",
  ]) {
    await server(wrong);
    await assert.rejects(loadCurrentTask("https://s.example", "bikes", at(1)), fails("task"));
  }
  await server(503);
  await assert.rejects(loadCurrentTask("https://s.example", "bikes", at(1)), fails("network"));
});

test("a list that lies is found out", async () => {
  // an expired task is said to be open
  await server({ tasks: [{ ...entry(season[0]), expires: 9 * DAY }] });
  await assert.rejects(
    loadCurrentTask("https://s.example", "bikes", at(2 * DAY)),
    fails("expired"),
  );
  // another name than the task has
  await server({ tasks: [{ ...entry(season[0]), name: "cars" }] });
  await assert.rejects(loadCurrentTask("https://s.example", "cars", at(1)), fails("task"));
  // another task under this id
  await server({ tasks: [{ ...entry(season[0]), task: "11".repeat(32) }] }, season);
  globalThis.fetch = ((list) => async (url, how) =>
    String(url).endsWith("/current") ? list(url, how) : new Response(season[0]))(globalThis.fetch);
  await assert.rejects(loadCurrentTask("https://s.example", "bikes", at(1)), fails("task"));
  // more than the policy allows
  await server(open);
  await assert.rejects(
    loadCurrentTask("https://s.example", "bikes", { ...at(1), policy: { leastUsers: 1000 } }),
    fails("policy"),
  );
  // signed by others than the policy names
  await assert.rejects(
    loadCurrentTask("https://s.example", "bikes", {
      ...at(1),
      policy: { signingKeys: { collector: ["00".repeat(32)] } },
    }),
    fails("policy"),
  );
});
