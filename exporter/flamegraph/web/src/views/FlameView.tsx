// The tab of the flame graph: the graph, its breadcrumbs, and the panel beside it.
import { useEffect, useMemo, useState } from "preact/hooks";
import { buildTree, findAll, matcher, path, type Tree } from "../graph/tree";
import { useAnswer } from "../model/answer";
import { checkFlame, type Flame } from "../model/api";
import { count, percent } from "../model/format";
import { brief } from "../model/text";
import { groupOf, selection } from "../model/view";
import { IconButton, Name } from "../ui/common";
import { useApp } from "../ui/context";
import { Breadcrumbs, Details } from "../ui/Frame";
import { Icon } from "../ui/icons";
import { Legend } from "../ui/Legend";
import { frameActions, GraphPane } from "./GraphPane";

/** useFlame asks for the tree, and for the rest of a subtree that was cut down for size once it is zoomed to. */
export function useFlame() {
  const { view, revision } = useApp();
  const params = selection(view);
  params.set("group", groupOf(view));
  if (view.lines) params.set("lines", "1");
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
  const found = useMemo(() => {
    const match = view.search ? matcher(view.search) : null;
    return match ? findAll(tree, match) : null;
  }, [tree, view.search]);
  const focus = tree.index.get(view.focus) ?? 0;
  const cursor = tree.index.get(view.node) ?? -1;
  const lostFocus = view.focus !== "" && !tree.index.has(view.focus) && !loading;
  const actions = useMemo(() => frameActions(app, tree), [app, tree]);

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
            <Legend tree={tree} focus={0} theme={theme} only={only} onOnly={setOnly} />
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
          <p class="flame-note">
            {count(tree.pruned.nodes)} of the narrowest frames are left out here (
            {percent(tree.pruned.self / (tree.sum || 1))} of own time); zooming in brings them.
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
              <Hottest tree={tree} onSelect={(n) => store.adjust({ node: tree.id[n]! })} />
            )}
          </div>
        </aside>
      )}
    </div>
  );
}

function nextMatch(tree: Tree, functions: Uint8Array, from: number, by: 1 | -1): number {
  for (let i = 1; i <= tree.size; i++) {
    const n = (((from + by * i) % tree.size) + tree.size) % tree.size;
    if (n > 0 && functions[tree.fn[n]!] && tree.weight[n]! > 0) return n;
  }
  return -1;
}

/** Hottest fills the panel while no frame is selected: where most of the own time goes. */
function Hottest({ tree, onSelect }: { tree: Tree; onSelect: (node: number) => void }) {
  const top = useMemo(() => {
    const nodes = Array.from({ length: tree.size }, (_, i) => i).filter((n) => n > 0 && tree.self[n]! > 0);
    return nodes.sort((a, b) => tree.self[b]! - tree.self[a]!).slice(0, 15);
  }, [tree]);
  const most = top.length > 0 ? tree.self[top[0]!]! : 1;
  return (
    <>
      <p class="hint">Click a frame to zoom in; its source, values and callers are shown here.</p>
      <h3>Hottest frames</h3>
      <ol class="hottest">
        {top.map((n) => (
          <li key={tree.id[n]}>
            <button type="button" onClick={() => onSelect(n)}>
              <Name
                class="hottest-name"
                text={brief(tree.names[tree.fn[n]!]!, tree.functions.type[tree.fn[n]!]!, 34)}
              />
              <span class="hottest-share">{percent(tree.self[n]! / (tree.sum || 1))}</span>
              <span class="hottest-bar" aria-hidden="true">
                <span style={{ width: `${(100 * tree.self[n]!) / most}%` }} />
              </span>
            </button>
          </li>
        ))}
      </ol>
    </>
  );
}
