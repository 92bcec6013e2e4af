// One-time tokens: the vectors of RFC 9474 and RFC 9578, a whole task, and a mock issuer.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, test } from "node:test";

import { createClient } from "@shuffledp/client";
import { exportHistory, wipe } from "@shuffledp/client/device";
import { enrolByEvidence } from "@shuffledp/client/enrolment";
import {
  blind,
  challengeOf,
  finalize,
  fromHex,
  hex,
  memoryStorage,
  modulusOf,
  tokenOf,
  tokenRequest,
  verifies,
} from "@shuffledp/client/testing";
import {
  changedText,
  clock,
  fails,
  idOf,
  loadText,
  readVectors,
  refusal,
  restore,
  signer,
  signing,
  withoutPauses,
} from "../test-support.mjs";

const rfc = readVectors("rfc");
const vector = readVectors("tokens");
const { issuer } = JSON.parse(vector.task);
const number = (text) => BigInt(`0x${text}`);
/** 1/a modulo p·q, from the secret factors. */
const inverse = (a, { p, q }) => {
  const order = (number(p) - 1n) * (number(q) - 1n);
  let [found, base, n] = [1n, a, number(p) * number(q)];
  for (let left = order - 1n; left; left >>= 1n) {
    if (left & 1n) found = (found * base) % n;
    base = (base * base) % n;
  }
  return found;
};

beforeEach(() => void withoutPauses());
afterEach(restore);

for (const one of rfc.rfc9474)
  test(`RFC 9474: ${one.name}`, async () => {
    const [n, message, salt] = [number(one.n), fromHex(one.prepared_msg), fromHex(one.salt)];
    const signed = { modulus: n, message, saltLength: salt.length };
    const made = await blind(n, message, { salt, blinding: inverse(number(one.inv), one) });
    assert.equal(hex(made.blinded), one.blinded_msg);
    assert.equal(made.inverse, number(one.inv));
    const answer = signing(n, number(one.d))(made.blinded);
    assert.equal(hex(answer), one.blind_sig);
    const signature = await finalize({ ...signed, answer, inverse: made.inverse });
    assert.equal(hex(signature), one.sig);
    assert.equal(
      await verifies(signature, { ...signed, message: fromHex(`${one.prepared_msg}00`) }),
      false,
    );
    await assert.rejects(
      finalize({
        ...signed,
        saltLength: salt.length ? 0 : 48,
        answer,
        inverse: made.inverse,
      }),
      fails("refused"),
    );
  });

for (const [place, one] of rfc.rfc9578.entries())
  test(`RFC 9578, type 2, vector ${place + 1}`, async () => {
    const request = await tokenRequest(one.pkS, fromHex(one.token_challenge), {
      nonce: fromHex(one.nonce),
      salt: fromHex(one.salt),
      blinding: number(one.blind),
    });
    assert.equal(request.body, one.token_request);
    const answer = signer(one.skS)(fromHex(one.token_request.slice(6)));
    assert.equal(hex(answer), one.token_response);
    const token = await tokenOf(one.pkS, request, answer);
    assert.equal(Buffer.from(token.slice(5), "base64url").toString("hex"), one.token);
  });

test("the token of a task is that of the vectors", async () => {
  const challenge = challengeOf(issuer.url, vector.id, JSON.parse(vector.task).shuffler);
  assert.equal(hex(challenge), vector.challenge);
  const request = await tokenRequest(issuer.key, challenge, {
    nonce: fromHex(vector.nonce),
    salt: fromHex(vector.salt),
    blinding: number(vector.blind),
  });
  assert.deepEqual([request.input, request.body], [vector.input, vector.request]);
  assert.equal(await tokenOf(issuer.key, request, fromHex(vector.answer)), vector.token);
});

