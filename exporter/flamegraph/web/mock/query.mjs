// The questions that the page asks, answered over a dataset: a plain and slow model of the server.
import { stopKey } from "./data.mjs";
import { hash } from "./random.mjs";

const short = {
  service: "service.name",
  process: "process.executable.name",
  pid: "process.pid",
  container: "container.id",
  pod: "k8s.pod.name",
  thread: "thread.name",
};
const usual = [...Object.values(short), "frame_type"];

export class BadRequest extends Error {}

function filters(params, prefix) {
  const out = new Map();
  const add = (key, value, not) => {
    const f = out.get(key) ?? { in: new Set(), not: new Set() };
    (not ? f.not : f.in).add(value);
    out.set(key, f);
  };
  // A base without filters of its own has those of the current side.
  for (const text of params.getAll(params.has(`${prefix}filter`) ? `${prefix}filter` : "filter")) {
    const at = text.indexOf("=");
    if (at <= 0) throw new BadRequest(`filter ${JSON.stringify(text)} has no key=value`);
    const not = text[at - 1] === "!";
    add(text.slice(0, not ? at - 1 : at), text.slice(at + 1), not);
  }
  for (const [name, key] of Object.entries(short)) {
    for (const value of params.getAll(name)) add(key, value, false);
  }
  return out;
}

// selection reads one side of the request: "" is the current one, "base_" the one to compare with.
export function selection(data, params, now, prefix = "") {
  const get = (name) => params.get(prefix + name);
  const number = (name) => {
    const v = get(name);
    if (v === null) return undefined;
    if (!/^-?\d+$/.test(v)) throw new BadRequest(`${prefix}${name} is not a whole number: ${JSON.stringify(v)}`);
    return Number(v);
  };
  const type = params.get("type");
  const at = type === null ? 0 : data.types.findIndex((t) => t.id === type);
  if (at < 0) throw Object.assign(new Error("there are no profiles of this type yet"), { status: 404 });
  const seconds = number("seconds");
  const to = number("to") ?? now;
  const from = number("from") ?? (seconds === undefined ? Math.max(data.from, to - 900_000) : to - seconds * 1000);
  return { type: at, from, to, filters: filters(params, prefix), attrs: undefined };
}

export function hasBase(params) {
  return ["base_from", "base_to", "base_seconds", "base_filter"].some((k) => params.has(k));
}

// hintOf is what people know a value by: the executable of a pid.
const hintOf = (data, key, value) =>
  key === "process.pid" ? (data.attributes.find((set) => set[key] === value)?.["process.executable.name"] ?? "") : "";

const attributeOf = (data, attr, node, key) =>
  key === "frame_type" ? data.functions[data.fn[node]].type : data.attributes[attr][key];

// visit calls back with every sample of a selection; except names a key whose filters do not count.
export function visit(data, sel, now, call, except) {
  const { time, node, attr, value, sampleType } = data;
  const active = [...sel.filters].filter(([k]) => k !== except);
  const byAttr = active.filter(([k]) => k !== "frame_type");
  const pass = (f, v) => (f.in.size === 0 || f.in.has(v)) && !f.not.has(v);
  const ok = data.attributes.map((set) => byAttr.every(([k, f]) => pass(f, set[k] ?? "")));
  const frames = active.find(([k]) => k === "frame_type")?.[1];
  for (let i = 0; i < time.length; i++) {
    if (sampleType[i] !== sel.type || time[i] < sel.from || time[i] >= sel.to || time[i] > now || !ok[attr[i]])
      continue;
    if (frames && !pass(frames, attributeOf(data, attr[i], node[i], "frame_type"))) continue;
    call(i, value[i]);
  }
}

export function sums(data, sel, now) {
  const self = new Float64Array(data.parent.length);
  let total = 0;
  visit(data, sel, now, (i, v) => {
    self[data.node[i]] += v;
    total += v;
  });
  const totals = Float64Array.from(self);
  for (let n = totals.length - 1; n > 0; n--) totals[data.parent[n]] += totals[n];
  return { self, totals, total };
}

