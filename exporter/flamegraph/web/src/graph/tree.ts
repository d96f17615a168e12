// The tree of a flame graph in columns, laid out: pure values that drawing, keys and search work on.
import type { Flame, FunctionColumns } from "../model/api";
import { apart, isFunction, shownNames, truncatedType } from "../model/names";

export { isFunction };

export type Widths = "both" | "current" | "base";

/** Tree holds nodes in depth-first order; x and weight are its horizontal extent, in the root's weight. */
export interface Tree {
  size: number;
  id: string[];
  parent: Int32Array;
  fn: Int32Array;
  line: Float64Array; // as somebody sent it: it need not fit 32 bits
  self: Float64Array;
  total: Float64Array;
  baseSelf: Float64Array | null;
  baseTotal: Float64Array | null;
  depth: Int32Array;
  end: Int32Array; // after the last node of the subtree
  x: Float64Array;
  weight: Float64Array;
  levels: Int32Array[]; // nodes by depth, left to right
  functions: FunctionColumns;
  names: string[]; // safe to show
  apart: string[]; // by function: what tells it from others of its name
  sum: number;
  baseSum: number;
  unit: string;
  period: number;
  from: number;
  to: number;
  pruned: { nodes: number; self: number };
  guessed: Uint8Array; // by node: its frame was found without unwind information, in some samples at least
  index: Map<string, number>;
}

/** withoutRoot takes off a root that is no function and has one child: what is left begins with that function. */
export function withoutRoot(a: Flame): Flame {
  const n = a.nodes;
  const one = n.id.length > 1 && n.parent.indexOf(0, 2) < 0;
  if (isFunction(a.functions.type[n.function[0]!]!) || !one) return a;
  const rest = <T>(column: T[]) => column.slice(1);
  return {
    ...a,
    nodes: {
      id: rest(n.id),
      parent: rest(n.parent).map((p) => p - 1),
      function: rest(n.function),
      line: rest(n.line),
      self: rest(n.self),
      total: rest(n.total),
      base_self: rest(n.base_self),
      base_total: rest(n.base_total),
      guessed: n.guessed.filter((i) => i > 0).map((i) => i - 1),
    },
  };
}

export function buildTree(a: Flame, widths: Widths): Tree {
  const n = a.nodes.id.length;
  const diff = a.nodes.base_total.length === n;
  const t: Tree = {
    size: n,
    id: a.nodes.id,
    parent: Int32Array.from(a.nodes.parent),
    fn: Int32Array.from(a.nodes.function),
    line: Float64Array.from(a.nodes.line),
    self: Float64Array.from(a.nodes.self),
    total: Float64Array.from(a.nodes.total),
    baseSelf: diff ? Float64Array.from(a.nodes.base_self) : null,
    baseTotal: diff ? Float64Array.from(a.nodes.base_total) : null,
    depth: new Int32Array(n),
    end: new Int32Array(n),
    x: new Float64Array(n),
    weight: new Float64Array(n),
    levels: [],
    functions: a.functions,
    names: shownNames(a.functions),
    apart: apart(a.functions),
    sum: a.total,
    baseSum: a.base_total,
    unit: a.unit,
    period: a.period,
    from: a.from,
    to: a.to,
    pruned: a.pruned,
    guessed: new Uint8Array(n),
    index: new Map(),
  };
  for (let i = 0; i < n; i++) t.index.set(t.id[i]!, i);
  for (const i of a.nodes.guessed) t.guessed[i] = 1;
  layout(t, widths);
  return t;
}

/** layout gives every node its extent. Comparing, a frame is as wide as its shares on both sides together. */
function layout(t: Tree, widths: Widths): void {
  const current = t.baseTotal === null || widths !== "base" ? 1 / (t.total[0]! || 1) : 0;
  const base = t.baseTotal !== null && widths !== "current" ? 1 / (t.baseTotal[0]! || 1) : 0;
  const next = new Float64Array(t.size); // where the next child of a node begins
  const counts: number[] = [];
  for (let i = 0; i < t.size; i++) {
    const p = t.parent[i]!;
    t.weight[i] = t.total[i]! * current + (t.baseTotal?.[i] ?? 0) * base;
    if (p >= 0) {
      t.depth[i] = t.depth[p]! + 1;
      t.x[i] = next[p]!;
      next[p] = next[p]! + t.weight[i]!;
    }
    next[i] = t.x[i]!;
    counts[t.depth[i]!] = (counts[t.depth[i]!] ?? 0) + 1;
    t.end[i] = i + 1;
  }
  for (let i = t.size - 1; i > 0; i--) {
    const p = t.parent[i]!;
    t.end[p] = Math.max(t.end[p]!, t.end[i]!);
  }
  t.levels = counts.map((c) => new Int32Array(c));
  const at = new Int32Array(counts.length);
  for (let i = 0; i < t.size; i++) {
    const d = t.depth[i]!;
    t.levels[d]![at[d]!] = i;
    at[d] = at[d]! + 1;
  }
}

