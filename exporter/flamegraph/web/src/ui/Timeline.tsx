// The strip above every view: how much there was over the whole window, which part is looked at, and with which part it
// is compared. What has other filters is a strip of its own.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import type { Theme } from "../graph/colors";
import { useAnswer } from "../model/answer";
import type { HeatmapAnswer } from "../model/api";
import { marks } from "../model/axis";
import { filtersText } from "../model/describe";
import { clock, nanosecondsPer, span, value } from "../model/format";
import { type Filter, fixedRange, type Range, sameFilters, selection, type View } from "../model/view";
import { useApp } from "./context";
import { Icon } from "./icons";
import { useSize } from "./size";
import { bounds } from "./TimeControl";
import { across, type Span, TimeSelect } from "./TimeSelect";

const columns = 240;
const accept = (a: HeatmapAnswer) => a;
const whole: Range = { live: false, seconds: null, from: null, to: null };

/** asked is the question for what some filters find over the whole window. */
function asked(view: View, filters: Filter[]): URLSearchParams {
  const params = selection({ ...view, filters, base: null, range: whole });
  params.set("columns", String(columns));
  params.set("rows", "1");
  return params;
}

function sum(data: HeatmapAnswer | null, s: Span): number {
  let v = 0;
  for (const [c, , x] of data?.values ?? []) {
    const at = data!.from + (c + 0.5) * data!.column_ms;
    if (at >= s.from && at < s.to) v += x;
  }
  return v;
}

/** most is the largest sum of a column. */
function most(data: HeatmapAnswer | null): number {
  return (data?.values ?? []).reduce((a, v) => Math.max(a, v[2]), 0);
}

