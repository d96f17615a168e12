// The page: what is asked for when, and which part shows it.
import { Component, type ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Theme } from "./graph/colors";
import { type Answer, useAnswer, useDelayed } from "./model/answer";
import { type Flame, type HeatmapAnswer, type Refused, type Status, typeName, Unreachable } from "./model/api";
import { keyName } from "./model/describe";
import { bytes, clock, nanosecondsPer, samples, type Unit, value } from "./model/format";
import { type Store, useView } from "./model/store";
import {
  fixedRange,
  groupOf,
  groups,
  liveRange,
  liveSeconds,
  selection,
  type Tab,
  treeParams,
  type View,
} from "./model/view";
import { CompareBar, CompareButton } from "./ui/Compare";
import { IconButton, Toast } from "./ui/common";
import { type App, AppProvider } from "./ui/context";
import { Defect, Failed, NoMatch, NoServer, Waiting } from "./ui/Empty";
import { Filters } from "./ui/Filters";
import { Help } from "./ui/Help";
import { Icon, type IconName } from "./ui/icons";
import { type Result, Search } from "./ui/Search";
import { DownloadButton, LinkButton } from "./ui/Share";
import { StatusButton, StatusPanel } from "./ui/Status";
import { bounds, TimeControl } from "./ui/TimeControl";
import { Timeline } from "./ui/Timeline";
import { FlameView, useFlame } from "./views/FlameView";
import { useFunctions } from "./views/Functions";
import { HeatmapView } from "./views/HeatmapView";
import { SandwichView } from "./views/SandwichView";
import { TableView } from "./views/TableView";

const refreshMs = 5000;
const waitMs = 1000;
const retrySeconds = 3;

const accept = <T,>(a: T) => a;

/** Boundary shows a defect of the page instead of an empty one. */
export class Boundary extends Component<{ children: ComponentChildren }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static override getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    if (!this.state.error) return this.props.children;
    return (
      <Frame>
        <main class="main">
          <Defect message={String(this.state.error.message)} />
        </main>
      </Frame>
    );
  }
}

