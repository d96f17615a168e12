// Icons on a 16 by 16 grid, drawn with the text's colour.

const paths = {
  flame:
    "M8.6 1.2c.3 2.2-.5 3.3-1.7 4.6C5.6 7.2 4 8.6 4 10.9 4 13.2 5.8 15 8 15s4-1.8 4-4.1c0-1.7-.8-2.9-1.5-3.8-.2 1-.6 1.6-1.3 2 .4-2.7-.1-5.9-.6-7.9z",
  table: "M2 3h12v10H2zM2 6.5h12M2 9.8h12M6.5 6.5V13",
  sandwich: "M2.5 4h11M4.5 6.5h7M1.5 8.8h13M4.5 11.2h7M6 13.5h4",
  heatmap: "M2 2.5h3v3H2zM6.5 2.5h3v3h-3zM11 2.5h3v3h-3zM2 6.8h3v3H2zM6.5 6.8h3v3h-3zM2 11h3v3H2zM11 11h3v3h-3z",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zM10.3 10.3 14 14",
  close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  plus: "M8 3v10M3 8h10",
  down: "M4 6l4 4 4-4",
  right: "M6 4l4 4-4 4",
  download: "M8 2v8M4.5 7 8 10.5 11.5 7M2.5 13.5h11",
  link: "M6.5 9.5l3-3M7 4.5l1.3-1.3a2.8 2.8 0 0 1 4 4L11 8.5M9 11.5l-1.3 1.3a2.8 2.8 0 0 1-4-4L5 7.5",
  compare: "M2 4.5h7.5M7 2 9.5 4.5 7 7M14 11.5H6.5M9 9l-2.5 2.5L9 14",
  sun: "M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  moon: "M13.5 9.7A6 6 0 0 1 6.3 2.5 6 6 0 1 0 13.5 9.7z",
  auto: "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2zM8 2v12",
  help: "M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8zM6.2 6.3c0-1 .8-1.7 1.8-1.7s1.8.7 1.8 1.6c0 1.3-1.8 1.4-1.8 2.8M8 11v.4",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M4.5 3v10l8-5z",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  zoom: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zM10.3 10.3 14 14M7 5v4M5 7h4",
  back: "M7 3 2.5 7.5 7 12M3 7.5h7a3.5 3.5 0 0 1 3.5 3.5v1.5",
  flip: "M5 13V3M2.5 5.5 5 3l2.5 2.5M11 3v10M8.5 10.5 11 13l2.5-2.5",
  panel: "M2 3h12v10H2zM10 3v10",
  warning: "M8 2 1.5 13.5h13zM8 6.5v3.5M8 11.8v.2",
  check: "M3 8.5l3.2 3.2L13 4.8",
  swap: "M4 2v12M1.5 4.5 4 2l2.5 2.5M12 14V2M9.5 11.5 12 14l2.5-2.5",
  filter: "M2 3.5h12M4.5 8h7M6.5 12.5h3",
  terminal: "M2 3h12v10H2zM4.5 6l2 2-2 2M8 10.5h3",
  pulse: "M1.5 8.5h3l2-5 3 9 2-4h3",
  sort: "M8 3v10M4.5 9.5 8 13l3.5-3.5",
} as const;

export type IconName = keyof typeof paths;

const filled = new Set<IconName>(["flame", "play", "heatmap"]);

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path
        d={paths[name]}
        fill={filled.has(name) ? "currentColor" : "none"}
        stroke={filled.has(name) ? "none" : "currentColor"}
        stroke-width="1.5"
        stroke-linecap="round"
        stroke-linejoin="round"
      />
    </svg>
  );
}
