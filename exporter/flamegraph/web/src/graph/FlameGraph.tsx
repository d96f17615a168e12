// The flame graph as a control: a canvas that shows what is in sight, an outline for the pointer and one for the keys.
// To assistive technology it is a tree of which the selected frame is told.
import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Theme } from "./colors";
import { depthAt, Labels, looks, Palette, paint, Ruler, rowHeight, rowTop } from "./paint";
import { deepest, find, inside, type Move, move, siblings, type Tree } from "./tree";

export interface Place {
  x: number;
  y: number;
}

export interface FlameGraphProps {
  tree: Tree;
  theme: Theme;
  flip: boolean;
  focus: number;
  cursor: number;
  matches: Uint8Array | null;
  only: string;
  label: string;
  describe: (node: number) => string;
  onZoom: (node: number) => void;
  onCursor: (node: number) => void;
  onMenu: (node: number, at: Place) => void;
  onHover: (node: number, at: Place) => void;
}

const font = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
const zoomMs = 160;
const above = 3; // ancestors that stay in sight when zoomed

export function FlameGraph(props: FlameGraphProps) {
  const { tree, theme, flip, focus, cursor, matches, only } = props;
  const graph = useId();
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const ruler = useRef<Ruler | null>(null);
  const range = useRef({ x0: 0, x1: 1 }); // what is across now, while a zoom is under way
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [hover, setHover] = useState(-1);

  if (ruler.current === null) {
    const ctx = document.createElement("canvas").getContext("2d")!;
    ctx.font = font;
    ruler.current = new Ruler((text) => ctx.measureText(text).width);
  }
  const labels = useMemo(() => new Labels(tree, ruler.current!), [tree]);
  const palette = useMemo(() => new Palette(tree, theme), [tree, theme]);
  const depthRows = useMemo(() => deepest(tree, focus) + 1, [tree, focus]);
  const rows = flip ? Math.max(depthRows, Math.floor(size.height / rowHeight)) : depthRows;

  const draw = useRef(() => {});
  draw.current = () => {
    const el = canvas.current;
    const box = scroller.current;
    if (!el || !box || size.width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    const w = Math.round(size.width * ratio);
    const h = Math.round(size.height * ratio);
    if (el.width !== w || el.height !== h) {
      el.width = w;
      el.height = h;
    }
    const ctx = el.getContext("2d", { alpha: false })!;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint(ctx, {
      tree,
      palette,
      labels,
      look: { ...looks[theme], font },
      ...range.current,
      width: size.width,
      height: size.height,
      top: box.scrollTop,
      rows,
      flip,
      focus,
      matches,
      only,
    });
  };

  useLayoutEffect(() => {
    const box = scroller.current!;
    const observe = new ResizeObserver(() => setSize({ width: box.clientWidth, height: box.clientHeight }));
    observe.observe(box);
    setSize({ width: box.clientWidth, height: box.clientHeight });
    return () => observe.disconnect();
  }, []);

  // Zooming runs in a few steps, so that the eye can follow; other data are drawn at once.
  const last = useRef({ tree, focus });
  useLayoutEffect(() => {
    const to = { x0: tree.x[focus]!, x1: tree.x[focus]! + (tree.weight[focus]! || 1) };
    const from = { ...range.current };
    const animate = last.current.tree === tree && last.current.focus !== focus && !calm();
    last.current = { tree, focus };
    if (!animate) {
      range.current = to;
      draw.current();
      return;
    }
    let frame = 0;
    const start = performance.now();
    const step = () => {
      const t = Math.min((performance.now() - start) / zoomMs, 1);
      const eased = 1 - (1 - t) ** 3;
      range.current = { x0: from.x0 + (to.x0 - from.x0) * eased, x1: from.x1 + (to.x1 - from.x1) * eased };
      draw.current();
      if (t < 1) frame = requestAnimationFrame(step);
    };
    step();
    return () => {
      cancelAnimationFrame(frame);
      range.current = to;
    };
  }, [tree, focus]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: these are what the drawing shows
  useLayoutEffect(() => draw.current(), [size, theme, flip, matches, only, rows, palette]);

  // The zoomed frame comes into sight, with a few of its callers.
  const zoomed = useRef("");
  const rowsBefore = useRef(rows);
  useLayoutEffect(() => {
    const box = scroller.current!;
    const which = `${tree.id[focus]}/${flip}/${size.height > 0}`;
    const more = rows - rowsBefore.current;
    rowsBefore.current = rows;
    if (zoomed.current === which) {
      // Rows are counted from the root; with the root at the bottom other data move it.
      if (flip && more !== 0) box.scrollTop += more * rowHeight;
      return;
    }
    zoomed.current = which;
    const y = rowTop(tree.depth[focus]!, rows, flip);
    box.scrollTop = flip ? y + (above + 1) * rowHeight - size.height : Math.max(y - above * rowHeight, 0);
  }, [tree, focus, flip, rows, size.height]);

  useEffect(() => {
    if (cursor < 0) return;
    const box = scroller.current!;
    const y = rowTop(tree.depth[cursor]!, rows, flip);
    if (y < box.scrollTop) box.scrollTop = y;
    else if (y + rowHeight > box.scrollTop + size.height) box.scrollTop = y + rowHeight - size.height;
  }, [cursor, tree, rows, flip, size.height]);

  const nodeAt = (p: Place): number => {
    const box = scroller.current!;
    const r = box.getBoundingClientRect();
    const depth = depthAt(p.y - r.top + box.scrollTop, rows, flip);
    const { x0, x1 } = range.current;
    return depth < 0 || depth >= rows ? -1 : find(tree, depth, x0 + ((p.x - r.left) / size.width) * (x1 - x0));
  };
  const at = (e: MouseEvent) => nodeAt({ x: e.clientX, y: e.clientY });

  const pointer = useRef<Place | null>(null);
  const point = (place: Place | null) => {
    pointer.current = place;
    const node = place ? nodeAt(place) : -1;
    setHover(node);
    props.onHover(node, place ?? { x: 0, y: 0 });
  };

  // The data under a pointer that rests may change.
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another tree or zoom moves frames
  useEffect(() => {
    if (pointer.current) point(pointer.current);
  }, [tree, focus]);

  const outline = (node: number) => {
    if (node < 0 || node >= tree.size || size.width === 0) return null;
    const x0 = tree.x[focus]!;
    const scale = size.width / (tree.weight[focus]! || 1);
    const left = Math.max((tree.x[node]! - x0) * scale, 0);
    const right = Math.min((tree.x[node]! + tree.weight[node]! - x0) * scale, size.width);
    if (right <= 0 || left >= size.width || tree.depth[node]! >= rows) return null;
    return {
      left: `${left}px`,
      width: `${Math.max(right - left, 3)}px`,
      top: `${rowTop(tree.depth[node]!, rows, flip)}px`,
      height: `${rowHeight - 1}px`,
    };
  };

  const onKeyDown = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.altKey || e.metaKey) return;
    const current = cursor >= 0 ? cursor : focus;
    const moves: Record<string, Move> = {
      ArrowDown: flip ? "parent" : "child",
      ArrowUp: flip ? "child" : "parent",
      ArrowLeft: "previous",
      ArrowRight: "next",
      Home: "root",
      End: "leaf",
    };
    const to = moves[e.key];
    if (to) props.onCursor(cursor < 0 ? focus : move(tree, current, to, inside(tree, focus, current) ? focus : 0));
    else if (e.key === "PageDown" || e.key === "PageUp") {
      let n = current;
      for (let i = 0; i < 10; i++) n = move(tree, n, (e.key === "PageDown") !== flip ? "child" : "parent");
      props.onCursor(n);
    } else if (e.key === "Enter" || e.key === " ") props.onZoom(current);
    else if (e.key === "Backspace") props.onZoom(Math.max(tree.parent[focus]!, 0));
    else if (e.key === "ContextMenu" || (e.key === "F10" && e.shiftKey)) {
      const r = scroller.current!.getBoundingClientRect();
      const o = outline(current);
      props.onMenu(current, {
        x: r.left + (o ? Number.parseFloat(o.left) + 12 : 12),
        y: r.top + (o ? Number.parseFloat(o.top) - scroller.current!.scrollTop + rowHeight : rowHeight),
      });
    } else return;
    e.preventDefault();
    e.stopPropagation();
  };

  const hovered = outline(hover);
  const selected = outline(cursor);
  const where = cursor >= 0 && cursor < tree.size ? siblings(tree, cursor) : null;
  // Two graphs may show the same frame.
  const id = selected ? `${graph}-${tree.id[cursor]!.replace(/\W/g, "")}` : undefined;
  return (
    <div
      ref={scroller}
      class="flame"
      role="tree"
      tabIndex={0}
      aria-label={props.label}
      aria-activedescendant={id}
      onScroll={() => {
        draw.current();
        if (hover >= 0) point(null);
      }}
      onPointerMove={(e) => e.pointerType !== "touch" && point({ x: e.clientX, y: e.clientY })}
      onPointerLeave={() => point(null)}
      onClick={(e) => {
        const n = at(e);
        if (n >= 0) props.onZoom(n);
      }}
      onContextMenu={(e) => {
        e.preventDefault();
        const n = at(e);
        if (n >= 0) props.onMenu(n, { x: e.clientX, y: e.clientY });
      }}
      onKeyDown={onKeyDown}
    >
      <div class="flame-space" role="none" style={{ height: `${rows * rowHeight}px` }}>
        <div class="flame-stick" role="none">
          <canvas ref={canvas} aria-hidden="true" style={{ width: `${size.width}px`, height: `${size.height}px` }} />
        </div>
        {hovered && <div class="flame-hover" aria-hidden="true" style={hovered} />}
        {selected && where ? (
          <div
            key={id}
            id={id}
            class="flame-cursor"
            role="treeitem"
            aria-selected="true"
            aria-level={tree.depth[cursor]! + 1}
            aria-posinset={where.at}
            aria-setsize={where.of}
            aria-label={props.describe(cursor)}
            style={selected}
          />
        ) : (
          <div
            role="treeitem"
            class="visually-hidden"
            aria-selected="false"
            aria-level={1}
            aria-label={props.describe(focus)}
          />
        )}
      </div>
    </div>
  );
}

function calm(): boolean {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}