export function Page({ store }: { store: Store }) {
  const view = useView(store);
  const theme = useTheme(view);
  const [beat, setBeat] = useState(0);
  const status = useAnswer<Status>("status", noParams, beat, accept);
  const waiting = status.data !== null && status.data.types.length === 0;
  const down = status.error instanceof Unreachable;
  const every = waiting ? waitMs : down ? retrySeconds * 1000 : refreshMs;

  // One beat drives everything that is refreshed; a page that nobody sees rests.
  useEffect(() => {
    const id = setInterval(() => document.hidden || setBeat((n) => n + 1), every);
    const seen = () => document.hidden || setBeat((n) => n + 1);
    document.addEventListener("visibilitychange", seen);
    return () => {
      clearInterval(id);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [every]);

  const retry = useCallback(() => setBeat((n) => n + 1), []);
  if (!status.data) {
    return (
      <Frame>
        <main class="main">
          {status.error ? (
            <NoServer message={status.error.message} retryIn={retrySeconds} onRetry={retry} />
          ) : (
            <div class="loading-line" />
          )}
        </main>
      </Frame>
    );
  }
  if (waiting) {
    return (
      <Frame>
        <main class="main">
          <Waiting status={status.data} />
        </main>
      </Frame>
    );
  }
  return <Loaded store={store} view={view} theme={theme} status={status} beat={beat} retry={retry} />;
}

const noParams = new URLSearchParams();

function Frame({ children }: { children: ComponentChildren }) {
  return (
    <div class="page">
      <header class="header">
        <Brand />
      </header>
      {children}
    </div>
  );
}

function Brand() {
  return (
    <h1 class="brand">
      <Icon name="flame" size={20} />
      <span>hostprofiles</span>
    </h1>
  );
}

function useTheme(view: View): Theme {
  const query = useMemo(() => window.matchMedia("(prefers-color-scheme: dark)"), []);
  const [dark, setDark] = useState(query.matches);
  useEffect(() => {
    const change = () => setDark(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, [query]);
  const theme = view.theme || (dark ? "dark" : "light");
  useLayoutEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  return theme;
}

interface LoadedProps {
  store: Store;
  view: View;
  theme: Theme;
  status: Answer<Status>;
  beat: number;
  retry: () => void;
}

const tabNames: { tab: Tab; name: string; icon: IconName }[] = [
  { tab: "flame", name: "Flame graph", icon: "flame" },
  { tab: "table", name: "Table", icon: "table" },
  { tab: "sandwich", name: "Sandwich", icon: "sandwich" },
  { tab: "heatmap", name: "Heatmap", icon: "heatmap" },
];

function Loaded({ store, view, theme, status, beat, retry }: LoadedProps) {
  const data = status.data!;
  const [toast, setToast] = useState("");
  const [pick, setPick] = useState(false);
  const [panel, setPanel] = useState(false);
  const [help, setHelp] = useState(false);
  const [again, setAgain] = useState(0);
  const step = useRef<((by: 1 | -1) => void) | null>(null);
  const [canStep, setCanStep] = useState(false);
  const type = data.types.find((t) => t.id === view.type) ?? data.types[0]!;
  const unit: Unit = useMemo(
    () => ({ unit: type.sample_unit, period: type.period, periodUnit: type.period_unit }),
    [type],
  );
  const revision = (view.range.live ? beat : 0) * 1000 + again;
  const app: App = useMemo(
    () => ({ store, view, status: data, type, unit, theme, revision, toast: setToast, pick, setPick }),
    [store, view, data, type, unit, theme, revision, pick],
  );
  const onStep = useCallback((s: ((by: 1 | -1) => void) | null) => {
    step.current = s;
    setCanStep(s !== null);
  }, []);
  useShortcuts(store, data, step, () => setHelp(true));
  const down = status.error instanceof Unreachable;
  return (
    <AppProvider value={app}>
      <div class="page">
        <header class="header">
          <Brand />
          {data.types.length > 1 ? (
            <label class="select-label">
              <span class="visually-hidden">Profile type</span>
              <select value={type.id} onChange={(e) => store.go({ type: e.currentTarget.value, focus: "", node: "" })}>
                {data.types.map((t) => (
                  <option key={t.id} value={t.id}>
                    {typeName(t)}
                  </option>
                ))}
              </select>
            </label>
          ) : (
            <span class="type-name">{typeName(type)}</span>
          )}
          <TimeControl />
          <span class="spacer" />
          <CompareButton />
          <DownloadButton />
          <LinkButton />
          <StatusButton status={data} open={panel} onToggle={() => setPanel(!panel)} />
          <ThemeButton store={store} view={view} />
          <IconButton
            icon="help"
            label="Keys and help (?)"
            popup="dialog"
            class="button-bare"
            onClick={() => setHelp(true)}
          />
        </header>
        {down && (
          <p class="banner banner-bad" role="alert">
            <Icon name="warning" size={15} /> {status.error!.message} This is as of {clock(status.at)}.
            <button type="button" class="button button-small" onClick={retry}>
              Try again
            </button>
          </p>
        )}
        <Dropped status={data} view={view} />
        <Body
          app={app}
          canStep={canStep}
          onStep={onStep}
          step={step}
          onRetry={() => {
            setAgain(again + 1);
            retry();
          }}
        />
        {panel && <StatusPanel status={data} now={data.now} onClose={() => setPanel(false)} />}
        {help && <Help onClose={() => setHelp(false)} />}
        <Toast text={toast} onGone={useCallback(() => setToast(""), [])} />
      </div>
    </AppProvider>
  );
}

function ThemeButton({ store, view }: { store: Store; view: View }) {
  const next = { "": "light", light: "dark", dark: "" } as const;
  const icon: Record<View["theme"], IconName> = { "": "auto", light: "sun", dark: "moon" };
  const name = { "": "as the system's", light: "light", dark: "dark" };
  return (
    <IconButton
      icon={icon[view.theme]}
      label={`Colours: ${name[view.theme]}. Switch to ${name[next[view.theme]]}`}
      class="button-bare"
      onClick={() => store.adjust({ theme: next[view.theme] })}
    />
  );
}

/** Dropped tells that the window is shorter than it should be, where that touches what is looked at. */
function Dropped({ status, view }: { status: Status; view: View }) {
  const [hidden, setHidden] = useState(false);
  const until = status.window.dropped_until;
  if (until === null || hidden) return null;
  const b = bounds(view.range, status.now, status.window);
  const cut = b.from < until || view.range.from === null;
  return (
    <p class="banner" role="status">
      <Icon name="warning" size={15} />
      <span>
        Everything before <strong>{clock(until, status.now)}</strong> was dropped: the budget of{" "}
        {bytes(status.window.budget_bytes)} is used up.
        {cut && b.from < until && " The range that is shown begins earlier than the data."}
      </span>
      <button type="button" class="button button-small" onClick={() => setHidden(true)}>
        Hide
      </button>
    </p>
  );
}

interface BodyProps {
  app: App;
  canStep: boolean;
  onStep: (s: ((by: 1 | -1) => void) | null) => void;
  step: { current: ((by: 1 | -1) => void) | null };
  onRetry: () => void;
}

function Body({ app, canStep, onStep, step, onRetry }: BodyProps) {
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
  if (search !== view.search) return { ...none, problem: "…" };
  if (answer.error && !answer.loading) return { ...none, problem: answer.error.message };
  if (!answer.data || !answer.key.includes(`search=${encode(search)}`)) return { ...none, problem: "…" };
  const a = answer.data;
  return {
    share: a.search.total / (a.total || 1),
    total: a.search.total,
    functions: a.search.functions,
    baseShare: view.base ? a.search.base_total / (a.base_total || 1) : null,
    problem: "",
  };
}

const encode = (text: string) => new URLSearchParams({ search: text }).toString().slice("search=".length);

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
  const params = selection({ ...app.view, base: null });
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
              <NoServer message={error.message} retryIn={retrySeconds} onRetry={onRetry} />
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
              {error && !(error instanceof Unreachable) && (
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
      <strong>{value(total.value, unit)}</strong>
      {samples(total.value, unit) && <span>{samples(total.value, unit)}</span>}
      {cpus > 0 && <span title="CPU time per time: how many CPUs were busy on average">{cpus.toFixed(2)} CPUs</span>}
    </div>
  );
}

/** useShortcuts are the keys that work wherever the focus is, but in a field. */
function useShortcuts(
  store: Store,
  status: Status,
  step: { current: ((by: 1 | -1) => void) | null },
  onHelp: () => void,
): void {
  const latest = useRef({ status, onHelp });
  latest.current = { status, onHelp };
  useEffect(() => {
    const onKeyDown = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.altKey || e.metaKey || e.defaultPrevented) return;
      const target = e.target as HTMLElement;
      if (target.closest("input, select, textarea, [role=dialog], [role=menu]")) return;
      const v = store.view;
      const keys: Record<string, () => void> = {
        "/": () => document.getElementById("search")?.focus(),
        "?": () => latest.current.onHelp(),
        n: () => step.current?.(1),
        N: () => step.current?.(-1),
        l: () => {
          const b = bounds(v.range, latest.current.status.now, latest.current.status.window);
          store.go({ range: v.range.live ? fixedRange(b.from, b.to) : liveRange(liveSeconds) });
        },
        "1": () => store.go({ tab: "flame" }),
        "2": () => store.go({ tab: "table" }),
        "3": () => store.go({ tab: "sandwich" }),
        "4": () => store.go({ tab: "heatmap" }),
        Escape: () => {
          if (v.focus !== "") store.go({ focus: "" });
          else if (v.node !== "") store.adjust({ node: "" });
          else if (v.search !== "") store.adjust({ search: "" });
        },
      };
      const act = keys[e.key];
      if (!act) return;
      e.preventDefault();
      act();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, [store, step]);
}
