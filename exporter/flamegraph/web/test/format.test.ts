import assert from "node:assert/strict";
import { test } from "node:test";
import { marks, slices, ticks } from "../src/model/axis";
import {
  between,
  bytes,
  clock,
  factor,
  nanoseconds,
  nanosecondsPer,
  parseClock,
  percent,
  points,
  samples,
  span,
  value,
} from "../src/model/format";

test("durations", () => {
  const cases: [number, string][] = [
    [0, "0 s"],
    [0.5, "0.50 ns"],
    [1500, "1.50 µs"],
    [20408163, "20.4 ms"],
    [999.6e6, "1.00 s"],
    [87.25e9, "87.3 s"],
    [119e9, "119 s"],
    [120e9, "2.00 min"],
    [597e9, "9.95 min"],
    [600e9, "10.0 min"],
    [602e9, "10.0 min"],
    [61 * 60e9 + 4e9, "61.1 min"],
    [7200e9, "2.00 h"],
    [-754e9, "-12.6 min"],
  ];
  for (const [ns, text] of cases) assert.equal(nanoseconds(ns), text);
});

test("shares", () => {
  assert.equal(percent(0), "0%");
  assert.equal(percent(1), "100%");
  assert.equal(percent(0.99999), "100.00%");
  assert.equal(percent(0.4521), "45.2%");
  assert.equal(percent(0.00314), "0.31%");
  assert.equal(percent(0.00001), "<0.01%");
  assert.equal(percent(Number.NaN), "–");
});

test("differences have their sign", () => {
  assert.equal(points(0.031), "+3.1");
  assert.equal(points(-0.0031), "−0.31");
  assert.equal(points(0.00001), "±0");
  assert.equal(factor(0.2, 0.1), "×2.00");
  assert.equal(factor(0.1, 0), "new");
  assert.equal(factor(0, 0.1), "gone");
  assert.equal(factor(0, 0), "–");
  assert.equal(factor(1, 1e-9), ">×1000");
});

test("values stand for time where they do", () => {
  const cpu = { unit: "count", period: 20_000_000, periodUnit: "nanoseconds" };
  assert.equal(nanosecondsPer(cpu), 20_000_000);
  assert.equal(value(100, cpu), "2.00 s");
  assert.equal(samples(1, cpu), "1 sample");
  assert.equal(samples(4271, cpu), "4,271 samples");
  const alloc = { unit: "bytes", period: 524288, periodUnit: "bytes" };
  assert.equal(value(1536 * 1024, alloc), "1.50 MiB");
  assert.equal(samples(5, alloc), "");
  assert.equal(value(12345, { unit: "count", period: 0, periodUnit: "" }), "12,345");
  assert.equal(value(3, { unit: "widgets", period: 0, periodUnit: "" }), "3 widgets");
  assert.equal(bytes(134217728), "128 MiB");
  assert.equal(bytes(1023), "1,023 B");
});

test("spans", () => {
  assert.deepEqual([150, 1500, 60_000, 300_000, 330_000, 5400_000 * 2].map(span), [
    "150 ms",
    "1.5 s",
    "60 s",
    "5 min",
    "5 min 30 s",
    "3 h",
  ]);
});

test("times of another day carry their date", () => {
  const at = (day: number, hour: number) => new Date(2026, 10, day, hour, 6, 30).getTime();
  assert.equal(between(at(20, 9), at(20, 10), at(20, 14)), "09:06:30 – 10:06:30");
  assert.equal(between(at(19, 9), at(19, 10), at(20, 14)), "2026-11-19 09:06:30 – 10:06:30");
  assert.equal(between(at(19, 23), at(20, 1), at(20, 14)), "2026-11-19 23:06:30 – 01:06:30");
  assert.equal(between(at(18, 23), at(19, 1), at(20, 14)), "2026-11-18 23:06:30 – 2026-11-19 01:06:30");
});

test("typed times are read as they are written", () => {
  const now = new Date(2026, 10, 20, 14, 6, 30).getTime();
  assert.equal(parseClock("now", now), now);
  assert.equal(parseClock("-90s", now), now - 90_000);
  assert.equal(parseClock(" -5 m", now), now - 300_000);
  assert.equal(parseClock("-1h", now), now - 3600_000);
  assert.equal(parseClock("14:03", now), new Date(2026, 10, 20, 14, 3).getTime());
  assert.equal(parseClock("14:03:20.5", now), new Date(2026, 10, 20, 14, 3, 20, 500).getTime());
  assert.equal(parseClock("23:59", now), new Date(2026, 10, 19, 23, 59).getTime());
  assert.equal(parseClock("2026-11-19 10:00", now), new Date(2026, 10, 19, 10, 0).getTime());
  for (const bad of ["", "25:00", "14:60", "14", "yesterday", "14:03:99"])
    assert.equal(parseClock(bad, now), undefined, bad);
  for (const t of [now, now - 3_600_000, now - 86_400_000]) assert.equal(parseClock(clock(t, now), now), t);
});

test("ticks are round, in order, and not too many", () => {
  const from = new Date(2026, 10, 20, 13, 51, 7).getTime();
  for (const length of [200, 1000, 12_345, 300_000, 900_000, 86_400_000]) {
    for (const most of [3, 8, 15]) {
      const t = ticks(from, from + length, most);
      assert.ok(t.length > 0 && t.length <= most + 1, `${length} ${most}: ${t.length}`);
      for (let i = 1; i < t.length; i++) assert.ok(t[i]!.at > t[i - 1]!.at);
      assert.equal(new Set(t.map((x) => x.text)).size, t.length, t.map((x) => x.text).join());
    }
  }
  assert.deepEqual(ticks(5, 5, 10), []);
});

test("the texts of an axis keep clear of each other and of its ends", () => {
  const from = new Date(2026, 10, 20, 13, 51, 7, 370).getTime();
  for (const length of [40, 200, 1000, 8_100, 12_345, 300_000, 899_000, 86_400_000]) {
    for (const width of [90, 362, 700, 1412]) {
      const all = marks(from, from + length, width);
      let free = 0;
      for (const m of all) {
        assert.ok(m.left >= free, `${length} ${width}: ${JSON.stringify(all)}`);
        free = m.left + m.text.length * 6 + 10;
        assert.ok(free - 10 <= width, `${length} ${width}: ${JSON.stringify(all)}`);
      }
      if (width > 300 && length !== 40) assert.ok(all.length > 1, `${length} ${width}: ${JSON.stringify(all)}`);
    }
  }
  assert.deepEqual(marks(from, from + 1000, 0), []);
});

test("a short range has fewer columns, and no row is shorter than the time between samples", () => {
  assert.deepEqual(slices(900_000, 20.4), { columns: 300, rows: 20 });
  assert.deepEqual(slices(300_000, 20.4), { columns: 300, rows: 20 });
  assert.deepEqual(slices(12_000, 20.4), { columns: 60, rows: 9 });
  assert.deepEqual(slices(10_000, 1), { columns: 100, rows: 20 });
  assert.deepEqual(slices(10_000, 0), { columns: 100, rows: 20 });
  assert.deepEqual(slices(0, 20.4), { columns: 1, rows: 9 });
  for (let length = 1; length < 1e9; length *= 1.7) {
    for (const period of [0, 1, 20.4, 1000]) {
      const { columns, rows } = slices(length, period);
      assert.ok(columns >= 1 && columns <= 300 && rows >= 1 && rows <= 20, `${length} ${period}`);
      assert.ok(period === 0 || columns === 1 || length / columns / rows > 0.5 * period, `${length} ${period}`);
    }
  }
});
