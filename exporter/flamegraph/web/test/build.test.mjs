// The committed bundle is what the sources give, and small.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const web = join(dirname(fileURLToPath(import.meta.url)), "..");
const committed = join(web, "../internal/assets/dist");

const files = (dir) =>
  readdirSync(dir, { recursive: true })
    .filter((f) => statSync(join(dir, f)).isFile())
    .sort();

test("a build elsewhere gives the same bytes as the committed one", () => {
  const elsewhere = mkdtempSync(join(tmpdir(), "flamegraph-build-"));
  try {
    cpSync(web, elsewhere, { recursive: true, filter: (f) => !f.includes("node_modules") });
    symlinkSync(join(web, "node_modules"), join(elsewhere, "node_modules"));
    const dist = join(elsewhere, "dist");
    const r = spawnSync(process.execPath, ["build.mjs"], {
      cwd: elsewhere,
      env: { ...process.env, DIST: dist },
      encoding: "utf8",
      timeout: 60_000,
    });
    assert.equal(r.status, 0, r.stderr);
    assert.deepEqual(files(committed), files(dist), "run npm run build");
    for (const f of files(dist))
      assert.ok(
        readFileSync(join(dist, f)).equals(readFileSync(join(committed, f))),
        `${f} differs: run npm run build`,
      );
  } finally {
    rmSync(elsewhere, { recursive: true });
  }
});

test("the bundle is below 400 KB", () => {
  const size = files(committed).reduce((a, f) => a + statSync(join(committed, f)).size, 0);
  console.log(`  ${(size / 1000).toFixed(0)} KB`);
  assert.ok(size < 400_000, String(size));
});

test("the lock file names no registry", () => {
  assert.doesNotMatch(
    readFileSync(join(web, "package-lock.json"), "utf8"),
    /https?:\/\/(?!opencollective|github\.com\/sponsors|paulmillr|tidelift)[^"]*registry|"resolved"/,
  );
});
