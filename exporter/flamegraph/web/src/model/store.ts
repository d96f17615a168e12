// The one place that holds the view, bound to the address bar: going back and forward is a change like any other.
import { useEffect, useState } from "preact/hooks";
import { format, parse, type View } from "./view";

export type Change = Partial<View> | ((v: View) => Partial<View>);

const lateMs = 1000;

export class Store {
  private current: View;
  private late: number | undefined; // the timer of a change of the address that the browser did not allow yet
  private readonly listeners = new Set<() => void>();

  constructor(private readonly win: Window) {
    this.current = parse(win.location.search);
    win.addEventListener("popstate", () => {
      win.clearTimeout(this.late);
      this.current = parse(win.location.search);
      this.tell();
    });
  }

  get view(): View {
    return this.current;
  }

  /** go changes the view as a step that can be taken back. */
  go(change: Change): void {
    this.apply(change, true);
  }

  /** adjust changes it in place: typing, sorting, selecting. */
  adjust(change: Change): void {
    this.apply(change, false);
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private apply(change: Change, step: boolean): void {
    const before = format(this.current);
    this.current = { ...this.current, ...(typeof change === "function" ? change(this.current) : change) };
    const after = format(this.current);
    if (after !== before) this.write(step);
    this.tell();
  }

  /** write has the address follow. Browsers allow some hundred changes in a while, and a key that is held makes more. */
  private write(step: boolean): void {
    this.win.clearTimeout(this.late);
    const url = `${this.win.location.pathname}${format(this.current)}`;
    try {
      if (step) this.win.history.pushState(null, "", url);
      else this.win.history.replaceState(null, "", url);
    } catch {
      this.late = this.win.setTimeout(() => this.write(step), lateMs);
    }
  }

  private tell(): void {
    for (const l of this.listeners) l();
  }
}

export function useView(store: Store): View {
  const [view, set] = useState(store.view);
  useEffect(() => {
    set(store.view);
    return store.subscribe(() => set(store.view));
  }, [store]);
  return view;
}
