// Time axes: where ticks go and what they say, and into how many slices a range is cut.
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

const characterWidth = 6.2; // px, of figures in the axes' font
const between = 14; // px

/** marks are ticks with the place of their text, in px: none hangs over an end of the axis, or comes near another one. */
export function marks(from: number, to: number, width: number): { at: number; text: string; left: number }[] {
  const out: { at: number; text: string; left: number }[] = [];
  let free = 0;
  for (const t of ticks(from, to, Math.max(Math.floor(width / 90), 1))) {
    const w = t.text.length * characterWidth;
    const middle = ((t.at - from) / (to - from)) * width;
    const left = Math.max(Math.min(middle - w / 2, width - w), 0);
    if (left < free || w > width) continue;
    out.push({ ...t, left });
    free = left + w + between;
  }
  return out;
}

const columnSteps = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 3e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3,
];
const mostRows = 20;
const fewestRows = 8;

/**
 * slices cuts a range into the columns and rows of a heatmap. A row is no shorter than the time between two samples of a
 * thread, or a busy one would look idle most of the time; a short range has fewer columns.
 */
export function slices(length: number, periodMs: number): { columns: number; rows: number } {
  const most = length >= 240e3 ? 300 : 150;
  const rows = (step: number) => (periodMs > 0 ? Math.min(Math.floor(step / periodMs), mostRows) : mostRows);
  const step =
    columnSteps.find((s) => length / s <= most && rows(s) >= fewestRows) ??
    Math.max(length / most, columnSteps[columnSteps.length - 1]!);
  return { columns: Math.max(Math.ceil(length / step), 1), rows: Math.max(rows(step), 1) };
}
