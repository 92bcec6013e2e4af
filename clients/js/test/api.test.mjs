// What JavaScript developers expect of the calls: booleans, signals, offline, codes, results.
import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { loadTask } from "@shuffledp/client";
import { results } from "@shuffledp/client/results";

import {
  clientOf,
  clock,
  fails,
  loadText,
  refusal,
  restore,
  shuffler,
  textOf,
  withoutPauses,
} from "../test-support.mjs";

const YES_NO = "count, bounded";
const load = (name = YES_NO) => loadText(textOf(name), { policy: { leastUsers: 1 } });
const open = async (options = {}, name = YES_NO) => clientOf(await load(name), { ...options });
const taken = () => new Response(null, { status: 201 });
const { addEventListener, navigator } = globalThis;

beforeEach(withoutPauses);
afterEach(() => {
  restore();
  Object.defineProperty(globalThis, "navigator", { value: navigator, configurable: true });
  globalThis.addEventListener = addEventListener;
});

test("true and false answer a yes-or-no question, and no other", async () => {
  const bodies = shuffler(taken());
  for (const value of [true, false])
    assert.deepEqual(await (await open()).send(value), { state: "sent", status: 201 });
  assert.equal(bodies[0].size, bodies[1].size);
  for (const name of ["integer sum, bounded", "frequencies"])
    await assert.rejects((await open({}, name)).send(true), fails("value"));
});

test("resume is quiet where nothing waits", async () => {
  const bodies = shuffler(taken());
  const client = await open();
  assert.equal(await client.resume(), null);
  await client.send(1);
  assert.equal(await client.resume(), null);
  assert.equal(bodies.length, 1);
});

test("offline, an answer is stored at once and sent when the device is online", async () => {
  const [bodies, listeners] = [shuffler(taken()), []];
  const client = await open();
  Object.defineProperty(globalThis, "navigator", { value: { onLine: false }, configurable: true });
  globalThis.addEventListener = (name, work, options) => listeners.push([name, work, options]);
  assert.deepEqual(await client.send(1), { state: "stored" });
  assert.deepEqual([await client.state(), bodies.length], ["stored", 0]);
  await assert.rejects(client.send(0), fails("answered"));
  Object.defineProperty(globalThis, "navigator", { value: { onLine: true }, configurable: true });
  const [[name, work, { once }]] = listeners;
  assert.deepEqual([name, once], ["online", true]);
  await work();
  assert.deepEqual([await client.state(), bodies.length], ["sent", 1]);
});

test("a signal ends waiting; what was stored stays", async () => {
  const aborted = (error) => error.name === "AbortError";
  const before = await open();
  await assert.rejects(before.send(1, { signal: AbortSignal.abort() }), aborted);
  assert.equal(await before.state(), "none");
  const [client, control] = [await open(), new AbortController()];
  let tries = 0;
  globalThis.fetch = async () => {
    if (++tries === 2) control.abort();
    throw new TypeError("away");
  };
  await assert.rejects(client.send(1, { signal: control.signal }), aborted);
  assert.deepEqual([await client.state(), tries], ["stored", 2]);
  shuffler(taken());
  assert.deepEqual(await client.resume(), { state: "sent", status: 201 });
  const signal = AbortSignal.abort();
  globalThis.fetch = async () => Promise.reject(signal.reason);
  await assert.rejects(loadTask("https://s.example/tasks/x", { signal, clock }), aborted);
});

test("a server that pages may not read is told apart from one that is away", async () => {
  const page = { location: globalThis.location, document: globalThis.document };
  Object.assign(globalThis, {
    location: new URL("https://survey.example/"),
    document: new EventTarget(),
  });
  Object.defineProperty(globalThis, "navigator", { value: { onLine: true }, configurable: true });
  try {
    const probes = [];
    globalThis.fetch = async (url, { mode, credentials }) => {
      if (mode !== "no-cors") throw new TypeError("Failed to fetch");
      probes.push([String(url), credentials]);
      return new Response(null);
    };
    const client = await open({ attempts: 1 });
    await assert.rejects(client.send(1), (error) => {
      assert.match(error.message, /does not allow pages of https:\/\/survey\.example; .* stored/);
      return fails("cors")(error);
    });
    assert.deepEqual(probes, [["https://shuffler.example/v1", "omit"]]);
    shuffler("away");
    await assert.rejects((await open({ attempts: 1 })).send(1), fails("network"));
    shuffler(refusal(503, "busy"));
    await assert.rejects((await open({ attempts: 1 })).send(1), {
      code: "network",
      message: "The shuffler did not take the report. It is stored; resume sends it later.",
    });
  } finally {
    for (const name of ["location", "document"])
      if (page[name] === undefined) delete globalThis[name];
      else globalThis[name] = page[name];
  }
});

test("published results are read, and those of another task refused", async () => {
  const task = { id: "ab".repeat(32) };
  const one = { task: task.id, number: 1, reports: 100, result: { query: "count", estimate: 3 } };
  const asked = [];
  const serve = (answer) => {
    globalThis.fetch = async (url) => (asked.push(String(url)), answer);
  };
  const read = () => results(task, { analyzer: "https://analyzer.example/" });
  serve(Response.json({ results: [one] }));
  assert.deepEqual(await read(), [one]);
  assert.deepEqual(asked, [`https://analyzer.example/tasks/${task.id}/results`]);
  serve(Response.json({ results: [{ ...one, task: "cd".repeat(32) }] }));
  await assert.rejects(read(), fails("task"));
  serve(Response.json({}));
  await assert.rejects(read(), fails("task"));
  serve(refusal(404, "task-unknown"));
  await assert.rejects(read(), fails("refused"));
  globalThis.fetch = async () => Promise.reject(new TypeError("away"));
  await assert.rejects(read(), fails("network"));
});

test("a server that does not answer is named as such, without a status", async () => {
  globalThis.fetch = async () => Promise.reject(new TypeError("away"));
  const message = "The task could not be loaded (no answer); try again later.";
  await assert.rejects(loadTask("https://shuffler.example/task.json"), {
    code: "network",
    message,
  });
  globalThis.location = new URL("https://site.example/"); // as in a browser
  Object.defineProperty(globalThis, "navigator", { value: {}, configurable: true });
  try {
    await assert.rejects(loadTask("https://shuffler.example:99999/task.json"), { message });
  } finally {
    delete globalThis.location;
  }
});
