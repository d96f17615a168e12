// When there is nothing to see: what is being waited for, and what can be done.
import type { ComponentChildren } from "preact";
import { retrySeconds } from "../model/answer";
import type { Status } from "../model/api";
import { filtersText, rangeText } from "../model/describe";
import { clock, count } from "../model/format";
import { clean } from "../model/text";
import { fixedRange, type View } from "../model/view";
import { Name } from "./common";
import { useApp } from "./context";
import { Icon, type IconName } from "./icons";

function State(p: { icon: IconName; title: string; busy?: boolean; children: ComponentChildren }) {
  return (
    <div class="empty" role="status">
      <div class={`empty-icon ${p.busy ? "empty-busy" : ""}`}>
        <Icon name={p.icon} size={36} />
      </div>
      <h2>{p.title}</h2>
      {p.children}
    </div>
  );
}

/** Waiting is the first minute: nothing has been received yet. */
export function Waiting({ status }: { status: Status }) {
  const [r] = status.receivers;
  const problem = status.receivers.find((x) => x.problem)?.problem;
  const refused = status.payloads.refused;
  return (
    <State icon="flame" title="Waiting for the first profiles" busy>
      {problem ? (
        <p class="notice notice-bad">
          <Icon name="warning" size={14} /> The receiver reports: <Name text={clean(problem, 400)} />
        </p>
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
          <Icon name="warning" size={14} /> {count(refused)} payloads were refused. The last:{" "}
          <Name text={clean(status.payloads.last_error, 400)} />
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

/** NoMatch says why a selection is empty, and offers the ways out. */
export function NoMatch() {
  const { store, view, status, type } = useApp();
  const w = status.window;
  const outside =
    view.range.from !== null && w.to > w.from && (view.range.from >= w.to || (view.range.to ?? w.to) <= w.from);
  const stale =
    view.range.live && w.to > 0 && w.to < w.from + 1e15 && status.now - w.to > 1000 * (view.range.seconds ?? 1e9);
  const change = (c: Partial<View>) => store.go({ ...c, focus: "", node: "" });
  return (
    <State icon="search" title="No samples here">
      <p>
        {type.samples === 0 ? (
          <>No samples of this profile type are held.</>
        ) : (
          <>
            Nothing matches <strong>{filtersText(view.filters)}</strong> in <strong>{rangeText(view.range)}</strong>.
          </>
        )}
      </p>
      {(outside || stale) && (
        <p class="hint">
          The window holds {clock(w.from)} to {clock(w.to)}.
        </p>
      )}
      <div class="empty-actions">
        {view.filters.length > 0 && (
          <button type="button" class="button button-primary" onClick={() => change({ filters: [] })}>
            Clear the filters
          </button>
        )}
        {w.to > w.from && (
          <button type="button" class="button" onClick={() => change({ range: fixedRange(w.from, w.to + 1) })}>
            Show all that is held
          </button>
        )}
        {!view.range.live && (
          <button
            type="button"
            class="button"
            onClick={() => change({ range: { live: true, seconds: 300, from: null, to: null } })}
          >
            Go live
          </button>
        )}
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
