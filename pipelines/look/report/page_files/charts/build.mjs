// Makes charts.js and LICENSES.txt of entry.js: `make charts` runs it where `npm ci` has put the packages.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { build } from "esbuild";

const { metafile } = await build({
  entryPoints: ["entry.js"],
  outfile: "charts.js",
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "charts",
  target: "es2020",
  charset: "ascii",
  legalComments: "none",
  metafile: true,
});

// The licence of every package that a byte of the bundle is from.
const folders = new Set();
for (const [input, { bytesInOutput }] of Object.entries(Object.values(metafile.outputs)[0].inputs)) {
  const found = input.match(/^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//);
  if (found && bytesInOutput > 0) folders.add(found[1]);
}
const parts = [...folders].sort().map((folder) => {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((one) => /^(un)?licen[cs]e/i.test(one));
  const above = join(dirname(folder), "vega", "LICENSE"); // the packages of vega share its licence
  const text = readFileSync(file ? join(folder, file) : above, "utf8").trim();
  return `${name} ${version} (${license})\n\n${text}\n`;
});
writeFileSync("LICENSES.txt", parts.join("\n" + "-".repeat(100) + "\n\n"));
