// Time axes: where ticks go and what they say.
import { clock } from "./format";

const steps = [
  10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3,
  21600e3, 86400e3,
];

/** ticks are round times in a range, at most so many, with text that is as fine as the step. */
export function ticks(from: number, to: number, most: number): { at: number; text: string }[] {
  const length = to - from;
  if (!(length > 0) || most < 1) return [];
  const step = steps.find((s) => length / s <= most) ?? Math.ceil(length / most / 86400e3) * 86400e3;
  const zone = new Date(from).getTimezoneOffset() * 60_000;
  const out: { at: number; text: string }[] = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) {
    const full = clock(at, at, step < 1000);
    out.push({ at, text: step >= 60e3 ? full.slice(0, 5) : step < 1000 ? full.slice(0, step >= 100 ? -2 : -1) : full });
  }
  return out;
}

/** edgeClass keeps text at the ends of an axis from hanging over. */
export function edgeClass(share: number): string {
  return share < 0.02 ? "axis-first" : share > 0.98 ? "axis-last" : "";
}
