// The page: how it begins, its header, and the beat by which it asks again.
import { Component, type ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Theme } from "./graph/colors";
import { type Answer, useAnswer } from "./model/answer";
import { type ProfileType, type ReasonsAnswer, type Status, typeName, Unreachable } from "./model/api";
import { bytes, clock, type Unit } from "./model/format";
import { checkReasons, Reasons } from "./model/reasons";
import { type Store, useView } from "./model/store";
import { clean } from "./model/text";
import { fixedRange, liveRange, liveSeconds, type View } from "./model/view";
import { CompareButton } from "./ui/Compare";
import { IconButton, Toast } from "./ui/common";
import { type App, AppProvider } from "./ui/context";
import { Defect, NoServer, Waiting } from "./ui/Empty";
import { Help } from "./ui/Help";
import { Icon, type IconName } from "./ui/icons";
import { DownloadButton, LinkButton } from "./ui/Share";
import { StatusButton, StatusPanel } from "./ui/Status";
import { bounds, TimeControl } from "./ui/TimeControl";
import { Body } from "./views/Body";

const refreshMs = 5000;
const waitMs = 1000;

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
  const every = waiting ? waitMs : refreshMs;

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
          {status.error ? <NoServer message={status.error.message} onRetry={retry} /> : <div class="loading-line" />}
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
  const down = status.error instanceof Unreachable;
  // Values change their meaning where hosts begin to sample at different frequencies.
  const revision = `${view.range.live ? beat : 0}/${again}/${unit.unit}/${unit.period}`;
  // They are the same at any time.
  const told = useAnswer<ReasonsAnswer>("reasons", noParams, "", checkReasons);
  const reasons = useMemo(() => new Reasons(told.data), [told.data]);
  const app: App = useMemo(
    () => ({ store, view, status: data, reasons, type, unit, theme, revision, down, toast: setToast, pick, setPick }),
    [store, view, data, reasons, type, unit, theme, revision, down, pick],
  );
  const onStep = useCallback((s: ((by: 1 | -1) => void) | null) => {
    step.current = s;
    setCanStep(s !== null);
  }, []);
  useShortcuts(store, data, step, { help: () => setHelp(true), status: () => setPanel((open) => !open) });
  return (
    <AppProvider value={app}>
      <div class="page">
        <header class="header">
          <Brand />
          <TypeSelect store={store} types={data.types} shown={view.type || type.id} />
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

interface TypeSelectProps {
  store: Store;
  types: ProfileType[];
  shown: string;
}

/** TypeSelect offers the types that are held; one in a link may be none of them any more. */
function TypeSelect({ store, types, shown }: TypeSelectProps) {
  const held = types.some((t) => t.id === shown);
  if (held && types.length === 1) return <span class="type-name">{typeName(types[0]!)}</span>;
  return (
    <label class="select-label">
      <span class="visually-hidden">Profile type</span>
      <select value={shown} onChange={(e) => store.go({ type: e.currentTarget.value, focus: "", node: "" })}>
        {!held && <option value={shown}>{clean(shown, 60)} (none held)</option>}
        {types.map((t) => (
          <option key={t.id} value={t.id}>
            {typeName(t)}
          </option>
        ))}
      </select>
    </label>
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

/** Dropped tells that the window is shorter than it should be, and whether that touches what is looked at. */
function Dropped({ status, view }: { status: Status; view: View }) {
  const [hidden, setHidden] = useState(false);
  const until = status.window.dropped_until;
  if (until === null || hidden) return null;
  const b = bounds(view.range, status.now, status.window);
  return (
    <p class="banner" role="status">
      <Icon name="warning" size={15} />
      <span>
        Everything before <strong>{clock(until, status.now)}</strong> was dropped: the budget of{" "}
        {bytes(status.window.budget_bytes)} is used up.
        {b.from < until && " The range that is shown begins earlier than the data."}
      </span>
      <button type="button" class="button button-small" onClick={() => setHidden(true)}>
        Hide
      </button>
    </p>
  );
}

/** press opens what pops up below the button of a name. */
function press(name: string): void {
  document.querySelector<HTMLElement>(`[data-name=${name}] > button`)?.click();
}

/** useShortcuts are the keys that work wherever the focus is, but in a field. */
function useShortcuts(
  store: Store,
  status: Status,
  step: { current: ((by: 1 | -1) => void) | null },
  on: { help: () => void; status: () => void },
): void {
  const latest = useRef({ status, on });
  latest.current = { status, on };
  useEffect(() => {
    const onKeyDown = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.altKey || e.metaKey || e.defaultPrevented) return;
      const target = e.target as HTMLElement;
      if (target.closest("input, select, textarea, [role=dialog], [role=menu]")) return;
      const v = store.view;
      const keys: Record<string, () => void> = {
        "/": () => document.getElementById("search")?.focus(),
        "?": () => latest.current.on.help(),
        a: () => press("filters"),
        c: () => press("compare"),
        e: () => press("download"),
        k: () => press("link"),
        s: () => latest.current.on.status(),
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
