// Sending, storing and refusing, with a shuffler that is a function.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, test } from "node:test";
import { gzipSync } from "node:zlib";

import { loadTask } from "@shuffledp/client";
import { exportHistory, history, wipe } from "@shuffledp/client/device";
import { nobleKey, nobleVerify } from "@shuffledp/client/noble";
import { givenWords, madeProof, memoryStorage, plainNumbers } from "@shuffledp/client/testing";
import {
  changedText,
  clientOf,
  clock,
  fails,
  idOf,
  loadText,
  refusal,
  restore,
  shuffler,
  textOf,
  vectors,
  withoutPauses,
} from "../test-support.mjs";

const KEY = vectors.encryption.analyzer_key.public;
const load = (name, policy = {}, more = {}) => loadText(textOf(name), { policy, ...more });
let pauses = [];
beforeEach(() => (pauses = withoutPauses()));
afterEach(restore);

const changed = (name, change) => changedText(textOf(name), change);

test("a value is sent once, in a request as the protocol says", async () => {
  const bodies = shuffler(new Response(null, { status: 201 }));
  const storage = memoryStorage();
  const task = await load("count, bounded");
  const client = clientOf(task, { storage });
  assert.equal(await client.state(), "none");
  assert.deepEqual(await client.send(1), { state: "sent", status: 201 });
  assert.equal(await client.state(), "sent");
  assert.equal(bodies[0].url, `https://shuffler.example/v1/tasks/${task.id}/reports`);
  assert.equal(bodies[0].headers.Authorization, "Bearer each-x");
  assert.equal(bodies[0].size, task.reportBytes);
  await assert.rejects(client.send(0), fails("answered"));
  assert.equal(await client.resume(), null);
  assert.equal(bodies.length, 1);
  const [sent] = await history(storage);
  assert.deepEqual(
    [sent.task, sent.epsilon, sent.acknowledged, sent.when],
    [task.id, "1", true, vectors.now],
  );
});

test("every value gives equally many bytes, and no two reports are alike", async () => {
  const bodies = shuffler(new Response(null, { status: 201 }));
  const cases = {
    "count, bounded": [0, 1],
    "histogram, bounded": ["no", 7],
    "real sum, bounded": [-1, 2.5],
    frequencies: ["a", 2n ** 64n - 1n],
    "heavy hitters": ["", "日本語"],
  };
  for (const [name, values] of Object.entries(cases)) {
    const task = await load(name, { leastUsers: 1 });
    for (const value of values) await clientOf(task).send(value);
    const [a, b] = bodies.slice(-2);
    assert.equal(a.size, b.size);
    assert.notEqual(a.hex, b.hex);
  }
});

test("after an interruption the very same bytes are sent", async () => {
  const storage = memoryStorage();
  const task = await load("count, bounded");
  const first = shuffler("away");
  const client = clientOf(task, { attempts: 2, storage });
  await assert.rejects(client.send(1), fails("network"));
  assert.equal(await client.state(), "stored");
  assert.equal((await history(storage))[0].acknowledged, false);
  await assert.rejects(client.send(0), fails("answered"));
  const second = shuffler(refusal(503, "busy"), new Response(null, { status: 200 }));
  assert.deepEqual(await clientOf(task, { storage }).resume(), {
    state: "sent",
    status: 200,
  });
  assert.equal(new Set([...first, ...second].map((body) => body.hex)).size, 1);
  assert.equal((await history(storage)).length, 1, "it is charged once");
});

test("Retry-After is waited for; what is too long is left for later", async () => {
  const task = await load("count, bounded");
  shuffler(refusal(429, "slow-down", { "Retry-After": "7" }), new Response(null, { status: 201 }));
  await clientOf(task).send(1);
  assert.deepEqual(pauses, [7000]);
  const bodies = shuffler(refusal(503, "busy", { "Retry-After": "3600" }));
  await assert.rejects(clientOf(task).send(1), fails("network"));
  assert.equal(bodies.length, 1);
  assert.equal(pauses.length, 1);
});

