// Bundles for pages without a build step, side by side in dist/bundle. A page loads `client.js` first.
// Every module that is imported with `import(…)` becomes its own file, named after the module, and is
// loaded when it is needed. The Worker and the pages of the documents are one file each.
import { build } from "esbuild";
import { copyFile } from "node:fs/promises";
import { basename, resolve } from "node:path";

const entries = {
  client: "dist/index.js",
  device: "dist/device/history.js",
  enrolment: "dist/send/enrolment.js",
  results: "dist/send/results.js",
  survey: "dist/pages/element.js",
};
const shared = {
  bundle: true,
  minify: true,
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
};
const bundled = new Map();

/** Leaves dynamic imports to the browser, as files side by side, and bundles their modules next. */
const lazy = {
  name: "lazy",
  setup({ onResolve }) {
    onResolve({ filter: /^\./ }, ({ kind, path, resolveDir }) => {
      if (kind !== "dynamic-import") return undefined;
      const file = resolve(resolveDir, path);
      const [known] = [...bundled].find(([, other]) => other === file) ?? [];
      const name = known ?? basename(path, ".js");
      if ((bundled.get(name) ?? file) !== file) throw new Error(`Two modules are named ${name}.`);
      if (!bundled.has(name)) waiting.push([name, file]);
      bundled.set(name, file);
      return { path: `./${name}.js`, external: true };
    });
  },
};

const waiting = Object.entries(entries).map(([name, file]) => [name, resolve(file)]);
for (const [name, file] of waiting) bundled.set(name, file);
while (waiting.length)
  await build({
    ...shared,
    entryPoints: Object.fromEntries(waiting.splice(0)),
    plugins: [lazy],
    format: "esm",
    outdir: "dist/bundle",
  });

// Self-contained: bundlers that write Workers as one classic script cannot split them.
await build({
  ...shared,
  entryPoints: { worker: "dist/send/worker.js" },
  format: "esm",
  outdir: "dist/bundle",
});
await copyFile("dist/bundle/worker.js", "dist/send/worker.js");

// Classic scripts, which also run on pages that are opened from a file.
await build({
  ...shared,
  entryPoints: { verify: "dist/pages/verifyPage.js", see: "dist/pages/seePage.js" },
  format: "iife",
  outdir: "dist/pages/static",
});
