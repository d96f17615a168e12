// What the page shows, and nothing else than that: the whole of it is in the query string.

export const tabs = ["flame", "table", "sandwich", "heatmap"] as const;
export type Tab = (typeof tabs)[number];

/** Range is a time range: live or not, from and to in Unix ms, or the last so many seconds. None: all that is held. */
export interface Range {
  live: boolean;
  seconds: number | null;
  from: number | null;
  to: number | null;
}

export interface Filter {
  key: string;
  value: string;
  not: boolean;
}

/** Base is what the current selection is compared with. Without a range of its own it has the current one. */
export interface Base {
  range: Range | null;
  filters: Filter[];
}

export type SortKey = "name" | "self" | "total" | "diff";

export interface View {
  tab: Tab;
  type: string;
  range: Range;
  filters: Filter[];
  base: Base | null;
  search: string;
  focus: string; // the node that the flame graph is zoomed to
  node: string; // the frame that is selected
  function: string; // the key of the function in the sandwich
  sort: SortKey;
  ascending: boolean;
  group: string; // the attribute whose values are the first level of trees, none, or "": what suits
  lines: boolean;
  markers: boolean; // where callers are missing
  flip: boolean; // the root at the bottom
  widths: "both" | "current" | "base";
  panel: boolean;
  theme: "light" | "dark" | "";
}

/** groups are the attributes to group by, the usual one first. */
export const groups = [
  "process.executable.name",
  "service.name",
  "k8s.pod.name",
  "container.id",
  "process.pid",
  "thread.name",
] as const;

export const liveSeconds = 300;

export const liveRange = (seconds: number | null): Range => ({ live: true, seconds, from: null, to: null });
export const fixedRange = (from: number, to: number): Range => ({
  live: false,
  seconds: null,
  from: Math.round(from),
  to: Math.round(to),
});

export const defaults: View = {
  tab: "flame",
  type: "",
  range: liveRange(liveSeconds),
  filters: [],
  base: null,
  search: "",
  focus: "",
  node: "",
  function: "",
  sort: "self",
  ascending: false,
  group: "",
  lines: false,
  markers: true,
  flip: false,
  widths: "both",
  panel: true,
  theme: "",
};

const shortKeys: Record<string, string> = {
  service: "service.name",
  process: "process.executable.name",
  pid: "process.pid",
  container: "container.id",
  pod: "k8s.pod.name",
  thread: "thread.name",
};

export function sameFilter(a: Filter, b: Filter): boolean {
  return a.key === b.key && a.value === b.value && a.not === b.not;
}

/** sameFilters compares all filters of two selections, in any order. */
export function sameFilters(a: Filter[], b: Filter[]): boolean {
  const text = (filters: Filter[]) => filters.map(filterText).sort().join("&");
  return text(a) === text(b);
}

export function filterText(f: Filter): string {
  return `${f.key}${f.not ? "!=" : "="}${f.value}`;
}

/** parseFilter splits at the first =; a key holds none. */
export function parseFilter(text: string): Filter | null {
  const at = text.indexOf("=");
  if (at <= 0) return null;
  const not = text[at - 1] === "!";
  const key = text.slice(0, not ? at - 1 : at);
  return key === "" ? null : { key, value: text.slice(at + 1), not };
}

function number(params: URLSearchParams, name: string): number | null {
  const text = params.get(name);
  if (text === null || !/^-?\d{1,15}$/.test(text)) return null;
  return Number(text);
}

function parseRange(params: URLSearchParams, prefix: string): Range {
  const from = number(params, `${prefix}from`);
  const to = number(params, `${prefix}to`);
  const seconds = number(params, `${prefix}seconds`);
  const range = { live: false, seconds: null as number | null, from, to };
  if (from === null && seconds !== null && seconds > 0) range.seconds = Math.min(seconds, 366 * 86400);
  return range;
}

const sameRange = (a: Range, b: Range) => a.seconds === b.seconds && a.from === b.from && a.to === b.to;