// matcher tells of a function whether the search finds it; groups are none.
export function matcher(search) {
  const match = textMatcher(search);
  return match && ((f) => !["group", "root", "truncated"].includes(f.type) && match(f));
}

function textMatcher(search) {
  if (!search) return undefined;
  const m = /^\/(.+)\/$/s.exec(search);
  if (m) {
    let re;
    try {
      re = new RegExp(m[1], "i");
    } catch (err) {
      throw new BadRequest(`search: ${err.message}`);
    }
    return (f) => re.test(f.name) || re.test(f.file) || re.test(f.mapping);
  }
  const s = search.toLowerCase();
  return (f) => [f.name, f.file, f.mapping].some((t) => t.toLowerCase().includes(s));
}

function functionColumns(data, used, match) {
  const out = { key: [], name: [], system_name: [], file: [], line: [], type: [], mapping: [], match: [] };
  for (const at of used) {
    const f = data.functions[at];
    for (const k of ["key", "name", "system_name", "file", "line", "type", "mapping"]) out[k].push(f[k]);
    out.match.push(at > 0 && (match?.(f) ?? false));
  }
  return out;
}

// graft makes the tree of a function's callers or callees as a dataset of its own, with values beside.
function graft(data, view, key, self) {
  const wanted = data.functions.findIndex((f) => f.key === key);
  if (wanted < 0) throw Object.assign(new Error("the function is not in this selection"), { status: 404 });
  const parent = [-1, 0];
  const fn = [0, wanted];
  const line = [0, 0];
  const children = new Map();
  const child = (at, f) => {
    const id = `${at}/${f}`;
    let n = children.get(id);
    if (n === undefined) {
      n = parent.length;
      children.set(id, n);
      parent.push(at);
      fn.push(f);
      line.push(0);
    }
    return n;
  };
  const values = self.map((s) => new Map([...s].entries()));
  const out = self.map(() => []);
  const add = (side, n, v) => {
    out[side][n] = (out[side][n] ?? 0) + v;
  };
  for (let node = 0; node < data.parent.length; node++) {
    if (!values.some((v) => v.get(node) > 0)) continue;
    const path = [];
    for (let n = node; n > 0; n = data.parent[n]) path.push(n);
    const at =
      view === "callers"
        ? path.findIndex((n) => data.fn[n] === wanted)
        : path.findLastIndex((n) => data.fn[n] === wanted);
    if (at < 0) continue;
    const rest = view === "callers" ? path.slice(at + 1) : path.slice(0, at).reverse();
    let n = 1;
    for (const step of rest) n = child(n, data.fn[step]);
    values.forEach((v, side) => {
      add(side, n, v.get(node) ?? 0);
    });
  }
  return {
    tree: { ...data, parent, fn, line },
    self: out.map((o) => Float64Array.from({ length: parent.length }, (_, i) => o[i] ?? 0)),
  };
}

/**
 * grouped puts a frame for each value of an attribute below the root, unless the key is none, and below that one for each
 * reason for which stacks end early, and the stacks of samples below that.
 */
