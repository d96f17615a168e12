// What the page has words or colours for is what the Go side can say: one list per fact.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { runtimeTypes } from "../src/graph/colors";
import { lossReasons } from "../src/model/describe";
import { truncatedType } from "../src/model/names";
import { stopKey } from "../src/model/reasons";
import { parse } from "../src/model/view";

/** source is a Go file of the module. Tests run in the page's folder. */
const source = (path: string) => readFileSync(`../../../${path}`, "utf8");

/** within is the text between two others. */
function within(text: string, from: string, to: string): string {
  const begin = text.indexOf(from);
  const end = text.indexOf(to, begin + from.length);
  assert.ok(begin >= 0 && end >= 0, `no ${from} … ${to}`);
  return text.slice(begin + from.length, end);
}

const strings = (text: string) => [...text.matchAll(/"([^"]*)"/g)].map((m) => m[1]!);

test("reasons for lost samples", () => {
  const all = strings(within(source("internal/engine/config.go"), "lossNames = [LossReasons]string{", "}"));
  assert.deepEqual([...lossReasons].sort(), all.sort());
});

test("what the collector calls markers and their attribute", () => {
  assert.equal(stopKey, strings(within(source("internal/stopreason/stopreason.go"), "const Attribute =", "\n"))[0]);
  const types = within(source("exporter/flamegraph/internal/store/tree.go"), "TypeTruncated =", "\n");
  assert.equal(truncatedType, strings(types)[0]);
});

test("frame types", () => {
  const text = within(source("internal/profile/profile.go"), "FrameNative FrameType", ")");
  const all = strings(text).concat("unknown");
  assert.deepEqual([...runtimeTypes].sort(), all.sort());
});

test("short parameters of filters", () => {
  const text = within(source("exporter/flamegraph/params.go"), "shortFilters = [...]", "\n}");
  const all = [...text.matchAll(/\{"(\w+)", "([\w.]+)"\}/g)].map((m) => [m[1]!, m[2]!] as const);
  assert.ok(all.length > 0);
  for (const [name, key] of all) assert.deepEqual(parse(`?${name}=x`).filters, [{ key, value: "x", not: false }], name);
});
