// The page in a browser, against the mock collector.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ask,
  drawn,
  find,
  flame,
  middle,
  minutes,
  open,
  pixels,
  query,
  select,
  text,
  withBrowser,
} from "./harness.mjs";

withBrowser();

const total = (page) => text(page.locator(".summary strong"));

test("the flame graph is what one sees first", () =>
  open({}, async (page) => {
    await drawn(page);
    assert.equal(await page.title(), "hostprofiles: live flame graph");
    assert.match(await text(page.locator(".summary")), /^[\d.]+ min of CPU [\d,]+ samples \d\.\d\d CPUs$/);
    assert.match(await text(page.locator(".legend")), /Native [\d.]+% Go [\d.]+% JVM/);
    assert.equal(await page.locator(".live").getAttribute("aria-pressed"), "true");
    assert.match(await text(page.locator(".header")), /Healthy/);
  }));

test("search: share, highlight, stepping through matches", () =>
  open({ allow: /400/ }, async (page, mock) => {
    await drawn(page);
    const before = await pixels(page);
    const cursor = await select(page, "backtrack");
    const a = await ask(mock, `flamegraph?seconds=300&search=backtrack&max_nodes=1`);
    assert.equal(
      await text(page.locator("#search-result strong")),
      `${((100 * a.search.total) / a.total).toFixed(1)}%`,
    );
    assert.match(await text(page.locator("#search-result")), /1 function$/);
    assert.notEqual(await pixels(page), before, "nothing is highlighted");
    assert.match(await cursor.getAttribute("aria-label"), /^regexp\.\(\*Regexp\)\.backtrack; Go; [\d.]+% of the total/);
    assert.match(await text(page.locator(".panel")), /regexp\/backtrack\.go:309/);
    // A regular expression, and one that is not.
    await find(page, "/^json\\..*|scan_once$/");
    const first = await cursor.getAttribute("aria-label");
    await page.press("#search", "Enter");
    await page.waitForFunction((t) => document.querySelector(".flame-cursor")?.getAttribute("aria-label") !== t, first);
    await find(page, "/(/");
    assert.match(await text(page.locator("#search-result")), /^search: /);
    await page.press("#search", "Escape");
    await page.waitForFunction(() => !location.search.includes("search="));
  }));

test("tooltip and details say source, mapping, runtime and values", () =>
  open({}, async (page) => {
    const cursor = await select(page, "longest_match");
    const at = await middle(cursor);
    await page.mouse.move(at.x, at.y);
    const tip = await text(page.locator(".tooltip"));
    assert.match(
      tip,
      /^longest_match deflate\.c:1236 Native · libz\.so\.1 Total [\d.]+% [\d.]+ s [\d,]+ samples Self [\d.]+% [\d.]+ s [\d,]+ samples$/,
    );
    const details = await text(page.locator(".panel-body"));
    for (const part of ["longest_match", "deflate.c:1236", "libz.so.1", "Stack", "nginx", "deflate"])
      assert.ok(details.includes(part), part);
  }));

test("of a long qualified name the end is shown", () =>
  open({}, async (page) => {
    await select(page, "pricing.(*Rules).match");
    assert.equal(await text(page.locator(".stack-here .stack-name")), "pricing.(*Rules).match");
    await page.setViewportSize({ width: 390, height: 800 });
    await page.locator("#tab-table").click();
    const name = page.locator(".fn-name", { hasText: "github.com/acme/orders/internal/pricing.(*Rules).match" });
    await name.waitFor();
    const [box, all] = [await name.boundingBox(), await name.locator("bdi").boundingBox()];
    assert.ok(all.width > box.width, "there is room for all of it");
    assert.ok(Math.abs(all.x + all.width - box.x - box.width) < 2, "the end is cut off");
  }));

test("zoom by click, breadcrumbs, back and forward, Escape", () =>
  open({}, async (page) => {
    const cursor = await select(page, "deflate");
    const whole = await pixels(page);
    const at = await middle(cursor);
    await page.mouse.click(at.x, at.y);
    await page.waitForSelector(".crumb-here");
    assert.equal(await text(page.locator(".crumb-here")), "deflate");
    const zoomed = await pixels(page);
    assert.notEqual(zoomed, whole);
    assert.ok(query(page).get("focus"));
    await page.goBack();
    await page.waitForSelector(".crumb-here", { state: "detached" });
    assert.equal(query(page).get("focus"), null);
    await page.goForward();
    await page.waitForSelector(".crumb-here");
    await page.locator(".crumb", { hasText: "ngx_http_core_run_phases" }).click();
    await page.waitForFunction(() => document.querySelector(".crumb-here")?.textContent === "ngx_http_core_run_phases");
    await page.locator(".flame").focus();
    await page.keyboard.press("Escape");
    await page.waitForSelector(".crumb-here", { state: "detached" });
  }));