function grouped(data, sides, now, key, markers) {
  const functions = [...data.functions];
  const parent = [-1];
  const fn = [0];
  const line = [0];
  const self = sides.map(() => [0]);
  const nodes = new Map();
  const place = (id, at, f, l) => {
    let n = nodes.get(id);
    if (n === undefined) {
      n = parent.length;
      nodes.set(id, n);
      parent.push(at);
      fn.push(f);
      line.push(l);
      for (const s of self) s.push(0);
    }
    return n;
  };
  const known = new Map();
  const functionOf = (type, value, name, mapping) => {
    const id = `${type} ${value}`;
    if (!known.has(id)) {
      known.set(id, functions.length);
      const system_name = type === "truncated" ? value : "";
      functions.push({ key: hash(`${key} ${id}`), name, system_name, file: "", line: 0, type, mapping });
    }
    return known.get(id);
  };
  const branches = new Map();
  const branchOf = (value, reason) => {
    const id = JSON.stringify([value, reason]);
    let b = branches.get(id);
    if (b === undefined) {
      let at = 0;
      if (key !== "none")
        at = place(`g${value}`, 0, functionOf("group", value, value || "(none)", hintOf(data, key, value)), 0);
      if (reason && markers) at = place(`m${id}`, at, functionOf("truncated", reason, `[truncated: ${reason}]`, ""), 0);
      b = { at, number: branches.size };
      branches.set(id, b);
    }
    return b;
  };
  const below = (g, node) =>
    node === 0
      ? g.at
      : (nodes.get(g.number * 1e7 + node) ??
        place(g.number * 1e7 + node, below(g, data.parent[node]), data.fn[node], data.line[node]));
  sides.forEach((sel, side) => {
    visit(data, sel, now, (i, v) => {
      const group = key === "none" ? "" : attributeOf(data, data.attr[i], data.node[i], key);
      self[side][below(branchOf(group ?? "", data.attributes[data.attr[i]][stopKey]), data.node[i])] += v;
    });
  });
  return { tree: { ...data, functions, parent, fn, line }, self };
}

const totalsOf = (parent, self) => {
  const totals = Float64Array.from(self);
  for (let n = totals.length - 1; n > 0; n--) totals[parent[n]] += totals[n];
  return totals;
};

export function flamegraph(data, params, now) {
  const sides = [selection(data, params, now)];
  if (hasBase(params)) sides.push(selection(data, params, now, "base_"));
  let selfs = sides.map((s) => sums(data, s, now).self);
  let tree = data;
  const view = params.get("view") ?? "flame";
  const group = params.get("group") ?? "process.executable.name";
  ({ tree, self: selfs } = grouped(data, sides, now, group, params.get("markers") !== "0"));
  data = tree;
  if (view !== "flame") ({ tree, self: selfs } = graft(data, view, params.get("function"), selfs));
  if (params.get("lines") !== "1") ({ tree, self: selfs } = merged(tree, selfs));
  const totals = selfs.map((s) => totalsOf(tree.parent, s));
  const count = tree.parent.length;
  const match = matcher(params.get("search"));
  const kids = Array.from({ length: count }, () => []);
  for (let n = 1; n < count; n++) if (totals.some((t) => t[n] > 0)) kids[tree.parent[n]].push(n);
  const ids = new Array(count);
  ids[0] = hash("");
  const focus = params.get("focus");
  for (let n = 1; n < count; n++)
    ids[n] = hash(
      `${ids[tree.parent[n]]}/${data.functions[tree.fn[n]].key}/${params.get("lines") === "1" ? tree.line[n] : 0}`,
    );
  const keep = new Uint8Array(count).fill(1);
  if (focus) {
    const at = ids.indexOf(focus);
    if (at < 0) throw Object.assign(new Error("no such node in this selection"), { status: 404 });
    keep.fill(0);
    for (let n = at; n >= 0; n = tree.parent[n]) keep[n] = 1;
    for (let n = at + 1; n < count; n++) if (n === at || (keep[tree.parent[n]] && tree.parent[n] >= at)) keep[n] = 1;
  }
  const weight = (n) => totals.reduce((a, t, side) => a + t[n] / (totals[side][0] || 1), 0);
  const limit = Number(params.get("max_nodes") ?? 20000);
  let candidates = [];
  for (let n = 0; n < count; n++) if (keep[n] && (n === 0 || totals.some((t) => t[n] > 0))) candidates.push(n);
  const pruned = { nodes: 0, self: 0 };
  if (candidates.length > limit) {
    // A node never weighs more than its parent and comes after it, so that what remains is a tree.
    candidates.sort((a, b) => weight(b) - weight(a) || a - b);
    for (const n of candidates.slice(limit)) {
      keep[n] = 0;
      pruned.nodes++;
      pruned.self += selfs[0][n];
    }
    candidates = candidates.slice(0, limit);
  }
  const order = [];
  const stack = [0];
  while (stack.length) {
    const n = stack.pop();
    order.push(n);
    const next = kids[n].filter((c) => keep[c]);
    next.sort((a, b) => compare(data.functions[tree.fn[b]], data.functions[tree.fn[a]]));
    stack.push(...next);
  }
  const used = new Map();
  const place = new Map(order.map((n, i) => [n, i]));
  const nodes = { id: [], parent: [], function: [], line: [], self: [], total: [], base_self: [], base_total: [] };
  nodes.guessed = [];
  for (const n of order) {
    if (!used.has(tree.fn[n])) used.set(tree.fn[n], used.size);
    // Here what nobody knows was guessed.
    if (data.functions[tree.fn[n]].type === "unknown") nodes.guessed.push(nodes.id.length);
    nodes.id.push(ids[n]);
    nodes.parent.push(n === 0 ? -1 : place.get(tree.parent[n]));
    nodes.function.push(used.get(tree.fn[n]));
    nodes.line.push(params.get("lines") === "1" ? tree.line[n] : 0);
    nodes.self.push(selfs[0][n]);
    nodes.total.push(totals[0][n]);
    if (sides.length > 1) {
      nodes.base_self.push(selfs[1][n]);
      nodes.base_total.push(totals[1][n]);
    }
  }
  const found = sides.map((_, side) => (match ? searchTotal(tree, selfs[side], data.functions, match) : 0));
  const type = data.types[sides[0].type];
  return {
    from: sides[0].from,
    to: sides[0].to,
    total: totals[0][0],
    base_total: totals[1]?.[0] ?? 0,
    unit: type?.sample_unit ?? "count",
    period: type?.period ?? 0,
    functions: functionColumns(data, used.keys(), match),
    nodes,
    pruned,
    search: { total: found[0], base_total: found[1] ?? 0, functions: match ? countMatches(tree, totals, match) : 0 },
  };
}

