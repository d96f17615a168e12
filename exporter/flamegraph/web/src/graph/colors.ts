// Colours: a hue for each runtime, told apart by lightness too; a stable shade for each function; blue to orange for
// differences. All frames are light enough for dark text.

export type Theme = "light" | "dark";

interface Hue {
  name: string;
  l: number;
  c: number;
  h: number;
}

/** Chosen so that any two are told apart with every kind of colour vision; the tests say how far. */
const hues: Record<string, Hue> = {
  kernel: { name: "Kernel", l: 0.665, c: 0.03, h: 246 },
  native: { name: "Native", l: 0.839, c: 0.109, h: 71 },
  go: { name: "Go", l: 0.855, c: 0.088, h: 224 },
  cpython: { name: "Python", l: 0.729, c: 0.135, h: 255 },
  jvm: { name: "JVM", l: 0.763, c: 0.091, h: 38 },
  v8js: { name: "JavaScript", l: 0.92, c: 0.109, h: 96 },
  ruby: { name: "Ruby", l: 0.675, c: 0.135, h: 20 },
  php: { name: "PHP", l: 0.802, c: 0.082, h: 288 },
  perl: { name: "Perl", l: 0.8, c: 0.061, h: 169 },
  beam: { name: "Erlang", l: 0.764, c: 0.065, h: 327 },
  dotnet: { name: ".NET", l: 0.716, c: 0.118, h: 309 },
  rust: { name: "Rust", l: 0.695, c: 0.102, h: 83 },
  luajit: { name: "Lua", l: 0.94, c: 0.06, h: 156 },
  unknown: { name: "Unknown", l: 0.864, c: 0.006, h: 244 },
};

/** typeOf maps what a profile says onto a runtime that has a colour. */
export function typeOf(type: string): string {
  if (Object.hasOwn(hues, type)) return type;
  if (type === "python") return "cpython";
  if (type === "hotspot" || type === "java") return "jvm";
  return "unknown";
}

export function typeLabel(type: string): string {
  return hues[typeOf(type)]!.name;
}

/** Of what is no function: the root and groups, and markers, which are hatched besides. */
export const groupColor: Record<Theme, string> = { light: "#dfe3ea", dark: "#7f8899" };
export const truncatedColor: Record<Theme, string> = { light: "#f0bfca", dark: "#b9707e" };

const dark: Record<Theme, number> = { light: 0, dark: -0.06 };

function channel(v: number): number {
  const c = Math.min(Math.max(v, 0), 1);
  return Math.round(255 * (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055));
}

/** rgb converts from OKLCH, where equal steps look equal. */
export function rgb(l: number, c: number, h: number): [number, number, number] {
  const a = c * Math.cos((h * Math.PI) / 180);
  const b = c * Math.sin((h * Math.PI) / 180);
  const l3 = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m3 = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s3 = (l - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    channel(4.0767416621 * l3 - 3.3077115913 * m3 + 0.2309699292 * s3),
    channel(-1.2684380046 * l3 + 2.6097574011 * m3 - 0.3413193965 * s3),
    channel(-0.0041960863 * l3 - 0.7034186147 * m3 + 1.707614701 * s3),
  ];
}

const css = ([r, g, b]: [number, number, number]) => `#${((1 << 24) | (r << 16) | (g << 8) | b).toString(16).slice(1)}`;

export function typeColor(type: string, theme: Theme): string {
  const { l, c, h } = hues[typeOf(type)]!;
  return css(rgb(l + dark[theme], c, h));
}

function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h ^= h >>> 15;
  return (Math.imul(h, 0x2c1b3c6d) >>> 0) / 2 ** 32;
}

/** shade is a function's own colour: the same in every view and at every time. */
export function shade(type: string, key: string, theme: Theme): string {
  const { l, c, h } = hues[typeOf(type)]!;
  const at = hash(key);
  const other = (at * 7919) % 1;
  return css(rgb(l + dark[theme] + (at - 0.5) * 0.07, c * (0.88 + other * 0.24), h + (other - 0.5) * 14));
}

/** diffColor runs from blue (less) over grey to orange (more), for -1 to 1. */
export function diffColor(change: number, theme: Theme): string {
  const v = Math.min(Math.max(change, -1), 1);
  const s = Math.abs(v) ** 0.8;
  const grey = theme === "light" ? 0.9 : 0.72;
  const strong = theme === "light" ? 0.7 : 0.64;
  return css(rgb(grey + (strong - grey) * s, 0.15 * s, v > 0 ? 45 : 252));
}

/** heat is for the heatmap: from the background to its strongest, in one hue, by lightness. */
export function heat(share: number, theme: Theme): string {
  const s = Math.min(Math.max(share, 0), 1) ** 0.75;
  if (theme === "light") return css(rgb(0.95 - 0.52 * s, 0.035 + 0.13 * s, 75 - 45 * s));
  return css(rgb(0.3 + 0.56 * s, 0.04 + 0.12 * s, 20 + 65 * s));
}

/** luminance as WCAG defines it, for the tests of contrast. */
export function luminance([r, g, b]: [number, number, number]): number {
  const lin = (v: number) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * lin(r) + 0.7152 * lin(g) + 0.0722 * lin(b);
}

export const runtimeTypes = Object.keys(hues);
