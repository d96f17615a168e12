// Choosing a range on a time axis, by dragging or by keys. What is drawn below it is the children's affair.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { clock, span } from "../model/format";

export interface Span {
  from: number;
  to: number;
}

interface TimeSelectProps {
  from: number;
  to: number;
  step: number; // ms that one press of an arrow key goes
  label: string;
  selected: Span | null;
  describe: (s: Span) => string;
  onHover: (at: number | null, place: { x: number; y: number }) => void;
  onSelect: (s: Span | null) => void; // while it is being chosen
  onApply: (s: Span, byKey: boolean) => void;
  class?: string;
  children: ComponentChildren;
}

export function TimeSelect(p: TimeSelectProps) {
  const box = useRef<HTMLDivElement>(null);
  const drag = useRef<{ at: number; x: number; moved: boolean } | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const anchor = useRef<number | null>(null);
  const length = p.to - p.from || 1;
  const snap = (t: number) => Math.min(Math.max(p.from + Math.round((t - p.from) / p.step) * p.step, p.from), p.to);
  const floor = (t: number) => p.from + Math.floor((t - p.from) / p.step) * p.step;
  const timeAt = (e: PointerEvent) => {
    const r = box.current!.getBoundingClientRect();
    return p.from + Math.min(Math.max((e.clientX - r.left) / r.width, 0), 1) * length;
  };
  const between = (a: number, b: number): Span => {
    const from = Math.max(floor(Math.min(a, b)), p.from);
    return { from, to: Math.min(Math.max(snap(Math.max(a, b) + p.step / 2), from + p.step), p.to) };
  };

  const onPointerDown = (e: PointerEvent) => {
    if (e.button !== 0) return;
    box.current!.setPointerCapture(e.pointerId);
    drag.current = { at: timeAt(e), x: e.clientX, moved: false };
  };
  const onPointerMove = (e: PointerEvent) => {
    p.onHover(timeAt(e), { x: e.clientX, y: e.clientY });
    const d = drag.current;
    if (!d) return;
    if (Math.abs(e.clientX - d.x) > 3) d.moved = true;
    if (d.moved) p.onSelect(between(d.at, timeAt(e)));
  };
  const onPointerUp = (e: PointerEvent) => {
    const d = drag.current;
    drag.current = null;
    if (!d) return;
    setCursor(null);
    anchor.current = null;
    if (d.moved) p.onApply(between(d.at, timeAt(e)), false);
    else p.onSelect(null);
  };

  const onKeyDown = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.altKey || e.metaKey) return;
    const by = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: 1,
      ArrowDown: -1,
      PageUp: 10,
      PageDown: -10,
      Home: -1e9,
      End: 1e9,
    }[e.key];
    if (by !== undefined) {
      const at = cursor ?? (by > 0 ? p.from - p.step : p.to);
      const next = Math.min(Math.max(at + by * p.step, p.from), p.to - p.step);
      if (!e.shiftKey) anchor.current = null;
      else if (anchor.current === null) anchor.current = Math.min(Math.max(at, p.from), p.to - p.step);
      setCursor(next);
      p.onSelect(between(anchor.current ?? next, next));
    } else if (e.key === "Enter" && p.selected) {
      p.onApply(p.selected, true);
      setCursor(null);
      anchor.current = null;
    } else if (e.key === "Escape" && p.selected) {
      p.onSelect(null);
      setCursor(null);
      anchor.current = null;
    } else return;
    e.preventDefault();
    e.stopPropagation();
  };

  const text = p.selected
    ? `${clock(p.selected.from)} to ${clock(p.selected.to)}, ${span(p.selected.to - p.selected.from)}: ${p.describe(p.selected)}. Enter to show it`
    : "nothing marked";
  return (
    <div
      ref={box}
      class={`time-select ${p.class ?? ""}`}
      role="slider"
      tabIndex={0}
      aria-label={p.label}
      aria-valuemin={Math.round(p.from)}
      aria-valuemax={Math.round(p.to)}
      aria-valuenow={Math.round(cursor ?? p.selected?.from ?? p.from)}
      aria-valuetext={text}
      onPointerDown={onPointerDown}
      onPointerMove={onPointerMove}
      onPointerUp={onPointerUp}
      onPointerCancel={() => {
        drag.current = null;
      }}
      onPointerLeave={() => p.onHover(null, { x: 0, y: 0 })}
      onKeyDown={onKeyDown}
    >
      {p.children}
    </div>
  );
}

/** across places a range on an axis, for CSS. */
export function across(s: Span, from: number, to: number): { left: string; width: string } | null {
  const length = to - from || 1;
  const a = Math.max((s.from - from) / length, 0);
  const b = Math.min((s.to - from) / length, 1);
  return b <= a ? null : { left: `${100 * a}%`, width: `${100 * (b - a)}%` };
}
