// The search box with what it found.
import { useEffect, useRef, useState } from "preact/hooks";
import { percent, value } from "../model/format";
import { useApp } from "./context";
import { Icon } from "./icons";

export interface Result {
  share: number;
  total: number;
  functions: number;
  baseShare: number | null;
  problem: string;
}

/** pending stands for a result until it is there. */
export const pending = "…";

/** toView gives the focus to what the search looks through, where keys go on. */
function toView(): void {
  document.querySelector<HTMLElement>("#view :is(.flame, .functions, [role=slider])")?.focus();
}

interface SearchProps {
  result: Result | null;
  onStep: ((by: 1 | -1) => void) | null;
}

export function Search({ result, onStep }: SearchProps) {
  const { store, view, unit } = useApp();
  const [text, setText] = useState(view.search);
  const typed = useRef(view.search);
  useEffect(() => {
    if (view.search === typed.current) return;
    typed.current = view.search;
    setText(view.search);
  }, [view.search]);
  useEffect(() => {
    const id = setTimeout(() => {
      if (typed.current === text) return;
      typed.current = text;
      store.adjust({ search: text });
    }, 80);
    return () => clearTimeout(id);
  }, [text, store]);
  // What was found nowhere, or is no expression, is typed on.
  const nothing = result !== null && (result.problem === "" ? result.functions === 0 : result.problem !== pending);
  return (
    <search class="search">
      <Icon name="search" />
      <input
        id="search"
        type="text"
        value={text}
        placeholder="Search functions, files, mappings or /regexp/"
        aria-label="Search functions, files and mappings"
        aria-describedby="search-result"
        spellcheck={false}
        autocomplete="off"
        maxLength={1000}
        onInput={(e) => setText(e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key === "Enter") {
            e.preventDefault();
            typed.current = text;
            if (text !== view.search) store.adjust({ search: text });
            onStep?.(e.shiftKey ? -1 : 1);
            if (!nothing) toView();
          } else if (e.key === "Escape") {
            e.stopPropagation();
            if (text === "") toView();
            setText("");
          }
        }}
      />
      <span id="search-result" class={`search-result ${result?.problem ? "search-problem" : ""}`} aria-live="polite">
        {result &&
          (result.problem || (
            <>
              <strong>{percent(result.share)}</strong>
              {result.baseShare !== null && <> vs {percent(result.baseShare)}</>}
              <span class="search-more">
                {" "}
                · {value(result.total, unit)} · {result.functions} {result.functions === 1 ? "function" : "functions"}
              </span>
            </>
          ))}
      </span>
      {view.search !== "" && onStep && (
        <>
          <button
            type="button"
            class="mini"
            aria-label="Previous match"
            title="Previous match (Shift+N)"
            onClick={() => onStep(-1)}
          >
            <Icon name="right" size={12} />
          </button>
          <button type="button" class="mini" aria-label="Next match" title="Next match (N)" onClick={() => onStep(1)}>
            <Icon name="right" size={12} />
          </button>
        </>
      )}
      {text !== "" ? (
        <button type="button" class="mini" aria-label="Clear the search" onClick={() => setText("")}>
          <Icon name="close" size={12} />
        </button>
      ) : (
        <kbd aria-hidden="true">/</kbd>
      )}
    </search>
  );
}
