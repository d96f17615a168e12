// A collector with generated data, for looking at the page and for its tests: node mock/server.mjs [scenario] [port].
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { dataset, hostileNames, stopKey } from "./data.mjs";
import { BadRequest, flamegraph, folded, heatmap, labels, selection, table, visit } from "./query.mjs";

const dist = join(dirname(fileURLToPath(import.meta.url)), "../../internal/assets/dist");
const kinds = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};

function status(state) {
  const { data, now, scenario } = state;
  const all = selection(data, new URLSearchParams(), now);
  let samples = 0;
  const cut = new Map();
  const of = new Map();
  visit(data, all, now, (i, v) => {
    samples += v;
    const set = data.attributes[data.attr[i]];
    const pid = set["process.pid"];
    of.set(pid, (of.get(pid) ?? 0) + v);
    if (set[stopKey]) cut.set(set, (cut.get(set) ?? 0) + v);
  });
  const lossy = scenario === "lossy";
  const waiting = data.types.length === 0;
  const from = Math.max(data.from, now - 900_000);
  return {
    now,
    version: "0.3.0 (mock)",
    window: {
      from: waiting ? 0 : from,
      to: waiting ? 0 : now,
      seconds: 900,
      bytes: waiting ? 0 : 38_213_455,
      budget_bytes: 134_217_728,
      samples,
      stacks: waiting ? 0 : data.parent.length,
      dropped_until: lossy ? from + 180_000 : null,
    },
    types: data.types.map((t) => ({ ...t, samples })),
    payloads: {
      accepted: waiting ? 0 : 180,
      refused: lossy ? 2 : 0,
      skewed_profiles: lossy ? 3 : 0,
      skew_ms: lossy ? 86_400_000 : 0,
      last_error: lossy ? "resource 0, scope 0, profile 1, sample 17: location index 99 is out of range" : "",
    },
    receivers:
      scenario === "norecv"
        ? []
        : [
            {
              name: data.problem ?? "hostprofiles",
              seen: now - 4000,
              taken: samples + 40,
              delivered: lossy ? samples - 1500 : samples,
              lost: lossy ? { ring_full: 1210, crash: 330 } : {},
              kernel_skipped: 12,
              stops: { root: Math.round(samples * 0.984), no_rule: Math.round(samples * 0.014), no_mapping: 37 },
              processes: 214,
              executables: 171,
              problem:
                scenario === "problem" || scenario === "off"
                  ? "the perf events could not be opened: permission denied\n  CAP_PERFMON is missing: samples of the CPUs\n  CAP_BPF is missing: programs in the kernel"
                  : "",
            },
          ],
    incomplete: [...cut].map(([set, n]) => ({
      process: set["process.executable.name"],
      pid: set["process.pid"],
      reason: set[stopKey],
      samples: n,
      of: of.get(set["process.pid"]),
    })),
  };
}

// What the collector says of reasons; that of a mock has words of its own.
const reasons = {
  reasons: [
    { reason: "root", complete: true, means: "complete: all of it", when: "as a rule", do: "nothing" },
    {
      reason: "no_rule",
      complete: false,
      means: "a gap in the unwind information",
      when: "assembler without directives",
      do: "give it its directives",
    },
  ],
  guessed: "found by searching",
};

const api = {
  status: (state) => status(state),
  reasons: () => reasons,
  flamegraph: (s, q) => flamegraph(s.data, q, s.now),
  table: (s, q) => table(s.data, q, s.now),
  labels: (s, q) => labels(s.data, q, s.now),
  heatmap: (s, q) => heatmap(s.data, q, s.now),
};

function download(name, state, q) {
  if (name.endsWith("folded")) return ["text/plain; charset=utf-8", folded(state.data, q, state.now)];
  if (name.endsWith(".speedscope.json")) return ["application/json", JSON.stringify({ profiles: [] })];
  if (name.endsWith(".otlp.json")) return ["application/json", JSON.stringify({ resourceProfiles: [] })];
  // Not a real profile: only that the page asks for the right one is tested here.
  return ["application/octet-stream", gzipSync(folded(state.data, q, state.now))];
}

async function file(path) {
  const name = path === "/" ? "index.html" : normalize(path).slice(1);
  const body = await readFile(join(dist, name));
  return { body, kind: kinds[name.split(".").pop()] ?? "application/octet-stream" };
}

/**
 * start serves a scenario: normal, small, empty, huge, hostile, lossy, cut (a process with incomplete stacks), problem, off
 * (problem, and no profiles), norecv, down (no answer), error (500 for everything). The clock stands still unless it is told to run; what it returns can change the scenario on the way.
 */
export async function start({ scenario = "normal", port = 0, now = Date.now(), running = false, log = false } = {}) {
  const began = Date.now();
  // A running clock needs what is yet to come.
  const end = running ? now + 600_000 : now;
  const state = { scenario, data: dataset(scenario, end), now, requests: [], delay: 0, replies: new Map() };
  const headers = JSON.parse(await readFile(join(dist, "headers.json"), "utf8"));
  const server = createServer(async (req, res) => {
    const url = new URL(req.url, "http://mock");
    state.requests.push(req.url);
    if (running) state.now = now + (Date.now() - began);
    const send = (code, kind, body, extra = {}) => {
      res.writeHead(code, { ...headers, "Content-Type": kind, "Cache-Control": "no-store", ...extra });
      res.end(body);
    };
    try {
      if (url.pathname.startsWith("/api/")) {
        if (state.scenario === "down") return void req.socket.destroy();
        if (state.delay) await new Promise((done) => setTimeout(done, state.delay));
        const name = url.pathname.slice(5);
        if (state.scenario === "error" && name !== "status" && name !== "reasons")
          return send(500, "application/json", JSON.stringify({ error: "the window is being rebuilt" }));
        if (!Object.hasOwn(api, name))
          return send(404, "application/json", JSON.stringify({ error: "no such endpoint" }));
        const t0 = performance.now();
        const body = JSON.stringify(api[name](state, url.searchParams));
        if (log) console.log(`${(performance.now() - t0).toFixed(0)} ms ${body.length} ${req.url}`);
        return send(200, "application/json", body);
      }
      if (/^\/(pprof|folded|profile[.a-z]*)$/.test(url.pathname)) {
        const [kind, body] = download(url.pathname.slice(1), state, url.searchParams);
        return send(200, kind, body, { "Content-Disposition": `attachment; filename=${url.pathname.slice(1)}` });
      }
      const { body, kind } = await file(url.pathname);
      return send(200, kind, body);
    } catch (err) {
      if (err.code === "ENOENT") return send(404, "text/plain", "not found");
      const code = err instanceof BadRequest ? 400 : (err.status ?? 500);
      return send(code, "application/json", JSON.stringify({ error: err.message }));
    }
  });
  await new Promise((done) => server.listen(port, "127.0.0.1", done));
  return {
    state,
    url: `http://127.0.0.1:${server.address().port}/`,
    use(next) {
      state.scenario = next;
      state.data = dataset(next, end);
    },
    close: () => {
      server.closeAllConnections();
      return new Promise((done) => server.close(done));
    },
  };
}

export { hostileNames };

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const mock = await start({
    scenario: process.argv[2] ?? "normal",
    port: Number(process.argv[3] ?? 4141),
    running: true,
    log: true,
  });
  console.log(mock.url);
}
