// What several parts of the page are made of: buttons, what pops up, what can be copied.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Icon, type IconName } from "./icons";

interface IconButtonProps {
  icon: IconName;
  label: string;
  onClick?: (e: MouseEvent) => void;
  pressed?: boolean;
  expanded?: boolean;
  popup?: "menu" | "dialog";
  text?: string;
  class?: string;
  disabled?: boolean;
}

export function IconButton(p: IconButtonProps) {
  return (
    <button
      type="button"
      class={`button ${p.text ? "" : "button-icon"} ${p.class ?? ""}`}
      aria-label={p.text ? undefined : p.label}
      title={p.label}
      aria-pressed={p.pressed}
      aria-expanded={p.expanded}
      aria-haspopup={p.popup}
      disabled={p.disabled}
      onClick={p.onClick}
    >
      <Icon name={p.icon} />
      {p.text && <span class="button-text">{p.text}</span>}
    </button>
  );
}

interface PopoverProps {
  face: ComponentChildren; // what is on the button
  title?: string; // of the button
  on?: boolean; // the button shows that something is set
  label: string; // of what opens
  children: (close: () => void) => ComponentChildren;
  align?: "left" | "right";
  class?: string;
  name?: string;
}

/**
 * PopoverButton is a button with what opens below it, which takes the focus and gives it back when Escape or a click elsewhere
 * closes it.
 */
export function PopoverButton(p: PopoverProps) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const panel = useRef<HTMLDivElement>(null);
  const close = () => {
    setOpen(false);
    root.current?.querySelector<HTMLElement>("button")?.focus();
  };
  useLayoutEffect(() => {
    if (!open) return;
    keepInside(panel.current!);
    focusFirst(panel.current!);
    const outside = (e: Event) => {
      if (!root.current?.contains(e.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", outside, true);
    document.addEventListener("focusin", outside);
    return () => {
      document.removeEventListener("pointerdown", outside, true);
      document.removeEventListener("focusin", outside);
    };
  }, [open]);
  return (
    <div class="popover-root" ref={root} data-name={p.name}>
      <button
        type="button"
        class={`button ${p.on ? "button-on" : ""}`}
        title={p.title}
        aria-haspopup="dialog"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        {p.face}
      </button>
      {open && (
        <div
          ref={panel}
          class={`popover popover-${p.align ?? "left"} ${p.class ?? ""}`}
          role="dialog"
          aria-label={p.label}
          tabIndex={-1}
          onKeyDown={(e) => {
            if (e.key === "Escape") {
              e.stopPropagation();
              close();
            }
          }}
        >
          {p.children(close)}
        </div>
      )}
    </div>
  );
}

function keepInside(panel: HTMLElement): void {
  panel.style.translate = "";
  const r = panel.getBoundingClientRect();
  const right = Math.min(window.innerWidth - 8 - r.right, 0);
  const left = Math.max(8 - r.left, 0);
  if (right + left !== 0) panel.style.translate = `${right + left}px 0`;
  panel.style.maxHeight = `${Math.max(window.innerHeight - r.top - 12, 160)}px`;
}

const focusable = "input:not([disabled]), button:not([disabled]), a[href], select, [tabindex='0']";

function focusFirst(panel: HTMLElement): void {
  const first =
    panel.querySelector<HTMLElement>("[data-autofocus]") ?? panel.querySelector<HTMLElement>(focusable) ?? panel;
  first.focus({ preventScroll: true });
}

/** menuKeys moves the focus among the items of a menu. */
export function menuKeys(e: KeyboardEvent, menu: HTMLElement): void {
  const items = [...menu.querySelectorAll<HTMLElement>("[role^=menuitem]")];
  const at = items.indexOf(document.activeElement as HTMLElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[e.key];
  if (to === undefined || items.length === 0) return;
  e.preventDefault();
  items[(to + items.length) % items.length]!.focus();
}

/** copy puts text on the clipboard, also where the page is not a secure context. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "visually-hidden";
    document.body.append(area);
    area.select();
    const ok = document.execCommand("copy");
    area.remove();
    return ok;
  }
}

/** CopyField shows text that is meant for elsewhere, and copies it. */
export function CopyField({
  label,
  text,
  onCopied,
}: {
  label: string;
  text: string;
  onCopied: (what: string) => void;
}) {
  const id = useId();
  return (
    <div class="copy-field">
      <label for={id}>{label}</label>
      <div class="copy-row">
        <input id={id} readOnly value={text} spellcheck={false} onFocus={(e) => e.currentTarget.select()} />
        <IconButton
          icon="copy"
          label={`Copy: ${label}`}
          onClick={async () =>
            onCopied((await copy(text)) ? "Copied" : "The browser did not allow copying; select the text")
          }
        />
      </div>
    </div>
  );
}

/** Toast says that something happened, also to those who do not see it. */
export function Toast({ text, onGone }: { text: string; onGone: () => void }) {
  useEffect(() => {
    if (text === "") return;
    const id = setTimeout(onGone, 2200);
    return () => clearTimeout(id);
  }, [text, onGone]);
  return (
    <div class={`toast ${text ? "toast-on" : ""}`} role="status" aria-live="polite">
      {text}
    </div>
  );
}

/** Modal is a dialog in the middle that keeps the focus. */
export function Modal(p: { title: string; onClose: () => void; children: ComponentChildren; class?: string }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const el = dialog.current!;
    el.showModal();
    // Closing gives the focus back to where it was.
    return () => el.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      class={`modal ${p.class ?? ""}`}
      aria-labelledby={id}
      onClose={p.onClose}
      onKeyDown={(e) => e.stopPropagation()}
      onClick={(e) => e.target === dialog.current && p.onClose()}
    >
      <div class="modal-body">
        <header class="modal-head">
          <h2 id={id}>{p.title}</h2>
          <IconButton icon="close" label="Close" onClick={p.onClose} />
        </header>
        {p.children}
      </div>
    </dialog>
  );
}

/** Problem is what is wrong, in the lines in which it was told. */
export function Problem({ children, live }: { children: ComponentChildren; live?: boolean }) {
  return (
    <div class="notice notice-bad" role={live ? "alert" : undefined}>
      <Icon name="warning" size={14} />
      <div class="notice-text">{children}</div>
    </div>
  );
}

interface NameProps {
  text: string;
  class?: string;
  title?: string;
  end?: boolean; // where there is no room for all of it, its end is shown
  breaks?: boolean; // a new line begins behind a slash or a dot rather than within a word
}

/** Name shows text from a profile: its direction stays its own affair. */
export function Name({ text, class: c, title, end, breaks }: NameProps) {
  if (end) {
    // A line that runs to the left loses its beginning.
    return (
      <span class={`${c ?? ""} name-end`} title={title}>
        <bdi dir="ltr">{text}</bdi>
      </span>
    );
  }
  return (
    <bdi class={c} dir="ltr" title={title}>
      {breaks ? text.split(/(?<=[/.])(?=[^/.])/).map((part, i) => (i === 0 ? part : [<wbr key={i} />, part])) : text}
    </bdi>
  );
}