test("what the issuer sees of one message is another number each time", async () => {
  const n = modulusOf(issuer.key);
  const salt = new Uint8Array(48);
  const views = await Promise.all(
    Array.from({ length: 40 }, () => blind(n, fromHex("00"), { salt })),
  );
  assert.equal(new Set(views.map(({ blinded }) => hex(blinded))).size, 40);
  const same = await Promise.all([1, 2].map(() => blind(n, fromHex("00"), { salt, blinding: 1n }))); // the twin
  assert.deepEqual(same[0], same[1]);
});

test("an answer that is no signature under the task's key is refused", async () => {
  const sign = signer(vector.issuer_secret_key);
  const request = await tokenRequest(issuer.key, fromHex("01"));
  const good = sign(fromHex(request.body.slice(6)));
  await tokenOf(issuer.key, request, good);
  const other = rfc.rfc9474[0];
  const wrong = {
    "another message": sign(fromHex(vector.request.slice(6))),
    "another key": signing(
      number(other.n),
      number(other.d),
    )(fromHex(request.body.slice(6))).slice(0, 256),
    "a changed bit": good.map((byte, i) => (i === 100 ? byte ^ 1 : byte)),
    "too short": good.slice(1),
    "too long": fromHex(`00${hex(good)}`),
    "as large as the modulus": fromHex(modulusOf(issuer.key).toString(16)),
    nothing: new Uint8Array(0),
  };
  for (const [why, answer] of Object.entries(wrong))
    await assert.rejects(tokenOf(issuer.key, request, answer), fails("refused"), why);
});

const withIssuer = (change) => changedText(vector.task, (task) => change(task.issuer, task));

test("tasks whose issuer is malformed are refused", async () => {
  const { key } = issuer;
  const wrong = {
    "an even modulus": (one) => (one.key = `${key.slice(0, -11)}0${key.slice(-10)}`),
    "a short modulus": (one) => (one.key = `${key.slice(0, 162)}7${key.slice(163)}`),
    "another exponent": (one) => (one.key = key.replace(/0203010001$/, "0203010003")),
    "another hash": (one) =>
      (one.key = key.replace("0609608648016503040202", "0609608648016503040201")),
    "too short a key": (one) => (one.key = key.slice(2)),
    "capital digits": (one) => (one.key = key.toUpperCase()),
    "no https": (one) => (one.url = "http://issuer.example"),
    "a slash at the end": (one) => (one.url += "/"),
    "a number for true": (one) => (one.attested = 1),
    "an unknown field": (one) => (one.more = true),
    "no issuer at all": (_, task) => (task.issuer = null),
    repeats: (_, task) => (task.repeat = true),
  };
  await loadText(withIssuer(() => {}));
  for (const [why, change] of Object.entries(wrong))
    await assert.rejects(
      loadText(withIssuer(change), { policy: { allowRepeat: true } }),
      fails("task"),
      why,
    );
});

/** An issuer and a shuffler; `answers` may stand in for either: {tokens: […], reports: […]}. */
function servers(answers = {}) {
  const asked = [];
  const sign = signer(vector.issuer_secret_key);
  globalThis.fetch = async (url, { body, headers, ...how }) => {
    const kind = String(url).split("/").at(-1);
    asked.push({ kind, url: String(url), body: hex(body), headers, how });
    const next = answers[kind]?.shift();
    if (next === "away") throw new TypeError("Failed to fetch");
    if (next) return next;
    return kind === "tokens"
      ? new Response(sign(body.slice(3)))
      : new Response(null, { status: 201 });
  };
  return asked;
}
const load = () => loadText(vector.task);
const enrolled = { token: "each-enrolled", attempts: 2 };

