import assert from "node:assert/strict";
import { test } from "node:test";
import {
  diffColor,
  groupColor,
  heat,
  luminance,
  rgb,
  runtimeTypes,
  shade,
  type Theme,
  truncatedColor,
  typeColor,
  typeOf,
} from "../src/graph/colors";
import { depthAt, faded, Labels, looks, Ruler, rowHeight, rowTop } from "../src/graph/paint";
import type { Tree } from "../src/graph/tree";
import { clean } from "../src/model/text";

const themes: Theme[] = ["light", "dark"];
const parse = (hex: string): [number, number, number] =>
  [1, 3, 5].map((i) => Number.parseInt(hex.slice(i, i + 2), 16)) as [number, number, number];
const contrast = (a: string, b: string) => {
  const [x, y] = [luminance(parse(a)), luminance(parse(b))].sort((p, q) => q - p);
  return (x! + 0.05) / (y! + 0.05);
};

test("text on every frame can be read", () => {
  for (const theme of themes) {
    for (const type of runtimeTypes) {
      for (let i = 0; i < 200; i++) {
        const c = contrast(shade(type, `f${i}`, theme), looks[theme].text);
        assert.ok(c >= 4.5, `${theme} ${type}: ${c}`);
      }
    }
    for (let v = -1; v <= 1; v += 0.1)
      assert.ok(contrast(diffColor(v, theme), looks[theme].text) >= 4.5, `${theme} ${v}`);
    for (let v = -1; v <= 1; v += 0.1) {
      const under = parse(looks[theme].background);
      const mixed = parse(diffColor(v, theme)).map((c, i) => Math.round(c * faded + under[i]! * (1 - faded)));
      const hex = `#${mixed.map((c) => c.toString(16).padStart(2, "0")).join("")}`;
      const c = contrast(hex, looks[theme].fadedText);
      assert.ok(c >= 4.5, `${theme} ${v}, faded: ${c}`);
    }
    for (const color of [groupColor[theme], truncatedColor[theme]])
      assert.ok(contrast(color, looks[theme].text) >= 4.5, `${theme} ${color}`);
    const pale = contrast(looks[theme].dimmed, looks[theme].dimmedText);
    assert.ok(pale >= 4.5, `${theme}: ${pale}`);
  }
});

test("a function has one shade, and functions differ", () => {
  assert.equal(shade("go", "main.main", "dark"), shade("go", "main.main", "dark"));
  assert.ok(new Set(Array.from({ length: 50 }, (_, i) => shade("go", `main.f${i}`, "light"))).size > 40);
});

// How people without red, green or blue cones see colours (Machado 2009, full severity), in linear RGB.
const blindness: Record<string, number[]> = {
  none: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  protan: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  deutan: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  tritan: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};

function seen(hex: string, m: number[]): [number, number, number] {
  const lin = parse(hex).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  const [r, g, b] = [0, 3, 6].map((i) => Math.max(m[i]! * lin[0]! + m[i + 1]! * lin[1]! + m[i + 2]! * lin[2]!, 0)) as [
    number,
    number,
    number,
  ];
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const n = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * n - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * n + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * n - 0.808675766 * s,
  ];
}

const distance = (a: number[], b: number[]) => Math.hypot(a[0]! - b[0]!, a[1]! - b[1]!, a[2]! - b[2]!);

test("runtimes are told apart with every kind of colour vision", () => {
  for (const theme of themes) {
    for (const [name, m] of Object.entries(blindness)) {
      const at = (type: string) => seen(typeColor(type, theme), m);
      for (const a of runtimeTypes) {
        for (const b of runtimeTypes.slice(0, runtimeTypes.indexOf(a))) {
          // A language's frames stand on native ones and on the kernel's: those have to differ most.
          const want =
            (a === "kernel" || a === "native" || b === "kernel" || b === "native") && a !== "unknown" ? 0.07 : 0.045;
          const d = distance(at(a), at(b));
          assert.ok(d >= want, `${theme} ${name}: ${a} and ${b} differ by ${d.toFixed(3)}`);
        }
      }
    }
  }
});

test("more and less are told apart with every kind of colour vision", () => {
  for (const theme of themes) {
    for (const [name, m] of Object.entries(blindness)) {
      const d = distance(seen(diffColor(0.6, theme), m), seen(diffColor(-0.6, theme), m));
      assert.ok(d > 0.08, `${theme} ${name}: ${d}`);
    }
  }
});

test("the heatmap's colours go one way in lightness", () => {
  for (const theme of themes) {
    const l = Array.from({ length: 11 }, (_, i) => luminance(parse(heat(i / 10, theme))));
    for (let i = 1; i < l.length; i++) assert.ok(theme === "light" ? l[i]! < l[i - 1]! : l[i]! > l[i - 1]!);
  }
});

