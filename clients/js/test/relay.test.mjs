// Reports through a relay: RFC 9458's example, and a relay and a gateway that are functions.
import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { createClient, loadCurrentTask, loadTask } from "@shuffledp/client";
import { nobleKey } from "@shuffledp/client/noble";
import {
  binaryRequest,
  binaryResponse,
  fromHex,
  givenGateway,
  givenKeys,
  hex,
  madeProof,
  memoryStorage,
  sealRequest,
} from "@shuffledp/client/testing";
import {
  changedText,
  clientOf,
  clock,
  fails,
  idOf,
  loadText,
  readVectors,
  refusal,
  restore,
  textOf,
  withoutPauses,
} from "../test-support.mjs";

const rfc = readVectors("rfc").rfc9458;
const SECRET = rfc.gateway_secret;
const RELAY = "https://relay.example";
const ascii = (bytes) => Buffer.from(bytes).toString("latin1");
const joined = (...parts) => new Uint8Array(Buffer.concat(parts.map((part) => Buffer.from(part))));

beforeEach(() => void withoutPauses());
afterEach(restore);

test("RFC 9458: the example of appendix A", async () => {
  const { key: gateway } = await givenGateway(SECRET, (one) => one);
  assert.equal(
    gateway.slice(0, 70),
    rfc.key_configuration.slice(0, 70),
    "the same number and public key",
  );
  const [sealed, open] = await sealRequest(
    gateway,
    fromHex(rfc.request),
    givenKeys([rfc.ephemeral_secret]),
  );
  assert.equal(hex(sealed), rfc.encapsulated_request);
  assert.equal(hex(await open(fromHex(rfc.encapsulated_response))), rfc.response);
  for (const wrong of [
    `00${rfc.encapsulated_response}`,
    rfc.encapsulated_response.slice(2),
    rfc.encapsulated_response.slice(0, 34),
    "",
  ])
    await assert.rejects(open(fromHex(wrong)));
  const [, other] = await sealRequest(gateway, fromHex(rfc.request), givenKeys(["11".repeat(32)]));
  await assert.rejects(other(fromHex(rfc.encapsulated_response)), "it answers another request");
});

test("binary HTTP is written and read as RFC 9292 says", () => {
  const inner = (method, authority, path) => ({
    method,
    scheme: "https",
    authority,
    path,
    fields: {},
    content: new Uint8Array(0),
  });
  const posted = { ...inner("POST", "a", "/b"), content: new Uint8Array(700) };
  assert.equal(
    hex(binaryRequest(inner("GET", "example.com", "/"), 1)).slice(0, rfc.request.length),
    rfc.request,
  );
  assert.equal(binaryRequest({ ...posted, fields: { Authorization: "x" } }, 512).length, 1024);
  const long = binaryRequest({ ...posted, content: new Uint8Array(20_000).fill(7) }, 512);
  assert.ok(hex(long).includes(`80004e20${"07".repeat(20_000)}`), "lengths of four bytes");
  assert.deepEqual(binaryResponse(fromHex(rfc.response)), {
    status: 200,
    fields: [],
    content: new Uint8Array(0),
  });
  const whole = binaryResponse(fromHex(`0140c9${"04"}01610162${"03"}010203${"00"}0000`));
  assert.deepEqual(whole, { status: 201, fields: [["a", "b"]], content: fromHex("010203") });
  for (const wrong of [
    "",
    "00",
    "0140",
    "014064",
    "01425800",
    "0140c80501",
    "0140c800030102",
    "0140c80000000001",
  ])
    assert.throws(() => binaryResponse(fromHex(wrong)), fails("network"), wrong);
});

/** A task for reports through the relay. */
async function relayed(change = () => {}) {
  const { key } = await givenGateway(SECRET, (one) => one);
  return changedText(textOf("count, bounded"), (task) =>
    change(Object.assign(task, { gateway: key })),
  );
}

const response = (status, fields = {}, content = "") => {
  const sized = (bytes) =>
    joined(
      bytes.length < 64 ? [bytes.length] : [64 + (bytes.length >> 8), bytes.length & 255],
      bytes,
    );
  const text = (one) => sized(Buffer.from(one));
  const lines = joined(
    ...Object.entries(fields).flatMap(([name, value]) => [text(name), text(value)]),
  );
  const made = joined([1, 64 + (status >> 8), status & 255], sized(lines), text(content), [0]);
  return joined(made, new Uint8Array(1024 - (made.length % 1024)));
};

