// What the page has words or colours for is what the Go side can say: one list per fact.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { runtimeTypes } from "../src/graph/colors";
import { isComplete, lossReasons, stopReasons } from "../src/model/describe";
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

test("reasons for the end of a stack, and which are complete", () => {
  const text = source("internal/unwind/sample.go");
  const all = strings(within(text, "stopNames = [StopReasons]string{", "}"));
  assert.deepEqual([...stopReasons].sort(), [...all].sort());
  const names = [...within(text, "StopRoot StopReason = iota", "StopReasons").matchAll(/^\t(Stop\w+)$/gm)].map(
    (m) => m[1]!,
  );
  names.unshift("StopRoot");
  assert.equal(names.length, all.length);
  const complete = [...within(text, ") Complete() bool {", "}").matchAll(/Stop\w+/g)].map(
    (m) => all[names.indexOf(m[0])]!,
  );
  assert.ok(complete.length > 0);
  assert.deepEqual(all.filter(isComplete).sort(), complete.sort());
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