/** countMatches counts functions of the whole selection, also those whose nodes were pruned. */
function countMatches(tree, totals, match) {
  const seen = new Set();
  for (let n = 1; n < tree.fn.length; n++) if (totals.some((t) => t[n] > 0)) seen.add(tree.fn[n]);
  return [...seen].filter((f) => match(tree.functions[f])).length;
}

const compare = (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.key < b.key ? -1 : a.key > b.key ? 1 : 0);

function searchTotal(tree, self, functions, match) {
  const hit = new Uint8Array(tree.parent.length);
  let total = 0;
  for (let n = 1; n < hit.length; n++) {
    hit[n] = hit[tree.parent[n]] || match(functions[tree.fn[n]]) ? 1 : 0;
    if (hit[n]) total += self[n];
  }
  return total;
}

// merged folds nodes of one function below one parent that differ by line only.
function merged(tree, selfs) {
  const to = new Int32Array(tree.parent.length);
  const byKey = new Map();
  const parent = [];
  const fn = [];
  const out = selfs.map(() => []);
  for (let n = 0; n < tree.parent.length; n++) {
    const p = n === 0 ? -1 : to[tree.parent[n]];
    const key = p * 1e6 + tree.fn[n];
    let at = byKey.get(key);
    if (at === undefined) {
      at = parent.length;
      byKey.set(key, at);
      parent.push(p);
      fn.push(tree.fn[n]);
      for (const o of out) o.push(0);
    }
    to[n] = at;
    selfs.forEach((s, side) => {
      out[side][at] += s[n];
    });
  }
  return { tree: { ...tree, parent, fn, line: parent.map(() => 0) }, self: out };
}