/** A relay with a gateway behind it that gives these responses; `outside` are answers of the relay itself. */
async function relay(responses, outside = []) {
  const seen = [];
  let inner;
  const gateway = await givenGateway(SECRET, (request) => {
    inner.push(ascii(request));
    return responses.length > 1 ? responses.shift() : responses[0];
  });
  globalThis.fetch = async (url, { body, headers, method, ...how }) => {
    inner = [];
    seen.push({ url: String(url), size: body.length, headers, method, how, inner });
    const next = outside.shift();
    if (next === "away") throw new TypeError("Failed to fetch");
    if (typeof next === "number") return new Response(await gateway.answer(body), { status: next });
    return next ?? new Response(await gateway.answer(body));
  };
  return seen;
}

test("proof and report go through the relay, sealed, in requests of one size", async () => {
  const text = await relayed();
  const proof = await madeProof(idOf(text));
  const sizes = [];
  for (const value of [0, 1]) {
    const seen = await relay([
      response(200, { "content-type": "application/json" }, proof),
      response(201),
    ]);
    const task = await loadTask(text, { clock, relay: `${RELAY}/` });
    assert.deepEqual(
      await createClient(task, { token: "each-secret", storage: memoryStorage() }).send(value),
      { state: "sent", status: 201 },
    );
    assert.equal(seen.length, 2);
    for (const { url, method, headers, how } of seen) {
      assert.deepEqual(
        [url, method, headers],
        [`${RELAY}/relay`, "POST", { "Content-Type": "message/ohttp-req" }],
      );
      assert.deepEqual(
        [how.credentials, how.referrerPolicy, how.redirect],
        ["omit", "no-referrer", "error"],
      );
    }
    const [asked, sent] = seen.map(({ inner }) => inner[0]);
    assert.ok(
      asked.startsWith(`\0\x03GET\x05https\x10shuffler.example\x40\x4d/tasks/${task.id}/proof`),
      JSON.stringify(asked.slice(0, 60)),
    );
    assert.ok(
      sent.includes(`/tasks/${task.id}/reports`) && !sent.includes("/v1"),
      "the path without that of the shuffler",
    );
    assert.ok(
      sent.includes(
        "\x0dauthorization\x12Bearer each-secret\x0ccontent-type\x18application/octet-stream",
      ),
    );
    sizes.push(seen.map(({ size }) => size));
  }
  assert.deepEqual(sizes[0], sizes[1]);
  for (const size of sizes[0]) assert.equal((size - 55) % 512, 0);
});

test("a task that is loaded from another site has its proof through the relay all the same", async () => {
  const text = await relayed();
  const seen = await relay([response(200, {}, await madeProof(idOf(text)))]);
  const through = globalThis.fetch;
  const direct = [];
  globalThis.fetch = async (url, how) =>
    how.body ? through(url, how) : (direct.push(String(url)), new Response(text));
  const where = `https://survey.example/tasks/${idOf(text)}`;
  assert.equal((await loadTask(where, { clock, relay: RELAY })).relay, RELAY);
  assert.deepEqual([direct, seen.length], [[where], 1]);
});

test("refusals inside are read, and what is not now is sent again, newly sealed", async () => {
  const text = await relayed();
  const storage = memoryStorage();
  const seen = await relay(
    [response(503, { "retry-after": "2" }), response(200)],
    ["away", new Response("{}", { status: 503 })],
  );
  const task = await loadText(text, { relay: RELAY });
  assert.deepEqual(await clientOf(task, { storage }).send(1), {
    state: "sent",
    status: 200,
  });
  assert.equal(seen.length, 4);
  const sent = seen.slice(2).map(({ inner }) => inner[0]);
  assert.equal(sent[0], sent[1], "the same report inside");
  await relay([
    response(
      409,
      { "content-type": "application/problem+json" },
      JSON.stringify({ type: "urn:shuffledp:problem:token-used", detail: "Used." }),
    ),
  ]);
  await assert.rejects(clientOf(task).send(1), (error) => {
    assert.deepEqual([error.code, error.status, error.problem], ["token", 409, "token-used"]);
    return true;
  });
});

test("an address without a scheme is refused as the relay's, and is not a path of the page's site", async () => {
  const text = await relayed();
  const seen = await relay([response(200)]);
  for (const wrong of ["relay.example", "ftp://relay.example", "https://", "/relay?a=1"])
    await assert.rejects(loadTask(text, { clock, relay: wrong }), (error) => {
      assert.equal(error.code, "network");
      assert.ok(error.message.startsWith(`${wrong} is not a URL of a relay`), error.message);
      return true;
    });
  assert.equal(seen.length, 0);
});