/** first is the place in a level of the first node that ends after x. */
export function first(t: Tree, depth: number, x: number): number {
  const level = t.levels[depth];
  if (!level) return 0;
  let lo = 0;
  let hi = level.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    const n = level[mid]!;
    if (t.x[n]! + t.weight[n]! <= x) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

/** find is the node at a depth and place, or -1. */
export function find(t: Tree, depth: number, x: number): number {
  const level = t.levels[depth];
  if (!level) return -1;
  const n = level[first(t, depth, x)];
  return n !== undefined && t.x[n]! <= x ? n : -1;
}

/** deepest is the greatest depth below a node. */
export function deepest(t: Tree, node: number): number {
  let d = 0;
  for (let i = node; i < t.end[node]!; i++) d = Math.max(d, t.depth[i]!);
  return d;
}

/** nameAt is a frame's name, with its line where frames of a function are told apart by it. */
export function nameAt(t: Tree, node: number): string {
  const name = t.names[t.fn[node]!]!;
  return t.line[node]! > 0 ? `${name}:${t.line[node]}` : name;
}

/** path is the way from the root to a node, both included. */
export function path(t: Tree, node: number): number[] {
  const out: number[] = [];
  for (let n = node; n >= 0; n = t.parent[n]!) out.push(n);
  return out.reverse();
}

export function inside(t: Tree, ancestor: number, node: number): boolean {
  return node >= ancestor && node < t.end[ancestor]!;
}

export type Move = "parent" | "child" | "next" | "previous" | "root" | "leaf";

/** move goes from a node to a neighbour that can be seen; a child is the widest one. Without one it stays. */
export function move(t: Tree, node: number, to: Move, root = 0): number {
  switch (to) {
    case "root":
      return root;
    case "parent":
      return node === 0 ? 0 : t.parent[node]!;
    case "child":
      return widest(t, node);
    case "leaf": {
      let n = node;
      for (let next = widest(t, n); next !== n; next = widest(t, n)) n = next;
      return n;
    }
    default: {
      const level = t.levels[t.depth[node]!]!;
      const step = to === "next" ? 1 : -1;
      for (let i = place(level, node) + step; i >= 0 && i < level.length; i += step) {
        const n = level[i]!;
        if (!inside(t, root, n)) return node;
        if (t.weight[n]! > 0) return n;
      }
      return node;
    }
  }
}

function widest(t: Tree, node: number): number {
  let best = node;
  let weight = 0;
  for (let i = node + 1; i < t.end[node]!; i = t.end[i]!) {
    if (t.weight[i]! > weight) {
      best = i;
      weight = t.weight[i]!;
    }
  }
  return best;
}

function place(level: Int32Array, node: number): number {
  let lo = 0;
  let hi = level.length - 1;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (level[mid]! < node) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

/** siblings says which of how many children of its parent a node is. */
export function siblings(t: Tree, node: number): { at: number; of: number } {
  const p = t.parent[node]!;
  if (p < 0) return { at: 1, of: 1 };
  let at = 0;
  let of = 0;
  for (let i = p + 1; i < t.end[p]!; i = t.end[i]!) {
    of++;
    if (i <= node) at++;
  }
  return { at, of };
}

/** Match tells whether a search finds a function. */
export type Match = (f: FunctionColumns, i: number) => boolean;

/** isExpression tells a regular expression from a part of a name. */
export function isExpression(search: string): boolean {
  return /^\/.+\/$/s.test(search);
}

/** matcher finds a part of a name, a file or a mapping, as the collector does. */
export function matcher(search: string): Match {
  const s = search.toLowerCase();
  return (f, i) => [f.name[i]!, f.file[i]!, f.mapping[i]!].some((v) => v.toLowerCase().includes(s));
}

export interface Found {
  functions: Uint8Array; // by function
  total: number;
  baseTotal: number;
  count: number; // functions
  nodes: number;
}

/** findAll marks functions and sums what lies below the outermost matches. */
export function findAll(t: Tree, match: Match): Found {
  const out: Found = { functions: new Uint8Array(t.names.length), total: 0, baseTotal: 0, count: 0, nodes: 0 };
  for (let f = 0; f < t.names.length; f++) {
    if (!isFunction(t.functions.type[f]!) || !match(t.functions, f)) continue;
    out.functions[f] = 1;
    out.count++;
  }
  let covered = 0; // the end of the outermost match
  for (let i = 1; i < t.size; i++) {
    if (!out.functions[t.fn[i]!]) continue;
    out.nodes++;
    if (i < covered) continue;
    covered = t.end[i]!;
    out.total += t.total[i]!;
    out.baseTotal += t.baseTotal?.[i] ?? 0;
  }
  return out;
}

export interface TypeSum {
  type: string;
  self: number;
  base: number;
}

/** byType sums own values by frame type, biggest first. */
export function byType(t: Tree, root: number): TypeSum[] {
  const sums = new Map<string, TypeSum>();
  for (let i = root; i < t.end[root]!; i++) {
    const type = t.functions.type[t.fn[i]!]!;
    if (!isFunction(type)) continue;
    let s = sums.get(type);
    if (!s) {
      s = { type, self: 0, base: 0 };
      sums.set(type, s);
    }
    s.self += t.self[i]!;
    s.base += t.baseSelf?.[i] ?? 0;
  }
  return [...sums.values()].filter((s) => s.self + s.base > 0).sort((a, b) => b.self - a.self || b.base - a.base);
}

/** isTruncated tells a marker from frames: the callers of what is below it are missing. */
export function isTruncated(t: Tree, node: number): boolean {
  return t.functions.type[t.fn[node]!] === truncatedType;
}

/** truncated sums what lies below markers. */
export function truncated(t: Tree): number {
  let sum = 0;
  for (let i = 0; i < t.size; i++) if (isTruncated(t, i)) sum += t.total[i]!;
  return sum;
}

/**
 * change is how much a share differs, -1 to 1, held down where only a few samples speak: 0 is the same, 1 new, -1 gone.
 */
export function change(value: number, sum: number, base: number, baseSum: number): number {
  const a = sum > 0 ? value / sum : 0;
  const b = baseSum > 0 ? base / baseSum : 0;
  const noise = 3 / Math.max(Math.min(sum || Number.POSITIVE_INFINITY, baseSum || Number.POSITIVE_INFINITY), 30);
  const most = Math.max(a, b);
  return most === 0 ? 0 : (a - b) / (most + (Number.isFinite(noise) ? noise : 0));
}
