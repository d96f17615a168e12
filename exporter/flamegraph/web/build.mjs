// Builds the page into ../internal/assets/dist: the same bytes from the same sources, wherever the checkout lies.
import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const dist = process.env.DIST ?? join(here, "../internal/assets/dist");

// Its terms are to come along with every copy.
const licence = await readFile(join(here, "node_modules/preact/LICENSE"), "utf8");

const result = await build({
  absWorkingDir: here,
  entryPoints: ["src/main.tsx"],
  outdir: "out",
  bundle: true,
  write: false,
  minify: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "inline",
  banner: { js: `/*! Apache-2.0. Contains preact:\n${licence.trim()}\n*/` },
  loader: { ".css": "css" },
});

const named = (stem, extension, bytes) =>
  `assets/${stem}-${createHash("sha256").update(bytes).digest("hex").slice(0, 12)}.${extension}`;

const icon = await readFile(join(here, "src/icon.svg"));
const out = new Map([[named("icon", "svg", icon), icon]]);
let html = (await readFile(join(here, "src/index.html"), "utf8")).replace("ICON", named("icon", "svg", icon));
for (const file of result.outputFiles) {
  const extension = file.path.endsWith(".css") ? "css" : "js";
  const name = named("page", extension, file.contents);
  out.set(name, file.contents);
  html = html.replace(extension === "css" ? "STYLE" : "SCRIPT", name);
}
out.set("index.html", html);
out.set("headers.json", await readFile(join(here, "src/headers.json")));

await rm(dist, { recursive: true, force: true });
await mkdir(join(dist, "assets"), { recursive: true });
let sum = 0;
for (const [name, bytes] of out) {
  await writeFile(join(dist, name), bytes);
  sum += Buffer.byteLength(bytes);
}
console.log(`${out.size} files, ${(sum / 1024).toFixed(1)} KiB`);
