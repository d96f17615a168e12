import assert from "node:assert/strict";
import { test } from "node:test";
import {
  buildTree,
  byType,
  change,
  deepest,
  find,
  findAll,
  isExpression,
  isTruncated,
  matcher,
  move,
  nameAt,
  path,
  siblings,
  truncated,
  withoutRoot,
} from "../src/graph/tree";
import { checkFlame, checkTable, type Flame, type FunctionTable } from "../src/model/api";
import { apart } from "../src/model/names";
import { Reasons } from "../src/model/reasons";
import { buildRows, sortRows } from "../src/model/rows";
import { describe, facts } from "../src/ui/Frame";

// all(10) > main(10) > [a(6) > [b(2)], c(3)]; all > kernel part is self.
function flame(base = false): Flame {
  const names = ["all", "nginx", "main", "alpha", "beta", "gamma"];
  return {
    from: 0,
    to: 1,
    total: 10,
    base_total: base ? 20 : 0,
    unit: "count",
    period: 1e7,
    functions: {
      key: names.map((n) => `k${n}`),
      name: names,
      system_name: names.map(() => ""),
      file: ["", "", "main.c", "a.go", "b.py", "c.c"],
      line: [0, 0, 1, 2, 3, 4],
      type: ["root", "group", "native", "go", "cpython", "native"],
      mapping: ["", "", "app", "app", "", "libc.so"],
      match: names.map(() => false),
    },
    nodes: {
      id: ["r", "g", "m", "a", "b", "c"],
      parent: [-1, 0, 1, 2, 3, 2],
      function: [0, 1, 2, 3, 4, 5],
      line: [0, 0, 0, 0, 0, 0],
      self: [0, 0, 1, 4, 2, 3],
      total: [10, 10, 10, 6, 2, 3],
      base_self: base ? [0, 0, 2, 18, 0, 0] : [],
      base_total: base ? [20, 20, 20, 18, 0, 0] : [],
      guessed: [4],
    },
    pruned: { nodes: 0, self: 0 },
    search: { total: 0, base_total: 0, functions: 0 },
  };
}

test("lines are what was sent", () => {
  const a = flame();
  a.nodes.line = [0, 0, 2 ** 31, 2 ** 32 + 5, 5, Number.MAX_SAFE_INTEGER];
  const t = buildTree(checkFlame(a), "both");
  assert.deepEqual([...t.line], a.nodes.line);
  assert.equal(nameAt(t, 3), `alpha:${2 ** 32 + 5}`);
});

test("nodes lie below their parents, side by side", () => {
  const t = buildTree(checkFlame(flame()), "both");
  assert.deepEqual([...t.depth], [0, 1, 2, 3, 4, 3]);
  assert.deepEqual([...t.end], [6, 6, 6, 5, 5, 6]);
  assert.deepEqual(
    [...t.weight].map((w) => Math.round(w * 10)),
    [10, 10, 10, 6, 2, 3],
  );
  assert.deepEqual(
    [...t.x].map((x) => Math.round(x * 10)),
    [0, 0, 0, 0, 0, 6],
  );
  assert.deepEqual(
    t.levels.map((l) => [...l]),
    [[0], [1], [2], [3, 5], [4]],
  );
  assert.equal(deepest(t, 5), 3);
  assert.equal(deepest(t, 0), 4);
});

test("a place finds its node", () => {
  const t = buildTree(flame(), "both");
  assert.equal(find(t, 3, 0.1), 3);
  assert.equal(find(t, 3, 0.65), 5);
  assert.equal(find(t, 3, 0.95), -1);
  assert.equal(find(t, 4, 0.3), -1);
  assert.equal(find(t, 9, 0.3), -1);
});

test("comparing, width is the share on both sides, or on one", () => {
  const both = buildTree(flame(true), "both");
  assert.equal(both.weight[0], 2);
  assert.ok(Math.abs(both.weight[3]! - (0.6 + 0.9)) < 1e-9);
  assert.ok(Math.abs(buildTree(flame(true), "current").weight[3]! - 0.6) < 1e-9);
  assert.ok(Math.abs(buildTree(flame(true), "base").weight[3]! - 0.9) < 1e-9);
  assert.equal(buildTree(flame(true), "base").weight[5], 0);
  for (const t of [both, buildTree(flame(true), "base")]) {
    for (let n = 1; n < t.size; n++) {
      const p = t.parent[n]!;
      assert.ok(t.x[n]! >= t.x[p]! - 1e-9 && t.x[n]! + t.weight[n]! <= t.x[p]! + t.weight[p]! + 1e-9);
    }
  }
});

