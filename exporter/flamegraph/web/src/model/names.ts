// Functions that have the same name.
import type { FunctionColumns } from "./api";
import { clean } from "./text";
import { isFunction } from "./types";

export { isFunction, truncatedType } from "./types";

/** shownNames are the functions' names, safe to show. A group's has behind it what people know it by: 18643 cburn. */
export function shownNames(f: FunctionColumns): string[] {
  return f.name.map((name, i) =>
    f.type[i] === "group" && f.mapping[i] ? `${clean(name)} ${clean(f.mapping[i]!, 80)}` : clean(name),
  );
}

const short = (path: string) => path.slice(path.lastIndexOf("/") + 1);

/**
 * apart says for every function what tells it from others of its name: the mapping's short name, or the file's where
 * the mappings' are the same; "" where it is the only one, or nothing tells.
 */
export function apart(f: FunctionColumns): string[] {
  const out: string[] = new Array(f.name.length).fill("");
  const first = new Map<string, number>();
  const more = new Map<string, number[]>();
  for (let i = 0; i < f.name.length; i++) {
    if (!isFunction(f.type[i]!)) continue;
    const name = f.name[i]!;
    const one = first.get(name);
    if (one === undefined) {
      first.set(name, i);
      continue;
    }
    const all = more.get(name);
    if (all) all.push(i);
    else more.set(name, [one, i]);
  }
  for (const all of more.values()) {
    for (const column of [f.mapping, f.file]) {
      const values = all.map((i) => short(column[i]!));
      if (new Set(values).size < 2) continue;
      all.forEach((i, k) => {
        out[i] = values[k] === "" ? "" : clean(values[k]!, 40);
      });
      break;
    }
  }
  return out;
}
