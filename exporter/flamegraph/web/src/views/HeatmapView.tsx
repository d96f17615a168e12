// The tab of the heatmap: a column is a slice of the range, its cells go from the beginning of the slice upwards. A marked
// range becomes the range of all views.
import { useLayoutEffect, useMemo, useState } from "preact/hooks";
import { heat, type Theme } from "../graph/colors";
import { type Answer, useAnswer, useDelayed } from "../model/answer";
import { checkTable, type FunctionTable, type HeatmapAnswer } from "../model/api";
import { marks } from "../model/axis";
import { clock, percent, span, value } from "../model/format";
import { buildRows, sortRows } from "../model/rows";
import { fixedRange, selection } from "../model/view";
import { Name } from "../ui/common";
import { useApp } from "../ui/context";
import { Swatch } from "../ui/Frame";
import { Icon } from "../ui/icons";
import { useSize } from "../ui/size";
import { across, type Span, TimeSelect } from "../ui/TimeSelect";

interface HeatmapProps {
  answer: Answer<HeatmapAnswer>;
}

export function HeatmapView({ answer }: HeatmapProps) {
  const { store, view, unit, theme } = useApp();
  const [marked, setMarked] = useState<Span | null>(null);
  const [hover, setHover] = useState<{ at: number; x: number; y: number } | null>(null);
  const { ref: canvas, element, width, height } = useSize<HTMLCanvasElement>();
  const data = answer.data;

  useLayoutEffect(() => {
    if (element && data && width > 0) draw(element, data, { width, height }, theme);
  }, [element, data, width, height, theme]);

  if (!data || !(data.to > data.from)) return <div class="heatmap-view" />;
  const columns = new Float64Array(data.columns);
  for (const [c, , v] of data.values) if (c >= 0 && c < columns.length) columns[c] = columns[c]! + v;
  const sum = (s: Span) =>
    columns.reduce(
      (a, v, i) =>
        data.from + (i + 0.5) * data.column_ms >= s.from && data.from + (i + 0.5) * data.column_ms < s.to ? a + v : a,
      0,
    );
  const whole = columns.reduce((a, v) => a + v, 0) || 1;
  const describe = (s: Span) => `${value(sum(s), unit)}, ${Math.round((100 * sum(s)) / whole)}% of what is here`;
  const show = (s: Span, tab: typeof view.tab) => {
    setMarked(null);
    store.go({ range: fixedRange(s.from, s.to), tab });
  };
  const box = marked ? across(marked, data.from, data.to) : null;
  const cell = hover && element ? cellAt(data, hover, element) : null;
  const legend = [0.02, 0.15, 0.3, 0.5, 0.75, 1];
  return (
    <div class="heatmap-view">
      <div class="heatmap-top">
        <p class="hint">
          {view.base && <>The current side, A. </>}
          Each column is {span(data.column_ms)}, bottom to top. Drag, or use the arrow keys with Shift, to mark a range.
          {data.untimed > 0 && (
            <> {value(data.untimed, unit)} came without times of their own and lies in the lowest row.</>
          )}
        </p>
        <div class="heatmap-legend" role="img" aria-label={`Colours: from 0 to ${value(data.max, unit)} in one cell`}>
          <span>0</span>
          {legend.map((v) => (
            <span key={v} class="heatmap-step" style={{ background: heat(v, theme) }} />
          ))}
          <span>{value(data.max, unit)}</span>
        </div>
      </div>
      <div class="heatmap-body">
        <div class="heatmap-rows" aria-hidden="true">
          <span>{span(data.column_ms)}</span>
          <span>{span(data.column_ms / 2)}</span>
          <span>0</span>
        </div>
        <TimeSelect
          class="heatmap-select"
          from={data.from}
          to={data.to}
          step={data.column_ms}
          label="Heatmap: mark a range of time"
          selected={marked}
          describe={describe}
          onHover={(at, place) => setHover(at === null ? null : { at, ...place })}
          onSelect={setMarked}
          onApply={(s, byKey) => (byKey ? show(s, "flame") : setMarked(s))}
        >
          <canvas ref={canvas} class="heatmap-canvas" aria-hidden="true" />
          {box && (
            <>
              <div class="timeline-shade" style={{ left: "0", width: box.left }} />
              <div class="timeline-shade" style={{ left: `calc(${box.left} + ${box.width})`, right: "0" }} />
              <div class="heatmap-mark" style={box} />
            </>
          )}
        </TimeSelect>
        <div class="heatmap-axis" aria-hidden="true">
          {marks(data.from, data.to, width).map((m) => (
            <span key={m.at} style={{ left: `${m.left}px` }}>
              {m.text}
            </span>
          ))}
        </div>
      </div>
      {marked ? (
        <div class="heatmap-actions" role="group" aria-label="The marked range">
          <span>
            <strong>
              {clock(marked.from)} – {clock(marked.to)}
            </strong>{" "}
            · {span(marked.to - marked.from)} · {describe(marked)}
          </span>
          <button type="button" class="button button-primary" onClick={() => show(marked, "flame")}>
            <Icon name="flame" size={14} /> Flame graph of it
          </button>
          <button type="button" class="button" onClick={() => show(marked, "heatmap")}>
            <Icon name="zoom" size={14} /> Zoom in
          </button>
          <button
            type="button"
            class="button"
            onClick={() => {
              setMarked(null);
              store.go({
                tab: "flame",
                range: fixedRange(marked.from, marked.to),
                base: { range: fixedRange(data.from, data.to), filters: view.filters },
                focus: "",
                node: "",
              });
            }}
          >
            <Icon name="compare" size={14} /> Compare it with all of this
          </button>
          <button type="button" class="button" onClick={() => setMarked(null)}>
            Unmark
          </button>
        </div>
      ) : (
        <div class="heatmap-actions heatmap-actions-none" aria-hidden="true">
          Nothing marked
        </div>
      )}
      {marked ? <Hottest marked={marked} all={{ from: data.from, to: data.to }} /> : <div class="heatmap-hottest" />}
      {cell && !marked && (
        <div
          class="tooltip tooltip-small"
          style={{ translate: `${Math.min(hover!.x + 12, window.innerWidth - 220)}px ${hover!.y + 14}px` }}
        >
          <strong>{value(cell.value, unit)}</strong> at {clock(cell.at, undefined, data.row_ms < 1000)}
          <br />
          {span(data.column_ms)} from {clock(cell.column)}: {value(cell.sum, unit)}
        </div>
      )}
    </div>
  );
}