test("what broke off on its way is sent again", async () => {
  const bodies = shuffler(
    refusal(400, "interrupted"),
    refusal(599, "proxy"),
    new Response(null, { status: 201 }),
  );
  await clientOf(await load("count, bounded")).send(1);
  assert.equal(new Set(bodies.map((body) => body.hex)).size, 1);
  assert.equal(bodies.length, 3);
});

test("a refusal for good is not repeated, and says why", async () => {
  for (const [status, problem, code] of [
    [409, "token-used", "token"],
    [401, "token-missing", "token"],
    [400, "malformed", "refused"],
    [410, "task-expired", "refused"],
  ]) {
    const bodies = shuffler(refusal(status, problem));
    const client = clientOf(await load("count, bounded"));
    await assert.rejects(client.send(1), (error) => {
      assert.deepEqual([error.code, error.status, error.problem], [code, status, problem]);
      assert.match(error.message, /No\.$/);
      return true;
    });
    assert.equal(bodies.length, 1);
  }
});

test("a value that does not fit costs nothing and is not repeated in the error", async () => {
  const bodies = shuffler(new Response(null, { status: 201 }));
  const storage = memoryStorage();
  const cases = {
    "count, bounded": [2, -1, 0.5, "1", NaN],
    "real sum, bounded": [2.6, "1", Infinity],
    "heavy hitters": [5, "\ud800", null],
    frequencies: [19723.5, NaN, 2 ** 53, 2n ** 64n, -(2n ** 63n) - 1n, "\ud800", null, true],
    "quantiles of days, bounded": ["2023-12-31", "2024-02-30", 19723],
  };
  for (const [name, values] of Object.entries(cases))
    for (const value of values) {
      const task = await load(name, { leastUsers: 1 });
      await assert.rejects(clientOf(task, { storage }).send(value), (error) => {
        assert.equal(error.code, "value", `${name}: ${value}`);
        assert.ok(!error.message.includes("19723"));
        return true;
      });
    }
  assert.equal(bodies.length, 0);
  assert.deepEqual(await history(storage), []);
});

test("the policy decides before anything is sent", async () => {
  await assert.rejects(load("count, bounded", { mostEpsilonPerTask: "0.5" }), fails("policy"));
  await assert.rejects(load("count, bounded", { leastUsers: 101 }), fails("policy"));
  await assert.rejects(load("count, repeated", { allowShortBatches: true }), fails("policy"));
  await assert.rejects(load("count, repeated", { allowRepeat: true }), fails("policy"));
  await assert.rejects(
    load("count, bounded", { analyzerKeys: ["00".repeat(32)] }),
    fails("policy"),
  );
  await assert.rejects(load("count, bounded", { most_users: 3 }), fails("policy"));
  await assert.rejects(load("count, bounded", { leastUsers: 0 }), fails("policy"));
  await load("count, bounded", { analyzerKeys: [KEY], mostEpsilonPerTask: "1" });
});

test("the budget of a period is exact, and ends with the period", async () => {
  shuffler(new Response(null, { status: 201 }));
  const charge = (epsilon, when) => ({
    report: "r",
    task: "other",
    name: "n",
    shuffler: "s",
    epsilon,
    when,
    expires: 1,
  });
  const day = 86400;
  const storage = memoryStorage({
    charges: [charge("3", vectors.now - 10 * day)],
    keys: {},
    reports: {},
  });
  const client = clientOf(await load("count, bounded"), { storage });
  await client.send(1); // 3 + 1 = 4 is allowed, and nothing more
  const next = clientOf(await load("count, per index"), { storage });
  await assert.rejects(next.send(1), fails("policy"));
  const later = await load("count, per index", {}, { clock: () => clock() + 21 * day * 1000 });
  await clientOf(later, { storage }).send(1);
});

