// The generated host: functions, a tree of frames, and samples in columns. Every scenario yields the same shape.
import { programs } from "./programs.mjs";
import { hash, random } from "./random.mjs";

/** stopKey is the attribute of samples whose stack ends early. */
export const stopKey = "hostprofiles.stack.stop_reason";

export const period = 20408163; // ns, what 49 Hz is
const windowMs = 900_000;
const types = "kernel native go cpython jvm v8js ruby php perl beam dotnet unknown".split(" ");

class Builder {
  constructor(end) {
    this.end = end;
    this.functions = [{ key: "0", name: "all", system_name: "", file: "", line: 0, type: "root", mapping: "" }];
    this.byKey = new Map();
    this.parent = [-1];
    this.fn = [0];
    this.line = [0];
    this.children = new Map();
    this.attributes = [];
    this.sample = { time: [], node: [], attr: [], value: [], type: [] };
  }

  function(name, file, line, type, mapping) {
    const key = hash(`${name}\0${file}\0${mapping}\0${type}`);
    let at = this.byKey.get(key);
    if (at === undefined) {
      at = this.functions.length;
      this.byKey.set(key, at);
      this.functions.push({ key, name, system_name: "", file, line, type, mapping });
    }
    return at;
  }

  node(parent, fn, line) {
    const key = `${parent}/${fn}/${line}`;
    let at = this.children.get(key);
    if (at === undefined) {
      at = this.parent.length;
      this.children.set(key, at);
      this.parent.push(parent);
      this.fn.push(fn);
      this.line.push(line);
    }
    return at;
  }

  attribute(set) {
    this.attributes.push(set);
    return this.attributes.length - 1;
  }

  add(time, node, attr, value = 1, type = 0) {
    const s = this.sample;
    s.time.push(time);
    s.node.push(node);
    s.attr.push(attr);
    s.value.push(value);
    s.type.push(type);
  }

  done(extra = {}) {
    return {
      end: this.end,
      from: this.end - windowMs,
      functions: this.functions,
      parent: Int32Array.from(this.parent),
      fn: Int32Array.from(this.fn),
      line: Int32Array.from(this.line),
      attributes: this.attributes,
      time: Float64Array.from(this.sample.time),
      node: Int32Array.from(this.sample.node),
      attr: Int32Array.from(this.sample.attr),
      value: Float64Array.from(this.sample.value),
      sampleType: Uint8Array.from(this.sample.type),
      types: [
        {
          id: "samples:count:cpu:nanoseconds",
          sample_type: "samples",
          sample_unit: "count",
          period_type: "cpu",
          period_unit: "nanoseconds",
          period,
        },
      ],
      ...extra,
    };
  }
}

// parse reads a program's tree: leaves with weights, as paths of frames.
function parse(program) {
  const paths = [];
  const stack = [];
  for (const text of program.tree.split("\n").filter((l) => l.trim())) {
    const depth = (text.length - text.trimStart().length) / 2;
    const [head, source, weight] = text.trim().split(/\s*\|\s*/);
    const m = /^(.*?)(?: (kernel|native|go|cpython|jvm|v8js|ruby|php|perl|beam|dotnet|unknown))?(?: \[(.*)\])?$/.exec(
      head,
    );
    const above = stack[depth - 1] ?? program;
    const at = (source ?? "").lastIndexOf(":");
    stack.length = depth;
    stack[depth] = {
      name: m[1],
      type: m[2] ?? above.type,
      mapping: m[3] ?? (m[2] === "kernel" ? "kernel" : above.mapping),
      file: at > 0 ? source.slice(0, at) : "",
      line: at > 0 ? Number(source.slice(at + 1)) : 0,
    };
    if (Number(weight) > 0) paths.push({ frames: [...stack], weight: Number(weight) });
  }
  return paths;
}

// What leaves call besides, by type: a tree of realistic size without writing it all down.
const helpers = {
  kernel:
    "_raw_spin_lock_irqsave __alloc_skb kmem_cache_alloc native_queued_spin_lock_slowpath __check_object_size mod_memcg_state rcu_read_unlock_strict".split(
      " ",
    ),
  native:
    "__memmove_avx_unaligned_erms malloc _int_malloc _int_free __strlen_avx2 pthread_mutex_lock __vdso_clock_gettime std::_Hash_bytes".split(
      " ",
    ),
  go: "runtime.mallocgc runtime.mapaccess1_faststr runtime.memmove runtime.convTstring runtime.growslice runtime.typedmemmove runtime.nextFreeFast".split(
    " ",
  ),
  jvm: "java.lang.String.hashCode java.util.ArrayList.add java.lang.StringLatin1.equals java.util.HashMap.resize java.lang.AbstractStringBuilder.append".split(
    " ",
  ),
  cpython: "<genexpr> Config.get Cache.__getitem__ normalize Row.__init__".split(" "),
  v8js: "get (anonymous) hasOwnProperty forEach diffProps".split(" "),
  ruby: "Array#each Hash#fetch Kernel#public_send String#gsub".split(" "),
};

