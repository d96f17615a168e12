// Which colour is which runtime, with its share; choosing one makes the others pale.
import { type Theme, truncatedColor, typeColor, typeOf } from "../graph/colors";
import type { TypeSum } from "../graph/tree";
import { percent } from "../model/format";
import { truncatedType } from "../model/names";
import { typeName } from "./Frame";

interface LegendProps {
  types: TypeSum[];
  truncated: number; // the share of stacks that end early
  colours: boolean; // comparing, frames have others
  theme: Theme;
  only: string;
  onOnly: (type: string) => void;
}

export function Legend({ types, truncated, colours, theme, only, onOnly }: LegendProps) {
  const sum = types.reduce((a, t) => a + t.self, 0) || 1;
  return (
    <ul class="legend" aria-label="Runtimes, by their share of own time">
      {types.slice(0, 14).map((t) => (
        <li key={t.type}>
          <button
            type="button"
            class={`legend-item ${only === t.type ? "legend-on" : ""}`}
            aria-pressed={only === t.type}
            title="Click to keep only these frames coloured"
            onClick={() => onOnly(only === t.type ? "" : t.type)}
          >
            {colours && (
              <span class="swatch" style={{ background: typeColor(typeOf(t.type), theme) }} aria-hidden="true" />
            )}
            <span class="legend-name">{typeName(t.type)}</span>
            <span class="legend-share">{percent(t.self / sum)}</span>
          </button>
        </li>
      ))}
      {truncated > 0 && (
        <li>
          <button
            type="button"
            class={`legend-item ${only === truncatedType ? "legend-on" : ""}`}
            aria-pressed={only === truncatedType}
            title="Stacks whose callers are missing from some frame on, of all stacks. Click to keep only their markers coloured"
            onClick={() => onOnly(only === truncatedType ? "" : truncatedType)}
          >
            {colours && (
              <span
                class="swatch swatch-hatched"
                style={{ backgroundColor: truncatedColor[theme] }}
                aria-hidden="true"
              />
            )}
            <span class="legend-name">Truncated</span>
            <span class="legend-share">{percent(truncated)}</span>
          </button>
        </li>
      )}
    </ul>
  );
}
