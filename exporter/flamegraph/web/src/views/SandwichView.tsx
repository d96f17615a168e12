// The tab of the sandwich: one function in the middle, who calls it above, what it calls below.
import { useMemo } from "preact/hooks";
import { buildTree, type Match, type Tree, withoutRoot } from "../graph/tree";
import { useAnswer } from "../model/answer";
import { checkFlame, type Flame } from "../model/api";
import { percent, points, value } from "../model/format";
import { treeParams } from "../model/view";
import { Name } from "../ui/common";
import { useApp } from "../ui/context";
import { Swatch, typeName } from "../ui/Frame";
import { Icon } from "../ui/icons";
import { Functions, type useFunctions } from "./Functions";
import { GraphPane } from "./GraphPane";
import { useFound, useMatch } from "./matches";
import { openers } from "./TableView";

export function SandwichView({ functions }: { functions: ReturnType<typeof useFunctions> }) {
  const { store, view, unit, theme, revision } = useApp();
  const { answer, rows } = functions;
  const key = view.function || rows[0]?.key || "";
  const ask = (which: string) => {
    if (key === "") return null;
    // One root, not one for each line of the function.
    const p = treeParams({ ...view, lines: false });
    p.set("view", which);
    p.set("function", key);
    return p;
  };
  const callers = useAnswer<Flame>("flamegraph", ask("callers"), revision, checkFlame);
  const callees = useAnswer<Flame>("flamegraph", ask("callees"), revision, checkFlame);
  const above = useMemo(
    () => (callers.data ? buildTree(withoutRoot(callers.data), view.widths) : null),
    [callers.data, view.widths],
  );
  const below = useMemo(
    () => (callees.data ? buildTree(withoutRoot(callees.data), view.widths) : null),
    [callees.data, view.widths],
  );
  const match = useMatch();
  const names = answer.data?.functions.name ?? [];
  const middle = below ?? above;
  const error = callers.error ?? callees.error;
  return (
    <div class="sandwich-view">
      <div class="sandwich-list">
        <Functions
          answer={answer}
          rows={rows}
          selected={key}
          compact
          onSelect={(r) => store.adjust({ function: r.key, focus: "", node: "" })}
          {...openers(store, names)}
        />
      </div>
      <div class="sandwich-graphs">
        {error &&
          ("status" in error && error.status === 404 ? (
            <p class="hint pad">This function has no samples in the selection. Choose another one.</p>
          ) : (
            <p class="notice notice-bad">{error.message}</p>
          ))}
        {above && (
          <Half
            tree={above}
            match={match}
            flip
            title="Callers"
            empty="Nothing calls it: it is where the stacks begin."
          />
        )}
        {middle && (
          <div class="sandwich-middle">
            <Swatch type={middle.functions.type[middle.fn[0]!]!} theme={theme} />
            <Name class="sandwich-name" text={middle.names[middle.fn[0]!]!} />
            <span class="sandwich-type">{typeName(middle.functions.type[middle.fn[0]!]!)}</span>
            <span class="sandwich-numbers">
              total <strong>{percent(middle.total[0]! / (answer.data?.total || middle.sum || 1))}</strong>{" "}
              {value(middle.total[0]!, unit)}
              {below && (
                <>
                  {" "}
                  · self <strong>{percent(below.self[0]! / (answer.data?.total || below.sum || 1))}</strong>
                </>
              )}
              {middle.baseTotal && answer.data && (
                <>
                  {" "}
                  ·{" "}
                  {points(
                    middle.total[0]! / (answer.data.total || 1) - middle.baseTotal[0]! / (answer.data.base_total || 1),
                  )}{" "}
                  points
                </>
              )}
            </span>
            {view.focus !== "" && (
              <button type="button" class="button button-small" onClick={() => store.go({ focus: "" })}>
                <Icon name="back" size={13} /> Reset zoom
              </button>
            )}
          </div>
        )}
        {below && (
          <Half tree={below} match={match} flip={false} title="Callees" empty="It calls nothing that was seen." />
        )}
      </div>
    </div>
  );
}

interface HalfProps {
  tree: Tree;
  match: Match | null;
  flip: boolean;
  title: string;
  empty: string;
}

function Half({ tree, match, flip, title, empty }: HalfProps) {
  const found = useFound(tree, match);
  return (
    <section class={`sandwich-half ${flip ? "sandwich-above" : ""}`} aria-label={title}>
      <h2 class="sandwich-title">{title}</h2>
      {tree.size > 1 ? (
        <GraphPane
          tree={tree}
          flip={flip}
          matches={found && found.count > 0 ? found.functions : null}
          only=""
          label={`${title}: arrow keys move between frames`}
        />
      ) : (
        <p class="hint pad">{empty}</p>
      )}
    </section>
  );
}
