// Names come from profiles: they may hold anything. What is shown has no characters that act instead of being seen, and
// an end.

import { dotted, forms } from "./forms";
import { isFunction } from "./types";

// Controls, direction marks, invisible characters and line separators: shown as an escape.
const acting = /[\p{Cc}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\ufff9-\ufffb]/u;
const actingAll = new RegExp(acting.source, "gu");
const loneSurrogate = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const markPile = /(\p{M}{3})\p{M}+/gu;

const short: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function escaped(c: string): string {
  const hex = (c.codePointAt(0) ?? 0).toString(16);
  return (
    short[c] ??
    (hex.length <= 2 ? `\\x${hex.padStart(2, "0")}` : `\\u${hex.length > 4 ? `{${hex}}` : hex.padStart(4, "0")}`)
  );
}

/** clean makes text safe to look at: at most max characters, the middle left out, nothing that acts. */
export function clean(text: string, max = 300): string {
  let out = text;
  if (out.length > max) {
    const tail = Math.min(Math.floor(max / 4), 40);
    out = `${out.slice(0, max - tail - 1)}…${out.slice(-tail)}`;
  }
  out = out.replace(loneSurrogate, "\ufffd");
  if (acting.test(out)) out = out.replace(actingAll, escaped);
  if (out.length > 3 && markPile.test(out)) out = out.replace(markPile, "$1");
  if (out.trim() === "") return text === "" ? "(no name)" : "(blank)";
  return out;
}

/** cleanLines is clean for text of several lines, at most max characters of it: its line breaks stay. */
export function cleanLines(text: string, max: number): string {
  const all = text.trim();
  const cut = all.length > max ? `${all.slice(0, max - 1)}…` : all;
  return cut
    .split(/\r?\n/)
    .map((line) => (line.trim() === "" ? "" : clean(line, max)))
    .join("\n");
}

/** copyable is what goes to the clipboard: nothing in it can act in a terminal either. */
export function copyable(text: string): string {
  return clean(text, 10_000);
}

/**
 * shorten gives a function's qualified name in fewer and fewer characters, safe to show, the full one first: what matters of
 * github.com/acme/orders/pricing.(*Rules).match is its end. It takes the name as it came: of what clean cuts, the brackets do not
 * come in pairs. shown is how the full name is shown.
 */
export function shorten(name: string, type: string, shown = clean(name)): string[] {
  const out = [shown];
  const add = (s: string) => {
    const short = clean(s);
    if (s.length > 0 && short.length < out[out.length - 1]!.length) out.push(short);
  };
  if (!isFunction(type)) return out;
  if (type === "go") {
    const slash = name.lastIndexOf("/", name.includes("[") ? name.indexOf("[") : name.length);
    const base = name.slice(slash + 1);
    add(base);
    const own = base.slice(base.indexOf(".") + 1);
    add(own);
    // Behind the receiver; f.func1 has none, its number says nothing alone.
    const method = /^(?:\(\*?[^()]+\)|[^.()[\]]+)\.(?!(?:func|gowrap|deferwrap)?\d)(.+)$/.exec(own);
    if (method) add(method[1]!);
  } else if (type === "jvm" || type === "dotnet") {
    const parts = dotted(name);
    add(parts.slice(-2).join("."));
    add(parts.slice(-1).join("."));
  } else for (const form of forms(name).slice(1)) add(form);
  return out;
}

/** endsMatter tells the languages whose names begin with where a function is and end with what it is. */
export function endsMatter(type: string): boolean {
  return type === "go" || type === "jvm" || type === "dotnet";
}

/** brief is the longest of a function's forms with at most so many characters, or the shortest there is. */
export function brief(name: string, type: string, max: number, shown = clean(name)): string {
  const all = shorten(name, type, shown);
  return all.find((s) => s.length <= max) ?? all[all.length - 1]!;
}

/** source is file:line, as far as it is known. */
export function source(file: string, line: number): string {
  if (file === "") return "";
  return line > 0 ? `${clean(file)}:${line}` : clean(file);
}
