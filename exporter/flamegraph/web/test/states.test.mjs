// What the page does when things are not as they should be, and how it stands up to hostile names, to assistive
// technology, and to large profiles.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { dataset } from "../mock/data.mjs";
import { ask, drawn, flame, middle, now, open, query, select, text, withBrowser } from "./harness.mjs";

withBrowser();

const netError = /Failed to load resource/;

test("nothing received: it says what is waited for, and shows the first profiles by itself", () =>
  open({ scenario: "empty" }, async (page, mock) => {
    await page.waitForSelector("text=Waiting for the first profiles");
    assert.match(
      await text(page.locator(".empty")),
      /The receiver hostprofiles is running.*samples taken.*report_interval/,
    );
    mock.use("normal");
    await drawn(page);
  }));

test("profiling is off: it says so, and why, in the lines in which it was told", () =>
  open({ scenario: "off" }, async (page, mock) => {
    await page.waitForSelector("h2:has-text('Not profiling')");
    assert.equal(await page.getByText("Waiting for").count(), 0);
    const lines = page.locator(".lines");
    assert.deepEqual((await lines.innerText()).split("\n"), [
      "the perf events could not be opened: permission denied",
      "CAP_PERFMON is missing: samples of the CPUs",
      "CAP_BPF is missing: programs in the kernel",
    ]);
    const [notice, all] = [await page.locator(".notice").boundingBox(), await page.locator(".empty").boundingBox()];
    assert.ok(notice.width > all.width - 60 && notice.width > 600, `${notice.width} of ${all.width}`);
    mock.use("normal");
    await drawn(page);
  }));

test("a busy process whose stacks are cut off is no good health", () =>
  open({ scenario: "cut" }, async (page) => {
    await drawn(page);
    const button = page.getByRole("button", { name: "Incomplete stacks" });
    assert.equal(await button.locator(".dot-note").count(), 1);
    await button.click();
    assert.match(
      await text(page.getByRole("dialog", { name: "Status" })),
      /legacyd 611 a gap in the unwind information/,
    );
  }));

test("nothing matches: the filters can be cleared", () =>
  open({ query: "?process=nosuch" }, async (page) => {
    await page.waitForSelector("text=No samples here");
    assert.match(await text(page.locator(".empty")), /Nothing matches process nosuch in last 5 min/);
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await drawn(page);
    assert.equal(query(page).get("filter"), null);
  }));

test("a range outside of the window: the way back", () =>
  open({ query: `?from=${now - 9e6}&to=${now - 8e6}` }, async (page) => {
    await page.waitForSelector("text=Older than what is held");
    assert.match(
      await text(page.locator(".empty")),
      /The data of 11:36:00 – 11:52:40 are gone: what is held is 13:51:00 – 14:06:00\. Go live Show all/,
    );
    // Nothing on the timeline looks chosen.
    const [shade, lane] = [".timeline-shade", ".timeline-lane"].map((s) => page.locator(s));
    assert.equal((await shade.boundingBox()).width, (await lane.boundingBox()).width);
    await page.getByRole("button", { name: "Show all that is held" }).click();
    await drawn(page);
    assert.equal(await page.locator(".timeline-current").count(), 1);
  }));

test("a link of yesterday, whose filters are not to blame: Live", () =>
  open({ query: `?from=${now - 90e6}&to=${now - 89e6}&process=nosuch` }, async (page) => {
    await page.waitForSelector("text=The data of 2026-11-19 13:06:00 – 13:22:40 are gone");
    assert.equal(await page.getByRole("button", { name: "Clear the filters" }).count(), 0);
    await page.getByRole("button", { name: "Go live" }).click();
    await page.waitForSelector("text=Nothing matches process nosuch in last 5 min");
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await drawn(page);
  }));

test("a range that is yet to come", () =>
  open({ query: `?from=${now + 8e6}&to=${now + 9e6}` }, async (page) => {
    await page.waitForSelector("text=The window holds 13:51:00 to 14:06:00.");
  }));

