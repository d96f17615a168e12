// What every part of the page may need to know.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Theme } from "../graph/colors";
import type { ProfileType, Status } from "../model/api";
import type { Unit } from "../model/format";
import type { Reasons } from "../model/reasons";
import type { Store } from "../model/store";
import type { View } from "../model/view";

export interface App {
  store: Store;
  view: View;
  status: Status;
  reasons: Reasons; // why stacks end, in words
  type: ProfileType;
  unit: Unit;
  theme: Theme;
  revision: string; // what is asked is asked again when it changes
  down: boolean; // the collector does not answer, which the page says already
  toast: (text: string) => void;
  pick: boolean; // the next range that is chosen on the timeline is the one to compare with
  setPick: (on: boolean) => void;
}

const context = createContext<App | null>(null);
export const AppProvider = context.Provider;

export function useApp(): App {
  const app = useContext(context);
  if (!app) throw new Error("a part of the page stands outside of it");
  return app;
}
