// The functions as a table of which only the rows in sight exist. One row is selected; keys move the selection.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { diffColor } from "../graph/colors";
import { change, isExpression, matcher } from "../graph/tree";
import { useAnswer } from "../model/answer";
import { checkTable, type FunctionTable } from "../model/api";
import { count, factor, percent, points, value } from "../model/format";
import { buildRows, type Row, sortRows } from "../model/rows";
import { brief, endsMatter } from "../model/text";
import { type SortKey, treeParams } from "../model/view";
import { Name } from "../ui/common";
import { useApp } from "../ui/context";
import { Swatch, typeName } from "../ui/Frame";
import { Icon } from "../ui/icons";

const rowHeight = 30;
const limit = 5000;

/** useFunctions asks for the table and gives its rows in order. */
export function useFunctions() {
  const { view, revision } = useApp();
  const params = treeParams({ ...view, lines: false });
  const sort = view.sort === "diff" && !view.base ? "self" : view.sort;
  params.set("sort", sort);
  params.set("limit", String(limit));
  if (view.search) params.set("search", view.search);
  const answer = useAnswer<FunctionTable>("table", params, revision, checkTable);
  const rows = useMemo(() => {
    if (!answer.data) return [];
    // Shown at once, before the collector has sorted out the others.
    const match = view.search && !isExpression(view.search) ? matcher(view.search) : null;
    return sortRows(buildRows(answer.data, match), sort, view.ascending);
  }, [answer.data, view.search, sort, view.ascending]);
  return { answer, rows };
}

interface FunctionsProps {
  answer: ReturnType<typeof useFunctions>["answer"];
  rows: Row[];
  selected: string;
  compact: boolean;
  onSelect: (row: Row) => void;
  onOpen: (row: Row) => void;
  onFind: (row: Row) => void;
}