export function parse(query: string): View {
  const p = new URLSearchParams(query);
  const one = <T extends string>(name: string, allowed: readonly T[], otherwise: T): T => {
    const v = p.get(name);
    return v !== null && (allowed as readonly string[]).includes(v) ? (v as T) : otherwise;
  };
  const filters: Filter[] = [];
  for (const [name, value] of p) {
    const f =
      name === "filter" ? parseFilter(value) : shortKeys[name] ? { key: shortKeys[name], value, not: false } : null;
    if (f && !filters.some((g) => sameFilter(f, g))) filters.push(f);
  }
  let range = parseRange(p, "");
  range.live = p.get("live") === "1" && range.from === null && range.to === null;
  if (!range.live && range.seconds === null && range.from === null && range.to === null && p.get("live") !== "0") {
    range = defaults.range;
  }
  let base: Base | null = null;
  if (["base_from", "base_to", "base_seconds", "base_filter"].some((k) => p.has(k))) {
    const r = parseRange(p, "base_");
    const own = p.has("base_filter") ? p.getAll("base_filter").map(parseFilter) : filters;
    const unset = r.from === null && r.to === null && r.seconds === null;
    base = {
      range: unset || sameRange(r, range) ? null : r,
      filters: own.filter((f): f is Filter => f !== null && !sameFilter(f, everything)),
    };
  }
  return {
    tab: one("tab", tabs, "flame"),
    type: p.get("type") ?? "",
    range,
    filters,
    base,
    search: (p.get("search") ?? "").slice(0, 1000),
    focus: p.get("focus") ?? "",
    node: p.get("node") ?? "",
    function: p.get("function") ?? "",
    sort: one("sort", ["name", "self", "total", "diff"] as const, "self"),
    ascending: p.get("order") === "asc",
    group: (p.get("group") ?? "").slice(0, 200),
    lines: p.get("lines") === "1",
    markers: p.get("markers") !== "0",
    flip: p.get("flip") === "1",
    widths: one("widths", ["both", "current", "base"] as const, "both"),
    panel: p.get("panel") !== "0",
    theme: one("theme", ["light", "dark", ""] as const, ""),
  };
}

function putRange(p: URLSearchParams, r: Range, prefix: string): void {
  if (r.from !== null) p.set(`${prefix}from`, String(r.from));
  if (r.seconds !== null) p.set(`${prefix}seconds`, String(r.seconds));
  if (r.to !== null) p.set(`${prefix}to`, String(r.to));
}

const everything: Filter = { key: "frame_type", value: "-", not: true };

/** selection is what every data endpoint takes. */
export function selection(v: View): URLSearchParams {
  const p = new URLSearchParams();
  if (v.type) p.set("type", v.type);
  putRange(p, v.range, "");
  for (const f of v.filters) p.append("filter", filterText(f));
  if (v.base) {
    putRange(p, v.base.range ?? v.range, "base_");
    // Without one the collector takes the current side's: they are only said where they differ, or where nothing else would
    // say that there is a base. Everything passes the one that stands for none.
    const said = ["base_from", "base_to", "base_seconds"].some((name) => p.has(name));
    if (!said || !sameFilters(v.base.filters, v.filters)) {
      const filters = v.base.filters.length > 0 ? v.base.filters : [everything];
      for (const f of filters) p.append("base_filter", filterText(f));
    }
  }
  return p;
}

/** side is the selection of one side of a comparison alone: what a download of it takes. */
export function side(v: View, base: boolean): URLSearchParams {
  if (!base || !v.base) return selection({ ...v, base: null });
  return selection({ ...v, range: v.base.range ?? v.range, filters: v.base.filters, base: null });
}

/** format is the inverse of parse: equal views have equal strings. */
export function format(v: View): string {
  const p = new URLSearchParams();
  if (v.tab !== "flame") p.set("tab", v.tab);
  if (v.range.live) p.set("live", "1");
  for (const [key, value] of selection(v)) p.append(key, value);
  if (!v.range.live && v.range.seconds === null && v.range.from === null && v.range.to === null) p.set("live", "0");
  const text: [string, string][] = [
    ["search", v.search],
    ["focus", v.focus],
    ["node", v.node],
    ["function", v.function],
    ["sort", v.sort === "self" ? "" : v.sort],
    ["order", v.ascending ? "asc" : ""],
    ["group", v.group],
    ["lines", v.lines ? "1" : ""],
    ["markers", v.markers ? "" : "0"],
    ["flip", v.flip ? "1" : ""],
    ["widths", v.widths === "both" ? "" : v.widths],
    ["panel", v.panel ? "" : "0"],
    ["theme", v.theme],
  ];
  for (const [name, value] of text) if (value !== "") p.set(name, value);
  const out = p.toString();
  return out === "" ? "" : `?${out}`;
}

/** quoted is a URL in single quotes for a shell: nothing in it can end them. */
export function quoted(url: string): string {
  return `'${url.replaceAll("'", "%27")}'`;
}

/** groupOf is what trees are grouped by. Two processes that are compared have no frame in common if they are grouped by process. */
export function groupOf(v: View): string {
  if (v.group !== "") return v.group;
  return v.base && !sameFilters(v.base.filters, v.filters) ? "none" : groups[0];
}

/** treeParams are what trees, and all that is worked out from them, are asked with: the same, so that the collector makes one. */
export function treeParams(v: View): URLSearchParams {
  const p = selection(v);
  p.set("group", groupOf(v));
  if (v.lines) p.set("lines", "1");
  if (!v.markers) p.set("markers", "0");
  return p;
}
