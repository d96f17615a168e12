// The tab of the table.
import type { Row } from "../model/rows";
import { useApp } from "../ui/context";
import { Functions, type useFunctions } from "./Functions";

/** openers is what a row of functions leads to. */
export function openers(store: ReturnType<typeof useApp>["store"], names: string[]) {
  return {
    onOpen: (r: Row) => store.go({ tab: "sandwich", function: r.key, focus: "", node: "" }),
    onFind: (r: Row) => store.go({ tab: "flame", search: names[r.at]!.slice(0, 200), focus: "", node: "" }),
  };
}

export function TableView({ functions }: { functions: ReturnType<typeof useFunctions> }) {
  const { store, view } = useApp();
  const { answer, rows } = functions;
  return (
    <div class="table-view">
      <Functions
        answer={answer}
        rows={rows}
        selected={view.function}
        compact={false}
        onSelect={(r) => store.adjust({ function: r.key })}
        {...openers(store, answer.data?.functions.name ?? [])}
      />
    </div>
  );
}
