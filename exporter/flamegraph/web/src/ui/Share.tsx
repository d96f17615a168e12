// Taking it along: downloads, the command for go tool pprof, links.
import { fixedRange, format, quoted, side, type View } from "../model/view";
import { CopyField, Popover } from "./common";
import { useApp } from "./context";
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

export function DownloadButton() {
  const { view, toast } = useApp();
  const list = (base: boolean) =>
    files.map((f) => {
      const query = side(view, base).toString();
      return (
        <a
          key={f.path + base}
          class="menu-item menu-item-two"
          href={`${f.path}${query ? `?${query}` : ""}`}
          download={base ? `baseline-${f.path}` : f.path}
        >
          <span>{f.name}</span>
          <span class="menu-note">{f.note}</span>
        </a>
      );
    });
  return (
    <Popover
      label="Download"
      name="download"
      align="right"
      class="popover-share"
      button={(open, toggle) => (
        <button type="button" class="button" aria-haspopup="dialog" aria-expanded={open} onClick={toggle}>
          <Icon name="download" />
          <span class="button-text">Export</span>
        </button>
      )}
    >
      {() => (
        <>
          <div class="menu-title">{view.base ? "Download the current side" : "Download what is selected"}</div>
          {list(false)}
          {view.base && <div class="menu-title">Download the baseline</div>}
          {view.base && list(true)}
          <div class="menu-title">Open in go tool pprof</div>
          <CopyField label="Command" text={pprofCommand(view, here())} onCopied={toast} />
        </>
      )}
    </Popover>
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
    <Popover
      label="Link to this view"
      name="link"
      align="right"
      class="popover-share"
      button={(open, toggle) => (
        <button type="button" class="button" aria-haspopup="dialog" aria-expanded={open} onClick={toggle}>
          <Icon name="link" />
          <span class="button-text">Link</span>
        </button>
      )}
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
    </Popover>
  );
}

function frozen(r: View["range"] | null, now: number, window: { from: number; to: number }): View["range"] | null {
  if (r === null) return null;
  const b = bounds(r, now, window);
  return fixedRange(b.from, b.to);
}
