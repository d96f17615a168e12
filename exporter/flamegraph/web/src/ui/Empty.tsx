// When there is nothing to see: what is being waited for, and what can be done.
import type { ComponentChildren } from "preact";
import { retrySeconds } from "../model/answer";
import type { Status } from "../model/api";
import { filtersText, rangeText } from "../model/describe";
import { between, clock, count } from "../model/format";
import { clean, cleanLines } from "../model/text";
import { fixedRange, liveRange, liveSeconds, type View } from "../model/view";
import { Name, Problem } from "./common";
import { useApp } from "./context";
import { Icon, type IconName } from "./icons";

interface StateProps {
  icon: IconName;
  title: string;
  busy?: boolean;
  wide?: boolean;
  children: ComponentChildren;
}

function State(p: StateProps) {
  return (
    <div class={`empty ${p.wide ? "empty-wide" : ""}`} role="status">
      <div class={`empty-icon ${p.busy ? "empty-busy" : ""}`}>
        <Icon name={p.icon} size={36} />
      </div>
      <h2>{p.title}</h2>
      {p.children}
    </div>
  );
}

/** Waiting is the first minute: nothing has been received yet. Where no receiver works, nothing is waited for. */
export function Waiting({ status }: { status: Status }) {
  const troubled = status.receivers.filter((x) => x.problem);
  const r = status.receivers.find((x) => !x.problem);
  const refused = status.payloads.refused;
  const off = troubled.length > 0 && !r;
  return (
    <State
      icon={off ? "warning" : "flame"}
      title={off ? "Not profiling" : "Waiting for the first profiles"}
      busy={!off}
      wide={troubled.length > 0}
    >
      {troubled.map((x) => (
        <Problem key={x.name}>
          <div>
            The receiver <Name text={clean(x.name, 40)} /> reports:
          </div>
          <Name class="lines" text={cleanLines(x.problem, 2000)} />
        </Problem>
      ))}
      {off ? (
        <p>Profiles that others send to this collector are shown as soon as they come.</p>
      ) : r ? (
        <ol class="steps">
          <Step done text={`The receiver ${clean(r.name, 40)} is running`} />
          <Step
            done={r.taken > 0}
            text={
              r.taken > 0
                ? `${count(r.taken)} samples taken from ${count(r.processes)} processes`
                : "Taking the first samples"
            }
          />
          <Step done={false} text="The first payload reaches this page within the receiver's report_interval" />
        </ol>
      ) : (
        <p>
          No receiver in this collector takes profiles. Put one into the pipeline of this exporter, or send OTLP
          profiles from elsewhere to the collector's OTLP receiver.
        </p>
      )}
      {refused > 0 && (
        <p class="notice notice-warn">
          <Icon name="warning" size={14} />
          <span class="notice-text">
            {count(refused)} payloads were refused. The last: <Name text={clean(status.payloads.last_error, 400)} />
          </span>
        </p>
      )}
      <p class="hint">This page looks again every second.</p>
    </State>
  );
}

function Step({ done, text }: { done: boolean; text: string }) {
  return (
    <li class={done ? "step-done" : ""}>
      <span class="step-mark">{done ? <Icon name="check" size={13} /> : <span class="spinner" />}</span>
      <span class="visually-hidden">{done ? "done: " : "waiting: "}</span>
      {text}
    </li>
  );
}

function GoLive({ change, primary }: { change: (c: Partial<View>) => void; primary?: boolean }) {
  return (
    <button
      type="button"
      class={`button ${primary ? "button-primary" : ""}`}
      onClick={() => change({ range: liveRange(liveSeconds) })}
    >
      Go live
    </button>
  );
}

/** NoMatch says why a selection is empty, and offers the ways out. */
export function NoMatch() {
  const { store, view, status, type } = useApp();
  const w = status.window;
  const outside =
    view.range.from !== null && w.to > w.from && (view.range.from >= w.to || (view.range.to ?? w.to) <= w.from);
  const stale =
    view.range.live && w.to > 0 && w.to < w.from + 1e15 && status.now - w.to > 1000 * (view.range.seconds ?? 1e9);
  const change = (c: Partial<View>) => store.go({ ...c, focus: "", node: "" });
  // A link that has outlived its data: no filter is to blame.
  const expired = w.to > w.from && view.range.to !== null && view.range.to <= w.from;
  return (
    <State icon="search" title={expired ? "Older than what is held" : "No samples here"}>
      <p>
        {expired ? (
          <>
            The data of <strong>{rangeText(view.range)}</strong> are gone: what is held is{" "}
            <strong>{between(w.from, w.to, status.now)}</strong>.
          </>
        ) : type.samples === 0 ? (
          <>No samples of this profile type are held.</>
        ) : (
          <>
            Nothing matches <strong>{filtersText(view.filters)}</strong> in <strong>{rangeText(view.range)}</strong>.
          </>
        )}
      </p>
      {!expired && (outside || stale) && (
        <p class="hint">
          The window holds {clock(w.from)} to {clock(w.to)}.
        </p>
      )}
      <div class="empty-actions">
        {expired && <GoLive change={change} primary />}
        {!expired && view.filters.length > 0 && (
          <button type="button" class="button button-primary" onClick={() => change({ filters: [] })}>
            Clear the filters
          </button>
        )}
        {w.to > w.from && (
          <button type="button" class="button" onClick={() => change({ range: fixedRange(w.from, w.to + 1) })}>
            Show all that is held
          </button>
        )}
        {!expired && !view.range.live && <GoLive change={change} />}
      </div>
    </State>
  );
}

export function NoServer({ message, onRetry }: { message: string; onRetry: () => void }) {
  return (
    <State icon="warning" title="The collector cannot be reached">
      <p>{message}</p>
      <p class="hint">Is it still running, and is the tunnel open if you came here through ssh -L?</p>
      <div class="empty-actions">
        <button type="button" class="button button-primary" onClick={onRetry}>
          Try again
        </button>
      </div>
      <p class="hint">Trying again every {retrySeconds} s.</p>
    </State>
  );
}

/** Failed is a no of the collector that is no network trouble: a filter or an expression that it does not understand. */
export function Failed({ message, refused, onRetry }: { message: string; refused: boolean; onRetry: () => void }) {
  const { store, view } = useApp();
  return (
    <State
      icon="warning"
      title={refused ? "The collector does not accept this" : "Something went wrong in the collector"}
    >
      <p>
        <Name text={clean(message, 400)} />
      </p>
      <div class="empty-actions">
        <button type="button" class="button button-primary" onClick={onRetry}>
          Try again
        </button>
        {(view.filters.length > 0 || view.base) && (
          <button
            type="button"
            class="button"
            onClick={() => store.go({ filters: [], base: null, focus: "", node: "" })}
          >
            Clear filters and comparison
          </button>
        )}
      </div>
    </State>
  );
}

/** Defect is what is left when the page itself fails. */
export function Defect({ message }: { message: string }) {
  return (
    <State icon="warning" title="This page has met a defect of its own">
      <p>
        <Name text={clean(message, 400)} />
      </p>
      <div class="empty-actions">
        <button type="button" class="button button-primary" onClick={() => window.location.reload()}>
          Load it again
        </button>
        <a class="button" href="./">
          Begin anew
        </a>
      </div>
    </State>
  );
}
