/** Checkpoints and cosignatures: the same vectors as in Python. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { webcrypto } from "node:crypto";
import { cosigned } from "../dist/task/notes.js";

const file = new URL("../../../vectors/notes.json", import.meta.url);
const { checkpoints } = JSON.parse(readFileSync(file, "utf8"));
const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));

async function verify(key, signature, text) {
  const imported = await webcrypto.subtle.importKey("raw", key, "Ed25519", false, ["verify"]);
  return webcrypto.subtle.verify("Ed25519", imported, signature, text);
}

for (const { name, note, log, witnesses, cosigned: expected } of checkpoints)
  test(`checkpoint: ${name}`, async () => {
    const [, size, root = ""] = note.split("\n");
    const found = cosigned(note, {
      size: Number(size),
      root: Buffer.from(root, "base64").toString("hex"),
      log: bytes(log.split("+").slice(2).join("+")).slice(1),
      witnesses,
      verify,
    });
    if (expected === null) await assert.rejects(found);
    else assert.equal(await found, expected);
  });