test("no collector: it says so, and comes back by itself", () =>
  open({ scenario: "down", allow: netError }, async (page, mock) => {
    await page.waitForSelector("text=The collector cannot be reached");
    await page.getByRole("button", { name: "Try again" }).click();
    mock.use("normal");
    await drawn(page);
  }));

test("the collector goes away: what is there stays, with a word about it", () =>
  open({ allow: netError }, async (page, mock) => {
    await drawn(page);
    mock.use("down");
    await page.waitForSelector(".banner-bad", { timeout: 30_000 });
    assert.match(await text(page.locator(".banner-bad")), /The collector does not answer\. This is as of 14:06:00/);
    assert.ok(await flame(page).isVisible());
    mock.use("normal");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.waitForSelector(".banner-bad", { state: "detached" });
  }));

test("an error of the collector is shown with its sentence", () =>
  open({ scenario: "error", allow: netError }, async (page, mock) => {
    await page.waitForSelector("text=the window is being rebuilt");
    mock.use("normal");
    await page.getByRole("button", { name: "Try again" }).click();
    await drawn(page);
  }));

test("live asks again, paused does not", () =>
  open({ clock: "fake" }, async (page, mock) => {
    await drawn(page);
    const asked = () => mock.state.requests.filter((r) => r.startsWith("/api/flamegraph")).length;
    // settled lets the page's time go on until nothing more is asked for.
    const settled = async () => {
      for (let before = -1; before !== asked(); ) {
        before = asked();
        await page.clock.runFor(200);
        await new Promise((done) => setTimeout(done, 400));
      }
      return asked();
    };
    const first = await settled();
    await page.clock.runFor(5100);
    assert.ok((await settled()) > first, "live did not refresh");
    await page.locator(".live").click();
    await page.waitForFunction(() => location.search.includes("from="));
    const then = await settled();
    await page.clock.runFor(20_000);
    assert.equal(await settled(), then, "paused went on asking");
  }));

test("an answer that makes no sense, and a defect of the page, do not leave it empty", () =>
  open({}, async (page, mock) => {
    await drawn(page);
    const answer = (path, body) => page.route(`**/api/${path}*`, (r) => r.fulfill({ json: body }));
    const a = await ask(mock, "flamegraph?seconds=300");
    a.nodes.parent[5] = 7;
    await answer("flamegraph", a);
    await page.locator("#tab-table").click();
    await page.goto(`${mock.url}?live=0`);
    await page.waitForSelector("text=makes no sense: node 5 comes before its parent");
    await answer("status", { types: [{}] });
    await page.reload();
    await page.waitForSelector("text=This page has met a defect of its own");
    await page.unroute("**/api/status*");
    await page.unroute("**/api/flamegraph*");
    await page.getByRole("button", { name: "Load it again" }).click();
    await drawn(page);
  }));

test("an expression that would never end in a browser", () =>
  open({ scenario: "hostile", allow: /400/ }, async (page, mock) => {
    await drawn(page);
    // The collector's engine takes linear time. The mock has none like it, and is not asked.
    await page.route(/[?&]search=/, (r) =>
      r.request().isNavigationRequest() ? r.continue() : r.fulfill({ status: 400, json: { error: "search: no" } }),
    );
    await page.goto(`${mock.url}?search=${encodeURIComponent("/(A+)+$|^(.*A){20}x/")}`);
    await drawn(page);
    await page.waitForSelector("text=search: no");
    await page.locator("#tab-table").click();
    await page.waitForSelector("text=search: no");
  }));

const tabs = ["flame", "table", "sandwich", "heatmap"];