test("a report carries a one-time token, and the enrolment goes to the issuer alone", async () => {
  const asked = servers();
  const storage = memoryStorage();
  const task = await load();
  const client = createClient(task, { ...enrolled, storage });
  assert.deepEqual(await client.send(1), { state: "sent", status: 201 });
  const [token, report] = asked;
  assert.equal(asked.length, 2);
  assert.equal(token.url, `https://issuer.example:8443/tokens/tasks/${task.id}/tokens`);
  assert.deepEqual(token.headers, {
    Authorization: "Bearer each-enrolled",
    "Content-Type": "application/private-token-request",
  });
  assert.equal(token.body.length, 2 * 259);
  for (const { how } of asked)
    assert.deepEqual(
      [how.method, how.credentials, how.referrerPolicy, how.cache, how.redirect],
      ["POST", "omit", "no-referrer", "no-store", "error"],
    );
  assert.match(report.headers.Authorization, /^Bearer task-[A-Za-z0-9_-]{472}$/);
  const raw = Buffer.from(report.headers.Authorization.slice(12), "base64url");
  const spent = Buffer.from(await crypto.subtle.digest("SHA-256", raw.subarray(0, 98))).toString(
    "hex",
  );
  assert.equal(
    report.body.slice(74, 90),
    spent.slice(0, 16),
    "the report's id begins as the token's name does",
  );
  assert.ok(!JSON.stringify(report).includes("each-enrolled"));
  assert.deepEqual(
    await storage.update((record) => record.tokens),
    {},
    "it is forgotten after it was used",
  );
  await assert.rejects(client.send(0), fails("answered"));
  assert.equal(asked.length, 2);
});

test("what the issuer signs is stored before it is asked, and the same is asked again", async () => {
  const storage = memoryStorage();
  const first = servers({ tokens: ["away", "away"] });
  await assert.rejects(
    createClient(await load(), { ...enrolled, storage }).prepare(),
    (error) => fails("network")(error) && /Nothing was sent/.test(error.message),
  );
  assert.deepEqual(
    first.map(({ kind }) => kind),
    ["tokens", "tokens"],
  );
  // the device was off meanwhile: another page, the same record
  const second = servers({ tokens: [refusal(503, "busy")] });
  await createClient(await load(), { ...enrolled, storage }).prepare();
  assert.equal(new Set([...first, ...second].map(({ body }) => body)).size, 1);
  const third = servers({ reports: ["away", "away"] });
  const client = createClient(await load(), { ...enrolled, storage });
  await assert.rejects(client.send(1), fails("network"));
  const fourth = servers();
  assert.deepEqual(await client.resume(), { state: "sent", status: 201 });
  const sent = [...third, ...fourth];
  assert.deepEqual(
    sent.map(({ kind }) => kind),
    ["reports", "reports", "reports"],
    "the issuer is asked no more",
  );
  assert.equal(new Set(sent.map(({ body, headers }) => body + headers.Authorization)).size, 1);
});

test("two tabs at once ask for one token and send one report", async () => {
  const asked = servers();
  const storage = memoryStorage();
  const task = await load();
  const both = [0, 1].map((value) => createClient(task, { ...enrolled, storage }).send(value));
  assert.deepEqual((await Promise.allSettled(both)).map(({ status }) => status).sort(), [
    "fulfilled",
    "rejected",
  ]);
  const bodies = (kind) => asked.filter((one) => one.kind === kind).map(({ body }) => body);
  assert.equal(new Set(bodies("tokens")).size, 1);
  assert.equal(bodies("reports").length, 1);
});

test("a token that another tab has used meanwhile is not stored again", async () => {
  servers();
  const storage = memoryStorage();
  const sign = globalThis.fetch;
  globalThis.fetch = async (...request) => {
    await storage.update(({ tokens }) => delete tokens[vector.id]); // acknowledged in the other tab
    return sign(...request);
  };
  await createClient(await load(), { ...enrolled, storage }).prepare();
  assert.deepEqual(await storage.update(({ tokens }) => tokens), {});
});