test("the menu of a frame leads to its sandwich, its occurrences and its runtime", () =>
  open({}, async (page) => {
    const cursor = await select(page, "longest_match");
    const menu = async (name) => {
      const at = await middle(cursor);
      await page.mouse.click(at.x, at.y, { button: "right" });
      await page.getByRole("menuitem", { name }).click();
    };
    await menu(/stacks that end in/);
    assert.match(await text(page.locator(".chip")), /frame type is native/);
    await page.goBack();
    await select(page, "longest_match");
    await menu("Find all occurrences");
    assert.equal(query(page).get("search"), "longest_match");
    await menu(/sandwich/);
    assert.equal(await page.locator("#tab-sandwich").getAttribute("aria-selected"), "true");
    assert.equal(await text(page.locator(".sandwich-name")), "longest_match");
  }));

test("filters: add by search, exclude, remove", () =>
  open({}, async (page, mock) => {
    await drawn(page);
    const everything = await total(page);
    await page.getByRole("button", { name: "Filter", exact: true }).click();
    await page.locator(".picker-search").fill("ngi");
    await page.getByRole("checkbox", { name: /^nginx/ }).click();
    await page.keyboard.press("Escape");
    assert.equal(await text(page.locator(".chip")), "process is nginx");
    assert.equal(query(page).get("filter"), "process.executable.name=nginx");
    await page.waitForFunction((t) => document.querySelector(".summary strong")?.textContent !== t, everything);
    const a = await ask(mock, "flamegraph?seconds=300&process=nginx&max_nodes=1");
    assert.match(await text(page.locator(".summary")), new RegExp(`${a.total.toLocaleString("en")} samples`));
    await page.locator(".chip-text").click();
    assert.equal(await text(page.locator(".chip")), "process is not nginx");
    assert.equal(query(page).get("filter"), "process.executable.name!=nginx");
    await page.getByRole("button", { name: /Remove the filter/ }).click();
    await page.waitForFunction((t) => document.querySelector(".summary strong")?.textContent === t, everything);
    assert.equal(await page.locator(".chip").count(), 0);
  }));

test("every key that the page promises can be filtered by", () =>
  open({}, async (page) => {
    await page.getByRole("button", { name: "Filter", exact: true }).click();
    await page.waitForSelector(".picker-keys button");
    const keys = await page
      .locator(".picker-keys button")
      .evaluateAll((all) => all.map((b) => b.firstChild.textContent));
    assert.deepEqual(keys, [
      "process",
      "service",
      "pod",
      "container",
      "pid",
      "thread",
      "frame type",
      "process.executable.path",
      "stop reason",
    ]);
  }));

test("groups: by process, by service, by nothing", () =>
  open({}, async (page) => {
    await drawn(page);
    const byProcess = await pixels(page);
    await page.getByLabel("Group by").selectOption("service.name");
    await page.waitForFunction((p) => document.querySelector(".flame canvas").toDataURL() !== p, byProcess);
    assert.equal(query(page).get("group"), "service.name");
    const byService = await pixels(page);
    await page.getByLabel("Group by").selectOption("none");
    await page.waitForFunction((p) => document.querySelector(".flame canvas").toDataURL() !== p, byService);
    await page.locator(".flame").focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    assert.doesNotMatch(await page.locator(".flame-cursor").getAttribute("aria-label"), /^(java|orders-api|node)/);
  }));

test("by line: frames and the stack say their line", () =>
  open({ query: "?lines=1" }, async (page) => {
    const cursor = await select(page, "backtrack");
    assert.match(await cursor.getAttribute("aria-label"), /^regexp\.\(\*Regexp\)\.backtrack:309; Go/);
    assert.equal(await text(page.locator(".stack-here .stack-name")), "regexp.(*Regexp).backtrack:309");
    assert.match(await text(page.locator(".details-name")), /:309$/);
    await page.getByLabel("By line").click();
    await drawn(page);
    const merged = await select(page, "backtrack");
    assert.match(await merged.getAttribute("aria-label"), /^regexp\.\(\*Regexp\)\.backtrack; Go/);
  }));

