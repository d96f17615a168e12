// Answers of the collector as state of a component: the last one stays until the next has arrived, or none has come to
// another question.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Refused, Unreachable } from "./api";

export interface Answer<T> {
  data: T | null;
  error: Refused | Unreachable | null;
  loading: boolean;
  key: string; // the question that data answers
  at: number; // when data came
}

/** retrySeconds is how soon a collector that did not answer is asked again. */
export const retrySeconds = 3;

/** A refresh takes at most this part of the time. */
const patience = 10;

/**
 * useAnswer asks when the question changes, and again when the revision does. A new question ends one that is under way;
 * a new revision of the same does not, or a slow collector would never be heard. What went unheard is asked again in any
 * case: a view that holds still has no other occasion.
 */
export function useAnswer<T>(
  path: string,
  params: URLSearchParams | null,
  revision: string | number,
  check: (v: T) => T,
): Answer<T> {
  const [answer, set] = useState<Answer<T>>({ data: null, error: null, loading: false, key: "", at: 0 });
  const [again, setAgain] = useState(0);
  const flying = useRef<{ key: string; stop: AbortController } | null>(null);
  const last = useRef({ key: "", took: 0, end: 0 });
  const key = params === null ? "" : `${path}?${params}`;

  // biome-ignore lint/correctness/useExhaustiveDependencies: the question is its key, and check never changes what it means
  useEffect(() => {
    if (params === null) {
      flying.current?.stop.abort();
      flying.current = null;
      set((a) => (a.loading || a.error ? { ...a, loading: false, error: null } : a));
      return;
    }
    if (flying.current?.key === key) return;
    // A refresh that costs the collector much may wait a little.
    const l = last.current;
    if (l.key === key && performance.now() - l.end < patience * l.took) return;
    flying.current?.stop.abort();
    const mine = { key, stop: new AbortController() };
    flying.current = mine;
    const start = performance.now();
    set((a) => ({ ...a, loading: true }));
    get<T>(path, params, mine.stop.signal)
      .then((data) => ({ data: check(data), error: null, loading: false, key, at: Date.now() }))
      .catch((error) => (a: Answer<T>) => {
        // What was answered to another question would be taken for this one's.
        const data = a.key === key ? a.data : null;
        return { ...a, data, error: error as Refused | Unreachable, loading: false };
      })
      .then((next) => {
        if (flying.current !== mine) return;
        flying.current = null;
        const end = performance.now();
        last.current = typeof next === "function" ? { key: "", took: 0, end } : { key, took: end - start, end };
        set(next as Answer<T>);
      });
  }, [key, revision, again]);

  const unheard = answer.error instanceof Unreachable && !answer.loading;
  useEffect(() => {
    if (!unheard) return;
    const id = setInterval(() => document.hidden || setAgain((n) => n + 1), retrySeconds * 1000);
    return () => clearInterval(id);
  }, [unheard]);

  useEffect(() => () => flying.current?.stop.abort(), []);
  return answer;
}

/** useDelayed follows a value once it has stayed the same for a while. */
export function useDelayed<T>(value: T, ms: number): T {
  const [late, set] = useState(value);
  useEffect(() => {
    const id = setTimeout(() => set(value), ms);
    return () => clearTimeout(id);
  }, [value, ms]);
  return late;
}
