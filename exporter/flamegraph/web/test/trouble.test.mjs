// What the page does when a question is refused or goes unheard on the way.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, drawn, flame, now, open, query, text, withBrowser } from "./harness.mjs";

withBrowser();

const netError = /Failed to load resource/;
const still = `?from=${now - 300_000}&to=${now}`;

test("a filter that goes unheard does not leave the graph of other filters, and is asked for once the collector is back", () =>
  open({ query: still, allow: netError }, async (page, mock) => {
    await drawn(page);
    await page.getByRole("button", { name: "Filter", exact: true }).click();
    await page.waitForSelector(".picker-value");
    mock.use("down");
    await page.locator(".picker-value").first().click();
    await page.keyboard.press("Escape");
    await page.waitForSelector("#view .empty");
    assert.match(await text(page.locator("#view")), /The collector cannot be reached/);
    mock.use("normal");
    await drawn(page);
    assert.equal(query(page).getAll("filter").length, 1);
  }));

test("a filter that is refused does not leave the graph of other filters", () =>
  open({ query: still, allow: netError }, async (page) => {
    await drawn(page);
    await page.route("**/api/flamegraph*filter=*", (r) =>
      r.fulfill({ status: 400, json: { error: "the query string is too long" } }),
    );
    await page.getByRole("button", { name: "Filter", exact: true }).click();
    await page.locator(".picker-value").first().click();
    await page.keyboard.press("Escape");
    await page.waitForSelector("text=The collector does not accept this");
    assert.equal(await flame(page).count(), 0);
    await page.getByRole("button", { name: "Clear filters and comparison" }).click();
    await drawn(page);
  }));

test("a link to a profile type that is not held leads to those that are", () =>
  open({ query: `${still}&type=alloc:bytes:space:bytes`, allow: netError }, async (page) => {
    await page.waitForSelector("text=there are no profiles of this type yet");
    const types = page.getByLabel("Profile type");
    assert.match(await types.locator("option:checked").innerText(), /^alloc:bytes:space:bytes/);
    await types.selectOption({ label: "CPU time" });
    await drawn(page);
    assert.notEqual(query(page).get("type"), "alloc:bytes:space:bytes");
  }));

test("a download that is refused says why; one that is not has a name of its own for the baseline", () =>
  open({ query: `${still}&base_from=${now - 600_000}&base_to=${now - 300_000}`, allow: netError }, async (page) => {
    await drawn(page);
    await page.getByRole("button", { name: "Export" }).click();
    const why = "this would take some 90 MiB, and memory_mib leaves 60: choose a shorter range (seconds=60)";
    await page.route("**/profile.otlp.json*", (r) => r.fulfill({ status: 413, json: { error: why } }));
    await page
      .getByRole("link", { name: /^OTLP JSON/ })
      .first()
      .click();
    await page.waitForSelector(`[role=alert]:has-text("${why}")`);
    const [file] = await Promise.all([
      page.waitForEvent("download"),
      page
        .getByRole("link", { name: /^Folded stacks/ })
        .last()
        .click(),
    ]);
    assert.equal(file.suggestedFilename(), "baseline-profile.folded");
    await page.waitForSelector("[data-name=download] [role=alert]", { state: "detached" });
  }));

test("the two halves of the sandwich have ids of their own", () =>
  open({ query: `${still}&tab=sandwich` }, async (page, mock) => {
    const { functions: f, self, functions_total: total } = await ask(mock, `table?from=${now - 300_000}&to=${now}`);
    const key = f.key.find((_, i) => self[i] > 0 && total[i] > self[i]);
    await page.goto(`${mock.url}${still}&tab=sandwich&function=${key}`);
    await page.waitForFunction(() => document.querySelectorAll(".sandwich-half .flame canvas").length === 2);
    await page.locator(".sandwich-half .flame").first().focus();
    await page.keyboard.press("Home");
    await page.waitForFunction(() => document.querySelectorAll(".flame-cursor").length === 2);
    const ids = await page.locator("[id]").evaluateAll((all) => all.map((e) => e.id));
    assert.deepEqual(
      ids.filter((id, i) => ids.indexOf(id) !== i),
      [],
    );
  }));

test("a type whose unit changes is asked for again, although the view holds still", () =>
  open({ query: still, clock: "fake" }, async (page, mock) => {
    await drawn(page);
    const asked = () => mock.state.requests.filter((r) => r.startsWith("/api/flamegraph")).length;
    const before = asked();
    mock.state.data.types = mock.state.data.types.map((t) => ({ ...t, sample_unit: "nanoseconds", period: 1 }));
    await page.clock.runFor(5100);
    await page.waitForFunction(() => document.querySelector(".summary")?.childElementCount !== 3);
    await page.waitForLoadState("networkidle");
    assert.equal(asked(), before + 1);
  }));

test("a value that is left out of the list can be filtered by, too", () =>
  open({ query: still }, async (page) => {
    await drawn(page);
    await page.route("**/api/labels*", async (r) => {
      const a = await (await r.fetch()).json();
      for (const l of a.labels) l.more = 12;
      await r.fulfill({ json: a });
    });
    await page.getByRole("button", { name: "Filter", exact: true }).click();
    await page.locator(".picker-keys button", { hasText: "pid" }).click();
    await page.getByLabel("Search values of pid").fill("424242");
    await page.getByRole("button", { name: "Filter by exactly this" }).click();
    await page.waitForFunction(() => location.search.includes("filter=process.pid%3D424242"));
  }));