test("keys move between neighbours", () => {
  const t = buildTree(flame(), "both");
  assert.equal(move(t, 2, "child"), 3);
  assert.equal(move(t, 3, "next"), 5);
  assert.equal(move(t, 5, "next"), 5);
  assert.equal(move(t, 5, "previous"), 3);
  assert.equal(move(t, 4, "parent"), 3);
  assert.equal(move(t, 0, "parent"), 0);
  assert.equal(move(t, 4, "child"), 4);
  assert.equal(move(t, 0, "leaf"), 4);
  assert.equal(move(t, 4, "root", 2), 2);
  assert.equal(move(t, 3, "next", 3), 3);
  assert.deepEqual(path(t, 4), [0, 1, 2, 3, 4]);
  assert.deepEqual(siblings(t, 5), { at: 2, of: 2 });
  assert.deepEqual(siblings(t, 0), { at: 1, of: 1 });
});

test("keys pass over what has no width", () => {
  const t = buildTree(flame(true), "base");
  assert.equal(move(t, 3, "next"), 3);
});

test("a search sums what lies below the outermost match", () => {
  const t = buildTree(flame(), "both");
  const found = (s: string) => {
    const f = findAll(t, matcher(s));
    return [f.total, f.count, f.nodes];
  };
  assert.deepEqual(found("ALPHA"), [6, 1, 1]);
  assert.deepEqual(found("app"), [10, 2, 2]);
  assert.deepEqual(found(".py"), [2, 1, 1]);
  assert.deepEqual(found("nginx"), [0, 0, 0], "a group is no function");
  assert.deepEqual(found("all"), [0, 0, 0], "nor is the root");
  assert.deepEqual(
    [isExpression("/(/"), isExpression("/a"), isExpression("//"), isExpression("/usr/lib/x")],
    [true, false, false, false],
  );
  assert.equal(findAll(buildTree(flame(true), "both"), matcher("alpha")).baseTotal, 18);
});

test("a root that only stands above a function is taken off", () => {
  const a = withoutRoot(flame());
  assert.deepEqual([a.nodes.parent, a.nodes.id[0]], [[-1, 0, 1, 2, 1], "g"]);
  assert.equal(buildTree(checkFlame(a), "both").levels.length, 4);
  const two = flame();
  two.nodes.parent[5] = 0;
  assert.equal(withoutRoot(two), two);
  const function_ = flame();
  function_.functions.type[0] = "native";
  assert.equal(withoutRoot(function_), function_);
});

test("names say the line where it tells frames apart, and what a pid is known by", () => {
  const a = flame();
  a.nodes.line = [0, 0, 0, 261, 262, 0];
  a.functions.name[1] = "18643";
  a.functions.mapping[1] = "cburn";
  const t = buildTree(a, "both");
  assert.deepEqual(
    [1, 2, 3, 4].map((n) => nameAt(t, n)),
    ["18643 cburn", "main", "alpha:261", "beta:262"],
  );
  assert.equal(t.functions.name[1], "18643", "what filters use");
});

test("a marker is no function: no search finds it, no runtime has it, and its share is that of what is below", () => {
  const a = flame();
  a.functions.type[3] = "truncated";
  a.functions.name[3] = "[truncated: no_rule]";
  a.functions.system_name[3] = "no_rule";
  const t = buildTree(a, "both");
  assert.deepEqual(
    [1, 2, 3, 4].map((n) => isTruncated(t, n)),
    [false, false, true, false],
  );
  assert.equal(truncated(t), 6);
  assert.equal(truncated(buildTree(flame(), "both")), 0);
  assert.equal(findAll(t, matcher("truncated")).count, 0);
  assert.deepEqual(
    byType(t, 0).map((s) => s.type),
    ["native", "cpython"],
  );
  assert.deepEqual([facts(t, 3).reason, facts(t, 3).system], ["no_rule", ""]);
  assert.equal(facts(t, 2).reason, "");
});

test("frames that were guessed are known, also without the root", () => {
  assert.deepEqual([...buildTree(flame(), "both").guessed], [0, 0, 0, 0, 1, 0]);
  const t = buildTree(withoutRoot(flame()), "both");
  assert.deepEqual([...t.guessed], [0, 0, 0, 1, 0]);
  assert.deepEqual([facts(t, 3).name, facts(t, 3).guessed], ["beta", true]);
  const reasons = new Reasons({ reasons: [], guessed: "found by searching" });
  assert.match(
    describe(t, 3, { unit: "count", period: 1e7, periodUnit: "nanoseconds" }, reasons),
    /found by searching/,
  );
});

