// Taking it along: downloads, the command for go tool pprof, links.
import { useState } from "preact/hooks";
import { clean } from "../model/text";
import { fixedRange, format, quoted, side, type View } from "../model/view";
import { CopyField, Name, PopoverButton } from "./common";
import { useApp } from "./context";
import { save } from "./download";
import { Icon } from "./icons";
import { bounds } from "./TimeControl";

const files = [
  { path: "profile.pb.gz", name: "pprof", note: "for go tool pprof and everything that reads pprof" },
  { path: "profile.folded", name: "Folded stacks", note: "for flamegraph.pl and inferno" },
  { path: "profile.speedscope.json", name: "speedscope", note: "for speedscope.app" },
  { path: "profile.otlp.json", name: "OTLP JSON", note: "OpenTelemetry profiles, nothing left out" },
];

/** here is the address of this page without its query, where the collector's other paths begin. */
export function here(): string {
  return new URL(".", document.baseURI).href;
}

export function pprofCommand(v: View, at: string): string {
  const url = (base: boolean) => {
    const p = side(v, base).toString();
    return quoted(`${at}pprof${p ? `?${p}` : ""}`);
  };
  return v.base ? `go tool pprof -http=: -diff_base ${url(true)} ${url(false)}` : `go tool pprof -http=: ${url(false)}`;
}

/** Files are links, to be copied as such; a click has the page fetch what they lead to. */
function Files() {
  const { view } = useApp();
  const [told, tell] = useState<{ text: string; bad: boolean } | null>(null);
  const fetchFile = async (path: string, name: string) => {
    tell({ text: `Fetching ${name}…`, bad: false });
    try {
      await save(path, name);
      tell(null);
    } catch (err) {
      tell({ text: (err as Error).message, bad: true });
    }
  };
  const list = (base: boolean) =>
    files.map((f) => {
      const query = side(view, base).toString();
      const path = `${f.path}${query ? `?${query}` : ""}`;
      const name = base ? `baseline-${f.path}` : f.path;
      return (
        <a
          key={f.path + base}
          class="menu-item menu-item-two"
          href={path}
          download={name}
          onClick={(e) => {
            if (e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return;
            e.preventDefault();
            fetchFile(path, name);
          }}
        >
          <span>{f.name}</span>
          <span class="menu-note">{f.note}</span>
        </a>
      );
    });
  return (
    <>
      <div class="menu-title">{view.base ? "Download the current side" : "Download what is selected"}</div>
      {list(false)}
      {view.base && <div class="menu-title">Download the baseline</div>}
      {view.base && list(true)}
      {told && (
        <p class={told.bad ? "notice notice-bad" : "hint"} role={told.bad ? "alert" : "status"}>
          <Name text={clean(told.text, 400)} />
        </p>
      )}
    </>
  );
}

export function DownloadButton() {
  const { view, toast } = useApp();
  return (
    <PopoverButton
      label="Download"
      name="download"
      align="right"
      class="popover-share"
      title="Download what is selected (E)"
      face={
        <>
          <Icon name="download" />
          <span class="button-text">Export</span>
        </>
      }
    >
      {() => (
        <>
          <Files />
          <div class="menu-title">Open in go tool pprof</div>
          <CopyField label="Command" text={pprofCommand(view, here())} onCopied={toast} />
        </>
      )}
    </PopoverButton>
  );
}

export function LinkButton() {
  const { view, status, toast } = useApp();
  const b = bounds(view.range, status.now, status.window);
  const still: View = {
    ...view,
    range: fixedRange(b.from, b.to),
    base: view.base && { ...view.base, range: frozen(view.base.range, status.now, status.window) },
  };
  const at = here();
  return (
    <PopoverButton
      label="Link to this view"
      name="link"
      align="right"
      class="popover-share"
      title="Link to this view (K)"
      face={
        <>
          <Icon name="link" />
          <span class="button-text">Link</span>
        </>
      }
    >
      {() => (
        <>
          <CopyField label="This view, exactly these data" text={at + format(still)} onCopied={toast} />
          {view.range.live && <CopyField label="This view, live" text={at + format(view)} onCopied={toast} />}
          <p class="hint">
            The link holds the whole view: selection, filters, comparison, search and zoom. It works as long as the
            collector keeps the data.
          </p>
        </>
      )}
    </PopoverButton>
  );
}

function frozen(r: View["range"] | null, now: number, window: { from: number; to: number }): View["range"] | null {
  if (r === null) return null;
  const b = bounds(r, now, window);
  return fixedRange(b.from, b.to);
}
