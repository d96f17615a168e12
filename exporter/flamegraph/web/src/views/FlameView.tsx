// The tab of the flame graph: the graph, its breadcrumbs, and the panel beside it.
import { useEffect, useMemo, useState } from "preact/hooks";
import { buildTree, byType, path, type Tree, type TypeSum, truncated } from "../graph/tree";
import { useAnswer } from "../model/answer";
import { checkFlame, checkTable, type Flame, type FunctionTable, type Label } from "../model/api";
import { count, percent, points } from "../model/format";
import { buildRows } from "../model/rows";
import { brief, endsMatter } from "../model/text";
import { selection, treeParams } from "../model/view";
import { IconButton, Name } from "../ui/common";
import { useApp } from "../ui/context";
import { Breadcrumbs, Details, Swatch } from "../ui/Frame";
import { Icon } from "../ui/icons";
import { Legend } from "../ui/Legend";
import { frameActions, GraphPane } from "./GraphPane";
import { useFound, useMatch } from "./matches";

/** useFlame asks for the tree, and for the rest of a subtree that was cut down for size once it is zoomed to. */
export function useFlame() {
  const { view, revision } = useApp();
  const params = treeParams(view);
  const full = useAnswer<Flame>("flamegraph", params, revision, checkFlame);
  const deeper = new URLSearchParams(params);
  deeper.set("focus", view.focus);
  const cut = (full.data?.pruned.nodes ?? 0) > 0;
  const part = useAnswer<Flame>("flamegraph", view.focus !== "" && cut ? deeper : null, revision, checkFlame);
  const whole = useMemo(() => (full.data ? buildTree(full.data, view.widths) : null), [full.data, view.widths]);
  const zoomed = useMemo(() => (part.data ? buildTree(part.data, view.widths) : null), [part.data, view.widths]);
  const fits = zoomed !== null && view.focus !== "" && cut && part.key === `flamegraph?${deeper}`;
  return { full, part, tree: fits ? zoomed : whole, whole };
}

interface FlameViewProps {
  tree: Tree;
  loading: boolean;
  onStep: (step: ((by: 1 | -1) => void) | null) => void;
}

export function FlameView({ tree, loading, onStep }: FlameViewProps) {
  const app = useApp();
  const { store, view, unit, theme } = app;
  const [only, setOnly] = useState("");
  const found = useFound(tree, useMatch());
  const focus = tree.index.get(view.focus) ?? 0;
  const cursor = tree.index.get(view.node) ?? -1;
  const lostFocus = view.focus !== "" && !tree.index.has(view.focus) && !loading;
  const actions = useMemo(() => frameActions(app, tree), [app, tree]);
  const types = useTypes(tree);
  const cut = useMemo(() => truncated(tree) / (tree.sum || 1), [tree]);

  useEffect(() => {
    if (!found || found.nodes === 0) {
      onStep(null);
      return;
    }
    onStep((by) => {
      const from = tree.index.get(store.view.node) ?? (by > 0 ? 0 : tree.size);
      const next = nextMatch(tree, found.functions, from, by);
      if (next >= 0) {
        const zoom = tree.index.get(store.view.focus) ?? 0;
        const within = next >= zoom && next < tree.end[zoom]!;
        store.adjust({ node: tree.id[next]!, ...(within ? {} : { focus: "" }) });
      }
    });
    return () => onStep(null);
  }, [tree, found, store, onStep]);

  return (
    <div class={`flame-view ${view.panel ? "" : "flame-view-wide"}`}>
      <div class="flame-main">
        <div class="flame-bar">
          {focus > 0 ? (
            <>
              <Breadcrumbs tree={tree} focus={focus} onZoom={actions.zoom} />
              <span class="flame-share">{percent(tree.total[focus]! / (tree.sum || 1))} of the total</span>
              <button type="button" class="button button-small" onClick={actions.reset} title="Escape">
                <Icon name="back" size={13} /> Reset zoom
              </button>
            </>
          ) : lostFocus ? (
            <p class="hint" role="status">
              The frame that was zoomed to has no samples in this selection.{" "}
              <button type="button" class="link-button" onClick={actions.reset}>
                Show everything
              </button>
            </p>
          ) : (
            <Legend
              types={types}
              truncated={cut}
              colours={!tree.baseTotal}
              theme={theme}
              only={only}
              onOnly={setOnly}
            />
          )}
        </div>
        <GraphPane
          tree={tree}
          flip={view.flip}
          matches={found?.functions ?? null}
          only={only}
          label="Flame graph: arrow keys move between frames, Enter zooms, Escape zooms out, the menu key shows actions"
        />
        {tree.pruned.nodes > 0 && (
          <p class="flame-note" title={`${percent(tree.pruned.self / (tree.sum || 1))} of own time`}>
            The narrowest {count(tree.pruned.nodes)} frames are left out at this zoom. Zooming in brings them.
          </p>
        )}
      </div>
      {view.panel && (
        <aside class={`panel ${cursor < 0 ? "panel-idle" : ""}`} aria-label="Details">
          <div class="panel-head">
            <h2>Details</h2>
            <IconButton
              icon="close"
              label="Hide the details"
              class="button-bare"
              onClick={() => store.adjust({ panel: false })}
            />
          </div>
          <div class="panel-body" tabIndex={0} role="region" aria-label="Details of the selected frame">
            {cursor >= 0 ? (
              <Details
                tree={tree}
                node={cursor}
                unit={unit}
                theme={theme}
                focus={focus}
                actions={actions}
                onSelect={(n) =>
                  store.adjust({
                    node: tree.id[n]!,
                    ...(path(tree, focus).includes(n) || n >= focus ? {} : { focus: "" }),
                  })
                }
              />
            ) : (
              <Hottest />
            )}
          </div>
        </aside>
      )}
    </div>
  );
}