test("types that nobody knows have a colour too", () => {
  assert.equal(typeOf("__proto__"), "unknown");
  assert.equal(typeOf("constructor"), "unknown");
  assert.equal(typeOf(""), "unknown");
  assert.equal(typeOf("jvm"), "jvm");
  assert.deepEqual(rgb(1, 0, 0), [255, 255, 255]);
});

test("text is cut to its room", () => {
  const ruler = new Ruler((s) => (s === "…" ? 10 : s === "W" ? 20 : 5));
  assert.equal(ruler.fit("abc", 15), "abc");
  assert.equal(ruler.fit("abcdef", 25), "abc…");
  assert.equal(ruler.fit("abcdef", 15), "");
  assert.equal(ruler.fit("", 15), "");
  assert.equal(ruler.length("aWa"), 30);
  assert.equal(ruler.fit("😀😀😀😀😀", 24), "😀😀…");
});

/** named is of a tree what labels need, with one function. */
function named(name: string, type: string, apart = ""): Tree {
  return { names: [clean(name)], functions: { name: [name], type: [type] }, apart: [apart] } as unknown as Tree;
}

test("a label of a name that is too long to be shown is one of its forms all the same", () => {
  const labels = new Labels(
    named(`std::is_same<${"a::b<long>, ".repeat(80)}int>::value(int)`, "native"),
    new Ruler(() => 1),
  );
  assert.equal(labels.fit(0, 40), "std::is_same<>::value(int)");
  assert.equal(labels.fit(0, 14), "is_same::value");
  assert.equal(labels.fit(0, 5), "value");
});

test("a group keeps what its process is known by", () => {
  const tree = {
    names: ["18643 a::b"],
    functions: { name: ["18643"], type: ["group"] },
    apart: [""],
  } as unknown as Tree;
  assert.equal(new Labels(tree, new Ruler(() => 1)).fit(0, 8), "18643 a…");
});

test("a label is the longest form that has room", () => {
  const tree = named("org.acme.CartController.checkout", "jvm");
  const labels = new Labels(tree, new Ruler(() => 1));
  assert.equal(labels.fit(0, 100), "org.acme.CartController.checkout");
  assert.equal(labels.fit(0, 25), "CartController.checkout");
  assert.equal(labels.fit(0, 18), "CartContr…checkout");
  assert.equal(labels.fit(0, 10), "checkout");
  assert.equal(labels.fit(0, 6), "check…");
  const go = named("github.com/acme/codeflow.Find", "go");
  assert.equal(new Labels(go, new Ruler(() => 1)).fit(0, 28), "codeflow.Find");
  const twin = named("malloc", "native", "libjemalloc.so.2");
  assert.equal(new Labels(twin, new Ruler(() => 1)).fit(0, 25), "malloc [libjemalloc.so.2]");
  assert.equal(new Labels(twin, new Ruler(() => 1)).fit(0, 24), "malloc");
  const labelled = new Labels(twin, new Ruler(() => 1));
  assert.equal(labelled.fit(0, 100, 261), "malloc:261 [libjemalloc.so.2]");
  assert.equal(labelled.fit(0, 24, 261), "malloc:261");
  assert.equal(labelled.fit(0, 24, 7), "malloc:7");
  assert.equal(labelled.fit(0, 8, 261), "mal…:261");
  assert.equal(labelled.fit(0, 7, 261), "malloc…");
  assert.equal(labelled.fit(0, 5), "mall…");
  assert.equal(labelled.fit(0, 24), "malloc");
  const vdso = { ...twin, apart: ["[vdso]"] } as unknown as Tree;
  assert.equal(new Labels(vdso, new Ruler(() => 1)).fit(0, 24), "malloc [vdso]");
});

test("lines have labels of their own, however large they are", () => {
  const two = ["f", "g"];
  const functions = { name: two, type: ["native", "native"] };
  const tree = { names: two, functions, apart: ["", ""] } as unknown as Tree;
  const labels = new Labels(tree, new Ruler(() => 1));
  for (const line of [1, 2 ** 31 - 1, 2 ** 31, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER]) {
    assert.equal(labels.fit(0, 100, line), `f:${line}`);
    assert.equal(labels.fit(1, 100, line), `g:${line}`);
  }
});

test("rows and depths are each other's inverse", () => {
  for (const flip of [false, true]) {
    for (let d = 0; d < 30; d++) assert.equal(depthAt(rowTop(d, 30, flip) + rowHeight / 2, 30, flip), d);
  }
});
