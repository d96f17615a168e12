// Numbers for people.

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** significant gives three digits that count, without an exponent. */
function significant(v: number): string {
  const a = Math.abs(v);
  if (a >= 100) return grouped.format(v);
  if (a >= 10) return v.toFixed(1);
  return v.toFixed(2);
}

export function count(v: number): string {
  return grouped.format(v);
}

/** joined is two units, the smaller one only if there is something of it. */
function joined(big: number, bigUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${big} ${bigUnit}` : `${big} ${bigUnit} ${small} ${smallUnit}`;
}

/** nanoseconds is a duration in one unit with three digits: what grows while one looks keeps its form. */
export function nanoseconds(ns: number): string {
  const s = ns / 1e9;
  const a = Math.abs(s);
  if (a === 0) return "0 s";
  if (a >= 119.5 * 60) return `${significant(s / 3600)} h`;
  if (a >= 119.5) return `${significant(s / 60)} min`;
  if (a >= 0.9995) return `${significant(s)} s`;
  if (a >= 0.9995e-3) return `${significant(s * 1e3)} ms`;
  if (a >= 0.9995e-6) return `${significant(s * 1e6)} µs`;
  return `${significant(ns)} ns`;
}

export function bytes(v: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let a = v;
  while (Math.abs(a) >= 1023.5 && at < units.length - 1) {
    a /= 1024;
    at++;
  }
  return `${at === 0 ? grouped.format(a) : significant(a)} ${units[at]}`;
}

/** share of a whole, 0 to 1, as percent. */
export function percent(share: number): string {
  if (!Number.isFinite(share)) return "–";
  const p = share * 100;
  const a = Math.abs(p);
  if (a === 0) return "0%";
  if (a < 0.01) return p < 0 ? ">−0.01%" : "<0.01%";
  if (a >= 99.95) return `${p.toFixed(a >= 100 ? 0 : 2)}%`;
  return `${p.toFixed(a < 1 ? 2 : 1)}%`.replace("-", "−");
}

/** points is a difference of two shares, in percentage points with its sign. */
export function points(diff: number): string {
  if (!Number.isFinite(diff)) return "–";
  const p = diff * 100;
  if (Math.abs(p) < 0.005) return "±0";
  return `${p > 0 ? "+" : "−"}${Math.abs(p).toFixed(Math.abs(p) < 1 ? 2 : 1)}`;
}

/** factor says how a share changed: ×2.3, new, gone. */
export function factor(now: number, base: number): string {
  if (now === 0 && base === 0) return "–";
  if (base === 0) return "new";
  if (now === 0) return "gone";
  const f = now / base;
  if (f >= 1000) return ">×1000";
  if (f < 0.001) return "<×0.001";
  return `×${f >= 10 ? f.toFixed(0) : f >= 0.1 ? f.toFixed(2) : f.toFixed(3)}`;
}

export interface Unit {
  unit: string;
  period: number;
  periodUnit: string;
}

/** time tells whether values stand for time, and how many nanoseconds one is. */
export function nanosecondsPer(u: Unit): number {
  if (u.unit === "nanoseconds") return 1;
  if (u.unit === "microseconds") return 1e3;
  if (u.unit === "milliseconds") return 1e6;
  if (u.unit === "seconds") return 1e9;
  if (u.unit === "count" && u.periodUnit === "nanoseconds" && u.period > 0) return u.period;
  return 0;
}

/** value is the main way to say a value: as time where it stands for time. */
export function value(v: number, u: Unit): string {
  const ns = nanosecondsPer(u);
  if (ns > 0) return nanoseconds(v * ns);
  if (u.unit === "bytes") return bytes(v);
  return u.unit === "count" ? count(v) : `${count(v)} ${u.unit}`;
}

/** samples is the raw number beside the time, where both say something. */
export function samples(v: number, u: Unit): string {
  if (u.unit !== "count" || nanosecondsPer(u) === 0) return "";
  return `${count(v)} ${v === 1 ? "sample" : "samples"}`;
}

const two = (n: number) => String(n).padStart(2, "0");

/** clock is the local time of day, with its date if that is not today's. */
export function clock(ms: number, today = Date.now(), fraction = false): string {
  const d = new Date(ms);
  const t = new Date(today);
  let out = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  if (fraction) out += `.${String(d.getMilliseconds()).padStart(3, "0")}`;
  const sameDay = d.getFullYear() === t.getFullYear() && d.getMonth() === t.getMonth() && d.getDate() === t.getDate();
  return sameDay ? out : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${out}`;
}

/** between is a range of time, with its date once if all of it is of another day. */
export function between(from: number, to: number, today = Date.now()): string {
  const [a, b] = [clock(from, today), clock(to, today)];
  const [day, time] = b.split(" ");
  return `${a} – ${time && a.startsWith(`${day} `) ? time : b}`;
}

/** span is a length of time in words. */
export function span(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9950 && Math.round(ms / 100) % 10 !== 0) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  if (s < 120) return `${s} s`;
  const m = Math.floor(s / 60);
  return m < 120 ? joined(m, "min", s % 60, "s") : joined(Math.floor(m / 60), "h", m % 60, "min");
}

/**
 * parseClock reads a typed time: 14:03, 14:03:20.5, 2026-11-20 14:03, or -5m, -90s before now. Local time; a time of day
 * is the latest that is not more than a minute ahead of now.
 */
export function parseClock(text: string, now: number): number | undefined {
  const t = text.trim().toLowerCase();
  if (t === "now") return now;
  const ago = /^-\s*(\d+(?:\.\d+)?)\s*(s|m|min|h)?$/.exec(t);
  if (ago) return now - Number(ago[1]) * { s: 1e3, m: 60e3, min: 60e3, h: 3600e3 }[ago[2] ?? "s"]!;
  const m = /^(?:(\d{4})-(\d\d?)-(\d\d?)[ t])?(\d\d?):(\d\d)(?::(\d\d)(?:\.(\d{1,3}))?)?$/.exec(t);
  if (!m || Number(m[4]) > 23 || Number(m[5]) > 59 || Number(m[6] ?? 0) > 59) return undefined;
  const d = new Date(now);
  if (m[1]) d.setFullYear(Number(m[1]), Number(m[2]) - 1, Number(m[3]));
  d.setHours(Number(m[4]), Number(m[5]), Number(m[6] ?? 0), Number((m[7] ?? "0").padEnd(3, "0")));
  if (!m[1] && d.getTime() > now + 60_000) d.setDate(d.getDate() - 1);
  return d.getTime();
}