test("hostile names are inert in every view", () =>
  open({ scenario: "hostile" }, async (page) => {
    await drawn(page);
    const acts = /(?![\n\t])[\p{Cc}\u200b\u202a-\u202e\u2066-\u2069]/u;
    const look = async (where) => {
      assert.equal(await page.evaluate(() => window.__xss), undefined, where);
      assert.equal(await page.locator("#app img, #app script, #app iframe, svg[onload]").count(), 0, where);
      const all = await page.evaluate(
        () =>
          document.body.innerText +
          [...document.querySelectorAll("*")].flatMap((e) => [...e.attributes].map((a) => a.value)).join("\n"),
      );
      assert.ok(!acts.test(all), where);
      assert.ok(all.length < 200_000, `${where}: ${all.length} characters`);
    };
    const b = await flame(page).boundingBox();
    for (let x = 20; x < b.width; x += 70) {
      for (const y of [30, 50, 70]) {
        await page.mouse.move(b.x + x, b.y + y);
        await look(`hover ${x} ${y}`);
      }
    }
    await page.mouse.click(b.x + 60, b.y + 70);
    await look("zoomed");
    await page.mouse.click(b.x + 60, b.y + 50, { button: "right" });
    await look("menu");
    await page.keyboard.press("Escape");
    for (const tab of tabs) {
      await page.locator(`#tab-${tab}`).click();
      await page.waitForTimeout(150);
      await look(tab);
    }
    await page.getByRole("button", { name: "Filter", exact: true }).click();
    await page.waitForSelector(".picker-keys button");
    for (const key of await page.locator(".picker-keys button").all()) {
      await key.click();
      await look("filters");
    }
    await page.locator(".picker-value").first().click();
    await look("chip");
    await page.keyboard.press("Escape");
    await page.locator(".header .button:has(.dot)").click();
    await page.waitForSelector(".drawer");
    await look("status");
    await page.keyboard.press("Escape");
    await page.fill("#search", "<img src=x onerror=window.__xss=9>");
    await page.waitForTimeout(300);
    await look("search");
  }));

test("keys and values of filters keep to their columns, however long", () =>
  open({ scenario: "hostile" }, async (page) => {
    await drawn(page);
    for (const [name, width] of [
      ["Filter", 1440],
      ["Compare", 1440],
      ["Filter", 390],
    ]) {
      await page.setViewportSize({ width, height: 900 });
      await page.getByRole("button", { name, exact: true }).click();
      await page.waitForSelector(".picker-keys button");
      for (const key of await page.locator(".picker-keys button").all()) {
        await key.click();
        const over = await page.evaluate(() => {
          const out = [];
          const check = (inner, outer) => {
            const box = document.querySelector(outer).getBoundingClientRect();
            for (const e of document.querySelectorAll(inner)) {
              const r = e.getBoundingClientRect();
              if (r.width > 0 && (r.left < box.left - 1 || r.right > box.right + 1))
                out.push(`${inner} ${r.left} ${r.right}`);
            }
          };
          check(".picker-keys *", ".picker-keys");
          check(".picker-values *", ".picker-values");
          check(".picker", ".popover");
          return out;
        });
        assert.deepEqual(over, [], `${name} ${width}`);
      }
      await page.keyboard.press("Escape");
    }
  }));

test("what is in the address is inert, too", () =>
  open(
    {
      query: `?process=${encodeURIComponent("<img src=x onerror=window.__xss=1>")}&search=%3Cscript%3Ewindow.__xss%3D1%3C%2Fscript%3E&focus=%22%3E&node=%22%3E&group=%3Cb%3E&function=%3Cb%3E`,
    },
    async (page) => {
      await page.waitForSelector("text=No samples here");
      assert.equal(await page.locator("#app img, #app b").count(), 0);
    },
  ));

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** violations is what axe-core finds wrong, in lines. The page's policy lets nothing in from outside, so that axe comes past it. */
async function violations(page) {
  return page.evaluate(async (source) => {
    if (!window.axe) new Function(source)();
    const r = await window.axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
    });
    return r.violations.map(
      (v) =>
        `${v.id}: ${v.nodes
          .slice(0, 3)
          .map((n) => `${n.html.slice(0, 160)} ${n.failureSummary}`)
          .join(" | ")}`,
    );
  }, axe);
}