// grow gives a path's leaf a few random children, and those some of their own.
function grow(path, rnd, depth = 0) {
  const names = helpers[path.frames.at(-1).type];
  if (!names || path.weight < 1.5 || depth > 3) return [path];
  const out = [{ ...path, weight: path.weight * 0.55 }];
  const n = 1 + Math.floor(rnd() * 3);
  for (let i = 0; i < n; i++) {
    const leaf = path.frames.at(-1);
    const kernel = leaf.type === "native" && rnd() < 0.12;
    const pool = kernel ? helpers.kernel : names;
    const name = pool[Math.floor(rnd() * pool.length)];
    const frame = { ...leaf, name, ...(kernel ? { type: "kernel", mapping: "kernel" } : {}), file: "", line: 0 };
    out.push(...grow({ frames: [...path.frames, frame], weight: (path.weight * 0.45) / n }, rnd, depth + 1));
  }
  return out;
}

// intensity is how busy a program is at a time: what the heatmap shows. drift is its own slow wandering.
function intensity(program, sinceEnd, drift) {
  const s = sinceEnd / 1000;
  const every = (period, from, to) => ((s % period) + period) % period >= from && ((s % period) + period) % period < to;
  let v = 0.35 + drift;
  if (program.name === "orders-api" && s < -205 && s > -232) v += 3.6;
  if (program.name === "postgres" && every(60, 12, 19)) v += 2.2;
  if (program.name === "java" && every(23, 4, 5.6)) v += 3;
  if (program.name === "node" && every(10, 2.2, 2.9)) v += 6;
  if (program.name === "backup.pl") v = every(180, 40, 75) ? 7 : 0;
  if (program.name === "nginx" && every(1, 0, 0.2)) v += 1.2;
  return v;
}

const cumulate = (weights) =>
  weights.map(
    (
      (sum) => (w) =>
        (sum += w)
    )(0),
  );

function host(end, wanted = programs, cut = false) {
  const b = new Builder(end);
  const rnd = random(7);
  for (const program of wanted) {
    const paths = parse(program)
      .flatMap((p) => grow(p, rnd))
      .map((p) => ({
        ...p,
        node: p.frames.reduce((at, f) => b.node(at, b.function(f.name, f.file, f.line, f.type, f.mapping), f.line), 0),
        leaf: p.frames[p.frames.length - 1],
      }));
    const attrs = program.pids.flatMap((pid) =>
      program.threads.map((thread) =>
        b.attribute({
          "process.executable.name": program.name,
          "process.executable.path": `/opt/${program.service}/releases/2026-11-18T09-30-00Z/bin/${program.name}`,
          "process.pid": String(pid),
          "thread.name": thread,
          "service.name": program.service,
          "container.id": program.container,
          "k8s.pod.name": program.pod,
          [stopKey]: (cut || thread === program.cutThread) && program.stop ? program.stop : "",
        }),
      ),
    );
    // What got slower in the last five minutes: matching rules, and a Python function that became faster.
    const late = (p) =>
      p.frames.some((f) => f.name.endsWith("backtrack")) ? 2.4 : p.leaf.name === "Recommender.score" ? 0.35 : 1;
    const early = cumulate(paths.map((p) => p.weight));
    const later = cumulate(paths.map((p) => p.weight * late(p)));
    let drift = 0.3;
    for (let t = -windowMs; t < 0; t += 100) {
      drift = Math.min(Math.max(drift + (rnd() - 0.5) * 0.12, 0), 0.9);
      const n = 4.9 * program.load * intensity(program, t, drift);
      const sums = t > -300_000 ? later : early;
      for (let i = Math.floor(n + rnd()); i > 0; i--) {
        const at = rnd() * sums.at(-1);
        b.add(
          end + t + Math.floor(rnd() * 100),
          paths[sums.findIndex((v) => at < v)].node,
          attrs[Math.floor(rnd() * attrs.length)],
        );
      }
    }
  }
  return b.done();
}

