import assert from "node:assert/strict";
import { test } from "node:test";
import type { Incomplete, Status } from "../src/model/api";
import { health } from "../src/ui/Status";

const status = (incomplete: Incomplete[]): Status => ({
  now: 0,
  version: "",
  window: { from: 0, to: 1, seconds: 1, bytes: 0, budget_bytes: 1, samples: 0, stacks: 0, dropped_until: null },
  types: [],
  payloads: { accepted: 1, refused: 0, last_error: "", skewed_profiles: 0, skew_ms: 0 },
  receivers: [
    {
      name: "r",
      seen: 0,
      taken: 1,
      delivered: 1,
      lost: {},
      kernel_skipped: 0,
      stops: {},
      processes: 1,
      executables: 1,
      problem: "",
    },
  ],
  incomplete,
});

test("incomplete stacks are a note where a busy process has many, over all their reasons", () => {
  const of = (pid: string, reason: string, samples: number, all: number) => ({
    process: "p",
    pid,
    reason,
    samples,
    of: all,
  });
  const text = (...all: Incomplete[]) => health(status(all)).text;
  assert.deepEqual(health(status([of("1", "no_rule", 20, 100)])), { health: "note", text: "Incomplete stacks" });
  assert.equal(text(of("1", "no_rule", 12, 100), of("1", "memory", 8, 100)), "Incomplete stacks");
  assert.equal(text(of("1", "no_rule", 12, 100), of("2", "memory", 8, 100)), "Healthy");
  assert.equal(text(of("1", "no_rule", 99, 99)), "Healthy", "of few samples a share says little");
  assert.equal(text(), "Healthy");
});