test("own values by type", () => {
  assert.deepEqual(byType(buildTree(flame(), "both"), 0), [
    { type: "native", self: 4, base: 0 },
    { type: "go", self: 4, base: 0 },
    { type: "cpython", self: 2, base: 0 },
  ]);
});

test("a difference is one of shares, and a few samples make none that shouts", () => {
  assert.ok(Math.abs(change(50, 100, 500, 1000)) < 1e-9);
  assert.ok(change(500, 1000, 0, 1000) > 0.95);
  assert.ok(change(0, 1000, 500, 1000) < -0.95);
  assert.ok(Math.abs(change(1, 10000, 0, 10000)) < 0.3);
  assert.equal(change(0, 10, 0, 10), 0);
  assert.equal(change(0, 0, 0, 0), 0);
});

test("answers that make no sense are refused", () => {
  const broken: ((f: Flame) => void)[] = [
    (f) => f.nodes.parent.pop(),
    (f) => (f.nodes.parent[3] = 3),
    (f) => (f.nodes.parent[3] = 4),
    (f) => (f.nodes.parent[0] = 0),
    (f) => (f.nodes.parent[2] = -5),
    (f) => (f.nodes.function[2] = 99),
    (f) => (f.nodes.function[2] = -1),
    (f) => (f.nodes.function[2] = Number.NaN),
    (f) => f.functions.name.pop(),
    (f) => f.nodes.base_total.push(1),
    (f) => f.nodes.guessed.push(6),
    (f) => f.nodes.guessed.push(-1),
    (f) =>
      (f.nodes = {
        id: [],
        parent: [],
        function: [],
        line: [],
        self: [],
        total: [],
        base_self: [],
        base_total: [],
        guessed: [],
      }),
  ];
  for (const breakIt of broken) {
    const f = flame();
    breakIt(f);
    assert.throws(() => checkFlame(f), /makes no sense/, breakIt.toString());
  }
});

function functionTable(): FunctionTable {
  const f = flame().functions;
  const keep = <T>(c: T[]) => c.slice(2);
  return {
    total: 10,
    base_total: 20,
    functions: {
      key: keep(f.key),
      name: keep(f.name),
      system_name: keep(f.system_name),
      file: keep(f.file),
      line: keep(f.line),
      type: keep(f.type),
      mapping: keep(f.mapping),
      match: keep(f.match),
    },
    self: [1, 4, 2, 3],
    functions_total: [10, 6, 2, 3],
    base_self: [2, 18, 0, 0],
    base_functions_total: [20, 18, 0, 0],
    more: 0,
  };
}

test("rows of the table", () => {
  const rows = buildRows(checkTable(functionTable()), null);
  const names = (by: "name" | "self" | "total" | "diff", ascending = false) =>
    sortRows(rows, by, ascending)
      .map((r) => r.name)
      .join();
  assert.equal(names("self"), "alpha,gamma,beta,main");
  assert.equal(names("self", true), "main,beta,gamma,alpha");
  assert.equal(names("total"), "main,alpha,gamma,beta");
  assert.equal(names("name"), "alpha,beta,gamma,main");
  assert.equal(names("name", true), "main,gamma,beta,alpha");
  assert.equal(names("diff"), "gamma,beta,main,alpha");
  const alpha = rows.find((r) => r.name === "alpha")!;
  assert.ok(Math.abs(alpha.selfDiff - (0.4 - 0.9)) < 1e-9);
  assert.equal(buildRows(functionTable(), matcher("libc")).length, 1);
  const bad = functionTable();
  bad.self.pop();
  assert.throws(() => checkTable(bad), /makes no sense/);
});

test("functions of one name are told apart", () => {
  const f = (all: [name: string, mapping: string, file: string, type?: string][]) =>
    apart({
      key: all.map((_, i) => String(i)),
      name: all.map((x) => x[0]),
      system_name: all.map(() => ""),
      file: all.map((x) => x[2]),
      line: all.map(() => 0),
      type: all.map((x) => x[3] ?? "native"),
      mapping: all.map((x) => x[1]),
      match: all.map(() => false),
    });
  assert.deepEqual(
    f([
      ["malloc", "/usr/lib/libc.so.6", "malloc.c"],
      ["free", "/usr/lib/libc.so.6", "malloc.c"],
      ["malloc", "/opt/lib/libjemalloc.so.2", "jemalloc.c"],
      ["read", "/a/app", "x/io.c"],
      ["read", "/b/app", "y/net.c"],
      ["same", "/a/app", "a.c"],
      ["same", "/b/app", "a.c"],
      ["malloc", "", "", "group"],
      ["malloc", "", ""],
    ]),
    ["libc.so.6", "", "libjemalloc.so.2", "io.c", "net.c", "", "", "", ""],
  );
});