export function Functions(p: FunctionsProps) {
  const { store, view, unit, theme } = useApp();
  const box = useRef<HTMLDivElement>(null);
  const [window, setWindow] = useState({ top: 0, height: 600 });
  const diff = view.base !== null;
  const { rows } = p;
  const at = rows.findIndex((r) => r.key === p.selected);

  useLayoutEffect(() => {
    const el = box.current!;
    const observe = new ResizeObserver(() => setWindow({ top: el.scrollTop, height: el.clientHeight }));
    observe.observe(el);
    return () => observe.disconnect();
  }, []);

  const show = (i: number) => {
    const el = box.current!;
    const y = i * rowHeight;
    const visible = el.clientHeight - 34; // below the head
    if (y < el.scrollTop) el.scrollTop = y;
    else if (y + rowHeight > el.scrollTop + visible) el.scrollTop = y + rowHeight - visible;
  };

  const onKeyDown = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.altKey || e.metaKey || (e.target as HTMLElement).tagName === "BUTTON") return;
    const page = Math.max(Math.floor(window.height / rowHeight) - 2, 1);
    const moves: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      Home: 0,
      End: rows.length - 1,
      PageDown: at + page,
      PageUp: at - page,
    };
    const to = moves[e.key];
    if (to !== undefined && rows.length > 0) {
      const next = Math.min(Math.max(to, 0), rows.length - 1);
      p.onSelect(rows[next]!);
      show(next);
    } else if (e.key === "Enter" && at >= 0) p.onOpen(rows[at]!);
    else if (e.key === "f" && at >= 0) p.onFind(rows[at]!);
    else return;
    e.preventDefault();
    e.stopPropagation();
  };

  const first = Math.max(Math.floor(window.top / rowHeight) - 8, 0);
  const last = Math.min(Math.ceil((window.top + window.height) / rowHeight) + 8, rows.length);
  const head = (key: SortKey, text: string, title: string, numeric = true) => {
    const on = view.sort === key;
    return (
      <th
        scope="col"
        class={numeric ? `num num-${key}` : ""}
        aria-sort={on ? (view.ascending !== (key === "name") ? "ascending" : "descending") : "none"}
      >
        <button
          type="button"
          title={title}
          onClick={() => store.adjust({ sort: key, ascending: on ? !view.ascending : false })}
        >
          {text}
          <span
            class={`sort ${on ? "sort-on" : ""} ${on && view.ascending !== (key === "name") ? "sort-up" : ""}`}
            aria-hidden="true"
          >
            <Icon name="down" size={11} />
          </span>
        </button>
      </th>
    );
  };
  return (
    <div
      ref={box}
      class={`functions ${p.compact ? "functions-compact" : ""}`}
      tabIndex={0}
      role="region"
      aria-label="Functions"
      onKeyDown={onKeyDown}
      onScroll={(e) => setWindow({ top: e.currentTarget.scrollTop, height: e.currentTarget.clientHeight })}
    >
      <table aria-rowcount={rows.length + 1} aria-label="Functions with their values">
        <thead>
          <tr aria-rowindex={1}>
            {head("name", "Function", "Sort by name", false)}
            {head(
              "self",
              "Self",
              "Sort by own value: what was spent in the function itself. Shares are of all that is selected",
            )}
            {diff && !p.compact && (
              <th scope="col" class="num num-base">
                Self, baseline
              </th>
            )}
            {diff && head("diff", "Δ self", "Sort by the difference of own shares, in percentage points (pp)")}
            {!p.compact &&
              head(
                "total",
                "Total",
                "Sort by total: the function and all that it calls. Shares are of all that is selected",
              )}
            {p.compact &&
              !diff &&
              head(
                "total",
                "Total",
                "Sort by total: the function and all that it calls. Shares are of all that is selected",
              )}
            {diff && !p.compact && (
              <th
                scope="col"
                class="num num-diff num-diff-total"
                title="The difference of total shares, in percentage points (pp)"
              >
                Δ total
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {first > 0 && (
            <tr aria-hidden="true" style={{ height: `${first * rowHeight}px` }}>
              <td />
            </tr>
          )}
          {rows.slice(first, last).map((r, i) => (
            <tr
              key={r.key}
              aria-rowindex={first + i + 2}
              aria-selected={r.key === p.selected}
              class={`${(first + i) % 2 ? "odd" : ""} ${r.key === p.selected ? "row-on" : ""}`}
              onClick={() => p.onSelect(r)}
              onDblClick={() => p.onOpen(r)}
            >
              <td class="fn">
                <div class="fn-cell">
                  <Swatch type={r.type} theme={theme} />
                  <span class="visually-hidden">{typeName(r.type)}: </span>
                  <Name
                    class="fn-name"
                    title={r.name}
                    text={p.compact ? brief(r.full, r.type, r.apart ? 22 : 34) : r.name}
                    end={endsMatter(r.type)}
                  />
                  {r.apart && <Name class="fn-apart" text={r.apart} />}
                  {!p.compact && r.source && <Name class="fn-source" text={r.source} />}
                  <span class="fn-actions">
                    {!p.compact && (
                      <button
                        type="button"
                        tabIndex={-1}
                        class="mini"
                        title="Callers and callees (Enter)"
                        aria-label={`Sandwich: ${r.name}`}
                        onClick={() => p.onOpen(r)}
                      >
                        <Icon name="sandwich" size={14} />
                      </button>
                    )}
                    <button
                      type="button"
                      tabIndex={-1}
                      class="mini"
                      title="Find in the flame graph (F)"
                      aria-label={`Find in the flame graph: ${r.name}`}
                      onClick={() => p.onFind(r)}
                    >
                      <Icon name="flame" size={14} />
                    </button>
                  </span>
                </div>
              </td>
              <Cell share={r.selfShare} text={value(r.self, unit)} bar={!p.compact} />
              {diff && !p.compact && (
                <Cell
                  share={p.answer.data!.base_total ? r.baseSelf / p.answer.data!.base_total : 0}
                  text={value(r.baseSelf, unit)}
                  bar={false}
                  base
                />
              )}
              {diff && <Diff diff={r.selfDiff} now={r.self} base={r.baseSelf} data={p.answer.data!} />}
              {!(p.compact && diff) && <Cell share={r.totalShare} text={value(r.total, unit)} bar={!p.compact} />}
              {diff && !p.compact && (
                <Diff total diff={r.totalDiff} now={r.total} base={r.baseTotal} data={p.answer.data!} />
              )}
            </tr>
          ))}
          {last < rows.length && (
            <tr aria-hidden="true" style={{ height: `${(rows.length - last) * rowHeight}px` }}>
              <td />
            </tr>
          )}
        </tbody>
      </table>
      {rows.length === 0 && p.answer.data && (
        <p class="hint pad">
          {view.search ? "No function, file or mapping matches the search." : "No functions in this selection."}
        </p>
      )}
      {p.answer.data && p.answer.data.more > 0 && (
        <p class="hint pad">
          The first {count(p.answer.data.functions.key.length)} by {view.sort}; {count(p.answer.data.more)} more. Search
          or filter to see them.
        </p>
      )}
    </div>
  );
}

/** Cell is a share with its value; a full bar is all that is selected. */
function Cell({ share, text, bar, base }: { share: number; text: string; bar: boolean; base?: boolean }) {
  return (
    <td class="num" title={`${percent(share)} of all that is ${base ? "in the baseline" : "selected"}: ${text}`}>
      <span class={`cell ${base ? "cell-base" : ""}`}>
        {bar && (
          <span class="cell-bar" aria-hidden="true">
            {share > 0 && <span style={{ width: `${Math.min(share * 100, 100)}%` }} />}
          </span>
        )}
        <span class="cell-share">{percent(share)}</span>
        {bar && <span class="cell-value">{text}</span>}
      </span>
    </td>
  );
}

interface DiffProps {
  diff: number;
  now: number;
  base: number;
  data: FunctionTable;
  total?: boolean;
}

function Diff({ diff, now, base, data, total }: DiffProps) {
  const { theme } = useApp();
  const c = change(now, data.total, base, data.base_total);
  return (
    <td class={`num diff-cell ${total ? "diff-cell-total" : ""}`}>
      <span class="diff-pill" style={{ background: diffColor(c, theme) }}>
        {Math.abs(c) < 0.08 ? "" : c > 0 ? "▲ " : "▼ "}
        {points(diff)}
      </span>
      <span class="cell-factor">{factor(now / (data.total || 1), base / (data.base_total || 1))}</span>
    </td>
  );
}