test("another analyzer key than the remembered one is refused", async () => {
  shuffler(new Response(null, { status: 201 }));
  const task = await load("count, bounded");
  const storage = memoryStorage({
    charges: [],
    keys: { "https://shuffler.example/v1": { encryption: "11".repeat(32) } },
    reports: {},
  });
  await assert.rejects(clientOf(task, { storage }).send(1), fails("policy"));
  const named = await load("count, bounded", { analyzerKeys: [KEY] });
  await clientOf(named, { storage }).send(1);
});

test("a task that nobody else can see is not answered", async () => {
  const [own, other] = [textOf("count, bounded"), textOf("count, per index")];
  const id = idOf(own);
  const pinned = {
    signingKeys: Object.fromEntries(
      Object.entries(JSON.parse(await madeProof(id)).keys).map(([role, key]) => [role, [key]]),
    ),
  };
  const names = { collector: "collector", shuffler: "shuffler", analyzer: "analyzer" };
  const forged = {
    task: [await madeProof(idOf(other)), "{}", "no JSON", " ".repeat(20_000)],
    policy: await Promise.all(
      Object.keys(names).map((role) => madeProof(id, { ...names, [role]: "stranger" })),
    ),
  };
  for (const [code, proofs] of Object.entries(forged))
    for (const proof of proofs)
      await assert.rejects(loadText(own, { proof, policy: pinned }), fails(code));
  await assert.rejects(
    loadText(own, { policy: { signingKeys: { collector: "x" } } }),
    fails("policy"),
  );
  await assert.rejects(loadText(own, { policy: { signingKeys: { nobody: [] } } }), fails("policy"));
  await loadText(own, { policy: pinned });
});

test("the proof is loaded from beside the task, or from the task's shuffler", async () => {
  const text = textOf("count, bounded");
  const [asked, id] = [[], idOf(text)];
  const proof = await madeProof(id);
  const serve = (answer) => {
    globalThis.fetch = async (url) => {
      asked.push(String(url));
      return String(url).endsWith("/proof") ? answer() : new Response(text);
    };
  };
  serve(() => new Response(proof));
  await loadTask(`https://mirror.example/tasks/${id}`, { clock });
  await loadTask(text, { clock });
  assert.deepEqual(asked, [
    `https://mirror.example/tasks/${id}`,
    `https://mirror.example/tasks/${id}/proof`,
    `https://shuffler.example/v1/tasks/${id}/proof`,
  ]);
  serve(() => new Response(null, { status: 404 }));
  await assert.rejects(loadTask(text, { clock }), fails("task"));
  serve(() => Promise.reject(new TypeError("away")));
  await assert.rejects(loadTask(text, { clock }), fails("network"));
});

test("an engine without Ed25519 says so in one sentence", async () => {
  const real = crypto.subtle.importKey;
  const text = textOf("count, bounded");
  const proof = await madeProof(idOf(text));
  try {
    crypto.subtle.importKey = async () =>
      Promise.reject(new DOMException("no such algorithm", "NotSupportedError"));
    await assert.rejects(
      loadTask(text, { clock, proof }),
      (error) => fails("task")(error) && /no Ed25519/.test(error.message),
    );
    await loadTask(text, { clock, proof, verify: nobleVerify });
  } finally {
    crypto.subtle.importKey = real;
  }
});

test("other signing keys than the remembered ones are refused, and new ones are shown", async () => {
  shuffler(new Response(null, { status: 201 }));
  const storage = memoryStorage();
  const task = await load("count, bounded");
  assert.equal((await task.describe(storage)).newKeys, true);
  await clientOf(task, { storage }).send(1);
  assert.equal((await task.describe(storage)).newKeys, false);
  const text = textOf("count, per index");
  const names = { collector: "collector", shuffler: "shuffler", analyzer: "analyzer" };
  for (const role of Object.keys(names)) {
    const other = await loadText(text, {
      proof: await madeProof(idOf(text), { ...names, [role]: "another" }),
    });
    await assert.rejects(clientOf(other, { storage }).send(1), fails("policy"));
  }
  await clientOf(await loadText(text, {}), { storage }).send(1);
});