/** Hottest says which functions a marked range has more of than the rest: what made the spike. */
function Hottest({ marked, all }: { marked: Span; all: Span }) {
  const { store, view, theme, unit } = useApp();
  // What is asked while a hand still drags would be many questions.
  const settled = useDelayed(marked, 150);
  const params = selection({
    ...view,
    range: fixedRange(settled.from, settled.to),
    base: { range: fixedRange(all.from, all.to), filters: view.filters },
  });
  params.set("limit", "1000");
  const { data } = useAnswer<FunctionTable>("table", params, 0, checkTable);
  const rows = useMemo(
    () =>
      sortRows(data ? buildRows(data, null) : [], "diff", false)
        .filter((r) => r.selfDiff > 0.00005)
        .slice(0, 6),
    [data],
  );
  if (!data) return <div class="heatmap-hottest" />;
  return (
    <table class="plain heatmap-hottest">
      <thead>
        <tr>
          <th scope="col">More here than elsewhere</th>
          <th scope="col" class="num">
            Self, here
          </th>
          <th scope="col" class="num">
            Of the marked range
          </th>
          <th scope="col" class="num">
            Of all of this
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map((r) => (
          <tr key={r.key}>
            <td>
              <button
                type="button"
                class="row-button"
                title="Callers and callees"
                onClick={() =>
                  store.go({
                    tab: "sandwich",
                    function: r.key,
                    range: fixedRange(marked.from, marked.to),
                    focus: "",
                    node: "",
                  })
                }
              >
                <Swatch type={r.type} theme={theme} />
                <Name text={r.name} />
                {r.apart && <Name class="fn-apart" text={r.apart} />}
              </button>
            </td>
            <td class="num">{value(r.self, unit)}</td>
            <td class="num">
              <strong>{percent(r.selfShare)}</strong>
            </td>
            <td class="num">{percent(r.baseSelf / (data.base_total || 1))}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function cellAt(data: HeatmapAnswer, hover: { at: number; y: number }, el: HTMLCanvasElement) {
  const r = el.getBoundingClientRect();
  const c = Math.min(Math.max(Math.floor((hover.at - data.from) / data.column_ms), 0), data.columns - 1);
  const row = Math.min(Math.max(Math.floor(((r.bottom - hover.y) / r.height) * data.rows), 0), data.rows - 1);
  let v = 0;
  let sum = 0;
  for (const [x, y, n] of data.values) {
    if (x !== c) continue;
    sum += n;
    if (y === row) v = n;
  }
  const column = data.from + c * data.column_ms;
  return { value: v, sum, column, at: column + row * data.row_ms };
}

function draw(el: HTMLCanvasElement, data: HeatmapAnswer, size: { width: number; height: number }, theme: Theme): void {
  const ratio = window.devicePixelRatio || 1;
  el.width = Math.round(size.width * ratio);
  el.height = Math.round(size.height * ratio);
  const ctx = el.getContext("2d", { alpha: false })!;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = theme === "light" ? "#f6f7f9" : "#1a1e25";
  ctx.fillRect(0, 0, size.width, size.height);
  const w = (size.width * data.column_ms) / (data.to - data.from);
  const h = size.height / data.rows;
  const gap = w > 8 && h > 8 ? 1 : 0;
  const most = data.max || 1;
  for (const [c, row, v] of data.values) {
    if (c < 0 || c >= data.columns || row < 0 || row >= data.rows) continue;
    ctx.fillStyle = heat(v / most, theme);
    ctx.fillRect(c * w, size.height - (row + 1) * h, w - gap + (gap ? 0 : 0.3), h - gap + (gap ? 0 : 0.3));
  }
}
