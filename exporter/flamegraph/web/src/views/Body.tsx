// What is below the header: the filters, the timeline, the tabs and the one that is open, each with what it asks for.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { useAnswer, useDelayed } from "../model/answer";
import { type Flame, type HeatmapAnswer, type Refused, type Status, Unreachable } from "../model/api";
import { slices } from "../model/axis";
import { keyName } from "../model/describe";
import { nanosecondsPer, samples, type Unit, value } from "../model/format";
import { groupOf, groups, selection, type Tab, treeParams } from "../model/view";
import { CompareBar } from "../ui/Compare";
import { IconButton } from "../ui/common";
import type { App } from "../ui/context";
import { Failed, NoMatch, NoServer } from "../ui/Empty";
import { Filters } from "../ui/Filters";
import { Icon, type IconName } from "../ui/icons";
import { pending, type Result, Search } from "../ui/Search";
import { bounds } from "../ui/TimeControl";
import { Timeline } from "../ui/Timeline";
import { FlameView, useFlame } from "./FlameView";
import { useFunctions } from "./Functions";
import { HeatmapView } from "./HeatmapView";
import { SandwichView } from "./SandwichView";
import { TableView } from "./TableView";

const accept = <T,>(a: T) => a;

const tabNames: { tab: Tab; name: string; icon: IconName }[] = [
  { tab: "flame", name: "Flame graph", icon: "flame" },
  { tab: "table", name: "Table", icon: "table" },
  { tab: "sandwich", name: "Sandwich", icon: "sandwich" },
  { tab: "heatmap", name: "Heatmap", icon: "heatmap" },
];

interface BodyProps {
  app: App;
  canStep: boolean;
  onStep: (s: ((by: 1 | -1) => void) | null) => void;
  step: { current: ((by: 1 | -1) => void) | null };
  onRetry: () => void;
}

export function Body({ app, canStep, onStep, step, onRetry }: BodyProps) {
  const result = useSearch(app);
  return (
    <>
      <section class="toolbar" aria-label="Filters and search">
        <Filters />
        <Search result={result} onStep={canStep ? (by) => step.current?.(by) : null} />
      </section>
      <Timeline />
      {app.view.tab === "flame" && <FlamePart app={app} onStep={onStep} onRetry={onRetry} />}
      {(app.view.tab === "table" || app.view.tab === "sandwich") && <FunctionsPart app={app} onRetry={onRetry} />}
      {app.view.tab === "heatmap" && <HeatmapPart app={app} onRetry={onRetry} />}
    </>
  );
}

/** useSearch asks for the share of a search: the collector counts what was cut from the tree for its size, too. */
function useSearch({ view, revision }: App): Result | null {
  const search = useDelayed(view.search, 150);
  const params = treeParams(view);
  params.set("search", search);
  params.set("max_nodes", "1");
  const answer = useAnswer<Flame>("flamegraph", search ? params : null, revision, accept);
  if (!view.search) return null;
  const none = { share: 0, total: 0, functions: 0, baseShare: null };
  if (search !== view.search) return { ...none, problem: pending };
  if (answer.error && !answer.loading) return { ...none, problem: answer.error.message };
  if (!answer.data || answer.key !== `flamegraph?${params}`) return { ...none, problem: pending };
  const a = answer.data;
  return {
    share: a.search.total / (a.total || 1),
    total: a.search.total,
    functions: a.search.functions,
    baseShare: view.base ? a.search.base_total / (a.base_total || 1) : null,
    problem: "",
  };
}

interface PartProps {
  app: App;
  onRetry: () => void;
}

function FlamePart({ app, onStep, onRetry }: PartProps & Pick<BodyProps, "onStep">) {
  const { full, part, tree } = useFlame();
  const { store, view } = app;
  const total = full.data
    ? { value: full.data.total, base: full.data.base_total, ...clipped(full.data, app.status) }
    : null;
  const error = full.error ?? (part.error && "status" in part.error && part.error.status === 404 ? null : part.error);
  return (
    <Tabbed
      app={app}
      total={total}
      loading={full.loading || part.loading}
      error={error}
      onRetry={onRetry}
      options={
        <>
          <GroupSelect app={app} />
          <label class="check">
            <input
              type="checkbox"
              checked={view.lines}
              onChange={(e) => store.go({ lines: e.currentTarget.checked, focus: "", node: "" })}
            />
            By line
          </label>
          <label class="check" title="Show where callers are missing, and why">
            <input
              type="checkbox"
              checked={view.markers}
              onChange={(e) => store.go({ markers: e.currentTarget.checked, focus: "", node: "" })}
            />
            Truncation
          </label>
          <IconButton
            icon="flip"
            label={view.flip ? "Root at the top" : "Root at the bottom"}
            pressed={view.flip}
            class="button-bare"
            onClick={() => store.adjust({ flip: !view.flip })}
          />
          <IconButton
            icon="panel"
            label="Details"
            pressed={view.panel}
            class="button-bare"
            onClick={() => store.adjust({ panel: !view.panel })}
          />
        </>
      }
    >
      {tree && <FlameView tree={tree} loading={full.loading || part.loading} onStep={onStep} />}
    </Tabbed>
  );
}

/** clipped is the part of a range of which there are data. */
function clipped(r: { from: number; to: number }, status: Status): { from: number; to: number } {
  const from = Math.max(r.from, status.window.from);
  return { from, to: Math.max(Math.min(r.to, status.window.to), from) };
}

