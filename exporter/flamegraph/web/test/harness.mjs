// What the tests of the page share: a browser, a mock collector, and ways to look at what is drawn.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { after, before } from "node:test";
import { chromium } from "playwright-core";
import { start } from "../mock/server.mjs";

const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const flags = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-dev-shm-usage",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export const now = Date.parse("2026-11-20T14:06:00Z");
export const minutes = (n) => now + n * 60_000;

let browser;

const launch = () => chromium.launch({ executablePath, args: flags });

/** withBrowser starts one for the tests of a file. */
export function withBrowser() {
  before(async () => {
    assert.ok(existsSync(executablePath), `no browser at ${executablePath}: install Chromium or set CHROMIUM`);
    browser = await launch();
  });
  after(() => browser?.close());
}

/**
 * open shows the page of a scenario, hands it to run, and then checks that the console stayed silent, but for what
 * allow says.
 */
export async function open(options, run) {
  const {
    clock = true,
    scenario = "normal",
    query = "",
    allow,
    mock: given,
    viewport = { width: 1440, height: 900 },
    ...context
  } = options;
  // One that has died took its own test along, not those after it.
  if (!browser.isConnected()) browser = await launch();
  const session = await browser.newContext({
    viewport,
    timezoneId: "UTC",
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
    ...context,
  });
  const page = await session.newPage();
  const mock = given ?? (await start({ scenario, now }));
  const said = [];
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && said.push(m.text()));
  page.on("pageerror", (e) => said.push(String(e.stack ?? e)));
  page.on("dialog", (d) => said.push(`dialog: ${d.message()}`));
  page.setDefaultTimeout(30_000);
  // Ends what waits without a limit of its own. (Node 18 has no --test-timeout.)
  const late = setTimeout(() => session.close({ reason: "the test took more than two minutes" }), 120_000);
  try {
    if (clock === "fake") await page.clock.install({ time: now });
    else if (clock) await page.clock.setFixedTime(now);
    await page.goto(mock.url + query);
    await run(page, mock);
    const wrong = said.filter((t) => !allow?.test(t));
    assert.deepEqual(wrong, [], "the console");
    assert.equal(await page.evaluate(() => window.__xss), undefined, "a script from a name ran");
  } finally {
    clearTimeout(late);
    // A handler may still wait for an answer that nobody needs any more.
    await page.unrouteAll({ behavior: "ignoreErrors" }).catch(() => {});
    await Promise.allSettled([session.close(), given ? undefined : mock.close()]);
  }
}

export const flame = (page) => page.locator(".flame").first();

/** drawn waits until the flame graph is there: there are frames at its right edge, and more than one colour. */
export async function drawn(page, timeout = 30_000) {
  await page.waitForFunction(
    () => {
      const c = document.querySelector(".flame canvas");
      if (!c?.width) return false;
      const copy = Object.assign(document.createElement("canvas"), { width: c.width, height: c.height }).getContext(
        "2d",
        {
          willReadFrequently: true,
        },
      );
      copy.drawImage(c, 0, 0);
      const at = (x, y) => copy.getImageData(x, y, 1, 1).data.join();
      const edge = Array.from({ length: Math.floor(c.height / 6) }, (_, i) => at(c.width - 3, i * 6));
      return new Set(edge).size > 1;
    },
    undefined,
    { timeout },
  );
}

/** find types a search and waits for what it finds. */
export async function find(page, search) {
  await page.fill("#search", search);
  await page.waitForFunction(
    (s) =>
      new URLSearchParams(location.search).get("search") === s &&
      /%|search/.test(document.getElementById("search-result")?.textContent ?? ""),
    search,
  );
}

/** select moves the selection to the frame that a search finds first, and gives its element. */
export async function select(page, search) {
  await find(page, search);
  await page.press("#search", "Enter");
  const cursor = page.locator(".flame-cursor");
  await cursor.waitFor();
  return cursor;
}

/** middle is the middle of an element on the screen. */
export async function middle(locator) {
  const b = await locator.boundingBox();
  return { x: b.x + b.width / 2, y: b.y + b.height / 2 };
}

/** pixels is what the canvas shows, to compare. */
export const pixels = (page) => page.evaluate(() => document.querySelector(".flame canvas").toDataURL());

export const query = (page) => new URL(page.url()).searchParams;

/** ask is what the collector says itself. */
export async function ask(mock, path) {
  const response = await fetch(`${mock.url}api/${path}`);
  assert.ok(response.ok, `${path}: ${response.status}`);
  return response.json();
}

export const text = async (locator) => (await locator.innerText()).replace(/\s+/g, " ").trim();
