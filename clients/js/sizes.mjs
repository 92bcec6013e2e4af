// Prints what each entry costs a page, as a table: bytes after minifying, and gzipped. `npm run sizes`
// after `npm run build`. An entry that another one loads later is listed by itself.
import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const folder = new URL("dist/bundle/", import.meta.url);
const rows = readdirSync(folder)
  .map((name) => {
    const bytes = readFileSync(new URL(name, folder));
    return [name, bytes.length, gzipSync(bytes, { level: 9 }).length];
  })
  .sort(([, , a], [, , b]) => b - a);
console.log("| file | bytes | gzipped |\n|---|---|---|");
for (const [name, bytes, gzipped] of rows)
  console.log(`| \`${name}\` | ${bytes.toLocaleString("en")} | ${gzipped.toLocaleString("en")} |`);
