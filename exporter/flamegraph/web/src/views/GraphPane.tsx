// A flame graph with what belongs to a frame: tooltip, menu, and what can be done with it.
import { useCallback, useMemo, useState } from "preact/hooks";
import { FlameGraph, type Place } from "../graph/FlameGraph";
import type { Tree } from "../graph/tree";
import { stopKey } from "../model/reasons";
import { copyable } from "../model/text";
import { groupOf } from "../model/view";
import { copy } from "../ui/common";
import { type App, useApp } from "../ui/context";
import { ContextMenu, describe, type FrameActions, Tooltip } from "../ui/Frame";

/** frameActions is what can be done with a frame of a tree. */
export function frameActions(app: App, tree: Tree): FrameActions {
  const { store, toast } = app;
  const fn = (node: number) => tree.fn[node]!;
  return {
    zoom: (n) => store.go({ focus: n === 0 ? "" : tree.id[n]!, node: tree.id[n]! }),
    reset: () => store.go({ focus: "" }),
    sandwich: (n) => store.go({ tab: "sandwich", function: tree.functions.key[fn(n)]!, focus: "", node: "" }),
    search: (n) => store.go({ search: tree.functions.name[fn(n)]!.slice(0, 200) }),
    copy: async (n) =>
      toast((await copy(copyable(tree.functions.name[fn(n)]!))) ? "Name copied" : "The browser did not allow copying"),
    filterGroup: (n) => {
      store.go((v) => {
        const f = { key: groupOf(v), value: tree.functions.name[fn(n)]!, not: false };
        return { filters: [...v.filters.filter((g) => g.key !== f.key), f], focus: "", node: "" };
      });
    },
    filterReason: (n, not) => {
      const f = { key: stopKey, value: tree.functions.system_name[fn(n)]!, not };
      store.go((v) => ({
        // Several values of one key are alternatives, several that are excluded are all excluded.
        filters: [...v.filters.filter((g) => g.key !== f.key || (not && g.not && g.value !== f.value)), f],
        focus: "",
        node: "",
      }));
    },
    filterType: (n) => {
      const f = { key: "frame_type", value: tree.functions.type[fn(n)]!, not: false };
      store.go((v) => ({ filters: [...v.filters.filter((g) => g.key !== f.key), f], focus: "", node: "" }));
    },
  };
}

interface GraphPaneProps {
  tree: Tree;
  flip: boolean;
  matches: Uint8Array | null;
  only: string;
  label: string;
}

export function GraphPane({ tree, flip, matches, only, label }: GraphPaneProps) {
  const app = useApp();
  const { store, view, unit, theme, reasons } = app;
  const [hover, setHover] = useState<{ tree: Tree; node: number; at: Place } | null>(null);
  const [menu, setMenu] = useState<{ tree: Tree; node: number; at: Place } | null>(null);
  const actions = useMemo(() => frameActions(app, tree), [app, tree]);
  const focus = tree.index.get(view.focus) ?? 0;
  const cursor = tree.index.get(view.node) ?? -1;
  const onHover = useCallback((node: number, at: Place) => setHover(node < 0 ? null : { tree, node, at }), [tree]);
  const closeMenu = useCallback(() => setMenu(null), []);
  return (
    <>
      <FlameGraph
        tree={tree}
        theme={theme}
        flip={flip}
        focus={focus}
        cursor={cursor}
        matches={matches}
        only={only}
        label={label}
        describe={(n) => describe(tree, n, unit, reasons)}
        onZoom={actions.zoom}
        onCursor={(n) => store.adjust({ node: tree.id[n]! })}
        onMenu={(node, at) => {
          setHover(null);
          setMenu({ tree, node, at });
        }}
        onHover={onHover}
      />
      {hover && !menu && hover.node < hover.tree.size && (
        <Tooltip
          tree={hover.tree}
          node={hover.node}
          unit={unit}
          theme={theme}
          focus={hover.tree === tree ? focus : 0}
          at={hover.at}
        />
      )}
      {menu && (
        <ContextMenu
          tree={menu.tree}
          node={menu.node}
          at={menu.at}
          zoomed={focus > 0}
          actions={frameActions(app, menu.tree)}
          onClose={closeMenu}
        />
      )}
    </>
  );
}