/**
 * useTypes sums own values by runtime. Where the tree was cut down for size the collector's own sums are asked for, unless
 * a filter on the runtime, which does not count in them, says what they are.
 */
function useTypes(tree: Tree): TypeSum[] {
  const { view, revision } = useApp();
  const cut = tree.pruned.self > 0 && !view.filters.some((f) => f.key === "frame_type");
  const { data } = useAnswer<{ labels: Label[] }>(
    "labels",
    cut ? selection({ ...view, base: null }) : null,
    revision,
    accept,
  );
  return useMemo(() => {
    const label = cut ? data?.labels.find((l) => l.key === "frame_type") : undefined;
    return label ? label.values.map((v) => ({ type: v.value, self: v.total, base: 0 })) : byType(tree, 0);
  }, [tree, cut, data]);
}

const accept = (a: { labels: Label[] }) => a;

function nextMatch(tree: Tree, functions: Uint8Array, from: number, by: 1 | -1): number {
  for (let i = 1; i <= tree.size; i++) {
    const n = (((from + by * i) % tree.size) + tree.size) % tree.size;
    if (n > 0 && functions[tree.fn[n]!] && tree.weight[n]! > 0) return n;
  }
  return -1;
}

/**
 * Hottest fills the panel while no frame is selected: the functions with most own time, or comparing, those whose share
 * differs most. The collector sums them up, since what was cut from the tree counts, too.
 */
function Hottest() {
  const { store, view, theme, revision } = useApp();
  const params = treeParams(view);
  params.set("limit", "15");
  if (view.base) params.set("sort", "diff");
  const { data } = useAnswer<FunctionTable>("table", params, revision, checkTable);
  const rows = useMemo(
    () => (data ? buildRows(data, null).filter((r) => (view.base ? Math.abs(r.selfDiff) > 0.00005 : r.self > 0)) : []),
    [data, view.base],
  );
  // A share is one of all; changes are drawn beside each other, the largest as wide as there is room.
  const most = view.base ? rows.reduce((a, r) => Math.max(a, Math.abs(r.selfDiff)), 0) || 1 : 1;
  return (
    <>
      <p class="hint">Click a frame to zoom in; its source, values and callers are shown here.</p>
      <h3>{view.base ? "Largest changes of self, in points of the share" : "Hottest functions, by self"}</h3>
      <ol class="hottest">
        {rows.map((r) => (
          <li key={r.key}>
            <button
              type="button"
              title={`Find ${r.name} in the flame graph`}
              onClick={() => store.go({ search: data!.functions.name[r.at]!.slice(0, 200) })}
            >
              <Swatch type={r.type} theme={theme} />
              <span class="hottest-name">
                <Name class="hottest-text" text={brief(r.full, r.type, r.apart ? 22 : 34)} end={endsMatter(r.type)} />
                {r.apart && <Name class="fn-apart" text={r.apart} />}
              </span>
              <span class="hottest-share">
                {view.base ? `${r.selfDiff < 0 ? "▼" : "▲"} ${points(r.selfDiff)}` : percent(r.selfShare)}
              </span>
              <span
                class={`hottest-bar ${view.base ? (r.selfDiff < 0 ? "hottest-less" : "hottest-more") : ""}`}
                aria-hidden="true"
              >
                <span style={{ width: `${(100 * (view.base ? Math.abs(r.selfDiff) : r.selfShare)) / most}%` }} />
              </span>
            </button>
          </li>
        ))}
      </ol>
    </>
  );
}