const states = {
  "flame graph": { act: (page) => select(page, "deflate") },
  table: { query: "?tab=table" },
  sandwich: { query: "?tab=sandwich" },
  heatmap: { query: "?tab=heatmap" },
  comparison: { query: `?from=${now - 300_000}&to=${now}&base_from=${now - 600_000}&base_to=${now - 300_000}` },
  "table of a comparison": {
    query: `?tab=table&from=${now - 300_000}&to=${now}&base_from=${now - 600_000}&base_to=${now - 300_000}`,
  },
  filters: {
    query: "?process=nginx&filter=frame_type!=kernel",
    act: (page) => page.getByRole("button", { name: "Filter", exact: true }).click(),
  },
  compare: { act: (page) => page.getByRole("button", { name: "Compare" }).click() },
  export: { act: (page) => page.getByRole("button", { name: "Export" }).click() },
  time: { act: (page) => page.locator("[data-name=time] > button").click() },
  status: { scenario: "lossy", act: (page) => page.locator(".header .button:has(.dot)").click() },
  help: { act: (page) => page.keyboard.press("?") },
  waiting: { scenario: "empty", ready: ".empty" },
  off: { scenario: "off", ready: ".empty" },
  nothing: { query: "?process=nosuch", ready: ".empty" },
  menu: {
    act: async (page) => {
      await flame(page).focus();
      await page.keyboard.press("Home");
      await page.keyboard.press("Shift+F10");
    },
  },
};

test("names, roles and contrast, light and dark", async (t) => {
  for (const [name, s] of Object.entries(states)) {
    await t.test(name, () =>
      open({ scenario: s.scenario, query: s.query, bypassCSP: true }, async (page) => {
        await page.waitForSelector(s.ready ?? ".flame canvas, tbody tr, .heatmap-canvas");
        await s.act?.(page);
        for (const colorScheme of ["light", "dark"]) {
          await page.emulateMedia({ colorScheme });
          await page.waitForFunction((c) => document.documentElement.dataset.theme === c, colorScheme);
          await page.waitForTimeout(200);
          assert.deepEqual(await violations(page), [], colorScheme);
        }
      }),
    );
  }
});

for (const [width, height] of [
  [1000, 700],
  [900, 700],
  [800, 700],
  [390, 844],
])
  test(`nothing hangs over in a window of ${width}`, () =>
    open({ viewport: { width, height } }, async (page) => {
      await drawn(page);
      for (const name of ["Compare", "Export", "Link", "Healthy"])
        assert.ok(await page.getByRole("button", { name, exact: true }).isVisible(), name);
      for (const tab of tabs) {
        await page.locator(`#tab-${tab}`).click();
        await page.waitForTimeout(150);
        const over = await page.evaluate(() =>
          [...document.querySelectorAll(".header *, .toolbar *, .tabs-row *, .compare-bar *, thead *, .heatmap-view *")]
            .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".visually-hidden"))
            .map((e) => e.className),
        );
        assert.deepEqual(over, [], tab);
      }
    }));