test("a pid has the name of its executable beside it; filters use the pid alone", () =>
  open({ query: "?group=process.pid" }, async (page) => {
    await drawn(page);
    await flame(page).focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    const label = await page.locator(".flame-cursor").getAttribute("aria-label");
    const [, pid, name] = /^(\d+) ([a-z][-.\w]*); /.exec(label) ?? assert.fail(label);
    assert.equal(await text(page.locator(".details-name")), `${pid} ${name}`);
    await page.keyboard.press("Shift+F10");
    await page.getByRole("menuitem", { name: `Only ${pid} ${name}` }).click();
    assert.equal(query(page).get("filter"), `process.pid=${pid}`);
    await page.getByRole("button", { name: /Remove the filter/ }).click();
    for (const [button, search] of [
      ["Filter", "nginx"],
      ["Filter", "812"],
      ["Compare", "nginx"],
    ]) {
      await page.getByRole("button", { name: button, exact: true }).click();
      await page.locator(".picker-keys button", { hasText: "pid" }).click();
      await page.getByLabel("Search values of pid").fill(search);
      const found = page.getByRole("checkbox", { name: /^812, nginx, / });
      assert.match(await text(found), /^812 nginx /);
      assert.equal(await page.locator(".picker-value").count(), search === "812" ? 1 : 2);
      if (button === "Compare") {
        await found.click();
        await page.waitForSelector(".compare-bar");
        assert.deepEqual(query(page).getAll("base_filter"), ["process.pid=812"]);
      } else await page.keyboard.press("Escape");
    }
  }));

test("a bar of the table is as long as the share of the total", () =>
  open({ query: "?tab=table" }, async (page) => {
    await page.waitForSelector("tbody .cell-bar");
    const all = await page.locator("tbody .cell").evaluateAll((cells) =>
      cells.slice(0, 40).map((c) => {
        const bar = c.querySelector(".cell-bar");
        return {
          share: Number.parseFloat(c.querySelector(".cell-share").textContent),
          length: (100 * bar.firstChild.getBoundingClientRect().width) / bar.getBoundingClientRect().width,
        };
      }),
    );
    assert.ok(all.length > 20);
    for (const { share, length } of all) assert.ok(Math.abs(share - length) < 1.6, `${share} ${length}`);
  }));

test("the table: sorting, keys, ways on", () =>
  open({ query: "?tab=table" }, async (page, mock) => {
    const row = page.locator("tbody tr:not([aria-hidden])").first();
    await row.waitFor();
    const self = await ask(mock, "table?seconds=300&sort=self&limit=1");
    assert.ok((await text(row)).startsWith(`Go: ${self.functions.name[0]}`));
    await page.getByRole("button", { name: "Total" }).click();
    const most = await ask(mock, "table?seconds=300&sort=total&limit=1");
    await page.waitForFunction(
      (n) => document.querySelector("tbody .fn-name").textContent === n,
      most.functions.name[0],
    );
    assert.equal(await page.locator("th", { hasText: "Total" }).getAttribute("aria-sort"), "descending");
    await page.getByRole("button", { name: "Total" }).click();
    assert.equal(await page.locator("th", { hasText: "Total" }).getAttribute("aria-sort"), "ascending");
    await page.locator(".functions").focus();
    await page.keyboard.press("End");
    await page.waitForSelector("tr.row-on");
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowDown");
    const name = await text(page.locator("tr.row-on .fn-name"));
    await page.keyboard.press("Enter");
    assert.equal(await text(page.locator(".sandwich-name")), name);
    await page.goBack();
    await page.locator(".functions").focus();
    await page.keyboard.press("f");
    await drawn(page);
    assert.equal(query(page).get("search"), name);
  }));

test("the sandwich: callers above, callees below", () =>
  open({ query: "?tab=sandwich" }, async (page, mock) => {
    await page.fill("#search", "ExecHashJoin");
    await page.waitForFunction(() => document.querySelectorAll(".functions tbody .fn-name").length === 1);
    await page.locator(".functions tbody tr").first().click();
    await page.waitForFunction(() => document.querySelector(".sandwich-name")?.textContent === "ExecHashJoin");
    const t = await ask(mock, "table?seconds=300&search=ExecHashJoin");
    assert.match(
      await text(page.locator(".sandwich-numbers")),
      new RegExp(`total ${((100 * t.functions_total[0]) / t.total).toFixed(1)}%`),
    );
    const halves = page.locator(".sandwich-half .flame");
    await halves.nth(0).focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowUp");
    assert.match(await page.locator(".sandwich-above .flame-cursor").getAttribute("aria-label"), /^ExecutePlan;/);
    await halves.nth(1).focus();
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("ArrowDown");
    assert.match(
      await page.locator(".sandwich-half:not(.sandwich-above) .flame-cursor").getAttribute("aria-label"),
      /^ExecSeqScan;/,
    );
  }));

