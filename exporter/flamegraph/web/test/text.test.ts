import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { forms } from "../src/model/forms";
import { brief, clean, cleanLines, copyable, shorten, source } from "../src/model/text";

const acts = /[\p{Cc}\u202a-\u202e\u2066-\u2069\u200b-\u200f\u2028\u2029\ufeff]/u;

test("what acts is shown as an escape", () => {
  assert.equal(clean("a\nb\tc\u0000d\u001b[31m"), "a\\nb\\tc\\x00d\\x1b[31m");
  assert.equal(clean("\u202Egpj.exe\u202C"), "\\u202egpj.exe\\u202c");
  assert.equal(clean("zero\u200bwidth\ufeff"), "zero\\u200bwidth\\ufeff");
  assert.equal(clean("line\u2028end"), "line\\u2028end");
  // Characters without ink: two names that differ look different.
  assert.equal(clean("a\u034fb\u3164\u180e"), "a\\u034fb\\u3164\\u180e");
  assert.equal(clean("tag\u{e0041}"), "tag\\u{e0041}");
});

test("text of several lines keeps its line breaks, and nothing else that acts", () => {
  assert.equal(cleanLines("a\r\n\n b\u001b[31m\u202e\n", 400), "a\n\n b\\x1b[31m\\u202e");
  assert.equal(cleanLines("x".repeat(5000), 400).length, 400);
  assert.equal(cleanLines("\n".repeat(5000), 400), "");
});

test("markup stays what it is: text", () => {
  assert.equal(clean('<script>alert("x")</script>'), '<script>alert("x")</script>');
});

test("names have an end, and keep theirs", () => {
  const long = `${"a".repeat(2_000_000)}::end`;
  const out = clean(long);
  assert.equal(out.length, 300);
  assert.ok(out.endsWith("::end") && out.includes("…"), out);
  assert.equal(clean("x".repeat(300)).length, 300);
  assert.equal(clean("x".repeat(300)).includes("…"), false);
});

test("halves of characters, and piles of marks", () => {
  assert.equal(clean("\ud800 x"), "\ufffd x");
  assert.equal(clean("x \udc00"), "x \ufffd");
  assert.equal(clean("👩‍👧 漢字".replace("\u200d", "")), "👩👧 漢字");
  assert.equal(clean(`e${"\u0301".repeat(50)}x`), `e${"\u0301".repeat(3)}x`);
  // A cut goes through a character without leaving half of it.
  assert.ok(!/[\ud800-\udbff](?![\udc00-\udfff])/.test(clean("😀".repeat(1000), 301)));
});

test("what cannot be seen has a name", () => {
  assert.equal(clean(""), "(no name)");
  assert.equal(clean("   "), "(blank)");
});

test("nothing that acts is left, whatever comes in", () => {
  let seed = 1;
  const random = () => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed / 2147483648;
  };
  for (let i = 0; i < 2000; i++) {
    const s = Array.from({ length: Math.floor(random() * 400) }, () =>
      String.fromCharCode(Math.floor(random() ** 3 * 65536)),
    ).join("");
    for (const out of [clean(s), copyable(s)]) assert.ok(!acts.test(out), JSON.stringify(out));
    assert.ok(clean(s, 100).length <= 600);
  }
});

test("qualified names are cut where they can be", () => {
  assert.deepEqual(shorten("github.com/acme/orders/pricing.(*Rules).match", "go"), [
    "github.com/acme/orders/pricing.(*Rules).match",
    "pricing.(*Rules).match",
    "(*Rules).match",
    "match",
  ]);
  const go = (name: string) => shorten(name, "go").slice(-2);
  assert.deepEqual(go("net/http.(*Server).Serve.gowrap3"), ["(*Server).Serve.gowrap3", "Serve.gowrap3"]);
  assert.deepEqual(go("net/http.serverHandler.ServeHTTP"), ["serverHandler.ServeHTTP", "ServeHTTP"]);
  assert.deepEqual(go("internal/worker.(*Pool[...]).runLocked"), ["(*Pool[...]).runLocked", "runLocked"]);
  assert.deepEqual(go("acme/jobs.run.func1"), ["jobs.run.func1", "run.func1"]);
  assert.deepEqual(go("runtime.goexit"), ["runtime.goexit", "goexit"]);
  assert.equal(shorten("main.f[go.shape.struct { x/y.T }]", "go")[0], "main.f[go.shape.struct { x/y.T }]");
  assert.deepEqual(shorten("java.util.HashMap.getNode", "jvm"), [
    "java.util.HashMap.getNode",
    "HashMap.getNode",
    "getNode",
  ]);
  assert.deepEqual(shorten("System.List<System.Int32>.Add(System.Int32)", "dotnet").slice(-2), [
    "List<System.Int32>.Add(System.Int32)",
    "Add(System.Int32)",
  ]);
  assert.deepEqual(shorten("main", "native"), ["main"]);
  assert.deepEqual(shorten("a.b.c", "cpython"), ["a.b.c"]);
  assert.equal(brief("java.util.HashMap.getNode", "jvm", 16), "HashMap.getNode");
  assert.equal(brief("java.util.HashMap.getNode", "jvm", 3), "getNode");
});

test("names of C++ and Rust have the forms that hostprofiles-top gives them", () => {
  const cases: string[][] = JSON.parse(readFileSync("../../../testdata/names/forms.json", "utf8"));
  assert.ok(cases.length > 0);
  for (const want of cases) assert.deepEqual(forms(want[0]!), want);
});

test("forms are safe to show", () => {
  assert.deepEqual(shorten("a::b\u202e<int>::c", "native").slice(1), ["a::b\\u202e<>::c", "b\\u202e::c", "c"]);
});

test("source", () => {
  assert.equal(source("main.c", 12), "main.c:12");
  assert.equal(source("main.c", 0), "main.c");
  assert.equal(source("", 12), "");
});
