// The health of what collects: what was sampled, delivered, lost and why, and which stacks are incomplete.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Receiver, Status } from "../model/api";
import { lossText } from "../model/describe";
import { bytes, clock, count, percent, span } from "../model/format";
import { stopKey } from "../model/reasons";
import { clean, cleanLines } from "../model/text";
import { IconButton, Name, Problem } from "./common";
import { useApp } from "./context";
import { Why } from "./Frame";
import { Icon } from "./icons";

export type Health = "good" | "note" | "bad" | "none";

const sum = (r: Record<string, number>) => Object.values(r).reduce((a, v) => a + v, 0);

/** health is what the button says: bad is a problem someone should look at, note a loss that is accounted for. */
export function health(s: Status): { health: Health; text: string } {
  if (s.receivers.some((r) => r.problem)) return { health: "bad", text: "Problem" };
  const taken = s.receivers.reduce((a, r) => a + r.taken, 0);
  const lost = s.receivers.reduce((a, r) => a + sum(r.lost), 0);
  const share = `${percent(lost / (taken || 1))} lost`;
  if (lost > taken / 100) return { health: "bad", text: share };
  if (s.payloads.refused > 0) return { health: "note", text: "Refused payloads" };
  if (lost > 0) return { health: "note", text: share };
  if (hasCutStacks(s)) return { health: "note", text: "Incomplete stacks" };
  if (s.payloads.skewed_profiles > 0) return { health: "note", text: "Clocks differ" };
  if (s.window.dropped_until !== null) return { health: "note", text: "Window is full" };
  return s.receivers.length === 0 ? { health: "none", text: "Status" } : { health: "good", text: "Healthy" };
}

const busyFrom = 100; // samples: of fewer a share says little
const manyCut = 0.2;

/** hasCutStacks is true if of a busy process many stacks lack callers, for whatever reasons: its graph misleads. */
function hasCutStacks(s: Status): boolean {
  const cut = new Map<string, number>();
  for (const i of s.incomplete) {
    if (i.of < busyFrom) continue;
    const process = `${i.pid}/${i.process}`;
    const sum = (cut.get(process) ?? 0) + i.samples;
    if (sum >= manyCut * i.of) return true;
    cut.set(process, sum);
  }
  return false;
}

export function StatusButton({ status, open, onToggle }: { status: Status; open: boolean; onToggle: () => void }) {
  const h = health(status);
  return (
    <button
      type="button"
      class="button"
      aria-expanded={open}
      aria-haspopup="dialog"
      title="Health of the receiver and of this window (S)"
      onClick={onToggle}
    >
      <span class={`dot dot-${h.health}`} aria-hidden="true" />
      <span class="button-text">{h.text}</span>
    </button>
  );
}

