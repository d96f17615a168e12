// What a search finds in a tree.
import { useMemo } from "preact/hooks";
import { type Found, findAll, isExpression, type Match, matcher, type Tree } from "../graph/tree";
import { useAnswer, useDelayed } from "../model/answer";
import { checkTable, type FunctionTable } from "../model/api";
import { treeParams } from "../model/view";
import { useApp } from "../ui/context";

/**
 * useMatch is null without a search. The collector evaluates regular expressions: its engine takes linear time, the
 * browser's may take forever for one in a link that somebody sent.
 */
export function useMatch(): Match | null {
  const { view, revision } = useApp();
  const search = useDelayed(view.search, 150);
  const asked = isExpression(search) && search === view.search;
  const params = treeParams(view);
  params.set("search", search);
  params.set("limit", "20000");
  const { data, key } = useAnswer<FunctionTable>("table", asked ? params : null, revision, checkTable);
  const answered = asked && key === `table?${params}`;
  return useMemo(() => {
    if (view.search === "") return null;
    if (!isExpression(view.search)) return matcher(view.search);
    if (!answered || !data) return null;
    const keys = new Set(data.functions.key);
    return (f, i) => keys.has(f.key[i]!);
  }, [view.search, answered, data]);
}

export function useFound(tree: Tree, match: Match | null): Found | null {
  return useMemo(() => (match ? findAll(tree, match) : null), [tree, match]);
}
