import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReasonsAnswer } from "../src/model/api";
import { checkReasons, Reasons } from "../src/model/reasons";

const answer = (): ReasonsAnswer => ({
  reasons: [
    { reason: "root", complete: true, means: "complete: all", when: "mostly", do: "nothing" },
    { reason: "no_rule", complete: false, means: "a gap", when: "assembler", do: "directives" },
  ],
  guessed: "by searching",
});

test("the collector's words are the page's", () => {
  const r = new Reasons(checkReasons(answer()));
  assert.equal(r.means("no_rule"), "a gap");
  assert.equal(r.of("no_rule")?.do, "directives");
  assert.deepEqual(
    ["root", "no_rule", "constructor"].map((n) => r.isComplete(n)),
    [true, false, false],
  );
  assert.equal(r.guessed, "by searching");
});

test("reasons that nobody has words for are shown as they are, and harmlessly", () => {
  for (const r of [new Reasons(null), new Reasons(answer())]) {
    assert.equal(r.of("__proto__"), undefined);
    assert.equal(r.means("some_other"), "some other");
    assert.equal(r.means("\u202eevil\n"), "\\u202eevil\\n");
    assert.ok(r.means("x".repeat(5000)).length <= 80);
  }
});

test("words that are none are refused", () => {
  const broken: ((a: ReasonsAnswer) => void)[] = [
    (a) => Object.assign(a, { reasons: {} }),
    (a) => Object.assign(a, { guessed: 7 }),
    (a) => Object.assign(a.reasons[0]!, { means: null }),
    (a) => Object.assign(a.reasons[1]!, { reason: undefined }),
  ];
  for (const breakIt of broken) {
    const a = answer();
    breakIt(a);
    assert.throws(() => checkReasons(a), breakIt.toString());
  }
});
