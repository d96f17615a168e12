// Selections in words.
import { between, clock, span } from "./format";
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

const stops: Record<string, string> = {
  root: "complete: the thread's first function",
  no_user_stack: "complete: a kernel thread, or a worker of the kernel's",
  address_space_gone: "complete: in exec or exit, nothing more is there",
  max_frames: "longer than max_frames",
  tail_calls: "longer than this kernel lets programs walk",
  no_process: "the process was not known yet",
  no_mapping: "the mapping was not known yet",
  no_table: "no unwind table yet for the executable",
  stale: "the unwind table was about to change",
  no_rule: "code without unwind information (a JIT's, assembler)",
  memory: "a word of the stack could not be read",
  register: "the rule needs a register that is not known",
  no_progress: "the rule leads nowhere",
  copy_end: "longer than the part that was copied, of a new process",
  abi: "a 32-bit process",
  runtime: "the other side of a runtime's stack switch was not found",
  ring_busy: "the ring was too full for a copy of the stack",
  other_pid_namespace: "a process outside of this pid namespace",
};

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

/** stopReasons and lossReasons are those that have words here. */
export const stopReasons = Object.keys(stops);
export const lossReasons = Object.keys(losses);

/** stopText says why a stack ended where it did. */
export function stopText(reason: string): string {
  return Object.hasOwn(stops, reason) ? stops[reason]! : clean(reason.replaceAll("_", " "), 80);
}

/** isComplete is true for stacks that have all there is. */
export function isComplete(reason: string): boolean {
  return Object.hasOwn(stops, reason) && stops[reason]!.startsWith("complete");
}

/** lossText says why samples were lost. */
export function lossText(reason: string): string {
  return Object.hasOwn(losses, reason) ? losses[reason]! : clean(reason.replaceAll("_", " "), 80);
}
