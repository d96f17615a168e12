// What the keys do.
import { Modal } from "./common";

const groups: { title: string; keys: [string[], string][] }[] = [
  {
    title: "Everywhere",
    keys: [
      [["/"], "Search"],
      [["N", "Shift+N"], "Next and previous match, after Enter in the search"],
      [["1", "2", "3", "4"], "Flame graph, table, sandwich, heatmap"],
      [["L"], "Live or paused"],
      [["A"], "Add a filter"],
      [["C"], "Compare"],
      [["E"], "Export"],
      [["K"], "Link"],
      [["S"], "Status"],
      [["?"], "This help"],
      [["Esc"], "Out: of a menu, of the zoom"],
    ],
  },
  {
    title: "Flame graph",
    keys: [
      [["↑", "↓"], "To the caller, to the widest callee"],
      [["←", "→"], "To the neighbours at the same depth"],
      [["Home", "End"], "To the root, to the deepest widest frame"],
      [["PgUp", "PgDn"], "Ten frames at once"],
      [["Enter"], "Zoom to the frame"],
      [["Backspace"], "Zoom out by one frame"],
      [["Menu", "Shift+F10"], "What can be done with the frame"],
    ],
  },
  {
    title: "Table",
    keys: [
      [["↑", "↓", "PgUp", "PgDn"], "Select a function"],
      [["Enter"], "Callers and callees"],
      [["F"], "Find it in the flame graph"],
    ],
  },
  {
    title: "Timeline and heatmap",
    keys: [
      [["←", "→"], "Move by one slice"],
      [["Shift+←", "Shift+→"], "Mark a range"],
      [["Enter"], "Show the marked range"],
      [["Esc"], "Unmark"],
    ],
  },
];

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Modal title="Keys" class="help" onClose={onClose}>
      <div class="help-groups">
        {groups.map((g) => (
          <section key={g.title}>
            <h3>{g.title}</h3>
            <dl>
              {g.keys.map(([keys, text]) => (
                <div key={text}>
                  <dt>
                    {keys.map((k) => (
                      <kbd key={k}>{k}</kbd>
                    ))}
                  </dt>
                  <dd>{text}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <h3>Reading a flame graph</h3>
      <p class="hint">
        A frame is as wide as the share of samples in which its function was on the stack; what it called lies below it.
        Frames side by side are sorted by name, not by time. A frame's own time is what is not covered by frames below
        it.
      </p>
    </Modal>
  );
}