test("a relay cannot acknowledge a report", async () => {
  const text = await relayed();
  const other = await givenGateway("22".repeat(32), () => response(201));
  const sealed = async () =>
    other.answer(
      (await sealRequest(other.key, new Uint8Array(3), givenKeys(["33".repeat(32)])))[0],
    );
  for (const fake of [
    new Response(null, { status: 200 }),
    new Response(null, { status: 201 }),
    new Response(await sealed()),
    new Response(response(201)),
    201,
    299,
  ]) {
    await relay([response(201)], [fake]);
    const task = await loadText(text, { relay: RELAY });
    const client = clientOf(task, { attempts: 1 });
    await assert.rejects(client.send(1), fails("network"));
    assert.equal(await client.state(), "stored");
    assert.deepEqual(await client.resume(), { state: "sent", status: 201 });
  }
  await relay([response(201)], [refusal(403, "malformed")]);
  const client = clientOf(await loadText(text, { relay: RELAY }));
  await assert.rejects(client.send(1), fails("refused"));
});

test("a task without a gateway key, or with a malformed one, is not sent through a relay", async () => {
  const seen = await relay([response(201)]);
  const without = textOf("count, bounded");
  await assert.rejects(loadTask(without, { clock, relay: RELAY }), fails("task"));
  const task = await loadText(without);
  await assert.rejects(clientOf(task, { relay: RELAY }).send(1), fails("task"));
  const { gateway } = JSON.parse(await relayed());
  const wrong = [
    gateway.slice(2),
    gateway.toUpperCase(),
    gateway.replace("0020", "0010"),
    gateway.replace("00010001", "00010003"),
    null,
    7,
  ];
  for (const one of wrong)
    await assert.rejects(
      loadText(await relayed((data) => (data.gateway = one))),
      fails("task"),
      String(one),
    );
  const zero = await relayed(
    (data) => (data.gateway = `${gateway.slice(0, 6)}${"00".repeat(32)}${gateway.slice(70)}`),
  );
  const storage = memoryStorage();
  await assert.rejects(
    clientOf(await loadText(zero, { relay: RELAY }), { storage }).send(1),
    fails("task"),
  );
  assert.equal(seen.length, 0);
});

test("a task with a gateway key can be answered without a relay, and with keys of noble curves", async () => {
  const seen = [];
  globalThis.fetch = async (url) => (seen.push(String(url)), new Response(null, { status: 201 }));
  const text = await relayed();
  const task = await loadText(text);
  await clientOf(task).send(1);
  assert.deepEqual(seen, [`https://shuffler.example/v1/tasks/${task.id}/reports`]);
  const through = await relay([response(201)]);
  await clientOf(await loadText(text, { relay: RELAY, ephemeral: nobleKey })).send(1);
  assert.equal(through.length, 1);
  const about = await (await loadText(text, { relay: RELAY })).describe(memoryStorage());
  assert.match(about.sentences.join(" "), /goes through relay\.example, /);
});

const SERVER = "https://shuffler.example/v1";
/** The list of open tasks with these texts. */
const listOf = (...texts) => {
  const tasks = texts
    .map((text) => ({ text, ...JSON.parse(text) }))
    .map(({ text, name, not_before, expires }) => ({
      task: idOf(text),
      name,
      not_before,
      expires,
      series: null,
    }));
  return response(200, { "content-type": "application/json" }, JSON.stringify({ tasks }));
};
const keyOf = async (secret) => (await givenGateway(secret, (one) => one)).key;

test("the list of open tasks, the task and its proof come through the relay, and nothing is asked directly", async () => {
  const text = await relayed();
  const { name, gateway } = JSON.parse(text);
  const seen = await relay([
    listOf(text),
    response(200, {}, text),
    response(200, {}, await madeProof(idOf(text))),
    response(201),
  ]);
  const task = await loadCurrentTask(`${SERVER}/`, name.slice(0, 4), {
    clock,
    relay: RELAY,
    gateway,
  });
  assert.deepEqual([task.id, task.relay], [idOf(text), RELAY]);
  await clientOf(task).send(1);
  assert.deepEqual(new Set(seen.map(({ url }) => url)), new Set([`${RELAY}/relay`]));
  const asked = seen.map(({ inner }) => inner[0]);
  const paths = asked.map(
    (one) => /shuffler\.example(?:[\0-\x3f]|\x40.)(\/[a-z0-9/]+)/.exec(one)[1],
  );
  assert.deepEqual(paths, [
    "/current",
    ...["", "/proof", "/reports"].map((end) => `/tasks/${task.id}${end}`),
  ]);
  assert.equal(new Set(seen.slice(0, 3).map(({ size }) => size)).size, 1, "requests of one size");
  assert.ok(
    asked.every((one) => !one.includes(name)),
    "the name that is looked for stays here",
  );
  // the next one is found with the key of this one
  await relay([
    listOf(text),
    response(200, {}, text),
    response(200, {}, await madeProof(idOf(text))),
  ]);
  assert.equal(
    (
      await loadCurrentTask(SERVER, name, {
        clock,
        relay: RELAY,
        gateway: task.gateway,
        ephemeral: nobleKey,
      })
    ).id,
    task.id,
  );
});