export function table(data, params, now) {
  const sides = [selection(data, params, now)];
  if (hasBase(params)) sides.push(selection(data, params, now, "base_"));
  const match = matcher(params.get("search"));
  const rows = sides.map((s) => perFunction(data, sums(data, s, now).self));
  const total = rows.map((r) => r.self.reduce((a, v) => a + v, 0));
  const share = (side, f) => (total[side] ? rows[side].self[f] / total[side] : 0);
  const order = {
    self: (a, b) => rows[0].self[b] - rows[0].self[a],
    total: (a, b) => rows[0].total[b] - rows[0].total[a],
    diff: (a, b) => (sides.length > 1 ? Math.abs(share(0, b) - share(1, b)) - Math.abs(share(0, a) - share(1, a)) : 0),
    name: (a, b) => compare(data.functions[a], data.functions[b]),
  }[params.get("sort") ?? "self"];
  if (!order) throw new BadRequest(`no such order: ${params.get("sort")}`);
  let used = [];
  for (let f = 1; f < data.functions.length; f++) {
    if (rows.some((r) => r.total[f] > 0) && (!match || match(data.functions[f]))) used.push(f);
  }
  used.sort((a, b) => order(a, b) || compare(data.functions[a], data.functions[b]));
  const limit = Number(params.get("limit") ?? 1000);
  const more = Math.max(used.length - limit, 0);
  used = used.slice(0, limit);
  const column = (side, name) => (rows[side] ? used.map((f) => rows[side][name][f]) : []);
  return {
    total: total[0],
    base_total: total[1] ?? 0,
    functions: functionColumns(data, used, match),
    self: column(0, "self"),
    functions_total: column(0, "total"),
    base_self: column(1, "self"),
    base_functions_total: column(1, "total"),
    more,
  };
}

function perFunction(data, self) {
  const out = { self: new Float64Array(data.functions.length), total: new Float64Array(data.functions.length) };
  const seen = new Int32Array(data.functions.length).fill(-1);
  for (let n = 0; n < self.length; n++) {
    if (self[n] === 0) continue;
    out.self[data.fn[n]] += self[n];
    for (let at = n; at > 0; at = data.parent[at]) {
      const f = data.fn[at];
      if (seen[f] === n) continue;
      seen[f] = n;
      out.total[f] += self[n];
    }
  }
  return out;
}

export function labels(data, params, now) {
  const sel = selection(data, params, now);
  return {
    labels: [...new Set([...usual, ...data.attributes.flatMap((a) => Object.keys(a))])]
      .map((key) => {
        const values = new Map();
        visit(
          data,
          sel,
          now,
          (i, v) => {
            const value = attributeOf(data, data.attr[i], data.node[i], key) ?? "";
            if (value !== "") values.set(value, (values.get(value) ?? 0) + v);
          },
          key,
        );
        const sorted = [...values].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
        return {
          key,
          values: sorted.slice(0, 200).map(([value, total]) => {
            const hint = hintOf(data, key, value);
            return { value, total, ...(hint ? { hint } : {}) };
          }),
          more: Math.max(sorted.length - 200, 0),
        };
      })
      .filter((l) => l.values.length > 0),
  };
}

export function heatmap(data, params, now) {
  const sel = selection(data, params, now);
  const columns = Number(params.get("columns") ?? 300);
  const rows = Number(params.get("rows") ?? 20);
  const columnMs = Math.max((sel.to - sel.from) / columns, 1);
  const cells = new Float64Array(columns * rows);
  visit(data, sel, now, (i, v) => {
    const x = (data.time[i] - sel.from) / columnMs;
    const c = Math.min(Math.floor(x), columns - 1);
    cells[c * rows + Math.min(Math.floor((x - c) * rows), rows - 1)] += v;
  });
  const values = [];
  cells.forEach((v, i) => {
    if (v > 0) values.push([Math.floor(i / rows), i % rows, v]);
  });
  return {
    from: sel.from,
    to: sel.to,
    column_ms: columnMs,
    row_ms: columnMs / rows,
    columns,
    rows,
    values,
    max: values.reduce((m, v) => Math.max(m, v[2]), 0),
    untimed: 0,
  };
}

export function folded(data, params, now) {
  const { self } = sums(data, selection(data, params, now), now);
  const lines = [];
  self.forEach((v, n) => {
    if (!v) return;
    const path = [];
    for (let at = n; at > 0; at = data.parent[at]) path.push(data.functions[data.fn[at]].name.replace(/[;\n]/g, "_"));
    lines.push(`${path.reverse().join(";")} ${v}`);
  });
  return `${lines.join("\n")}\n`;
}