test("what was sent can be exported and wiped, and the budget stays spent", async () => {
  shuffler(new Response(null, { status: 201 }));
  const storage = memoryStorage();
  const task = await load("count, bounded", { mostEpsilonPerPeriod: "1" });
  await clientOf(task, { storage }).send(1);
  const [sent] = JSON.parse(await exportHistory(storage)).reports;
  assert.deepEqual(
    [sent.question, sent.operators, sent.bytes, sent.shuffler],
    [task.question, task.operators, task.reportBytes, "https://shuffler.example/v1"],
  );
  const now = vectors.now;
  assert.deepEqual(await wipe(storage, { now }), { reports: 1, waiting: 0, tasks: 1 });
  const [left] = await history(storage);
  assert.deepEqual(Object.keys(left).sort(), [
    "acknowledged",
    "epsilon",
    "expires",
    "report",
    "task",
    "when",
  ]);
  assert.ok(!(await exportHistory(storage)).includes(task.question));
  await assert.rejects(clientOf(task, { storage }).send(0), fails("answered"));
  const next = await load("count, per index", { mostEpsilonPerPeriod: "1" });
  await assert.rejects(clientOf(next, { storage }).send(1), fails("policy"));
  assert.deepEqual(await wipe(storage, { now: task.expires, keys: true }), {
    reports: 1,
    waiting: 0,
    tasks: 0,
  });
  assert.ok(!(await exportHistory(storage)).includes(task.id));
  assert.deepEqual(JSON.parse(await exportHistory(storage)).keys, {});
});

test("reports that wait are not wiped", async () => {
  shuffler("away");
  const storage = memoryStorage();
  const client = clientOf(await load("count, bounded"), { attempts: 1, storage });
  await assert.rejects(client.send(1), fails("network"));
  assert.deepEqual(await wipe(storage, { now: vectors.now }), { reports: 0, waiting: 1, tasks: 1 });
  shuffler(new Response(null, { status: 201 }));
  assert.deepEqual(await client.resume(), { state: "sent", status: 201 });
});

test("tasks that take several answers are charged each time", async () => {
  shuffler(new Response(null, { status: 201 }));
  const storage = memoryStorage();
  const task = await load("count, repeated", { allowRepeat: true, allowShortBatches: true });
  const client = clientOf(task, { storage });
  await client.send(1);
  await client.send(0);
  await assert.rejects(client.send(0), fails("policy"));
  assert.equal((await history(storage)).length, 2);
});

test("two senders at once: one answer", async () => {
  const bodies = shuffler(new Response(null, { status: 201 }));
  const storage = memoryStorage();
  const task = await load("count, bounded");
  const both = [0, 1].map((value) => clientOf(task, { storage }).send(value));
  const settled = (await Promise.allSettled(both)).map(({ status }) => status).sort();
  assert.deepEqual(settled, ["fulfilled", "rejected"]);
  assert.equal(bodies.length, 1);
});

test("what is sent, in words", async () => {
  const task = await load("count, bounded");
  const about = await task.describe(memoryStorage());
  assert.equal(about.question, "Vectors: count, bounded? ✓");
  assert.deepEqual(
    [about.epsilon, about.users, about.bytes, about.remains],
    ["1", 100, task.reportBytes, "3"],
  );
  assert.match(about.sentences.join(" "), /Survey Office.*Shuffler Ltd.*Université · Analyse/);
  assert.match(about.sentences.at(-1), /ε = 0 of the 4 .* after this answer 3 are left/);
});

test("keys of noble curves open as those of WebCrypto do", async () => {
  const [ours, theirs] = [await nobleKey(), await nobleKey()];
  assert.deepEqual(await ours.shared(theirs.publicKey), await theirs.shared(ours.publicKey));
  const bodies = shuffler(new Response(null, { status: 201 }));
  const task = await load("count, bounded");
  await clientOf(task, { storage: memoryStorage(), ephemeral: nobleKey }).send(1);
  assert.equal(bodies[0].size, task.reportBytes);
});

