// Comparing: choosing the other side, saying what is compared with what, and how to read the colours.
import { diffColor } from "../graph/colors";
import { filtersText, rangeText } from "../model/describe";
import { nanosecondsPer, span, value } from "../model/format";
import { type Base, fixedRange, type Range, type View } from "../model/view";
import { IconButton, Name, PopoverButton } from "./common";
import { useApp } from "./context";
import { FilterPicker } from "./Filters";
import { Icon } from "./icons";
import { bounds, RangeForm } from "./TimeControl";

/** before is the range of the same length that ends where this one begins. */
export function before(r: Range, now: number, window: { from: number; to: number }): { current: Range; base: Range } {
  const b = bounds(r, now, window);
  const current = fixedRange(b.from, b.to);
  return { current, base: fixedRange(b.from - (b.to - b.from), b.from) };
}

export function CompareButton() {
  const { view } = useApp();
  return (
    <PopoverButton
      label="Compare"
      name="compare"
      align="right"
      class="popover-compare"
      title="Compare with another time, process… (C)"
      on={view.base !== null}
      face={
        <>
          <Icon name="compare" />
          <span class="button-text">Compare</span>
        </>
      }
    >
      {(close) => <ComparePanel close={close} />}
    </PopoverButton>
  );
}

function ComparePanel({ close }: { close: () => void }) {
  const { store, view, status, setPick } = useApp();
  const set = (base: Base, change: Partial<View> = {}) => store.go({ ...change, base, focus: "", node: "" });
  const earlier = before(view.range, status.now, status.window);
  const length = span((earlier.current.to ?? 0) - (earlier.current.from ?? 0));
  const filters = view.base?.filters ?? view.filters;
  return (
    <div class="compare-panel">
      <p class="compare-intro">
        Compare <strong>{filtersText(view.filters)}</strong>, {rangeText(view.range)}, with…
      </p>
      <div class="menu-title">Another time</div>
      <button
        type="button"
        class="menu-item"
        onClick={() => {
          set({ range: earlier.base, filters: view.filters }, { range: earlier.current });
          close();
        }}
      >
        The {length} before
      </button>
      <button
        type="button"
        class="menu-item"
        onClick={() => {
          setPick(true);
          close();
        }}
      >
        A range that I mark on the timeline…
      </button>
      <RangeForm
        initial={bounds(view.base?.range ?? earlier.base, status.now, status.window)}
        action="Compare with this range"
        onRange={(from, to) => {
          set({ range: fixedRange(from, to), filters: view.filters });
          close();
        }}
      />
      <div class="menu-title">Another process, service, container… in the same time</div>
      <FilterPicker
        single
        filters={filters}
        onFilters={(next) => {
          set({ range: view.base?.range ?? null, filters: next });
          close();
        }}
      />
    </div>
  );
}

export function CompareBar({ total, baseTotal }: { total: number | null; baseTotal: number | null }) {
  const { store, view, theme } = useApp();
  const base = view.base;
  if (!base) return null;
  const swap = () => {
    const range = base.range ?? view.range;
    const other = base.range ? { ...view.range, live: false } : null;
    store.go({ range, filters: base.filters, base: { range: other, filters: view.filters } });
  };
  const stops = [-1, -0.6, -0.3, 0, 0.3, 0.6, 1].map((v) => diffColor(v, theme));
  const tooOld = baseTotal === 0;
  return (
    <>
      <section class="compare-bar" aria-label="Comparison">
        <Side name="Current" mark="A" view={view} side={{ range: view.range, filters: view.filters }} total={total} />
        <span class="compare-with">compared with</span>
        <Side name="Baseline" mark="B" view={view} side={base} total={baseTotal} />
        <IconButton icon="swap" label="Swap the two sides" onClick={swap} />
        <div
          class="diff-legend"
          role="img"
          aria-label="Colours: blue with a triangle down is a smaller share than in the baseline, orange with a triangle up a larger one"
          hidden={view.tab === "heatmap"}
        >
          <span>
            ▼ smaller<span class="diff-legend-more"> share</span>
          </span>
          <span class="diff-scale">
            {stops.map((c) => (
              <span key={c} style={{ background: c }} />
            ))}
          </span>
          <span>
            ▲ larger<span class="diff-legend-more"> share</span>
          </span>
        </div>
        <label class="compare-widths" hidden={view.tab === "table" || view.tab === "heatmap"}>
          Width
          <select
            value={view.widths}
            onChange={(e) => store.adjust({ widths: e.currentTarget.value as View["widths"] })}
          >
            <option value="both">both sides</option>
            <option value="current">current</option>
            <option value="base">baseline</option>
          </select>
        </label>
        <button type="button" class="button compare-stop" onClick={() => store.go({ base: null, focus: "", node: "" })}>
          <Icon name="close" size={12} />
          Stop comparing
        </button>
      </section>
      {tooOld && (
        <p class="compare-note" role="status">
          <Icon name="warning" size={14} /> The baseline holds no samples: everything looks new.
        </p>
      )}
    </>
  );
}

interface SideProps {
  name: string;
  mark: string;
  view: View;
  side: Base;
  total: number | null;
}

function Side({ name, mark, view, side, total }: SideProps) {
  const { type, unit } = useApp();
  return (
    <div class="compare-side">
      <span class={`compare-mark compare-mark-${mark}`} aria-hidden="true">
        {mark}
      </span>
      <div class="compare-text">
        <div class="compare-name">
          {name}
          {total !== null && (
            <span class="compare-total">
              {" "}
              {value(total, unit)}
              {type.period_type === "cpu" && nanosecondsPer(unit) > 0 && " of CPU"} = 100%
            </span>
          )}
        </div>
        <div class="compare-what" title={`${filtersText(side.filters)}, ${rangeText(side.range ?? view.range)}`}>
          <Name text={`${filtersText(side.filters)},`} />
          <span> {rangeText(side.range ?? view.range)}</span>
        </div>
      </div>
    </div>
  );
}