test("without a gateway key from elsewhere nothing is asked, and a key without a relay is refused", async () => {
  const text = await relayed();
  const { name, gateway } = JSON.parse(text);
  const seen = await relay([listOf(text)]);
  for (const options of [
    { relay: RELAY },
    { gateway },
    { relay: RELAY, gateway: gateway.slice(2) },
    { relay: RELAY, gateway: "" },
  ])
    await assert.rejects(
      loadCurrentTask(SERVER, name, { clock, ...options }),
      fails("task"),
      JSON.stringify(options),
    );
  await assert.rejects(
    loadCurrentTask("/copies", name, { clock, relay: RELAY, gateway }),
    fails("task"),
    "a path is no shuffler",
  );
  assert.equal(seen.length, 0);
});

test("a server that is not the shuffler is asked directly if the page says so; the proof comes through the relay", async () => {
  const text = await relayed();
  const { name } = JSON.parse(text);
  const sealed = await relay([response(200, {}, await madeProof(idOf(text)))]);
  const through = globalThis.fetch;
  const direct = [];
  const { tasks } = JSON.parse(ascii(binaryResponse(listOf(text)).content));
  globalThis.fetch = async (url, how) =>
    how.body
      ? through(url, how)
      : (direct.push(String(url)),
        String(url).endsWith("/current") ? Response.json({ tasks }) : new Response(text));
  const task = await loadCurrentTask("https://survey.example", name, {
    clock,
    relay: RELAY,
    direct: true,
  });
  assert.deepEqual(
    [direct, sealed.length],
    [["https://survey.example/current", `https://survey.example/tasks/${task.id}`], 1],
  );
});

test("a relay that answers the list itself, or with a key of its own, is noticed", async () => {
  const text = await relayed();
  const { name, gateway } = JSON.parse(text);
  const own = "22".repeat(32);
  const read = [];
  const evil = await givenGateway(own, (request) => (read.push(ascii(request)), listOf(text)));
  const [request] = await sealRequest(evil.key, new Uint8Array(3), givenKeys(["33".repeat(32)]));
  read.length = 0;
  const plain = new Response(JSON.stringify({ tasks: [] }), {
    headers: { "content-type": "application/json" },
  });
  for (const fake of [
    plain,
    new Response(await evil.answer(request)),
    new Response(listOf(text)),
    201,
    new Response(null, { status: 204 }),
    refusal(400, "malformed"),
  ]) {
    await relay([listOf(text)], [fake]);
    await assert.rejects(
      loadCurrentTask(SERVER, name, { clock, relay: RELAY, gateway }),
      fails("network"),
    );
  }
  read.length = 0;
  const opened = async (key) => {
    globalThis.fetch = async (url, { body }) => new Response(await evil.answer(body));
    await assert.rejects(loadCurrentTask(SERVER, name, { clock, relay: RELAY, gateway: key }));
    return read.length;
  };
  assert.equal(await opened(gateway), 0, "what is sealed for the shuffler the relay cannot read");
  assert.ok(
    (await opened(await keyOf(own))) > 0,
    "the twin: with the relay's key it reads everything",
  );
});

test("a list through the relay is not believed more than another one", async () => {
  const text = await relayed();
  const { name, gateway } = JSON.parse(text);
  const other = await relayed((task) => (task.name = "another name"));
  const load = () => loadCurrentTask(SERVER, name, { clock, relay: RELAY, gateway });
  await relay([listOf(text), response(200, {}, other)]);
  await assert.rejects(load(), fails("task"), "another text than the list named");
  const seen = await relay([listOf(text), response(200, {}, "https://elsewhere.example/task")]);
  await assert.rejects(load(), fails("task"), "an address is not followed");
  assert.equal(seen.length, 2);
  await relay([listOf(text), response(404, {}, "{}")]);
  await assert.rejects(load(), fails("network"));
  await relay([response(413, {}, "{}")]);
  await assert.rejects(load(), fails("network"));
  const without = textOf("count, bounded");
  await relay([listOf(without), response(200, {}, without)]);
  await assert.rejects(
    loadCurrentTask(SERVER, JSON.parse(without).name, { clock, relay: RELAY, gateway }),
    fails("task"),
    "a task without a gateway key",
  );
});
