// Drawing: only rows that are in sight, only frames that are wide enough to see, and of those that are not, the outline
// of the crowd.
import { shorten } from "../model/text";
import { diffColor, groupColor, shade, type Theme, truncatedColor } from "./colors";
import { change, first, isFunction, isTruncated, type Tree } from "./tree";

export const rowHeight = 20;
const narrowest = 0.7; // px; below, frames are drawn together
const labelFrom = 22; // px; below, no text
/** How much of a difference's colour is left where a search finds nothing. */
export const faded = 0.3;

export interface Look {
  theme: Theme;
  background: string;
  text: string;
  dimmed: string;
  dimmedText: string;
  fadedText: string;
  crowd: string;
  match: string;
  font: string;
}

export const looks: Record<Theme, Omit<Look, "font">> = {
  light: {
    theme: "light",
    background: "#ffffff",
    text: "#14171c",
    dimmed: "#eceef2",
    dimmedText: "#5f6875",
    fadedText: "#4b5463",
    crowd: "#c4c9d2",
    match: "#a3269b",
  },
  dark: {
    theme: "dark",
    background: "#14171d",
    text: "#000000",
    dimmed: "#272c36",
    dimmedText: "#98a1b0",
    fadedText: "#c3cad6",
    crowd: "#434b59",
    match: "#f08be6",
  },
};

/** Widths of characters in one font, measured once each. */
export class Ruler {
  private readonly known = new Map<number, number>();
  constructor(private readonly measure: (text: string) => number) {}

  width(code: number): number {
    let w = this.known.get(code);
    if (w === undefined) {
      w = this.measure(String.fromCodePoint(code));
      // Names may hold every character there is; what is rare is measured again.
      if (this.known.size < 4096) this.known.set(code, w);
    }
    return w;
  }

  /** fit cuts text to a width, with an ellipsis; "" if hardly anything would be left. */
  fit(text: string, width: number): string {
    const dots = this.width(0x2026);
    let used = 0;
    let cut = 0; // what fits together with an ellipsis
    for (let i = 0; i < text.length; ) {
      const code = text.codePointAt(i)!;
      used += this.width(code);
      if (used > width) return cut < 2 ? "" : `${text.slice(0, cut).trimEnd()}…`;
      i += code > 0xffff ? 2 : 1;
      if (used + dots <= width) cut = i;
    }
    return text;
  }

  length(text: string): number {
    let used = 0;
    for (const c of text) used += this.width(c.codePointAt(0)!);
    return used;
  }
}

/** Label finds for a function the longest of its names that a width has room for. */
export class Labels {
  private readonly variants: Map<number, { text: string; width: number }[]>[] = []; // by function, and by line
  constructor(
    private readonly tree: Tree,
    private readonly ruler: Ruler,
  ) {}

  /** fit is the label of a function, or of one of its lines. */
  fit(fn: number, width: number, line = 0): string {
    this.variants[fn] ??= new Map();
    const lines = this.variants[fn];
    let all = lines.get(line);
    if (!all) {
      const end = line > 0 ? `:${line}` : "";
      const { functions, names } = this.tree;
      const forms = shorten(functions.name[fn]!, functions.type[fn]!, names[fn]).map((name) => name + end);
      const where = this.tree.apart[fn];
      if (where) forms.unshift(`${forms[0]!} ${where.startsWith("[") ? where : `[${where}]`}`);
      all = forms.map((text) => ({ text, width: this.ruler.length(text) }));
      lines.set(line, all);
    }
    const at = all.findIndex((v) => v.width <= width);
    if (at < 0) return this.cut(all[all.length - 1]!.text, width, line);
    // Rather the longer name with its middle left out than a short one with much room beside it.
    const end = all[at]!;
    const longer = at > 0 ? all[at - 1]! : end;
    if (end.width > 0.6 * width || !longer.text.endsWith(end.text)) return end.text;
    // The beginning of an import path says nothing.
    if (longer.text.slice(0, -end.text.length).includes("/")) return end.text;
    const head = this.ruler.fit(longer.text.slice(0, -end.text.length), width - end.width);
    return head.length < 6 ? end.text : head + end.text;
  }

