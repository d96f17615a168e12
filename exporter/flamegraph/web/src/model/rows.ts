// The rows of the table of functions: values, shares and their order.
import type { Match } from "../graph/tree";
import type { FunctionTable } from "./api";
import { apart } from "./names";
import { clean, source } from "./text";
import type { SortKey } from "./view";

export interface Row {
  key: string;
  at: number; // in the columns of the answer
  name: string; // safe to show
  full: string; // as it came
  apart: string; // what tells it from others of its name
  source: string;
  type: string;
  self: number;
  total: number;
  baseSelf: number;
  baseTotal: number;
  selfShare: number;
  totalShare: number;
  selfDiff: number; // of shares
  totalDiff: number;
}

export function buildRows(t: FunctionTable, match: Match | null): Row[] {
  const f = t.functions;
  const out: Row[] = [];
  const sum = t.total || 1;
  const baseSum = t.base_total || 1;
  const where = apart(f);
  const diff = t.base_self.length === f.key.length;
  for (let i = 0; i < f.key.length; i++) {
    if (match && !match(f, i)) continue;
    const baseSelf = diff ? t.base_self[i]! : 0;
    const baseTotal = diff ? t.base_functions_total[i]! : 0;
    const self = t.self[i]!;
    const total = t.functions_total[i]!;
    out.push({
      key: f.key[i]!,
      at: i,
      name: clean(f.name[i]!, 200),
      full: f.name[i]!,
      apart: where[i]!,
      source: source(f.file[i]!.slice(0, 400), f.line[i]!),
      type: f.type[i]!,
      self,
      total,
      baseSelf,
      baseTotal,
      selfShare: self / sum,
      totalShare: total / sum,
      selfDiff: self / sum - baseSelf / baseSum,
      totalDiff: total / sum - baseTotal / baseSum,
    });
  }
  return out;
}

export function sortRows(rows: Row[], by: SortKey, ascending: boolean): Row[] {
  const byName = (a: Row, b: Row) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.key < b.key ? -1 : 1);
  const number: Record<Exclude<SortKey, "name">, (r: Row) => number> = {
    self: (r) => r.self,
    total: (r) => r.total,
    diff: (r) => r.selfDiff,
  };
  const value = by === "name" ? null : number[by];
  return [...rows].sort((a, b) => {
    if (!value) return ascending ? byName(b, a) : byName(a, b);
    const d = value(b) - value(a);
    return d === 0 ? byName(a, b) : ascending ? -d : d;
  });
}
