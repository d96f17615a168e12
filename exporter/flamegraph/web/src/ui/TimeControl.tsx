// The time: live or not, and which range.
import { useState } from "preact/hooks";
import { rangeText } from "../model/describe";
import { clock, parseClock } from "../model/format";
import { fixedRange, liveRange, liveSeconds, type Range } from "../model/view";
import { PopoverButton } from "./common";
import { useApp } from "./context";
import { Icon } from "./icons";

const presets = [60, 300, 900];

/** bounds are the ends of a range as numbers. */
export function bounds(r: Range, now: number, window: { from: number; to: number }): { from: number; to: number } {
  const to = r.to ?? now;
  const from = r.from ?? (r.seconds === null ? Math.min(window.from, to) : to - r.seconds * 1000);
  return { from, to };
}

export function TimeControl() {
  const { store, view, status } = useApp();
  const { range } = view;
  const toggleLive = () => {
    if (range.live) {
      const b = bounds(range, status.now, status.window);
      store.go({ range: fixedRange(b.from, b.to) });
    } else {
      const length =
        range.from !== null && range.to !== null ? Math.round((range.to - range.from) / 1000) : liveSeconds;
      store.go({ range: liveRange(presets.includes(length) ? length : liveSeconds) });
    }
  };
  const text = rangeText(range);
  return (
    <div class="group" role="group" aria-label="Time">
      <button
        type="button"
        class={`button live ${range.live ? "live-on" : ""}`}
        aria-pressed={range.live}
        title={
          range.live
            ? "Refreshing as data come in. Click to hold still"
            : "Holding still. Click to follow what comes in"
        }
        onClick={toggleLive}
      >
        <span class="live-dot" aria-hidden="true" />
        {range.live ? "Live" : "Paused"}
      </button>
      <PopoverButton
        label="Time range"
        name="time"
        face={
          <>
            <span class="visually-hidden">Time range: </span>
            {text.charAt(0).toUpperCase() + text.slice(1)}
            <Icon name="down" size={12} />
          </>
        }
      >
        {(close) => (
          <div class="time-panel">
            <div class="menu-title">Live</div>
            {[...presets, null].map((s) => (
              <button
                type="button"
                key={s}
                class={`menu-item ${range.live && range.seconds === s ? "menu-item-on" : ""}`}
                onClick={() => {
                  store.go({ range: liveRange(s) });
                  close();
                }}
              >
                {s === null ? "Everything that is held" : `Last ${s / 60} min`}
              </button>
            ))}
            <div class="menu-title">From – to</div>
            <RangeForm
              initial={bounds(range, status.now, status.window)}
              action="Show this range"
              onRange={(from, to) => {
                store.go({ range: fixedRange(from, to) });
                close();
              }}
            />
          </div>
        )}
      </PopoverButton>
    </div>
  );
}

interface RangeFormProps {
  initial: { from: number; to: number };
  action: string;
  onRange: (from: number, to: number) => void;
}

/** RangeForm takes a typed range. */
export function RangeForm({ initial, action, onRange }: RangeFormProps) {
  const { status } = useApp();
  const [from, setFrom] = useState(() => clock(initial.from));
  const [to, setTo] = useState(() => clock(initial.to));
  const [problem, setProblem] = useState("");
  const submit = (e: Event) => {
    e.preventDefault();
    const a = parseClock(from, status.now);
    const b = parseClock(to, status.now);
    if (a === undefined || b === undefined) setProblem("Times look like 14:03, 14:03:20, -5m or now.");
    else if (a >= b) setProblem("The range ends before it begins.");
    else onRange(a, b);
  };
  return (
    <form class="range-form" onSubmit={submit}>
      <label>
        From
        <input value={from} spellcheck={false} onInput={(e) => setFrom(e.currentTarget.value)} />
      </label>
      <label>
        To
        <input value={to} spellcheck={false} onInput={(e) => setTo(e.currentTarget.value)} />
      </label>
      <button type="submit" class="button button-primary">
        {action}
      </button>
      <p class={problem ? "form-problem" : "hint"} role={problem ? "alert" : undefined}>
        {problem || "14:03, 14:03:20.5, -5m, now; local time"}
      </p>
    </form>
  );
}
