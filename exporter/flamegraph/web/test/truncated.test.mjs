// Stacks that end early: markers in the graph, why, and the ways to those stacks.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, drawn, middle, open, query, text, withBrowser } from "./harness.mjs";

withBrowser();

const key = "hostprofiles.stack.stop_reason";

/** marker moves the selection to the marker below the one process that is shown: it comes before frames by name. */
async function marker(page) {
  await drawn(page);
  const flame = page.locator(".flame");
  await flame.focus();
  for (const k of ["Home", "ArrowDown", "ArrowDown"]) await page.keyboard.press(k);
  for (let i = 0; i < 5; i++) {
    const name = await page.locator(".flame-cursor").getAttribute("aria-label");
    if (name.startsWith("[truncated: no_rule]")) return page.locator(".flame-cursor");
    await page.keyboard.press("ArrowLeft");
  }
  throw new Error("no marker in sight");
}

test("a marker stands where callers are missing, and says why and what to do", () =>
  open({ scenario: "cut", query: "?process=legacyd" }, async (page, mock) => {
    const cursor = await marker(page);
    assert.match(await cursor.getAttribute("aria-label"), /callers are missing: a gap in the unwind information/);
    const at = await middle(cursor);
    await page.mouse.move(at.x, at.y);
    const tooltip = await text(page.locator(".tooltip"));
    for (const part of ["[truncated: no_rule]", "a gap in the unwind", "assembler without directives", "give it its"])
      assert.ok(tooltip.includes(part), `${part} in ${tooltip}`);
    assert.match(await text(page.locator(".legend")), /Truncated 100%/);
    const f = await ask(mock, "flamegraph?process=legacyd");
    const i = f.functions.type.indexOf("truncated");
    assert.equal(f.nodes.self[f.nodes.function.indexOf(i)], 0);
    await page.getByRole("checkbox", { name: "Truncation" }).uncheck();
    await page.waitForFunction(() => !document.querySelector(".legend").textContent.includes("Truncated"));
    assert.equal(query(page).get("markers"), "0");
  }));

test("its menu leads to just those stacks, or to all others", () =>
  open({ query: "?process=legacyd" }, async (page) => {
    const menu = async (name) => {
      const at = await middle(await marker(page));
      await page.mouse.click(at.x, at.y, { button: "right" });
      await page.getByRole("menuitem", { name }).click();
    };
    await menu("Only stacks that end for this reason");
    assert.deepEqual(query(page).getAll("filter"), ["process.executable.name=legacyd", `${key}=no_rule`]);
    assert.match(await text(page.locator(".filters")), /stop reason is no_rule/);
    await page.waitForFunction(() => document.querySelector(".legend")?.textContent.includes("Truncated100%"));
    await page.goBack();
    await menu("Without these stacks");
    assert.deepEqual(query(page).getAll("filter"), ["process.executable.name=legacyd", `${key}!=no_rule`]);
    await page.waitForFunction(() => !document.querySelector(".legend")?.textContent.includes("Truncated"));
  }));

test("the status explains each reason, and leads to its stacks", () =>
  open({ scenario: "cut" }, async (page) => {
    await drawn(page);
    await page.keyboard.press("s");
    const why = page.locator(".plain .stop").first();
    await why.locator("summary").click();
    assert.match(await text(why), /When: assembler without directives.*To do: give it its directives.*Name: no_rule/);
    await why.getByRole("button", { name: "Show these stacks" }).click();
    await page.waitForSelector(".drawer", { state: "detached" });
    assert.deepEqual(query(page).getAll("filter"), [`${key}=no_rule`, "process.pid=611"]);
  }));

test("a frame that was guessed says so", () =>
  open({ query: "?process=legacyd&search=0x7f3a10c4" }, async (page) => {
    await drawn(page);
    await page.press("#search", "Enter");
    const cursor = page.locator(".flame-cursor");
    await cursor.waitFor();
    assert.match(await cursor.getAttribute("aria-label"), /found by searching/);
    const at = await middle(cursor);
    await page.mouse.move(at.x, at.y);
    assert.match(await text(page.locator(".tooltip")), /In some samples at least found by searching\./);
  }));

test("an older collector, that has no words, has its reasons shown by name", () =>
  open({ scenario: "cut", query: "?process=legacyd", allow: /404/ }, async (page) => {
    await page.route("**/api/reasons*", (route) => route.fulfill({ status: 404, json: { error: "no such endpoint" } }));
    await page.reload();
    const cursor = await marker(page);
    assert.match(await cursor.getAttribute("aria-label"), /callers are missing: no rule/);
    const at = await middle(cursor);
    await page.mouse.move(at.x, at.y);
    assert.match(await text(page.locator(".tooltip")), /No more is known about this reason/);
  }));