test("the heatmap by mouse: mark, see what is hot, look at it", () =>
  open({ query: "?tab=heatmap" }, async (page) => {
    const map = page.locator(".heatmap-select");
    await map.waitFor();
    const b = await map.boundingBox();
    await page.mouse.move(b.x + b.width * 0.25, b.y + 30);
    await page.mouse.down();
    await page.mouse.move(b.x + b.width * 0.3, b.y + 60, { steps: 4 });
    await page.mouse.up();
    await page.waitForSelector(".heatmap-hottest tbody tr");
    assert.match(await text(page.locator(".heatmap-actions")), /14:02:15 – 14:02:30 · 15 s/);
    assert.match(await text(page.locator(".heatmap-hottest tbody tr").first()), /backtrack/);
    await page.getByRole("button", { name: "Flame graph of it" }).click();
    await drawn(page);
    assert.deepEqual([query(page).get("from"), query(page).get("to")], [String(minutes(-3.75)), String(minutes(-3.5))]);
    assert.equal(await page.locator(".live").getAttribute("aria-pressed"), "false");
  }));

test("the heatmap by keyboard", () =>
  open({ query: "?tab=heatmap" }, async (page) => {
    const map = page.getByRole("slider", { name: /Heatmap/ });
    await map.focus();
    await page.keyboard.press("Home");
    for (let i = 0; i < 4; i++) await page.keyboard.press("Shift+ArrowRight");
    assert.match(
      await map.getAttribute("aria-valuetext"),
      /^14:01:00 to 14:01:05, 5\.0 s: .*Enter to show it$|^14:01:00 to 14:01:05, 5 s: .*Enter to show it$/,
    );
    await page.keyboard.press("Escape");
    assert.equal(await map.getAttribute("aria-valuetext"), "nothing marked");
    await page.keyboard.press("Home");
    await page.keyboard.press("Shift+ArrowRight");
    await page.keyboard.press("Enter");
    await drawn(page);
    assert.deepEqual(
      [query(page).get("from"), query(page).get("to")],
      [String(minutes(-5)), String(minutes(-5) + 2000)],
    );
  }));

test("the timeline zooms all views", () =>
  open({}, async (page, mock) => {
    await drawn(page);
    const line = page.getByRole("slider", { name: /Timeline/ });
    const b = await line.boundingBox();
    await page.mouse.move(b.x + b.width / 3, b.y + 10);
    await page.mouse.down();
    await page.mouse.move(b.x + b.width / 2, b.y + 10, { steps: 3 });
    await page.mouse.up();
    await page.waitForFunction(() => location.search.includes("from="));
    const [from, to] = [Number(query(page).get("from")), Number(query(page).get("to"))];
    const column = 900_000 / 240;
    assert.ok(Math.abs(from - minutes(-10)) <= column && Math.abs(to - minutes(-7.5)) <= column, `${from} ${to}`);
    const a = await ask(mock, `flamegraph?from=${from}&to=${to}&max_nodes=1`);
    await page.waitForFunction(
      (t) => document.querySelector(".summary")?.textContent.includes(t),
      a.total.toLocaleString("en"),
    );
    await page.locator("#tab-table").click();
    await page.waitForFunction(
      (t) => document.querySelector(".summary")?.textContent.includes(t),
      a.total.toLocaleString("en"),
    );
    await page.locator(".live").click();
    assert.equal(query(page).get("live"), "1");
  }));

