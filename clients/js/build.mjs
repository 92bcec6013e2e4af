// Bundles for pages without a build step, side by side in dist/bundle. A page loads `client.js` first.
// Every module that is imported with `import(…)` becomes its own file, named after the module, and is
// loaded when it is needed.
import { build } from "esbuild";
import { basename, resolve } from "node:path";

const entries = {
  client: "dist/index.js",
  device: "dist/device/history.js",
  enrolment: "dist/send/enrolment.js",
  worker: "dist/send/worker.js",
};
const bundled = new Map();

/** Leaves dynamic imports to the browser, as files side by side, and bundles their modules next. */
const lazy = {
  name: "lazy",
  setup({ onResolve }) {
    onResolve({ filter: /^\./ }, ({ kind, path, resolveDir }) => {
      if (kind !== "dynamic-import") return undefined;
      const name = basename(path, ".js");
      const file = resolve(resolveDir, path);
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
    entryPoints: Object.fromEntries(waiting.splice(0)),
    plugins: [lazy],
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    charset: "utf8",
    legalComments: "none",
    outdir: "dist/bundle",
  });