function GroupSelect({ app }: { app: App }) {
  const { store, view } = app;
  const group = groupOf(view);
  const known = (groups as readonly string[]).includes(group) || group === "none";
  return (
    <label class="check">
      Group by
      <select value={group} onChange={(e) => store.go({ group: e.currentTarget.value, focus: "", node: "" })}>
        {groups.map((g) => (
          <option key={g} value={g}>
            {keyName(g)}
          </option>
        ))}
        {!known && <option value={group}>{keyName(group)}</option>}
        <option value="none">nothing</option>
      </select>
    </label>
  );
}

function FunctionsPart({ app, onRetry }: PartProps) {
  const functions = useFunctions();
  const a = functions.answer;
  const b = clipped(bounds(app.view.range, app.status.now, app.status.window), app.status);
  const total = a.data ? { value: a.data.total, base: a.data.base_total, ...b } : null;
  return (
    <Tabbed app={app} total={total} loading={a.loading} error={a.error} onRetry={onRetry}>
      {a.data &&
        (app.view.tab === "table" ? <TableView functions={functions} /> : <SandwichView functions={functions} />)}
    </Tabbed>
  );
}

function HeatmapPart({ app, onRetry }: PartProps) {
  const { view, status, unit } = app;
  // Of a range that began before there were data only the rest is shown.
  const b = bounds(view.range, status.now, status.window);
  const late = b.from < status.window.from && status.window.from < b.to;
  const range = late ? { ...view.range, seconds: null, from: status.window.from } : view.range;
  const cut = slices(b.to - (late ? status.window.from : b.from), nanosecondsPer(unit) / 1e6);
  const params = selection({ ...view, range, base: null });
  params.set("columns", String(cut.columns));
  params.set("rows", String(cut.rows));
  const answer = useAnswer<HeatmapAnswer>("heatmap", params, app.revision, accept);
  const sum = answer.data ? answer.data.values.reduce((a, v) => a + v[2], 0) : 0;
  const total = answer.data ? { value: sum, base: null, ...clipped(answer.data, app.status) } : null;
  return (
    <Tabbed app={app} total={total} loading={answer.loading} error={answer.error} onRetry={onRetry}>
      {answer.data && <HeatmapView answer={answer} />}
    </Tabbed>
  );
}

interface TabbedProps {
  app: App;
  total: { value: number; base: number | null; from: number; to: number } | null;
  loading: boolean;
  error: Error | null;
  onRetry: () => void;
  options?: ComponentChildren;
  children: ComponentChildren;
}

/** Tabbed is the row of tabs with the sum of what they show, and the view below or why there is none. */
function Tabbed({ app, total, loading, error, onRetry, options, children }: TabbedProps) {
  const { store, view, unit, type } = app;
  const list = useRef<HTMLDivElement>(null);
  const empty = total !== null && total.value === 0 && !total.base;
  const onKeyDown = (e: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!by) return;
    const at = tabNames.findIndex((t) => t.tab === view.tab);
    const next = tabNames[(at + by + tabNames.length) % tabNames.length]!;
    store.go({ tab: next.tab });
    list.current!.querySelector<HTMLElement>(`#tab-${next.tab}`)?.focus();
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <>
      <section class="tabs-row" aria-label="Views">
        <div class="tabs" role="tablist" aria-label="View" ref={list} onKeyDown={onKeyDown}>
          {tabNames.map((t) => (
            <button
              key={t.tab}
              id={`tab-${t.tab}`}
              type="button"
              role="tab"
              class="tab"
              aria-selected={view.tab === t.tab}
              aria-controls="view"
              tabIndex={view.tab === t.tab ? 0 : -1}
              onClick={() => store.go({ tab: t.tab })}
            >
              <Icon name={t.icon} size={14} />
              {t.name}
            </button>
          ))}
        </div>
        <span class="spacer" />
        {total && !view.base && <Summary total={total} unit={unit} cpu={type.period_type === "cpu"} />}
        {options}
      </section>
      <CompareBar total={total?.value ?? null} baseTotal={total?.base ?? null} />
      <main class="main">
        <div class="view" id="view" role="tabpanel" aria-labelledby={`tab-${view.tab}`}>
          <div class={`loading-line ${loading ? "loading-on" : ""}`} aria-hidden="true" />
          {error && total === null ? (
            error instanceof Unreachable ? (
              <NoServer message={error.message} onRetry={onRetry} />
            ) : (
              <Failed
                message={error.message}
                refused={(error as Refused).status >= 400 && (error as Refused).status < 500}
                onRetry={onRetry}
              />
            )
          ) : empty && !loading ? (
            <NoMatch />
          ) : (
            <>
              {error && !(error instanceof Unreachable && app.down) && (
                <p class="banner banner-bad" role="alert">
                  <Icon name="warning" size={15} /> {error.message}
                  <button type="button" class="button button-small" onClick={onRetry}>
                    Try again
                  </button>
                </p>
              )}
              {children}
            </>
          )}
        </div>
      </main>
    </>
  );
}

function Summary({ total, unit, cpu }: { total: NonNullable<TabbedProps["total"]>; unit: Unit; cpu: boolean }) {
  const ns = nanosecondsPer(unit);
  const cpus = cpu && ns > 0 && total.to > total.from ? (total.value * ns) / 1e6 / (total.to - total.from) : 0;
  return (
    <div class="summary">
      <strong title={cpu && ns > 0 ? "CPU time: of all CPUs together, however long it took" : undefined}>
        {value(total.value, unit)}
        {cpu && ns > 0 && " of CPU"}
      </strong>
      {samples(total.value, unit) && <span>{samples(total.value, unit)}</span>}
      {cpus > 0 && <span title="CPU time per time: how many CPUs were busy on average">{cpus.toFixed(2)} CPUs</span>}
    </div>
  );
}
