// What stands where.
import assert from "node:assert/strict";
import { test } from "node:test";
import { now, open, withBrowser } from "./harness.mjs";

withBrowser();

test("the heads of the table's numbers end where the numbers do", async (t) => {
  for (const base of ["", `&base_from=${now - 600_000}&base_to=${now - 300_000}`]) {
    await t.test(base ? "of a comparison" : "alone", () =>
      open({ query: `?tab=table&from=${now - 300_000}&to=${now}${base}` }, async (page) => {
        await page.waitForSelector("tbody td.num .cell-value");
        const ends = await page.evaluate(() => {
          // Where the ink of the text ends, whatever boxes are around it.
          const right = (e) => {
            const texts = document.createTreeWalker(e, NodeFilter.SHOW_TEXT);
            let end = 0;
            for (let n = texts.nextNode(); n; n = texts.nextNode()) {
              const r = document.createRange();
              r.selectNodeContents(n);
              end = Math.max(end, r.getBoundingClientRect().right);
            }
            return end;
          };
          const columns = [...document.querySelectorAll("thead th")].map((h, i) => [h.textContent, i]);
          const row = document.querySelector("tbody tr:not([aria-hidden])");
          return columns
            .filter(([name]) => /^(Self|Total)$/.test(name))
            .map(([name, i]) => [name, right(document.querySelectorAll("thead th")[i]) - right(row.cells[i])]);
        });
        assert.equal(ends.length, 2);
        for (const [name, apart] of ends) assert.ok(Math.abs(apart) < 1.5, `${name}: ${apart} px`);
      }),
    );
  }
});
