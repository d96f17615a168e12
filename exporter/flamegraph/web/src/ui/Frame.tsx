// All that is to be said about one frame: under the pointer, beside the graph, in the menu.
import { useLayoutEffect, useRef } from "preact/hooks";
import { diffColor, type Theme, truncatedColor, typeColor, typeLabel } from "../graph/colors";
import type { Place } from "../graph/FlameGraph";
import { change, isFunction, isTruncated, nameAt, path, type Tree } from "../graph/tree";
import { factor, percent, points, samples, type Unit, value } from "../model/format";
import { truncatedType } from "../model/names";
import type { Reasons } from "../model/reasons";
import { brief, clean, endsMatter, source } from "../model/text";
import { menuKeys, Name } from "./common";
import { useApp } from "./context";
import { Icon, type IconName } from "./icons";

/** facts are a frame's fields, safe to show. */
export function facts(t: Tree, node: number) {
  const fn = t.fn[node]!;
  const line = t.line[node]! || t.functions.line[fn]!;
  return {
    name: nameAt(t, node),
    reason: isTruncated(t, node) ? t.functions.system_name[fn]! : "",
    guessed: t.guessed[node] === 1,
    system:
      !isTruncated(t, node) && t.functions.system_name[fn]! && t.functions.system_name[fn] !== t.functions.name[fn]
        ? clean(t.functions.system_name[fn]!)
        : "",
    source: source(t.functions.file[fn]!, line),
    mapping: t.functions.mapping[fn] ? clean(t.functions.mapping[fn]!, 120) : "",
    type: t.functions.type[fn]!,
    key: t.functions.key[fn]!,
  };
}

/** briefAt is a frame's name in about so many characters, with its line where that tells frames apart. */
function briefAt(t: Tree, node: number, max: number): string {
  const fn = t.fn[node]!;
  return (
    brief(t.functions.name[fn]!, t.functions.type[fn]!, max, t.names[fn]) + nameAt(t, node).slice(t.names[fn]!.length)
  );
}

/** describe says a frame in one breath, for those who listen. */
export function describe(t: Tree, node: number, unit: Unit, reasons: Reasons): string {
  const f = facts(t, node);
  const total = t.total[node]!;
  const out = [f.name];
  if (isFunction(f.type)) out.push(typeName(f.type));
  if (f.reason) out.push(`callers are missing: ${reasons.means(f.reason)}`);
  if (f.guessed) out.push(reasons.guessed);
  if (t.apart[t.fn[node]!]) out.push(`in ${t.apart[t.fn[node]!]}`);
  out.push(`${percent(total / (t.sum || 1))} of the total, ${value(total, unit)}`);
  out.push(`itself ${percent(t.self[node]! / (t.sum || 1))}`);
  if (t.baseTotal) out.push(`baseline ${percent(t.baseTotal[node]! / (t.baseSum || 1))}`);
  if (f.source) out.push(f.source);
  return out.join("; ");
}

/** typeName is a runtime's name; one without a colour of its own has the profile's word beside. */
export function typeName(type: string): string {
  const label = typeLabel(type);
  return label === "Unknown" && type !== "unknown" && type !== "" ? clean(type, 40) : label;
}

/** frameColor is the colour of a type in lists. */
function frameColor(type: string, theme: Theme): string {
  if (type === truncatedType) return truncatedColor[theme];
  return isFunction(type) ? typeColor(type, theme) : "transparent";
}

export function Swatch({ type, theme }: { type: string; theme: Theme }) {
  return <span class="swatch" style={{ background: typeColor(type, theme) }} aria-hidden="true" />;
}

interface NumbersProps {
  tree: Tree;
  node: number;
  unit: Unit;
  focus: number;
  theme: Theme;
}

/** Numbers is the table of a frame's values, of both sides when comparing. */
export function Numbers({ tree: t, node, unit, focus, theme }: NumbersProps) {
  const total = t.total[node]!;
  const self = t.self[node]!;
  if (t.baseTotal && t.baseSelf) {
    const row = (name: string, a: number, b: number) => {
      const sa = a / (t.sum || 1);
      const sb = b / (t.baseSum || 1);
      const c = change(a, t.sum, b, t.baseSum);
      return (
        <tr>
          <th scope="row">{name}</th>
          <td>
            {percent(sa)}
            <small>{value(a, unit)}</small>
          </td>
          <td>
            {percent(sb)}
            <small>{value(b, unit)}</small>
          </td>
          <td>
            <span class="diff-pill" style={{ background: diffColor(c, theme) }}>
              {points(sa - sb)}
            </span>
            <small>{factor(sa, sb)}</small>
          </td>
        </tr>
      );
    };
    return (
      <table class="numbers">
        <thead>
          <tr>
            <td />
            <th scope="col">Current</th>
            <th scope="col">Baseline</th>
            <th scope="col">
              <abbr title="percentage points of the share">Points</abbr>
            </th>
          </tr>
        </thead>
        <tbody>
          {row("Total", total, t.baseTotal[node]!)}
          {row("Self", self, t.baseSelf[node]!)}
        </tbody>
      </table>
    );
  }
  const row = (name: string, v: number) => (
    <tr>
      <th scope="row">{name}</th>
      <td class="numbers-main">{percent(v / (t.sum || 1))}</td>
      <td>{value(v, unit)}</td>
      <td class="numbers-weak">{samples(v, unit)}</td>
    </tr>
  );
  return (
    <>
      <table class="numbers">
        <tbody>
          {row("Total", total)}
          {row("Self", self)}
        </tbody>
      </table>
      {focus > 0 && node > focus && (
        <div class="numbers-weak numbers-of">
          {percent(total / (t.total[focus] || 1))} of the frame that is zoomed to
        </div>
      )}
    </>
  );
}