// huge has 100,000 distinct stacks, the deepest of 1,000 frames, over every type of frame.
function huge(end) {
  const b = new Builder(end);
  const rnd = random(11);
  const words =
    "parse read write flush merge encode decode lookup insert remove visit reduce apply schedule poll copy compress hash walk match".split(
      " ",
    );
  const nouns =
    "Buffer Stream Node Index Cache Request Response Session Frame Batch Token Plan Segment Page Queue Worker".split(
      " ",
    );
  const fns = [];
  for (let i = 0; i < 6000; i++) {
    const type = types[Math.floor(rnd() ** 1.6 * types.length)];
    const name = `${nouns[Math.floor(rnd() * nouns.length)]}::${words[Math.floor(rnd() * words.length)]}${nouns[Math.floor(rnd() * nouns.length)]}_${i}`;
    fns.push(
      b.function(
        name,
        `src/${name.slice(0, 4).toLowerCase()}/file${i % 90}.cc`,
        1 + (i % 900),
        type,
        type === "kernel" ? "kernel" : `lib${i % 40}.so`,
      ),
    );
  }
  const any = () => fns[Math.floor(rnd() ** 2 * fns.length)];
  const attrs = programs.map((p) =>
    b.attribute({
      "process.executable.name": p.name,
      "process.pid": String(p.pids[0]),
      "thread.name": p.threads[0],
      "service.name": p.service,
      "container.id": p.container,
      "k8s.pod.name": p.pod,
      [stopKey]: "",
    }),
  );
  const inner = [];
  const depth = [0];
  const extend = (at, by) => {
    for (let i = 0; i < by; i++) {
      const next = b.node(at, any(), 0);
      depth[next] = depth[at] + 1;
      inner.push(next);
      at = next;
    }
    return at;
  };
  const starts = Array.from({ length: 24 }, () => extend(0, 3 + Math.floor(rnd() * 5)));
  b.add(end - 1000, extend(starts[0], 1000 - depth[starts[0]]), 0, 400);
  for (let stacks = 1; stacks < 100_000; stacks++) {
    let from = rnd() < 0.3 ? starts[Math.floor(rnd() * starts.length)] : inner[Math.floor(rnd() ** 0.7 * inner.length)];
    if (depth[from] > 990) from = starts[stacks % starts.length];
    const leaf = extend(from, 1 + Math.floor(rnd() * 4));
    const value = 1 + Math.floor(2 / (rnd() + 0.004));
    b.add(end - Math.floor(rnd() * windowMs), leaf, stacks % attrs.length, value);
  }
  return b.done();
}

// What a profile may bring along if someone means harm: markup, script, control characters, direction marks, megabytes.
export const hostileNames = [
  "<script>window.__xss=1</script>",
  '<img src=x onerror="window.__xss=2">',
  '"><svg onload=window.__xss=3>',
  "javascript:window.__xss=4",
  "{{constructor.constructor('window.__xss=5')()}}",
  "\u202Egpj.exe\u202C and \u2066isolated\u2069",
  "line\nbreak\tand\u0000null\u001b[31mred",
  "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 漢字 \u0301\u0301\u0301 👩‍👩‍👧‍👦",
  "A".repeat(2_000_000),
  "   ",
  "__proto__",
  "\ud800 lone surrogate",
];

function hostile(end) {
  const b = new Builder(end);
  const attr = b.attribute({
    "process.executable.name": hostileNames[1],
    "process.pid": "1",
    "thread.name": hostileNames[5],
    "service.name": hostileNames[0],
    "container.id": "",
    "k8s.pod.name": "A".repeat(5000),
    ["K".repeat(300)]: "V".repeat(300),
    "a.key.of.many.parts.that.ends.nowhere.near.here":
      "a value with many words that does not end either, not even here",
    [stopKey]: hostileNames[0],
  });
  const main = b.node(0, b.function("main", "main.c", 1, "native", "app"), 1);
  hostileNames.forEach((name, i) => {
    const f = b.node(
      main,
      b.function(
        name,
        name.slice(0, 300_000),
        2_147_483_647,
        i % 2 ? "native" : name.slice(0, 60),
        name.slice(0, 2000),
      ),
      0,
    );
    const leaf = b.node(f, b.function(`leaf ${i}`, "leaf.c", i, "kernel", "kernel"), i);
    b.add(end - 5000 - 1000 * i, leaf, attr, 20 + i);
  });
  return b.done({ problem: hostileNames[0] });
}

const made = new Map();

/** dataset is made once: nothing changes it. */
export function dataset(scenario, end) {
  const key = `${scenario} ${end}`;
  if (!made.has(key)) made.set(key, generate(scenario, end));
  return made.get(key);
}

function generate(scenario, end) {
  switch (scenario) {
    case "huge":
      return huge(end);
    case "small":
      return host(end, programs.slice(0, 1));
    case "hostile":
      return hostile(end);
    case "cut":
      return host(end, programs, true);
    case "empty":
    case "off":
      return new Builder(end).done({ types: [] });
    default:
      return host(end);
  }
}