test("the core takes no randomness from its caller", async () => {
  const core = readFileSync(new URL("../dist/bundle/client.js", import.meta.url), "utf8");
  assert.ok(core.includes("crypto.getRandomValues"));
  assert.equal(core.match(/Math\.random/g).length, 1, "only the pause between attempts");
});

test("odds without a short common denominator are refused", async () => {
  const text = changed("integer sum, bounded", ({ certificate: { protocol } }) => {
    const { up } = protocol.cell;
    up.odds = up.odds.map((_, i) => `1/${10n ** 390n + BigInt(2 * i + 1)}`);
  });
  await assert.rejects(loadTask(text, { clock }), (error) => {
    assert.match(error.message, /short odds/);
    return true;
  });
});

const FREQUENT = "frequencies of numbers";

test("tasks for hashed labels whose table or labels are wrong are refused", async () => {
  const wrong = {
    report_size: [(task) => (task.report_size -= 1), "too short"],
    buckets: [({ certificate: { protocol } }) => (protocol.cell.buckets = 100), "power of two"],
    "another kind of cell": [
      ({ certificate: { protocol } }) => (protocol.cell.kind = "bounded"),
      "sparse cell",
    ],
    "candidates twice": [
      ({ certificate: { protocol } }) => (protocol.candidates = [1, 1]),
      "Candidates",
    ],
    "candidates of two types": [
      ({ certificate: { protocol } }) => (protocol.candidates = [1, "1"]),
      "Candidates",
    ],
    seed: [({ certificate: { protocol } }) => (protocol.hash_seed = "A".repeat(64)), "hash_seed"],
    claim: [({ certificate }) => (certificate.users = 101), "does not follow"],
  };
  await loadText(changed(FREQUENT, () => {}));
  for (const [name, [change, why]] of Object.entries(wrong))
    await assert.rejects(loadTask(changed(FREQUENT, change), { clock }), (error) => {
      assert.equal(error.code, "task", `${name}: ${error}`);
      assert.ok(error.message.includes(why), `${name}: ${error}`);
      return true;
    });
});

test("whole numbers are labels modulo 2⁶⁴, and no texts", async () => {
  const task = await load(FREQUENT);
  // words for row 0, the branch that sends the value, no noise, and the order of the messages
  const given = [0, 0, 0, ...Array(task.reportSize).keys()].map((word) => word.toString(16));
  const sent = (value) => plainNumbers(task, value, givenWords(given));
  assert.deepEqual(await sent(7n), await sent(7));
  assert.deepEqual(await sent(-1), await sent(2n ** 64n - 1n));
  const places = await Promise.all(
    [...Array(20).keys()].map(async (value) => [await sent(value), await sent(String(value))]),
  );
  assert.notDeepEqual(
    places.map(([whole]) => whole),
    places.map(([, text]) => text),
  );
});

test("pages load what a question needs beside the core, from the bundle", async () => {
  const { loadTask: bundled } = await import("../dist/bundle/client.js");
  for (const name of [
    "frequencies",
    "heavy hitters",
    "real sum, bounded",
    "quantiles of days, bounded",
    "histogram, bounded",
    "mean by group",
    "count, in a series",
  ]) {
    const task = await bundled(textOf(name), {
      clock,
      proof: await madeProof(idOf(textOf(name))),
      policy: { leastUsers: 1 },
    });
    assert.equal(
      task.reportBytes,
      vectors.tasks
        .concat(vectors.frequencies.tasks, vectors.groups.tasks)
        .find((one) => one.name === name).report_bytes,
    );
  }
});

test("the core is at most 10 kB gzipped", () => {
  const core = readFileSync(new URL("../dist/bundle/client.js", import.meta.url));
  assert.ok(gzipSync(core, { level: 9 }).length <= 10_000);
});
