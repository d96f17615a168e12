// Selections in words.
import { between, clock, span } from "./format";
import { stopKey } from "./reasons";
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
  [stopKey]: "stop reason",
};

/** keyName is an attribute's name in a word where there is one. */
export function keyName(key: string): string {
  return Object.hasOwn(keyNames, key) ? keyNames[key]! : clean(key, 60);
}

export function rangeText(r: Range): string {
  if (r.from !== null && r.to !== null) return between(r.from, r.to);
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

const losses: Record<string, string> = {
  ring_full: "the collector did not read fast enough",
  queue_full: "the next consumer is slower than samples come",
  refused: "the next consumer refused them",
  too_large: "larger than payload_bytes",
  memory: "the memory budget was spent",
  shutdown: "not taken before the shutdown's deadline",
  crash: "the receiver met a defect of its own",
  malformed: "a record that could not be read",
};

/** lossReasons are those that have words here. */
export const lossReasons = Object.keys(losses);

/** lossText says why samples were lost. */
export function lossText(reason: string): string {
  return Object.hasOwn(losses, reason) ? losses[reason]! : clean(reason.replaceAll("_", " "), 80);
}
