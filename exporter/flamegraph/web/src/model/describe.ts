// Selections in words.
import { clock, span } from "./format";
import { clean } from "./text";
import type { Base, Filter, Range, View } from "./view";

const keyNames: Record<string, string> = {
  "process.executable.name": "process",
  "process.pid": "pid",
  "service.name": "service",
  "container.id": "container",
  "k8s.pod.name": "pod",
  "thread.name": "thread",
  frame_type: "frame type",
};

/** keyName is an attribute's name in a word where there is one. */
export function keyName(key: string): string {
  return Object.hasOwn(keyNames, key) ? keyNames[key]! : clean(key, 60);
}

export function rangeText(r: Range): string {
  if (r.from !== null && r.to !== null) return `${clock(r.from)} – ${clock(r.to)}`;
  if (r.seconds !== null) {
    const last = `last ${span(r.seconds * 1000)}`;
    return r.to === null ? last : `${span(r.seconds * 1000)} before ${clock(r.to)}`;
  }
  if (r.from !== null) return `since ${clock(r.from)}`;
  if (r.to !== null) return `until ${clock(r.to)}`;
  return "all that is held";
}

/** filtersText names values by key: nginx or redis; pid 812; not kernel. */
export function filtersText(filters: Filter[]): string {
  if (filters.length === 0) return "everything";
  const groups = new Map<string, string[]>();
  for (const f of filters) {
    const name = `${f.not ? "not " : ""}${keyName(f.key)}`;
    groups.set(name, [...(groups.get(name) ?? []), clean(f.value, 40)]);
  }
  return [...groups].map(([name, values]) => `${name} ${values.join(" or ")}`).join(", ");
}

export function baseText(b: Base, v: View): string {
  return `${filtersText(b.filters)}, ${rangeText(b.range ?? v.range)}`;
}

/** stopText says why a stack ended early. */
export function stopText(reason: string): string {
  const known: Record<string, string> = {
    no_rule: "no unwind rule for this code (no .eh_frame, or an unknown runtime)",
    no_mapping: "an address outside of every known mapping",
    no_executable: "the executable's tables were not there yet",
    depth: "deeper than the limit of frames",
    tail_calls: "deeper than this kernel allows to walk",
    memory: "stack memory could not be read",
    unsupported: "this version of the runtime is not supported",
    too_large: "the executable's tables were too large",
  };
  return Object.hasOwn(known, reason) ? known[reason]! : clean(reason.replaceAll("_", " "), 80);
}