export interface FrameProps {
  tree: Tree;
  node: number;
  unit: Unit;
  theme: Theme;
  focus: number;
}

/** Why says why stacks end early for a reason, and what can be done about it. */
export function Why({ reason }: { reason: string }) {
  const r = useApp().reasons.of(reason);
  if (!r) return <p class="why">No more is known about this reason.</p>;
  return (
    <div class="why">
      <p>
        <strong>When:</strong> {r.when}.
      </p>
      <p>
        <strong>To do:</strong> {r.do}.
      </p>
    </div>
  );
}

function Where({ tree, node, theme }: FrameProps) {
  const { reasons } = useApp();
  const f = facts(tree, node);
  return (
    <>
      {f.reason && (
        <>
          <p class="why">Callers are missing: {reasons.means(f.reason)}.</p>
          <Why reason={f.reason} />
        </>
      )}
      {f.guessed && <p class="why">In some samples at least {reasons.guessed}.</p>}
      {f.source && <Name class="frame-source" text={f.source} breaks />}
      {isFunction(f.type) && (
        <div class="frame-type">
          <Swatch type={f.type} theme={theme} />
          {typeName(f.type)}
          {f.mapping && f.mapping !== "kernel" && (
            <>
              <span aria-hidden="true">·</span>
              <Name class="frame-mapping" text={f.mapping} breaks />
            </>
          )}
        </div>
      )}
    </>
  );
}

export function Tooltip(p: FrameProps & { at: Place }) {
  const el = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const r = el.current!.getBoundingClientRect();
    const gap = 14;
    const x = p.at.x + gap + r.width > window.innerWidth - 8 ? p.at.x - gap - r.width : p.at.x + gap;
    const y = p.at.y + gap + r.height > window.innerHeight - 8 ? p.at.y - gap - r.height : p.at.y + gap;
    el.current!.style.translate = `${Math.max(x, 8)}px ${Math.max(y, 8)}px`;
  });
  const f = facts(p.tree, p.node);
  return (
    <div ref={el} class="tooltip" role="tooltip">
      <Name class="tooltip-name" text={f.name} />
      <Where {...p} />
      <Numbers {...p} />
    </div>
  );
}

export interface FrameActions {
  zoom: (node: number) => void;
  sandwich: (node: number) => void;
  search: (node: number) => void;
  copy: (node: number) => void;
  filterType: (node: number) => void;
  filterReason: (node: number, not: boolean) => void;
  filterGroup: (node: number) => void;
  reset: () => void;
}

export function Details(p: FrameProps & { actions: FrameActions; onSelect: (node: number) => void }) {
  const { tree: t, node, actions } = p;
  const f = facts(t, node);
  const stack = path(t, node);
  const shown = stack.length > 40 ? [...stack.slice(0, 8), -1, ...stack.slice(-24)] : stack;
  return (
    <>
      <h3 class="details-name">
        <Name text={f.name} />
      </h3>
      {f.system && <Name class="frame-source" text={f.system} />}
      <Where {...p} />
      <Numbers {...p} />
      <div class="details-actions">
        <button type="button" class="button" onClick={() => actions.zoom(node)} disabled={node === p.focus}>
          <Icon name="zoom" size={14} /> Zoom
        </button>
        {f.reason ? (
          <>
            <button type="button" class="button" onClick={() => actions.filterReason(node, false)}>
              <Icon name="filter" size={14} /> Only these
            </button>
            <button type="button" class="button" onClick={() => actions.filterReason(node, true)}>
              <Icon name="filter" size={14} /> Without these
            </button>
          </>
        ) : (
          <>
            <button type="button" class="button" onClick={() => actions.sandwich(node)} disabled={!isFunction(f.type)}>
              <Icon name="sandwich" size={14} /> Sandwich
            </button>
            <button type="button" class="button" onClick={() => actions.search(node)} disabled={!isFunction(f.type)}>
              <Icon name="search" size={14} /> Find all
            </button>
          </>
        )}
        <button type="button" class="button" onClick={() => actions.copy(node)}>
          <Icon name="copy" size={14} /> Copy name
        </button>
      </div>
      <h3>Stack</h3>
      <ol class="stack" aria-label="The stack from the root to this frame">
        {shown.map((n) =>
          n < 0 ? (
            <li key="more" class="stack-more">
              {stack.length - 32} more
            </li>
          ) : (
            <li key={n}>
              <button
                type="button"
                class={n === node ? "stack-here" : ""}
                onClick={() => p.onSelect(n)}
                aria-current={n === node ? "true" : undefined}
              >
                <span
                  class="swatch"
                  style={{ background: frameColor(t.functions.type[t.fn[n]!]!, p.theme) }}
                  aria-hidden="true"
                />
                <Name
                  class="stack-name"
                  title={nameAt(t, n)}
                  text={briefAt(t, n, 34)}
                  end={endsMatter(t.functions.type[t.fn[n]!]!)}
                />
                <span class="stack-share">{percent(t.total[n]! / (t.sum || 1))}</span>
              </button>
            </li>
          ),
        )}
      </ol>
    </>
  );
}