  /** cut cuts a name that has no room, rather than its line: frames beside each other may differ in nothing else. */
  private cut(text: string, width: number, line: number): string {
    const end = line > 0 ? `:${line}` : "";
    const head = this.ruler.fit(text.slice(0, text.length - end.length), width - this.ruler.length(end));
    return head.length < 4 ? this.ruler.fit(text, width) : head + end;
  }
}

/** Palette gives frames their fill: by runtime and function, or by difference. */
export class Palette {
  private readonly byFunction: (string | undefined)[] = [];
  constructor(
    private readonly tree: Tree,
    private readonly theme: Theme,
  ) {}

  fill(node: number): string {
    const t = this.tree;
    if (t.baseTotal) return diffColor(this.change(node), this.theme);
    const fn = t.fn[node]!;
    let color = this.byFunction[fn];
    if (color === undefined) {
      color = shade(
        t.functions.type[fn]!,
        t.functions.name[fn]!.slice(0, 200) + t.functions.mapping[fn]!.slice(0, 200),
        this.theme,
      );
      if (!isFunction(t.functions.type[fn]!)) color = groupColor[this.theme];
      if (isTruncated(t, node)) color = truncatedColor[this.theme];
      this.byFunction[fn] = color;
    }
    return color;
  }

  change(node: number): number {
    const t = this.tree;
    return t.baseTotal ? change(t.total[node]!, t.sum, t.baseTotal[node]!, t.baseSum) : 0;
  }
}

export interface Scene {
  tree: Tree;
  palette: Palette;
  labels: Labels;
  look: Look;
  x0: number; // what part of the tree is across, in its weight
  x1: number;
  width: number; // px
  height: number;
  top: number; // px that are scrolled away
  rows: number; // rows in all
  flip: boolean;
  focus: number; // the node that is zoomed to; its ancestors are drawn pale
  matches: Uint8Array | null; // by function
  only: string; // a runtime; the others are drawn pale
}

/** rowTop is where the row of a depth is, before scrolling. */
export function rowTop(depth: number, rows: number, flip: boolean): number {
  return (flip ? rows - 1 - depth : depth) * rowHeight;
}

export function depthAt(y: number, rows: number, flip: boolean): number {
  const row = Math.floor(y / rowHeight);
  return flip ? rows - 1 - row : row;
}

/** paint draws a scene and says how many frames it drew. */
export function paint(ctx: CanvasRenderingContext2D, s: Scene): number {
  ctx.fillStyle = s.look.background;
  ctx.fillRect(0, 0, s.width, s.height);
  ctx.font = s.look.font;
  ctx.textBaseline = "middle";
  ctx.direction = "ltr";
  const firstRow = Math.max(Math.floor(s.top / rowHeight), 0);
  const lastRow = Math.min(Math.ceil((s.top + s.height) / rowHeight), s.rows) - 1;
  let drawn = 0;
  for (let row = firstRow; row <= lastRow; row++) {
    const depth = s.flip ? s.rows - 1 - row : row;
    drawn += paintRow(ctx, s, depth, row * rowHeight - s.top);
  }
  return drawn;
}

