// Comparing two selections, and links to a view, in a browser against the mock collector.
import assert from "node:assert/strict";
import { test } from "node:test";
import { start } from "../mock/server.mjs";
import { ask, drawn, middle, minutes, now, open, pixels, query, select, text, withBrowser } from "./harness.mjs";

withBrowser();

test("comparing with the time before", () =>
  open({}, async (page, mock) => {
    await drawn(page);
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByRole("button", { name: "The 5 min before" }).click();
    await page.waitForSelector(".compare-bar");
    const q = `from=${minutes(-5)}&to=${now}&base_from=${minutes(-10)}&base_to=${minutes(-5)}`;
    assert.equal(decodeURIComponent(new URL(page.url()).search), `?${q}`);
    const bar = await text(page.locator(".compare-bar"));
    assert.match(
      bar,
      /A Current .* of CPU = 100% everything, 14:01:00 – 14:06:00 compared with B Baseline .*= 100% everything, 13:56:00 – 14:01:00/,
    );
    const cursor = await select(page, "backtrack");
    const at = await middle(cursor);
    await page.mouse.move(at.x, at.y);
    const tip = await text(page.locator(".tooltip"));
    const a = await ask(mock, `table?${q}&search=backtrack`);
    const share = (v, sum) => `${((100 * v) / sum).toFixed(1)}%`;
    const self = new RegExp(`Self ${share(a.self[0], a.total)} .* ${share(a.base_self[0], a.base_total)} .* \\+`);
    assert.match(tip, self);
    assert.match(await cursor.getAttribute("aria-label"), /baseline/);
    // Around what was found the differences can still be seen: more than a grey or two.
    const hues = await page.evaluate(() => {
      const c = document.querySelector(".flame canvas");
      const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
      const out = { blue: 0, orange: 0 };
      for (let i = 0; i < data.length; i += 4) {
        if (data[i + 2] > data[i] + 12) out.blue++;
        else if (data[i] > data[i + 2] + 12 && data[i + 1] > data[i + 2]) out.orange++;
      }
      return out;
    });
    assert.ok(hues.blue > 500 && hues.orange > 500, JSON.stringify(hues));
    await page.locator("#tab-table").click();
    await page.getByRole("button", { name: "Δ self" }).click();
    await page.waitForFunction(() => document.querySelector("tbody .diff-pill")?.textContent.startsWith("▲"));
    await page.getByRole("button", { name: "Swap the two sides" }).click();
    await page.waitForFunction(
      (t) => location.search.includes(`?from=${t}`) || location.search.includes(`&from=${t}`),
      minutes(-10),
    );
    await page.getByRole("button", { name: "Stop comparing" }).click();
    await page.waitForSelector(".compare-bar", { state: "detached" });
    assert.equal(query(page).get("base_from"), null);
  }));

test("comparing two processes, live", () =>
  open({ query: "?live=1&seconds=300&process=nginx" }, async (page) => {
    await drawn(page);
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByRole("checkbox", { name: /^postgres/ }).click();
    await page.waitForSelector(".compare-bar");
    await page.waitForSelector(".popover", { state: "detached" });
    assert.deepEqual(query(page).getAll("base_filter"), ["process.executable.name=postgres"]);
    assert.match(
      await text(page.locator(".compare-bar")),
      /process nginx, last 5 min compared with .*process postgres, last 5 min/,
    );
    // The timeline has a strip for each of them, with its own data.
    const lanes = page.locator(".timeline-lane");
    assert.equal(await lanes.count(), 2);
    assert.deepEqual(await page.locator(".timeline-letter").allInnerTexts(), ["A", "B"]);
    const strips = await lanes.locator("canvas").evaluateAll((all) =>
      all.map((c) => {
        const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
        return data.filter((v, i) => i % 4 === 3 && v > 0).length;
      }),
    );
    assert.ok(strips[0] > 1000 && strips[1] > 1000 && strips[0] !== strips[1], strips.join());
    assert.equal(await page.locator(".live").getAttribute("aria-pressed"), "true");
  }));

test("a baseline is marked on the timeline", () =>
  open({}, async (page) => {
    await drawn(page);
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByRole("button", { name: /mark on the timeline/ }).click();
    const b = await page.getByRole("slider", { name: /range to compare with/ }).boundingBox();
    await page.mouse.move(b.x + 2, b.y + 10);
    await page.mouse.down();
    await page.mouse.move(b.x + b.width / 3, b.y + 10, { steps: 3 });
    await page.mouse.up();
    await page.waitForSelector(".compare-bar");
    assert.deepEqual(
      [query(page).get("base_from"), query(page).get("base_to")],
      [String(minutes(-15)), String(minutes(-10))],
    );
  }));

test("the link restores exactly this view", async () => {
  const mock = await start({ now });
  try {
    let link;
    let before;
    const look = async (page) => {
      await drawn(page);
      await page.waitForSelector(".crumb-here");
      await page.waitForFunction(() => /%/.test(document.getElementById("search-result").textContent));
      return {
        pixels: await pixels(page),
        crumbs: await text(page.locator(".crumbs")),
        panel: await text(page.locator(".panel")),
        chips: await text(page.locator(".filters")),
        search: await page.inputValue("#search"),
        found: await text(page.locator("#search-result")),
        compare: await text(page.locator(".compare-bar")),
        theme: await page.evaluate(() => document.documentElement.dataset.theme),
      };
    };
    await open({ mock, query: "?filter=process.executable.name!=java&theme=dark&flip=1" }, async (page) => {
      await drawn(page);
      await page.getByRole("button", { name: "Compare" }).click();
      await page.getByRole("button", { name: "The 5 min before" }).click();
      await page.waitForSelector(".compare-bar");
      const cursor = await select(page, "ngx_http_process_request_line");
      const at = await middle(cursor);
      await page.mouse.click(at.x, at.y);
      await select(page, "deflate");
      await page.mouse.move(5, 5);
      before = await look(page);
      await page.getByRole("button", { name: "Link" }).click();
      link = await page.getByRole("textbox", { name: "This view, exactly these data" }).inputValue();
    });
    await open({ mock, query: new URL(link).search }, async (page) => {
      await page.mouse.move(5, 5);
      assert.deepEqual(await look(page), before);
    });
  } finally {
    await mock.close();
  }
});
