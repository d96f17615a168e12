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
          if (e.key === "Enter" && onStep) {
            e.preventDefault();
            onStep(e.shiftKey ? -1 : 1);
          } else if (e.key === "Escape") {
            e.stopPropagation();
            if (text === "") document.querySelector<HTMLElement>(".flame, .functions")?.focus();
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
