import assert from "node:assert/strict";
import { test } from "node:test";
import { Store } from "../src/model/store";

/** browser is as much of a window as the store needs; it allows so many changes of the address. */
function browser(allowed: number) {
  const b = {
    address: "",
    allowed,
    later: [] as (() => void)[],
    location: { search: "", pathname: "/" },
    addEventListener() {},
    setTimeout: (f: () => void) => b.later.push(f),
    clearTimeout: () => {
      b.later = [];
    },
    history: {
      pushState: (_: unknown, __: string, url: string) => b.history.replaceState(_, __, url),
      replaceState: (_: unknown, __: string, url: string) => {
        if (b.allowed-- <= 0) throw new Error("the operation is insecure");
        b.address = url;
      },
    },
  };
  return b;
}

test("the address follows late where the browser does not allow more changes, and the view does not wait for it", () => {
  const b = browser(2);
  const store = new Store(b as unknown as Window);
  let told = 0;
  store.subscribe(() => told++);
  for (const node of ["a", "b", "c", "d"]) store.adjust({ node });
  assert.equal(told, 4);
  assert.equal(store.view.node, "d");
  assert.match(b.address, /node=b/);
  assert.equal(b.later.length, 1);
  b.later.pop()!();
  assert.match(b.address, /node=b/, "it was not allowed yet");
  b.allowed = 1;
  b.later.pop()!();
  assert.match(b.address, /node=d/);
  assert.deepEqual(b.later, []);
});
