// What the collector says of the reasons for which stacks end. The words are its own: nothing of them stands here.
import { type Reason, type ReasonsAnswer, Refused } from "./api";
import { clean } from "./text";

/** stopKey is the attribute of samples whose stack ends early. */
export const stopKey = "hostprofiles.stack.stop_reason";

export class Reasons {
  private readonly known: Map<string, Reason>;
  readonly guessed: string; // of a frame that was guessed

  constructor(a: ReasonsAnswer | null) {
    this.known = new Map(a?.reasons.map((r) => [r.reason, r]));
    this.guessed = a?.guessed || "guessed";
  }

  of(reason: string): Reason | undefined {
    return this.known.get(reason);
  }

  /** means says in a phrase why a stack ended where it did; what nobody has words for is its own. */
  means(reason: string): string {
    return this.known.get(reason)?.means ?? clean(reason.replaceAll("_", " "), 80);
  }

  isComplete(reason: string): boolean {
    return this.known.get(reason)?.complete ?? false;
  }
}

export function checkReasons(a: ReasonsAnswer): ReasonsAnswer {
  const text = (v: unknown) => typeof v === "string";
  if (!Array.isArray(a.reasons) || !text(a.guessed)) throw new Refused(0, "The collector's reasons make no sense.");
  for (const r of a.reasons) {
    if (![r.reason, r.means, r.when, r.do].every(text)) throw new Refused(0, "A reason of the collector's is no text.");
  }
  return a;
}