interface MenuProps {
  tree: Tree;
  node: number;
  at: Place;
  zoomed: boolean;
  actions: FrameActions;
  onClose: () => void;
}

export function ContextMenu({ tree, node, at, zoomed, actions, onClose }: MenuProps) {
  const el = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const menu = el.current!;
    const before = document.activeElement as HTMLElement | null;
    const r = menu.getBoundingClientRect();
    menu.style.left = `${Math.max(Math.min(at.x, window.innerWidth - r.width - 8), 8)}px`;
    menu.style.top = `${Math.max(Math.min(at.y, window.innerHeight - r.height - 8), 8)}px`;
    menu.querySelector<HTMLElement>("[role=menuitem]:not([disabled])")!.focus();
    const outside = (e: Event) => !menu.contains(e.target as Node) && onClose();
    document.addEventListener("pointerdown", outside, true);
    return () => {
      document.removeEventListener("pointerdown", outside, true);
      if (menu.contains(document.activeElement) || document.activeElement === document.body) before?.focus();
    };
  }, [at, onClose]);
  const f = facts(tree, node);
  const item = (icon: IconName, text: string, act: () => void, hidden = false) =>
    hidden ? null : (
      <button
        type="button"
        role="menuitem"
        class="menu-item"
        onClick={() => {
          onClose();
          act();
        }}
      >
        <Icon name={icon} size={14} />
        {text}
      </button>
    );
  return (
    <div
      ref={el}
      class="context-menu"
      role="menu"
      tabIndex={-1}
      aria-label={`Actions for ${f.name}`}
      onKeyDown={(e) => {
        e.stopPropagation();
        if (e.key === "Escape" || e.key === "Tab") {
          e.preventDefault();
          onClose();
        } else menuKeys(e, el.current!);
      }}
    >
      <div class="menu-title">
        <Name text={f.name} />
      </div>
      {item("zoom", "Focus on this frame", () => actions.zoom(node), node === 0)}
      {item("back", "Show everything again", () => actions.reset(), !zoomed)}
      {item("sandwich", "Callers and callees (sandwich)", () => actions.sandwich(node), !isFunction(f.type))}
      {item("search", "Find all occurrences", () => actions.search(node), !isFunction(f.type))}
      {item("filter", "Only stacks that end for this reason", () => actions.filterReason(node, false), !f.reason)}
      {item("filter", "Without these stacks", () => actions.filterReason(node, true), !f.reason)}
      {item("filter", `Only ${f.name}`, () => actions.filterGroup(node), f.type !== "group")}
      {item(
        "filter",
        `Only stacks that end in ${typeName(f.type)}`,
        () => actions.filterType(node),
        !isFunction(f.type) || f.type === "",
      )}
      {item("copy", "Copy name", () => actions.copy(node))}
    </div>
  );
}

interface CrumbsProps {
  tree: Tree;
  focus: number;
  onZoom: (node: number) => void;
}

/** Breadcrumbs lead back out of a zoom. */
export function Breadcrumbs({ tree, focus, onZoom }: CrumbsProps) {
  const all = path(tree, focus);
  const shown = all.length > 6 ? [all[0]!, -1, ...all.slice(-4)] : all;
  return (
    <nav class="crumbs" aria-label="Zoomed to">
      <ol>
        {shown.map((n) => (
          <li key={n}>
            {n < 0 ? (
              <span class="crumb-more">{all.length - 5} more</span>
            ) : n === focus ? (
              <span aria-current="location" class="crumb-here">
                <Name
                  class="crumb-text"
                  text={briefAt(tree, n, 40)}
                  end={endsMatter(tree.functions.type[tree.fn[n]!]!)}
                />
              </span>
            ) : (
              <button type="button" class="crumb" onClick={() => onZoom(n)}>
                <Name
                  class="crumb-text"
                  text={briefAt(tree, n, 40)}
                  end={endsMatter(tree.functions.type[tree.fn[n]!]!)}
                />
              </button>
            )}
          </li>
        ))}
      </ol>
    </nav>
  );
}