test("without a valid token nothing is sent to the shuffler", async () => {
  const other = rfc.rfc9474[0];
  const cases = [
    [
      new Response(signing(number(other.n), number(other.d))(new Uint8Array(256).fill(7))),
      "refused",
    ],
    [new Response(new Uint8Array(255)), "refused"],
    [new Response(null), "refused"],
    [refusal(409, "token-issued"), "token"],
    [refusal(403, "token-unknown"), "token"],
    [refusal(404, "task-unknown"), "refused"],
  ];
  for (const [answer, code] of cases) {
    const asked = servers({ tokens: [answer] });
    const storage = memoryStorage();
    const client = createClient(await load(), { ...enrolled, storage });
    await assert.rejects(client.send(1), fails(code));
    assert.deepEqual(
      asked.map(({ kind }) => kind),
      ["tokens"],
    );
    assert.equal(await client.state(), "none");
    assert.equal((await storage.update(({ charges }) => charges)).length, 0, "nothing was spent");
  }
});

test("a task that this device refuses does not cost it its token", async () => {
  const asked = servers();
  const spent = { report: "r", task: "other", epsilon: "4", when: clock() / 1000, expires: 1 };
  const client = createClient(await load(), {
    ...enrolled,
    storage: memoryStorage({ charges: [spent], keys: {}, reports: {} }),
  });
  await assert.rejects(client.prepare(), fails("policy"));
  await assert.rejects(client.send(1), fails("policy"));
  assert.equal(asked.length, 0);
});

test("tokens are exported by their tasks alone, and wiped once their tasks have expired", async () => {
  servers({ reports: ["away"] });
  const storage = memoryStorage();
  const task = await load();
  await createClient(task, { ...enrolled, storage }).prepare();
  const { token } = await storage.update(({ tokens }) => tokens[task.id]);
  const exported = await exportHistory(storage);
  assert.deepEqual(JSON.parse(exported).tokens, [task.id]);
  assert.ok(!exported.includes(token));
  const held = () => storage.update(({ tokens }) => Object.keys(tokens));
  await wipe(storage, { now: task.expires + 299 }); // the shuffler takes late reports for so long
  assert.deepEqual(await held(), [task.id], "it can still be used");
  await wipe(storage, { now: task.expires + 300 });
  assert.deepEqual(await held(), []);
});

test("a device enrols by evidence, with a hash alone", async () => {
  const asked = servers({ enrolments: [Response.json({ state: "enrolled" }, { status: 201 })] });
  const token = await enrolByEvidence("https://issuer.example/", "a ticket");
  assert.match(token, /^each-[A-Za-z0-9_-]{43}$/);
  const [{ url, body, headers, how }] = asked;
  assert.deepEqual(
    [url, headers, how.credentials],
    ["https://issuer.example/enrolments", { "Content-Type": "application/json" }, "omit"],
  );
  const sent = JSON.parse(Buffer.from(body, "hex").toString());
  assert.deepEqual(sent, { sha256: idOf(token), evidence: "a ticket" });
  for (const [answer, code] of [
    [refusal(403, "not-attested"), "refused"],
    [refusal(503, "attest"), "network"],
    ["away", "network"],
  ]) {
    servers({ enrolments: [answer] });
    await assert.rejects(enrolByEvidence("https://issuer.example", "no ticket"), fails(code));
  }
});

test("what is asked of the issuer is said before", async () => {
  const about = await (await load()).describe(memoryStorage());
  assert.equal(about.issuer, issuer.url);
  assert.match(about.sentences.join(" "), /issuer\.example gives this device one token/);
});

test("pages load what tokens need beside the core, from the bundle", async () => {
  const asked = servers();
  const { createClient: bundled, loadTask } = await import("../dist/bundle/client.js");
  const task = await loadTask(vector.task, {
    clock,
    proof: await (await import("@shuffledp/client/testing")).madeProof(vector.id),
  });
  await bundled(task, { ...enrolled, storage: memoryStorage() }).send(1);
  assert.deepEqual(
    asked.map(({ kind }) => kind),
    ["tokens", "reports"],
  );
  const core = readFileSync(new URL("../dist/bundle/client.js", import.meta.url), "utf8");
  assert.ok(
    !core.includes("private-token-request") && !core.includes("ohttp"),
    "neither is part of the core",
  );
});