export function StatusPanel({ status, now, onClose }: { status: Status; now: number; onClose: () => void }) {
  const panel = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    const el = panel.current!;
    el.focus();
    return () => {
      if (el.contains(document.activeElement)) before?.focus();
    };
  }, []);
  const w = status.window;
  const used = w.budget_bytes > 0 ? w.bytes / w.budget_bytes : 0;
  return (
    <div
      ref={panel}
      class="drawer"
      role="dialog"
      aria-label="Status"
      tabIndex={-1}
      onKeyDown={(e) => {
        if (e.key !== "Escape") return;
        e.stopPropagation();
        onClose();
      }}
    >
      <div class="drawer-head">
        <h2>Status</h2>
        <IconButton icon="close" label="Close the status" class="button-bare" onClick={onClose} />
      </div>
      <div class="drawer-body" tabIndex={0} role="region" aria-label="Details of the status">
        {status.receivers.map((r) => (
          <ReceiverPart key={r.name} receiver={r} now={now} />
        ))}
        {status.receivers.length === 0 && (
          <Section title="Receiver">
            <p class="hint">
              No receiver of this collector tells about itself. Profiles came over the network, or none have come.
            </p>
          </Section>
        )}
        {status.incomplete.length > 0 && (
          <Section title="Incomplete stacks">
            <p class="hint">Their samples count; their callers are missing from some frame on.</p>
            <table class="plain">
              <thead>
                <tr>
                  <th scope="col">Process</th>
                  <th scope="col">Why</th>
                  <th scope="col" class="num">
                    Incomplete
                  </th>
                </tr>
              </thead>
              <tbody>
                {status.incomplete.slice(0, 50).map((i) => (
                  <tr key={`${i.process}/${i.pid}/${i.reason}`}>
                    <td>
                      <Name text={clean(i.process, 40)} /> <small>{clean(i.pid, 12)}</small>
                    </td>
                    <td>
                      <Stop reason={i.reason} pid={i.pid} onShow={onClose} />
                    </td>
                    <td class="num">
                      {percent(i.samples / (i.of || 1))}
                      <small>
                        {count(i.samples)} of {count(i.of)}
                      </small>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
            {status.incomplete.length > 50 && <p class="hint">{status.incomplete.length - 50} more.</p>}
          </Section>
        )}
        <Section title="Window in memory">
          <Fact name="Holds">
            {w.to > w.from ? (
              <>
                {clock(w.from, now)} – {clock(w.to, now)} <small>({span(w.to - w.from)})</small>
              </>
            ) : (
              "nothing yet"
            )}
          </Fact>
          <Fact name="Configured length">{span(w.seconds * 1000)}</Fact>
          <Fact name="Memory">
            {bytes(w.bytes)} <small>of {bytes(w.budget_bytes)}</small>
          </Fact>
          <div
            class={`meter ${used > 0.9 ? "meter-full" : ""}`}
            role="meter"
            aria-label="Memory budget used"
            aria-valuemin={0}
            aria-valuemax={100}
            aria-valuenow={Math.round(used * 100)}
          >
            <span style={{ width: `${Math.min(used * 100, 100)}%` }} />
          </div>
          <Fact name="Samples">{count(w.samples)}</Fact>
          <Fact name="Distinct stacks">{count(w.stacks)}</Fact>
          {w.dropped_until !== null && (
            <p class="notice notice-warn">
              <Icon name="warning" size={14} /> What is older than {clock(w.dropped_until, now)} was dropped: the budget
              of {bytes(w.budget_bytes)} is used up.
            </p>
          )}
        </Section>
        <Section title="Payloads">
          {status.payloads.skewed_profiles > 0 && (
            <p class="notice notice-warn">
              <Icon name="warning" size={14} /> {skewText(status.payloads.skewed_profiles, status.payloads.skew_ms)}
            </p>
          )}
          <Fact name="Accepted">{count(status.payloads.accepted)}</Fact>
          <Fact name="Refused">{count(status.payloads.refused)}</Fact>
          {status.payloads.last_error && (
            <p class="notice notice-warn">
              <Icon name="warning" size={14} /> <Name text={clean(status.payloads.last_error, 400)} />
            </p>
          )}
        </Section>
        <p class="hint">
          Version <Name text={clean(status.version || "unknown", 60)} />
        </p>
      </div>
    </div>
  );
}

/** skewText says what became of times that cannot be true. */
export function skewText(profiles: number, ms: number): string {
  const off = `${span(Math.abs(ms))} ${ms < 0 ? "behind" : "ahead of"} this host's clock`;
  return `The times of ${count(profiles)} ${profiles === 1 ? "profile" : "profiles"} cannot be true, the last ${off}: they are shown at their arrival.`;
}

function ReceiverPart({ receiver: r, now }: { receiver: Receiver; now: number }) {
  const { reasons } = useApp();
  const lost = Object.entries(r.lost).filter(([, n]) => n > 0);
  const stops = Object.entries(r.stops).filter(([, n]) => n > 0);
  const stopped = sum(r.stops);
  const rest = r.taken - r.delivered - sum(r.lost);
  return (
    <Section title={`Receiver ${clean(r.name, 60)}`}>
      {r.problem && (
        <Problem live>
          <Name class="lines" text={cleanLines(r.problem, 2000)} />
        </Problem>
      )}
      {!!r.lacks?.length && <p class="hint">Less detail without {r.lacks.map((x) => clean(x, 200)).join(", ")}.</p>}
      <div class="tiles">
        <Tile name="Taken" text={count(r.taken)} />
        <Tile name="Delivered" text={count(r.delivered)} note={percent(r.delivered / (r.taken || 1))} />
        <Tile
          name="Lost"
          text={count(sum(r.lost))}
          note={percent(sum(r.lost) / (r.taken || 1))}
          bad={lost.length > 0}
        />
      </div>
      {lost.map(([reason, n]) => (
        <Fact key={reason} name={`Lost: ${lossText(reason)}`} title={clean(reason, 60)}>
          {count(n)} <small>{percent(n / (r.taken || 1))}</small>
        </Fact>
      ))}
      {rest > 0 && <Fact name="On their way">{count(rest)}</Fact>}
      <Fact name="Last heard of">{span(Math.max(now - r.seen, 0))} ago</Fact>
      <Fact name="Skipped by the kernel">{count(r.kernel_skipped)}</Fact>
      <Fact name="Processes">{count(r.processes)}</Fact>
      <Fact name="Executables">{count(r.executables)}</Fact>
      {stops.length > 0 && <h4>How stacks ended</h4>}
      {stops
        .sort((a, b) => b[1] - a[1])
        .map(([reason, n]) => (
          <Fact key={reason} name={<Stop reason={reason} />} good={reasons.isComplete(reason)}>
            {count(n)} <small>{percent(n / (stopped || 1))}</small>
          </Fact>
        ))}
    </Section>
  );
}

interface StopProps {
  reason: string;
  pid?: string; // of a process that has such stacks
  onShow?: () => void;
}

/** Stop is a reason for the end of stacks, which unfolds to what is to be said about it. */
function Stop({ reason, pid, onShow }: StopProps) {
  const { store, reasons } = useApp();
  const show = () => {
    const wanted = [{ key: stopKey, value: reason, not: false }];
    if (pid) wanted.push({ key: "process.pid", value: pid, not: false });
    store.go((v) => ({
      filters: [...v.filters.filter((f) => !wanted.some((w) => w.key === f.key)), ...wanted],
      markers: true,
      focus: "",
      node: "",
    }));
    onShow?.();
  };
  return (
    <details class="stop" title={clean(reason, 80)}>
      <summary>{reasons.means(reason)}</summary>
      <Why reason={reason} />
      <p class="why">
        <strong>Name:</strong> <Name text={clean(reason, 80)} />
      </p>
      {onShow && (
        <button type="button" class="button button-small" onClick={show}>
          Show these stacks
        </button>
      )}
    </details>
  );
}

function Section({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="drawer-section">
      <h3>
        <Name text={title} />
      </h3>
      {children}
    </section>
  );
}

function Fact(p: { name: ComponentChildren; title?: string; good?: boolean; children: ComponentChildren }) {
  const { name, title, good, children } = p;
  return (
    <div class="fact" title={title}>
      <div class="fact-name">
        {good !== undefined && <span class={`dot ${good ? "dot-good" : "dot-note"}`} aria-hidden="true" />}
        {name}
      </div>
      <span class="fact-value">{children}</span>
    </div>
  );
}

function Tile({ name, text, note, bad }: { name: string; text: string; note?: string; bad?: boolean }) {
  return (
    <div class={`tile ${bad ? "tile-bad" : ""}`}>
      <span class="tile-name">{name}</span>
      <span class="tile-value">{text}</span>
      <span class="tile-note">{note ?? "\u00a0"}</span>
    </div>
  );
}