test("a comparison of two filters has one line", () =>
  open(
    {
      query: `?from=${now - 300_000}&to=${now}&base_from=${now - 600_000}&base_to=${now - 300_000}&process=nginx&process=postgres`,
    },
    async (page) => {
      await drawn(page);
      const bar = await page.locator(".compare-bar").boundingBox();
      assert.ok(bar.height < 60, `${bar.height}`);
      const cut = await page
        .locator(".compare-bar *")
        .evaluateAll((all) =>
          all.filter((e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0).map((e) => e.className),
        );
      assert.deepEqual(cut, []);
    },
  ));

test("20,000 nodes, 1,000 deep, of 100,000 stacks", () =>
  open({ clock: false, scenario: "huge", query: "?live=0", reducedMotion: "no-preference" }, async (page, mock) => {
    await drawn(page, 60_000); // the mock collector takes seconds, more on a busy machine
    const times = await page.evaluate(() => {
      const asked = performance.getEntriesByType("resource").find((e) => e.name.includes("api/flamegraph"));
      return { all: performance.now(), server: asked.responseEnd - asked.startTime };
    });
    const told = [`first paint ${times.all.toFixed(0)} ms, ${times.server.toFixed(0)} of them the mock collector's`];
    const measure = async (name, act) => {
      await page.evaluate(() => {
        window.__events = [];
        window.__watch?.disconnect();
        window.__watch = new PerformanceObserver((l) => window.__events.push(...l.getEntries().map((e) => e.duration)));
        window.__watch.observe({ type: "event", durationThreshold: 16 });
      });
      await act();
      await page.waitForTimeout(400);
      const worst = await page.evaluate(() => Math.max(0, ...window.__events));
      told.push(`${name} ${worst ? `${worst} ms` : "below 16 ms"}`);
    };
    const b = await flame(page).boundingBox();
    await measure("hover", async () => {
      for (let i = 0; i < 25; i++) await page.mouse.move(b.x + 30 + i * 30, b.y + 40 + i * 12);
    });
    await measure("zoom", () => page.mouse.click(b.x + 150, b.y + 130));
    await measure("reset", () => page.keyboard.press("Escape"));
    await measure("keys", async () => {
      await flame(page).focus();
      for (let i = 0; i < 15; i++) await page.keyboard.press("ArrowDown");
    });
    await measure("search", async () => {
      await page.focus("#search");
      await page.keyboard.type("Buffer", { delay: 50 });
    });
    await measure("scroll", async () => {
      await page.mouse.move(b.x + 200, b.y + 200);
      for (let i = 0; i < 10; i++) await page.mouse.wheel(0, 1500);
    });
    console.log(`  ${told.join("; ")}`);

    // To the end of the deepest stack, and what was cut off for size comes when it is zoomed to.
    await page.keyboard.press("Escape");
    await page.fill("#search", "");
    await flame(page).focus();
    await page.keyboard.press("Home");
    for (let i = 0; i < 100; i++) await page.keyboard.press("PageDown");
    assert.ok(Number(await page.locator(".flame-cursor").getAttribute("aria-level")) > 900);
    const cursor = await flame(page).locator(".flame-cursor").boundingBox();
    assert.ok(cursor.y > b.y && cursor.y < b.y + b.height, "the selected frame is out of sight");
    const data = dataset("huge", now);
    assert.ok(data.parent.length > 100_000);
    await page.keyboard.press("Home");
    for (let i = 0; i < 6; i++) await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => performance.getEntriesByType("resource").some((e) => e.name.includes("focus=")));
    await page.waitForSelector(".crumb-here");
    assert.ok(mock.state.requests.some((r) => r.includes("focus=")));
  }));

test("a zoomed frame that is gone says so", () =>
  open({ query: "?focus=gone" }, async (page) => {
    await page.waitForSelector("text=has no samples in this selection");
    await page.getByRole("button", { name: "Show everything" }).click();
    await page.waitForSelector(".legend");
  }));

test("the tooltip stays inside the window", () =>
  open({}, async (page) => {
    await drawn(page);
    const b = await flame(page).boundingBox();
    for (const [x, y] of [
      [b.width - 40, 30],
      [20, 30],
      [b.width - 100, 300],
    ]) {
      await page.mouse.move(b.x + x, b.y + y);
      const tip = page.locator(".tooltip");
      if ((await tip.count()) === 0) continue;
      const t = await tip.boundingBox();
      assert.ok(t.x >= 0 && t.y >= 0 && t.x + t.width <= 1440 && t.y + t.height <= 900, JSON.stringify(t));
    }
    const cursor = await select(page, "dgemm");
    const at = await middle(cursor);
    await page.mouse.move(at.x, at.y);
    await page.waitForSelector(".tooltip");
  }));
