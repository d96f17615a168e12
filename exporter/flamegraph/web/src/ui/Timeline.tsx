// The strip above every view: how much there was over the whole window, which part is looked at, and with which part it
// is compared.
import { useLayoutEffect, useState } from "preact/hooks";
import { useAnswer } from "../model/answer";
import type { HeatmapAnswer } from "../model/api";
import { edgeClass, ticks } from "../model/axis";
import { clock, nanosecondsPer, span, value } from "../model/format";
import { fixedRange, selection } from "../model/view";
import { useApp } from "./context";
import { Icon } from "./icons";
import { useSize } from "./size";
import { bounds } from "./TimeControl";
import { across, type Span, TimeSelect } from "./TimeSelect";

const columns = 240;
const height = 40;
const accept = (a: HeatmapAnswer) => a;

export function Timeline() {
  const app = useApp();
  const { store, view, status, unit, theme, revision } = app;
  const [marked, setMarked] = useState<Span | null>(null);
  const [hover, setHover] = useState<number | null>(null);
  const params = selection({ ...view, base: null, range: { live: false, seconds: null, from: null, to: null } });
  params.set("columns", String(columns));
  params.set("rows", "1");
  const { data } = useAnswer("heatmap", params, revision, accept);
  const { ref: canvas, element, width } = useSize<HTMLCanvasElement>();

  useLayoutEffect(() => {
    if (element && data && width > 0) draw(element, data, width, theme);
  }, [element, data, width, theme]);

  if (!data || !(data.to > data.from)) return <div class="timeline timeline-empty" />;
  const current = bounds(view.range, data.to, data);
  const base = view.base ? bounds(view.base.range ?? view.range, data.to, data) : null;
  const sum = (s: Span) => {
    let v = 0;
    for (const [c, , x] of data.values) {
      const at = data.from + (c + 0.5) * data.column_ms;
      if (at >= s.from && at < s.to) v += x;
    }
    return v;
  };
  const describe = (s: Span) => {
    const v = sum(s);
    const ns = nanosecondsPer(unit);
    const cpus =
      ns > 0 && app.type.period_type === "cpu" ? `, ${((v * ns) / 1e6 / (s.to - s.from)).toFixed(2)} CPUs` : "";
    return `${value(v, unit)}${cpus}`;
  };
  const apply = (s: Span) => {
    setMarked(null);
    if (app.pick) {
      app.setPick(false);
      store.go({
        range: view.range.live ? fixedRange(current.from, current.to) : view.range,
        base: { range: fixedRange(s.from, s.to), filters: view.base?.filters ?? view.filters },
        focus: "",
        node: "",
      });
    } else store.go({ range: fixedRange(s.from, s.to) });
  };
  const marks = ticks(data.from, data.to, Math.max(Math.floor(width / 90), 2));
  const dropped = status.window.dropped_until;
  const lost =
    dropped !== null && dropped > data.from ? across({ from: data.from, to: dropped }, data.from, data.to) : null;
  const column = hover === null ? null : Math.min(Math.floor((hover - data.from) / data.column_ms), columns - 1);
  const told =
    marked ??
    (column === null
      ? null
      : { from: data.from + column * data.column_ms, to: data.from + (column + 1) * data.column_ms });
  const edge = across(current, data.from, data.to);
  const other = base ? across(base, data.from, data.to) : null;
  const mark = marked ? across(marked, data.from, data.to) : null;
  return (
    <section class={`timeline ${app.pick ? "timeline-pick" : ""}`} aria-label="Timeline">
      <TimeSelect
        from={data.from}
        to={data.to}
        step={data.column_ms}
        label={app.pick ? "Timeline: mark the range to compare with" : "Timeline: mark a range to look at"}
        selected={marked}
        describe={describe}
        onHover={(at) => setHover(at)}
        onSelect={setMarked}
        onApply={apply}
      >
        <canvas ref={canvas} class="timeline-canvas" style={{ height: `${height}px` }} aria-hidden="true" />
        {lost && <div class="timeline-lost" style={lost} title="Dropped to stay within the memory budget" />}
        {edge && (
          <>
            <div class="timeline-shade" style={{ left: "0", width: edge.left }} />
            <div class="timeline-shade" style={{ left: `calc(${edge.left} + ${edge.width})`, right: "0" }} />
            <div class="timeline-current" style={edge} />
          </>
        )}
        {view.base && edge && (
          <span class="timeline-letter compare-mark-A" style={{ left: edge.left }}>
            A
          </span>
        )}
        {other && <div class="timeline-base" style={other} />}
        {other && (
          <span class="timeline-letter compare-mark-B" style={{ left: other.left }}>
            B
          </span>
        )}
        {mark && <div class="timeline-mark" style={mark} />}
        {column !== null && !marked && (
          <div class="timeline-cursor" style={{ left: `${((column + 0.5) / columns) * 100}%` }} />
        )}
      </TimeSelect>
      <div class="timeline-axis" aria-hidden="true">
        {marks.map((m) => (
          <span
            key={m.at}
            class={edgeClass((m.at - data.from) / (data.to - data.from))}
            style={{ left: `${((m.at - data.from) / (data.to - data.from)) * 100}%` }}
          >
            {m.text}
          </span>
        ))}
      </div>
      {told && (
        <div class="timeline-told" aria-hidden="true">
          {marked ? `${clock(told.from)} – ${clock(told.to)} · ${span(told.to - told.from)}` : clock(told.from)} ·{" "}
          {describe(told)}
        </div>
      )}
      {app.pick && (
        <div class="timeline-hint" role="status">
          <Icon name="compare" size={14} /> Mark the range to compare with, or
          <button type="button" class="link-button" onClick={() => app.setPick(false)}>
            cancel
          </button>
        </div>
      )}
    </section>
  );
}

function draw(el: HTMLCanvasElement, data: HeatmapAnswer, width: number, theme: "light" | "dark"): void {
  const ratio = window.devicePixelRatio || 1;
  el.width = Math.round(width * ratio);
  el.height = Math.round(height * ratio);
  const ctx = el.getContext("2d")!;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, width, height);
  const bars = new Float64Array(data.columns);
  for (const [c, , v] of data.values) if (c >= 0 && c < bars.length) bars[c] = bars[c]! + v;
  const most = bars.reduce((a, b) => Math.max(a, b), 0) || 1;
  const w = width / bars.length;
  ctx.fillStyle = theme === "light" ? "#e0853a" : "#d98a4b";
  bars.forEach((v, i) => {
    if (v === 0) return;
    const h = Math.max((v / most) * (height - 3), 1);
    ctx.fillRect(i * w, height - h, Math.max(w - (w > 3 ? 1 : 0), 0.6), h);
  });
}
