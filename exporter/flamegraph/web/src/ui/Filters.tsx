// Filters as chips, and the way to add one: keys on the left, their values with shares on the right.
import { useState } from "preact/hooks";
import { useAnswer } from "../model/answer";
import type { Label } from "../model/api";
import { keyName } from "../model/describe";
import { percent, value } from "../model/format";
import { clean } from "../model/text";
import { type Filter, filterText, groups, sameFilter, selection, type View } from "../model/view";
import { Name, PopoverButton } from "./common";
import { useApp } from "./context";
import { Icon } from "./icons";

export function Filters() {
  const { store, view } = useApp();
  const set = (filters: Filter[]) => store.go({ filters, focus: "", node: "" });
  return (
    <div class="filters" role="group" aria-label="Filters">
      <PopoverButton
        label="Add a filter"
        name="filters"
        class="popover-wide"
        title="Add a filter (A)"
        face={
          <>
            <Icon name="filter" />
            Filter
          </>
        }
      >
        {() => <FilterPicker filters={view.filters} onFilters={set} focus />}
      </PopoverButton>
      {view.filters.map((f) => (
        <span class={`chip ${f.not ? "chip-not" : ""}`} key={filterText(f)}>
          <button
            type="button"
            class="chip-text"
            title={f.not ? "Click to keep only this" : "Click to exclude this instead"}
            onClick={() => set(view.filters.map((g) => (sameFilter(f, g) ? { ...g, not: !g.not } : g)))}
          >
            <span class="chip-key">{keyName(f.key)}</span>
            <span class="chip-op">{f.not ? "is not" : "is"}</span>
            <Name class="chip-value" text={clean(f.value, 40)} />
          </button>
          <button
            type="button"
            class="chip-x"
            aria-label={`Remove the filter ${keyName(f.key)} ${f.not ? "is not " : ""}${clean(f.value, 40)}`}
            onClick={() => set(view.filters.filter((g) => !sameFilter(f, g)))}
          >
            <Icon name="close" size={10} />
          </button>
        </span>
      ))}
      {view.filters.length > 1 && (
        <button type="button" class="link-button" onClick={() => set([])}>
          Clear all
        </button>
      )}
    </div>
  );
}

interface PickerProps {
  filters: Filter[];
  onFilters: (filters: Filter[]) => void;
  single?: boolean; // a value takes the place of others of its key
  focus?: boolean; // the search field has the focus at first
}

const usual: readonly string[] = [...groups, "frame_type"];
const rank = (key: string) => (usual.includes(key) ? usual.indexOf(key) : usual.length);

const accept = (a: { labels: Label[] }) => a;

/** FilterPicker offers what the selection can be filtered by, biggest first. */
export function FilterPicker({ filters, onFilters, single, focus }: PickerProps) {
  const { view, unit, revision } = useApp();
  const [key, setKey] = useState("");
  const [search, setSearch] = useState("");
  const asked: View = { ...view, filters, base: null };
  const answer = useAnswer("labels", selection(asked), revision, accept);
  const labels = [...(answer.data?.labels ?? [])].sort((a, b) => rank(a.key) - rank(b.key));
  const current = labels.find((l) => l.key === key) ?? labels[0];
  const loading = !answer.error && !answer.data;
  if (!current && !loading) {
    return <p class="hint pad">{answer.error ? answer.error.message : "Nothing here can be filtered."}</p>;
  }
  // The field to type into is there before the values are.
  const { values: all, more, key: of } = current ?? { values: [], more: 0, key: "" };
  const name = of === "" ? "the key" : keyName(of);
  const sum = all.reduce((a, v) => a + v.total, 0);
  const wanted = search.trim().toLowerCase();
  const values = all.filter((v) => `${v.value} ${v.hint ?? ""}`.toLowerCase().includes(wanted));
  const toggle = (f: Filter) => {
    const others = filters.filter((g) => (single ? g.key !== f.key : g.key !== f.key || g.value !== f.value));
    onFilters(filters.some((g) => sameFilter(f, g)) ? others : [...others, f]);
  };
  const chooseFirst = () => {
    const value = values[0]?.value ?? (more > 0 ? search.trim() : "");
    if (wanted === "" || value === "") return;
    const f = { key: of, value, not: false };
    if (!filters.some((g) => sameFilter(f, g))) toggle(f);
    setSearch("");
  };
  return (
    <div class="picker">
      <div class="picker-keys" role="group" aria-label="Filter by">
        {labels.map((l) => (
          <button
            type="button"
            key={l.key}
            class={`menu-item ${l === current ? "menu-item-on" : ""}`}
            aria-pressed={l === current}
            title={clean(l.key, 120)}
            onClick={() => {
              setKey(l.key);
              setSearch("");
            }}
          >
            <Name class="picker-key" text={keyName(l.key)} breaks />
            <span class="menu-note">{l.values.length + l.more}</span>
          </button>
        ))}
      </div>
      <div class="picker-values">
        <input
          type="search"
          class="picker-search"
          placeholder={`Search ${name}…`}
          aria-label={`Search values of ${name}`}
          data-autofocus={focus}
          value={search}
          onInput={(e) => setSearch(e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key !== "Enter") return;
            e.preventDefault();
            chooseFirst();
          }}
        />
        <ul class="picker-list" aria-label={`Values of ${name}`}>
          {values.map((v) => {
            const f = { key: of, value: v.value, not: false };
            const on = filters.some((g) => sameFilter(f, g));
            const off = filters.some((g) => sameFilter({ ...f, not: true }, g));
            const shown = clean(v.value, 80);
            const hint = v.hint ? clean(v.hint, 40) : "";
            return (
              <li key={v.value} class={off ? "picker-off" : ""}>
                <button
                  type="button"
                  role="checkbox"
                  aria-checked={on}
                  class="picker-value"
                  title={hint ? `${shown} ${hint}` : shown}
                  aria-label={[shown, hint, percent(v.total / (sum || 1))].filter((s) => s !== "").join(", ")}
                  onClick={() => toggle(f)}
                >
                  <span class={`box ${on ? "box-on" : ""}`}>{on && <Icon name="check" size={12} />}</span>
                  <span class="picker-name">
                    <Name text={shown} />
                    {hint && <Name class="picker-hint" text={hint} />}
                  </span>
                  <span class="picker-bar" aria-hidden="true">
                    <span style={{ width: `${(100 * v.total) / (sum || 1)}%` }} />
                  </span>
                  <span class="picker-total">{value(v.total, unit)}</span>
                  <span class="picker-share">{percent(v.total / (sum || 1))}</span>
                </button>
                <button
                  type="button"
                  class={`picker-not ${off ? "picker-not-on" : ""}`}
                  aria-pressed={off}
                  aria-label={`Exclude ${shown}`}
                  title="Exclude"
                  onClick={() => toggle({ ...f, not: true })}
                >
                  ≠
                </button>
              </li>
            );
          })}
          {values.length === 0 && (
            <li class="hint pad">
              {loading ? "Loading…" : more === 0 ? "No value has this in it." : "None of these has this in it. "}
              {more > 0 && (
                <button
                  type="button"
                  class="link-button"
                  onClick={() => toggle({ key: of, value: search.trim(), not: false })}
                >
                  Filter by exactly this
                </button>
              )}
            </li>
          )}
        </ul>
        {more > 0 && <p class="hint">{more} smaller values are left out.</p>}
      </div>
    </div>
  );
}