function paintRow(ctx: CanvasRenderingContext2D, s: Scene, depth: number, y: number): number {
  const { tree: t, x0, x1 } = s;
  const level = t.levels[depth];
  if (!level) return 0;
  const scale = s.width / (x1 - x0);
  let drawn = 0;
  let crowdFrom = -1;
  let crowdTo = -1;
  let crowdMatches = false;
  const flush = () => {
    if (crowdTo < 0) return;
    ctx.fillStyle = crowdMatches ? s.look.match : s.matches ? s.look.dimmed : s.look.crowd;
    ctx.fillRect(crowdFrom, y, Math.max(crowdTo - crowdFrom, 0.5), rowHeight - 1);
    crowdTo = -1;
    crowdMatches = false;
    drawn++;
  };
  for (let i = first(t, depth, x0); i < level.length; i++) {
    const n = level[i]!;
    if (t.x[n]! >= x1) break;
    if (t.weight[n] === 0) continue;
    const left = Math.max((t.x[n]! - x0) * scale, 0);
    const right = Math.min((t.x[n]! + t.weight[n]! - x0) * scale, s.width);
    if (right - left >= narrowest) {
      flush();
      paintFrame(ctx, s, n, left, right - left, y);
      drawn++;
      continue;
    }
    if (crowdTo >= 0 && left - crowdTo > 1) flush();
    if (crowdTo < 0) crowdFrom = left;
    crowdTo = right;
    if (s.matches?.[t.fn[n]!]) crowdMatches = true;
  }
  flush();
  return drawn;
}

function paintFrame(ctx: CanvasRenderingContext2D, s: Scene, n: number, left: number, width: number, y: number): void {
  const { tree: t, look } = s;
  const fn = t.fn[n]!;
  const matched = s.matches?.[fn] === 1;
  const pale = (s.matches && !matched) || (s.only !== "" && s.only !== t.functions.type[fn]);
  const above = n < s.focus && t.end[n]! > s.focus;
  // A gap between neighbours only where it does not eat the frame.
  const w = width > 3 ? width - 1 : width;
  // A difference keeps its colour: what is looked for is compared with what is around it.
  const fade = pale && t.baseTotal !== null;
  ctx.fillStyle = pale && !fade ? look.dimmed : s.palette.fill(n);
  if (fade) ctx.globalAlpha = faded;
  else if (above) ctx.globalAlpha = 0.55;
  ctx.fillRect(left, y, w, rowHeight - 1);
  if (!pale && isTruncated(t, n)) hatch(ctx, left, y, w);
  if (!pale && t.guessed[n]) dots(ctx, left, y, w);
  ctx.globalAlpha = 1;
  if (matched) {
    ctx.fillStyle = look.match;
    ctx.fillRect(left, y + rowHeight - 4, w, 3);
  }
  if (width < labelFrom) return;
  const mark = t.baseTotal ? sign(s.palette.change(n)) : "";
  const room = w - 8;
  const label = mark + s.labels.fit(fn, mark ? room - 14 : room, t.line[n]);
  if (label === mark && mark !== "" && room < 10) return;
  ctx.fillStyle = fade ? look.fadedText : pale ? look.dimmedText : look.text;
  if (above && !pale && look.theme === "dark") ctx.fillStyle = "#e3e7ee";
  ctx.fillText(label, left + 4, y + rowHeight / 2);
}

const faint = "rgb(0 0 0 / 0.16)";

/** hatch tells a marker from frames without colour. */
function hatch(ctx: CanvasRenderingContext2D, left: number, y: number, w: number): void {
  const h = rowHeight - 1;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, y, w, h);
  ctx.clip();
  ctx.beginPath();
  for (let x = left - h; x < left + w; x += 7) {
    ctx.moveTo(x, y + h);
    ctx.lineTo(x + h, y);
  }
  ctx.strokeStyle = faint;
  ctx.lineWidth = 2;
  ctx.stroke();
  ctx.restore();
}

/** dots underline a frame that was guessed. */
function dots(ctx: CanvasRenderingContext2D, left: number, y: number, w: number): void {
  if (w < 4) return;
  ctx.fillStyle = "rgb(0 0 0 / 0.45)";
  for (let x = left + 1; x + 2 <= left + w; x += 5) ctx.fillRect(x, y + rowHeight - 3, 2, 1);
}

/** sign says the direction of a difference without colour. */
function sign(v: number): string {
  if (v >= 0.08) return "▲ ";
  if (v <= -0.08) return "▼ ";
  return "";
}