test("a typed range, and one that makes no sense", () =>
  open({}, async (page) => {
    await drawn(page);
    await page.locator("[data-name=time] > button").click();
    await page.getByLabel("From", { exact: true }).fill("14:05");
    await page.getByLabel("To", { exact: true }).fill("14:02");
    await page.getByRole("button", { name: "Show this range" }).click();
    assert.match(await text(page.getByRole("alert")), /ends before it begins/);
    await page.getByLabel("To", { exact: true }).fill("soon");
    await page.getByRole("button", { name: "Show this range" }).click();
    assert.match(await text(page.getByRole("alert")), /Times look like/);
    await page.getByLabel("From", { exact: true }).fill("-5m");
    await page.getByLabel("To", { exact: true }).fill("14:02:30");
    await page.getByRole("button", { name: "Show this range" }).click();
    assert.deepEqual([query(page).get("from"), query(page).get("to")], [String(minutes(-5)), String(minutes(-3.5))]);
  }));

test("back and forward go through tabs", () =>
  open({}, async (page) => {
    await drawn(page);
    for (const tab of ["table", "sandwich", "heatmap"]) {
      await page.locator(`#tab-${tab}`).click();
      assert.equal(await page.locator(`#tab-${tab}`).getAttribute("aria-selected"), "true");
    }
    for (const tab of ["sandwich", "table", "flame"]) {
      await page.goBack();
      await page.waitForSelector(`#tab-${tab}[aria-selected=true]`);
    }
    await page.goForward();
    await page.waitForSelector("#tab-table[aria-selected=true]");
    await page.locator("#tab-table").focus();
    await page.keyboard.press("ArrowRight");
    await page.waitForSelector("#tab-sandwich[aria-selected=true]");
    assert.equal(await page.evaluate(() => document.activeElement.id), "tab-sandwich");
  }));

test("downloads and the command have the selection", () =>
  open({ query: "?live=1&seconds=60&process=nginx&filter=frame_type!=kernel" }, async (page, mock) => {
    await drawn(page);
    await page.getByRole("button", { name: "Export" }).click();
    const query = "seconds=60&filter=process.executable.name%3Dnginx&filter=frame_type%21%3Dkernel";
    const links = await page.locator(".popover a").evaluateAll((all) => all.map((a) => a.getAttribute("href")));
    assert.deepEqual(
      links,
      ["profile.pb.gz", "profile.folded", "profile.speedscope.json", "profile.otlp.json"].map((f) => `${f}?${query}`),
    );
    for (const l of links) assert.ok((await fetch(mock.url + l)).ok, l);
    assert.equal(
      await page.getByLabel("Command", { exact: true }).inputValue(),
      `go tool pprof -http=: '${mock.url}pprof?${query}'`,
    );
    await page.getByRole("button", { name: "Copy: Command" }).click();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^go tool pprof/);
    const [file] = await Promise.all([page.waitForEvent("download"), page.locator(".popover a").nth(1).click()]);
    assert.equal(file.suggestedFilename(), "profile.folded");
  }));

test("light and dark: the system's, or chosen", () =>
  open({ colorScheme: "dark" }, async (page) => {
    const theme = (want) => page.waitForSelector(`html[data-theme=${want}] .flame canvas`);
    const next = () => page.getByRole("button", { name: /^Colours/ }).click();
    await theme("dark");
    await drawn(page);
    const dark = await pixels(page);
    await next();
    await theme("light");
    assert.equal(query(page).get("theme"), "light");
    assert.notEqual(await pixels(page), dark);
    await page.emulateMedia({ colorScheme: "light" });
    await next();
    await theme("dark");
    await next();
    await theme("light");
    assert.equal(query(page).get("theme"), null);
  }));

test("the status tells what was taken, delivered, lost and dropped", () =>
  open({ scenario: "lossy", query: "?live=1" }, async (page) => {
    await drawn(page);
    assert.match(
      await text(page.locator(".banner")),
      /^Everything before 13:54:00 was dropped: the budget of 128 MiB is used up\. The range that is shown begins earlier/,
    );
    await page.getByRole("button", { name: /Refused payloads/ }).click();
    const t = await text(page.getByRole("dialog", { name: "Status" }));
    for (const part of [
      "Taken",
      "Delivered",
      "Lost: the collector did not read fast enough 1,210",
      "Lost: the receiver met a defect of its own 330",
      "Skipped by the kernel 12",
      "legacyd",
      "a gap in the unwind information",
      "36.4 MiB of 128 MiB",
      "Refused 2",
      "location index 99",
      "The times of 3 profiles cannot be true, the last 24 h ahead of this host's clock: they are shown at their arrival.",
      "Last heard of 4 s ago",
    ]) {
      assert.ok(t.includes(part), part);
    }
    await page.keyboard.press("Escape");
    await page.waitForSelector(".drawer", { state: "detached" });
  }));
