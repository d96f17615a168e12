// The one place that holds the view, bound to the address bar: going back and forward is a change like any other.
import { useEffect, useState } from "preact/hooks";
import { format, parse, type View } from "./view";

export type Change = Partial<View> | ((v: View) => Partial<View>);

export class Store {
  private current: View;
  private readonly listeners = new Set<() => void>();

  constructor(private readonly win: Window) {
    this.current = parse(win.location.search);
    win.addEventListener("popstate", () => {
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
    if (after !== before) {
      const url = `${this.win.location.pathname}${after}`;
      if (step) this.win.history.pushState(null, "", url);
      else this.win.history.replaceState(null, "", url);
    }
    this.tell();
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
