// The page by keyboard alone.
import assert from "node:assert/strict";
import { test } from "node:test";
import { drawn, find, open, query, text, withBrowser } from "./harness.mjs";

withBrowser();

const focused = (page) => page.evaluate(() => document.activeElement.className || document.activeElement.id);

test("search by keys: Enter goes to the first match and into the view, N goes on", () =>
  open({}, async (page) => {
    await drawn(page);
    await page.keyboard.press("/");
    await page.keyboard.type("ngx_http");
    await page.waitForFunction(() => /%/.test(document.getElementById("search-result").textContent));
    await page.keyboard.press("Enter");
    const cursor = page.locator(".flame-cursor");
    await cursor.waitFor();
    const first = await cursor.getAttribute("aria-label");
    assert.match(first, /^ngx_http/);
    assert.equal(await focused(page), "flame");
    await page.keyboard.press("n");
    await page.waitForFunction((t) => document.querySelector(".flame-cursor")?.getAttribute("aria-label") !== t, first);
    assert.match(await cursor.getAttribute("aria-label"), /^ngx_http/);
    await page.keyboard.press("N");
    await page.waitForFunction((t) => document.querySelector(".flame-cursor")?.getAttribute("aria-label") === t, first);
    // Enter before the page has looked: it still is what was typed that is looked for.
    await page.keyboard.press("/");
    await page.keyboard.press("Control+a");
    await page.keyboard.type("deflate");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => location.search.includes("search=deflate"));
    assert.equal(await focused(page), "flame");
    // What is found nowhere is typed on.
    await find(page, "no such function");
    await page.press("#search", "Enter");
    assert.equal(await focused(page), "search");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    assert.equal(await focused(page), "flame");
    await page.keyboard.press("2");
    await page.waitForSelector("tbody .fn-name");
    await find(page, "deflate");
    await page.press("#search", "Enter");
    assert.equal(await focused(page), "functions ");
  }));

test("filters by keys: the search has the focus, Enter takes the first match", () =>
  open({}, async (page) => {
    await drawn(page);
    // The values are late, the field is not.
    let go;
    const held = new Promise((done) => {
      go = done;
    });
    await page.route("**/api/labels*", async (r) => {
      await held;
      await r.continue();
    });
    await page.keyboard.press("a");
    assert.equal(await focused(page), "picker-search");
    await page.keyboard.type("ngi");
    go();
    await page.waitForSelector(".picker-value");
    await page.keyboard.press("Enter");
    assert.equal(await text(page.locator(".chip")), "process is nginx");
    assert.equal(await page.inputValue(".picker-search"), "");
    await page.keyboard.press("Enter"); // without text it says nothing
    await page.keyboard.type("ngi");
    await page.keyboard.press("Enter"); // nor does what is there already go
    assert.deepEqual(query(page).getAll("filter"), ["process.executable.name=nginx"]);
    await page.keyboard.press("Escape");
    await page.waitForSelector(".popover", { state: "detached" });
    for (const [key, name] of [
      ["c", "Compare"],
      ["e", "Download"],
      ["k", "Link to this view"],
      ["s", "Status"],
    ]) {
      await page.keyboard.press(key);
      const dialog = page.getByRole("dialog", { name, exact: true });
      await dialog.waitFor();
      assert.ok(await dialog.evaluate((d) => d.contains(document.activeElement)), name);
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });
      await page.locator(`[title$="(${key.toUpperCase()})"]`).waitFor();
    }
    await page.keyboard.press("?");
    const help = await text(page.getByRole("dialog", { name: "Keys" }));
    assert.match(help, /A Add a filter C Compare E Export K Link S Status/);
  }));

test("the flame graph by keyboard alone", () =>
  open({}, async (page) => {
    await drawn(page);
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press("Tab");
      if (await page.evaluate(() => document.activeElement?.classList.contains("flame"))) break;
    }
    assert.ok(
      await page.evaluate(() => document.activeElement?.classList.contains("flame")),
      "Tab never came to the flame graph",
    );
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.notEqual(outline, "none", "the focus cannot be seen");
    const label = () => page.locator(".flame-cursor").getAttribute("aria-label");
    const level = () => page.locator(".flame-cursor").getAttribute("aria-level");
    await page.keyboard.press("ArrowDown");
    assert.match(await label(), /^all; 100% of the total/);
    await page.keyboard.press("ArrowDown");
    assert.equal(await level(), "2");
    const widest = await label();
    await page.keyboard.press("ArrowRight");
    assert.notEqual(await label(), widest);
    await page.keyboard.press("ArrowLeft");
    assert.equal(await label(), widest);
    await page.keyboard.press("End");
    assert.ok(Number(await level()) > 5);
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".crumb-here");
    const active = await page.evaluate(() => document.activeElement.getAttribute("aria-activedescendant"));
    assert.equal(await page.locator(".flame-cursor").getAttribute("id"), active);
    await page.keyboard.press("Backspace");
    await page.keyboard.press("Home");
    await page.keyboard.press("Shift+F10");
    await page.waitForSelector("[role=menu]");
    await page.keyboard.press("End");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector(".toast").textContent === "Name copied");
    assert.ok((await page.evaluate(() => navigator.clipboard.readText())).length > 0);
    assert.ok(
      await page.evaluate(() => document.activeElement.classList.contains("flame")),
      "the menu did not give the focus back",
    );
    await page.keyboard.press("?");
    await page.waitForSelector("dialog[open]");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog[open]", { state: "detached" });
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.id), "search");
  }));