export function Timeline() {
  const app = useApp();
  const { store, view, status, unit, revision } = app;
  const [marked, setMarked] = useState<Span | null>(null);
  const [hover, setHover] = useState<number | null>(null);
  const { data } = useAnswer("heatmap", asked(view, view.filters), revision, accept);
  const apart = view.base !== null && !sameFilters(view.base.filters, view.filters);
  const other = useAnswer("heatmap", apart ? asked(view, view.base!.filters) : null, revision, accept);
  const { ref: strip, width } = useSize<HTMLDivElement>();

  if (!data || !(data.to > data.from)) return <div class="timeline timeline-empty" />;
  const current = bounds(view.range, data.to, data);
  const base = view.base ? bounds(view.base.range ?? view.range, data.to, data) : null;
  const describe = (s: Span) => {
    const one = (d: HeatmapAnswer | null) => {
      const v = sum(d, s);
      const ns = nanosecondsPer(unit);
      const cpus =
        ns > 0 && app.type.period_type === "cpu" ? `, ${((v * ns) / 1e6 / (s.to - s.from)).toFixed(2)} CPUs` : "";
      return `${value(v, unit)}${cpus}`;
    };
    return apart ? `A ${one(data)} · B ${one(other.data)}` : one(data);
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
  const dropped = status.window.dropped_until;
  const lost =
    dropped !== null && dropped > data.from ? across({ from: data.from, to: dropped }, data.from, data.to) : null;
  const column = hover === null ? null : Math.min(Math.floor((hover - data.from) / data.column_ms), columns - 1);
  const told =
    marked ??
    (column === null
      ? null
      : { from: data.from + column * data.column_ms, to: data.from + (column + 1) * data.column_ms });
  const mark = marked ? across(marked, data.from, data.to) : null;
  // One scale for both, so that their heights can be compared.
  const scale = Math.max(most(data), apart ? most(other.data) : 0);
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
        <div ref={strip} class={apart ? "timeline-lanes" : ""}>
          <Lane name="A" data={data} axis={data} scale={scale} range={current}>
            {view.base && <Letter name="A" at={current} axis={data} text={filtersText(view.filters)} />}
            {base && !apart && <Baseline at={base} axis={data} text={filtersText(view.filters)} />}
          </Lane>
          {apart && base && (
            <Lane name="B" data={other.data} axis={data} scale={scale} range={base}>
              <Letter name="B" at={base} axis={data} text={filtersText(view.base!.filters)} />
            </Lane>
          )}
        </div>
        {lost && <div class="timeline-lost" style={lost} title="Dropped to stay within the memory budget" />}
        {mark && <div class="timeline-mark" style={mark} />}
        {column !== null && !marked && (
          <div
            class="timeline-cursor"
            style={{ left: `${(((column + 0.5) * data.column_ms) / (data.to - data.from)) * 100}%` }}
          />
        )}
      </TimeSelect>
      <div class="timeline-axis" aria-hidden="true">
        {marks(data.from, data.to, width).map((m) => (
          <span key={m.at} style={{ left: `${m.left}px` }}>
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

interface LaneProps {
  name: "A" | "B";
  data: HeatmapAnswer | null;
  axis: Span;
  scale: number;
  range: Span; // what is looked at; the rest is pale
  children: ComponentChildren;
}

/** Lane is one strip: bars over the window. */
function Lane({ name, data, axis, scale, range, children }: LaneProps) {
  const { theme, view } = useApp();
  const { ref, element, width, height } = useSize<HTMLCanvasElement>();
  const apart = view.base !== null && !sameFilters(view.base.filters, view.filters);
  useLayoutEffect(() => {
    if (element && width > 0) draw(element, data, axis, scale, { width, height }, colors[theme][apart ? name : "one"]);
  }, [element, data, axis, scale, width, height, theme, apart, name]);
  const edge = across(range, axis.from, axis.to);
  return (
    <div class="timeline-lane">
      <canvas ref={ref} class="timeline-canvas" aria-hidden="true" />
      {!edge && <div class="timeline-shade" style={{ left: "0", right: "0" }} />}
      {edge && (
        <>
          <div class="timeline-shade" style={{ left: "0", width: edge.left }} />
          <div class="timeline-shade" style={{ left: `calc(${edge.left} + ${edge.width})`, right: "0" }} />
          <div class={name === "A" ? "timeline-current" : "timeline-other"} style={edge} />
        </>
      )}
      {children}
    </div>
  );
}

interface PlaceProps {
  at: Span;
  axis: Span;
  text: string;
}

/** Letter names a side where its range begins, A above and B below: neither covers the other. */
function Letter({ name, at, axis, text }: PlaceProps & { name: "A" | "B" }) {
  const edge = across(at, axis.from, axis.to);
  if (!edge) return null;
  return (
    <span
      class={`timeline-letter timeline-letter-${name} compare-mark-${name}`}
      style={{ left: `min(${edge.left}, 100% - 15px)` }}
      title={`${name === "A" ? "Current" : "Baseline"}: ${text}`}
    >
      {name}
    </span>
  );
}

function Baseline(p: PlaceProps) {
  const edge = across(p.at, p.axis.from, p.axis.to);
  return (
    <>
      {edge && <div class="timeline-base" style={edge} />}
      <Letter name="B" {...p} />
    </>
  );
}

const colors: Record<Theme, Record<"A" | "B" | "one", string>> = {
  light: { one: "#e0853a", A: "#4c86d8", B: "#b9783a" },
  dark: { one: "#d98a4b", A: "#6ea8ff", B: "#d99b45" },
};

function draw(
  el: HTMLCanvasElement,
  data: HeatmapAnswer | null,
  axis: Span,
  scale: number,
  size: { width: number; height: number },
  color: string,
): void {
  const ratio = window.devicePixelRatio || 1;
  el.width = Math.round(size.width * ratio);
  el.height = Math.round(size.height * ratio);
  const ctx = el.getContext("2d")!;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, size.width, size.height);
  if (!data) return;
  const perMs = size.width / (axis.to - axis.from || 1);
  const w = data.column_ms * perMs;
  ctx.fillStyle = color;
  for (const [c, , v] of data.values) {
    const h = Math.max((v / (scale || 1)) * (size.height - 3), 1);
    const x = (data.from + c * data.column_ms - axis.from) * perMs;
    ctx.fillRect(x, size.height - h, Math.max(w - (w > 3 ? 1 : 0), 0.6), h);
  }
}
