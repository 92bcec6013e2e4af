// How the source is laid out: the registry of queries, folders that import downward, short lists of
// arguments.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path/posix";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import ts from "typescript";

import { loadTask, supportedQueries } from "@shuffledp/client";
import { clock, fails, loadText, textOf, changedText, vectors } from "../test-support.mjs";

const SOURCE = fileURLToPath(new URL("../src", import.meta.url));
const FOLDERS = ["numbers", "cells", "queries", "task", "device", "send", "pages"]; // each may use those before it
const files = readdirSync(SOURCE, { recursive: true })
  .filter((name) => name.endsWith(".ts"))
  .map((name) => {
    const text = readFileSync(join(SOURCE, name), "utf8");
    return { name, tree: ts.createSourceFile(name, text, ts.ScriptTarget.ES2022, true) };
  });

function* within(node) {
  yield node;
  for (const child of node.getChildren()) yield* within(child);
}

test("supportedQueries are the queries of the vectors, each in its own file", () => {
  assert.deepEqual(supportedQueries, [
    "count",
    "integer-sum",
    "real-sum",
    "histogram",
    "quantiles",
    "frequencies",
    "heavy-hitters",
    "by-group",
  ]);
  const { tasks, frequencies, groups, shared } = vectors;
  const asked = [tasks, frequencies.tasks, groups.tasks, shared.tasks]
    .flat()
    .map(({ text }) => JSON.parse(text).certificate.protocol.query);
  assert.deepEqual([...new Set(asked)].sort(), [...supportedQueries].sort());
  for (const query of supportedQueries) {
    const file = query.replace(/-(.)/g, (_, letter) => letter.toUpperCase());
    assert.ok(
      files.some(({ name }) => name === `queries/${file}.ts`),
      query,
    );
  }
});

test("a task with another query is refused", async () => {
  for (const query of ["mode", "constructor", "", null, 7]) {
    const text = changedText(textOf("count, bounded"), ({ certificate }) => {
      certificate.protocol.query = query;
    });
    await assert.rejects(loadText(text), fails("task"));
  }
  for (const text of ["{}", '{"certificate":null}', '{"certificate":{"protocol":[]}}'])
    await assert.rejects(loadTask(text, { clock }), fails("task"));
});

test("the certificate's cells must be those of the protocol", async () => {
  const changes = [
    (cells) => (cells[0] = null),
    (cells) => (cells[0] = "bounded"),
    (cells) => (cells[0] = []),
    (cells) => delete cells[0].proof,
    (cells) => (cells[0].proof = null),
    (cells) => (cells[0].more = 1),
    (cells) => (cells[0].copies = "1"),
    (cells) => (cells[0].up = "2/2"),
    (cells) => (cells[0].kind = "paper"),
    (cells) => cells.push(cells[0]),
    (cells) => cells.pop(),
  ];
  const changed = (change) =>
    changedText(textOf("count, bounded"), ({ certificate }) => change(certificate.cells));
  await loadText(changed(() => {}));
  for (const [i, change] of changes.entries())
    await assert.rejects(loadText(changed(change)), fails("task"), String(i));
});

test("folders import downward; types and what is loaded later may come from above", () => {
  for (const { name, tree } of files) {
    const level = FOLDERS.indexOf(dirname(name));
    if (level < 0 && ["index.ts", "testing.ts"].includes(name)) continue;
    for (const node of tree.statements) {
      if (!ts.isImportDeclaration(node) || node.importClause?.isTypeOnly) continue;
      if (!node.moduleSpecifier.text.startsWith(".")) continue;
      const from = normalize(join(dirname(name), node.moduleSpecifier.text));
      const values = node.importClause.namedBindings.elements.some((one) => !one.isTypeOnly);
      const above = FOLDERS.indexOf(dirname(from)) > level;
      const base = name === "schema.ts" && from === "numbers/rational.js"; // fractions in JSON
      assert.ok(!values || !above || base, `${name} imports ${from}`);
    }
  }
});

test("no function takes more than three positional arguments", () => {
  const long = files.flatMap(({ name, tree }) =>
    [...within(tree)]
      .filter((node) => ts.isFunctionLike(node) && node.parameters.length > 3)
      .map((node) => `${name}:${tree.getLineAndCharacterOfPosition(node.getStart()).line + 1}`),
  );
  assert.deepEqual(long, []);
});
