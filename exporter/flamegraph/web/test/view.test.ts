import assert from "node:assert/strict";
import { test } from "node:test";
import {
  defaults,
  fixedRange,
  format,
  groupOf,
  groups,
  liveRange,
  parse,
  parseFilter,
  quoted,
  selection,
  side,
  tabs,
  type View,
} from "../src/model/view";

test("an empty query is the live view of the last minutes", () => {
  assert.deepEqual(parse(""), defaults);
  assert.equal(parse(format(defaults)).range.live, true);
});

test("what is formatted parses to the same, whatever it is", () => {
  let seed = 7;
  const random = () => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed / 2147483648;
  };
  const one = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)]!;
  const text = () =>
    one(["", "nginx", "a=b", "a&b#c?d", "100% +x", "ümläut 漢字", "<script>", "'\"`$(rm)", "!=", "x!"]);
  const filters = () =>
    Array.from({ length: Math.floor(random() * 3) }, (_, i) => ({
      key: one(["process.executable.name", "frame_type", "k8s.pod.name"]) + i,
      value: text(),
      not: random() < 0.4,
    }));
  const range = () =>
    one([
      liveRange(null),
      liveRange(60),
      fixedRange(1e12, 1e12 + 5000),
      { live: false, seconds: 30, from: null, to: 1e12 },
      { live: false, seconds: null, from: null, to: null },
    ]);
  const still = () => ({ ...range(), live: false });
  for (let i = 0; i < 3000; i++) {
    const own = filters();
    const r = range();
    const other = still();
    const same = other.from === r.from && other.to === r.to && other.seconds === r.seconds;
    const unset = other.from === null && other.to === null && other.seconds === null;
    const v: View = {
      tab: one(tabs),
      type: text(),
      range: r,
      filters: own,
      base: random() < 0.5 ? { range: same || unset ? null : other, filters: random() < 0.3 ? own : filters() } : null,
      search: text(),
      focus: text(),
      node: text(),
      function: text(),
      sort: one(["name", "self", "total", "diff"]),
      ascending: random() < 0.5,
      group: one(["", ...groups, "none", "x.y"]),
      lines: random() < 0.5,
      markers: random() < 0.5,
      flip: random() < 0.5,
      widths: one(["both", "current", "base"]),
      panel: random() < 0.5,
      theme: one(["light", "dark", ""]),
    };
    const q = format(v);
    assert.deepEqual(parse(q), v, q);
    assert.equal(format(parse(q)), q);
  }
});

test("the API's short parameters are filters", () => {
  const v = parse("?process=nginx&service=edge&pid=7&filter=frame_type!=kernel&filter=nonsense&filter==x");
  assert.deepEqual(
    v.filters.map((f) => [f.key, f.value, f.not]),
    [
      ["process.executable.name", "nginx", false],
      ["service.name", "edge", false],
      ["process.pid", "7", false],
      ["frame_type", "kernel", true],
    ],
  );
});

test("nonsense in the query is as if it were not there", () => {
  const v = parse("?tab=x&from=abc&seconds=-4&sort=evil&theme=pink&live=7&to=1e9&from=9999999999999999999");
  assert.deepEqual(v, defaults);
  assert.equal(parse(`?search=${"x".repeat(5000)}`).search.length, 1000);
});

test("filters are split where the API splits them", () => {
  assert.deepEqual(parseFilter("k=a=b"), { key: "k", value: "a=b", not: false });
  assert.deepEqual(parseFilter("k!=!x"), { key: "k", value: "!x", not: true });
  assert.equal(parseFilter("k"), null);
  assert.equal(parseFilter("!=x"), null);
});

test("a comparison says both ranges, and the base's filters where they differ", () => {
  const current = { ...defaults, range: fixedRange(2000, 3000), filters: [{ key: "a", value: "b", not: false }] };
  const p = selection({ ...current, base: { range: null, filters: [] } });
  assert.deepEqual(
    [p.get("base_from"), p.get("base_to"), p.getAll("base_filter")],
    ["2000", "3000", ["frame_type!=-"]],
  );
  const q = selection({ ...current, base: { range: fixedRange(1000, 2000), filters: current.filters } });
  assert.deepEqual([q.get("from"), q.get("base_from"), q.getAll("base_filter")], ["2000", "1000", []]);
  assert.equal(
    format({ ...defaults, range: fixedRange(2000, 3000), base: { range: fixedRange(1000, 2000), filters: [] } }),
    "?from=2000&to=3000&base_from=1000&base_to=2000",
  );
  // With nothing else to tell of the base, its filters do.
  const whole = { live: false, seconds: null, from: null, to: null };
  const same = selection({ ...current, range: whole, base: { range: null, filters: current.filters } });
  assert.deepEqual(same.getAll("base_filter"), ["a=b"]);
  assert.equal(
    side({ ...current, base: { range: fixedRange(1000, 2000), filters: [] } }, true).toString(),
    "from=1000&to=2000",
  );
});

test("stacks are grouped by process, but not where other filters are compared", () => {
  const a = [{ key: "process.executable.name", value: "a", not: false }];
  assert.equal(groupOf(defaults), "process.executable.name");
  assert.equal(
    groupOf({ ...defaults, filters: a, base: { range: fixedRange(1, 2), filters: a } }),
    "process.executable.name",
  );
  assert.equal(groupOf({ ...defaults, filters: a, base: { range: null, filters: [] } }), "none");
  assert.equal(groupOf({ ...defaults, group: "thread.name", base: { range: null, filters: a } }), "thread.name");
});

test("nothing ends the quotes of a command", () => {
  const url = quoted(`http://127.0.0.1:4041/pprof?${new URLSearchParams({ filter: "a='; rm -rf ~; '" })}`);
  assert.ok(!url.slice(1, -1).includes("'"), url);
  assert.equal(quoted("http://x/?a='b'"), "'http://x/?a=%27b%27'");
});
