// Bundles for pages without a build step. A page loads `client.js` at first; the words for a consent
// screen, what the device has sent, proofs of tasks, questions about numbers, frequencies, the proof of
// reserves, series and the worker are loaded when they are needed.
import { build } from "esbuild";

const later = ["describe", "device", "frequencies", "logged", "numbers", "offload", "reserve", "series", "worker"];
await build({
  entryPoints: { client: "dist/index.js", ...Object.fromEntries(later.map((name) => [name, `dist/${name}.js`])) },
  external: later.map((name) => `./${name}.js`),
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  outdir: "dist/bundle",
});
