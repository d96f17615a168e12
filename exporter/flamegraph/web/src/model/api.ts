// The collector's answers. They are checked before anything indexes with them.

export interface ProfileType {
  id: string;
  sample_type: string;
  sample_unit: string;
  period_type: string;
  period_unit: string;
  period: number;
  samples: number;
}

export interface Receiver {
  name: string;
  seen: number;
  taken: number;
  delivered: number;
  lost: Record<string, number>;
  kernel_skipped: number;
  stops: Record<string, number>;
  processes: number;
  executables: number;
  problem: string;
  lacks?: string[];
}

export interface Incomplete {
  process: string;
  pid: string;
  reason: string;
  samples: number;
  of: number;
}

export interface Status {
  now: number;
  version: string;
  window: {
    from: number;
    to: number;
    seconds: number;
    bytes: number;
    budget_bytes: number;
    samples: number;
    stacks: number;
    dropped_until: number | null;
  };
  types: ProfileType[];
  payloads: {
    accepted: number;
    refused: number;
    last_error: string;
    /** with times that cannot be true; the last was so far ahead, ms */
    skewed_profiles: number;
    skew_ms: number;
  };
  receivers: Receiver[];
  incomplete: Incomplete[];
}

/** Reason is one of those for which the walk of a stack ends, in words. */
export interface Reason {
  reason: string;
  complete: boolean;
  means: string;
  when: string;
  do: string;
}

export interface ReasonsAnswer {
  reasons: Reason[];
  guessed: string;
}

export interface Label {
  key: string;
  /** hint is what people know a value by, where there is such: a pid's executable */
  values: { value: string; total: number; hint?: string }[];
  more: number;
}

export interface FunctionColumns {
  key: string[];
  name: string[];
  system_name: string[];
  file: string[];
  line: number[];
  type: string[];
  mapping: string[];
  match: boolean[];
}

export interface Flame {
  from: number;
  to: number;
  total: number;
  base_total: number;
  unit: string;
  period: number;
  functions: FunctionColumns;
  nodes: {
    id: string[];
    parent: number[];
    function: number[];
    line: number[];
    self: number[];
    total: number[];
    base_self: number[];
    base_total: number[];
    /** those whose frames were found without unwind information */
    guessed: number[];
  };
  pruned: { nodes: number; self: number };
  search: { total: number; base_total: number; functions: number };
}

export interface FunctionTable {
  total: number;
  base_total: number;
  functions: FunctionColumns;
  self: number[];
  functions_total: number[];
  base_self: number[];
  base_functions_total: number[];
  more: number;
}

export interface HeatmapAnswer {
  from: number;
  to: number;
  column_ms: number;
  row_ms: number;
  columns: number;
  rows: number;
  values: [number, number, number][];
  max: number;
  untimed: number;
}

/** Refused is the collector's own no, with its sentence. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Unreachable means that no answer came at all. */
export class Unreachable extends Error {}

const patience = 30_000;

/** get asks path with the parameters; the page may lie behind a prefix, so that paths are relative. */
export async function get<T>(path: string, params: URLSearchParams, signal: AbortSignal): Promise<T> {
  const query = params.toString();
  const late = AbortSignal.timeout(patience);
  let response: Response;
  try {
    response = await fetch(`api/${path}${query ? `?${query}` : ""}`, {
      signal: AbortSignal.any([signal, late]),
      headers: { Accept: "application/json" },
    });
  } catch (err) {
    if (signal.aborted) throw err;
    throw new Unreachable(late.aborted ? "The collector took too long to answer." : "The collector does not answer.");
  }
  let body: unknown;
  try {
    body = await response.json();
  } catch (err) {
    if (signal.aborted) throw err;
    if (response.ok) throw new Unreachable("The collector's answer ended early.");
  }
  if (!response.ok) {
    const said = (body as { error?: unknown } | undefined)?.error;
    throw new Refused(response.status, typeof said === "string" ? said : `The collector answered ${response.status}.`);
  }
  return body as T;
}

function malformed(what: string): never {
  throw new Refused(0, `The collector's answer makes no sense: ${what}.`);
}

function checkFunctions(f: FunctionColumns): number {
  const n = f.key.length;
  for (const column of [f.name, f.system_name, f.file, f.line, f.type, f.mapping, f.match]) {
    if (column.length !== n) malformed("columns of functions differ in length");
  }
  return n;
}

export function checkFlame(a: Flame): Flame {
  const functions = checkFunctions(a.functions);
  const { id, parent, function: fn, line, self, total, base_self, base_total, guessed } = a.nodes;
  const n = id.length;
  if (n === 0) malformed("no root");
  for (const column of [parent, fn, line, self, total]) {
    if (column.length !== n) malformed("columns of nodes differ in length");
  }
  if (base_self.length !== base_total.length || (base_total.length !== 0 && base_total.length !== n)) {
    malformed("columns of the base differ in length");
  }
  for (let i = 0; i < n; i++) {
    if (i === 0 ? parent[0] !== -1 : !(parent[i]! >= 0 && parent[i]! < i))
      malformed(`node ${i} comes before its parent`);
    if (!(fn[i]! >= 0 && fn[i]! < functions)) malformed(`node ${i} has no function`);
  }
  if (!guessed.every((i) => i >= 0 && i < n)) malformed("a node that was guessed is none");
  return a;
}

export function checkTable(a: FunctionTable): FunctionTable {
  const n = checkFunctions(a.functions);
  if (a.self.length !== n || a.functions_total.length !== n) malformed("columns of the table differ in length");
  const base = a.base_self.length;
  if (base !== a.base_functions_total.length || (base !== 0 && base !== n))
    malformed("columns of the base differ in length");
  return a;
}

/** typeName says in a few words what a profile type measures. */
export function typeName(t: ProfileType): string {
  const known: Record<string, string> = {
    cpu: "CPU time",
    "off-cpu": "Off-CPU time",
    off_cpu: "Off-CPU time",
    wall: "Wall-clock time",
  };
  if (t.sample_unit === "nanoseconds" || (t.sample_unit === "count" && t.period_unit === "nanoseconds")) {
    return known[t.period_type] ?? known[t.sample_type] ?? `${t.sample_type || t.period_type} time`;
  }
  return `${t.sample_type || t.period_type || "values"} (${t.sample_unit || "count"})`;
}
