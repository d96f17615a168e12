// Runs the tests: `node test/run.mjs` all of them, `unit` those without a browser, `page` those with one.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const which = process.argv[2] ?? "all";
const out = mkdtempSync(join(tmpdir(), "flamegraph-test-"));
const files = [];

if (which !== "page") {
  const sources = readdirSync(here).filter((f) => f.endsWith(".test.ts"));
  await build({
    entryPoints: sources.map((f) => join(here, f)),
    outdir: out,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node18",
    jsx: "automatic",
    jsxImportSource: "preact",
  });
  files.push(...sources.map((f) => join(out, f.replace(/\.ts$/, ".mjs"))));
}
if (which !== "unit")
  files.push(
    ...readdirSync(here)
      .filter((f) => f.endsWith(".test.mjs"))
      .map((f) => join(here, f)),
  );

// One after the other: the machine has other things to do, and times are printed.
const { status, error } = spawnSync(
  process.execPath,
  ["--test", "--test-concurrency=1", "--test-reporter=spec", ...files],
  { stdio: "inherit", timeout: 900_000 },
);
rmSync(out, { recursive: true });
if (error) console.error(`running the tests: ${error.message}`);
process.exit(status ?? 1);
