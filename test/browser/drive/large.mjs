// From a collector that has nothing to one with 100,000 distinct stacks: what is said while there is nothing, that the page
// notices the first profiles by itself, and how long things take then.
import { readFile } from "node:fs/promises";
import { ViewPage } from "./view.mjs";

export async function run(session, page, p, seen) {
  await page.goto(session.base);
  await page.getByRole("heading", { name: /^Waiting/ }).waitFor();
  seen.empty = await page.locator("main").innerText();
  await session.shot(page, "empty");
  for (const file of p.payloads) {
    const answer = await fetch(`${p.otlp}/v1development/profiles`, {
      method: "POST",
      headers: { "content-type": "application/x-protobuf" },
      body: await readFile(file),
    });
    if (!answer.ok) throw new Error(`the collector refuses ${file}: ${answer.status} ${await answer.text()}`);
  }
  await page.getByRole("tablist").waitFor();
  await page.context().close();

  page = await session.fresh();
  await page.addInitScript(measure);
  const view = new ViewPage(session, page);
  const range = `?from=${p.from}&to=${p.to}`;
  seen.times = {};
  await page.goto(session.base + range);
  await page.waitForFunction(() => window.painted !== undefined);
  seen.times["first paint of the page"] = await page.evaluate(
    () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  );
  seen.times["first paint of the flame graph"] = await page.evaluate(() => window.painted);
  await view.settled();
  await session.shot(page, "flame");

  const timed = async (name, act) => {
    await page.evaluate(() => {
      window.slowest = 0;
    });
    const result = await act();
    await view.settled();
    seen.times[name] = await page.evaluate(() => window.slowest);
    return result;
  };
  seen.found = await timed("search", () => view.search(p.function));
  seen.frame = await timed("step to the match", () => view.select());
  await timed("zoom in", () =>
    page.mouse.click(seen.frame.box.x + seen.frame.box.width / 2, seen.frame.box.y + seen.frame.box.height / 2),
  );
  seen.crumbs = await page.getByRole("navigation", { name: "Zoomed to" }).locator("li").allInnerTexts();
  await session.shot(page, "zoomed");
  await timed("zoom out", async () => {
    await page.getByRole("tree").focus();
    await page.keyboard.press("Escape");
  });
  await timed("search for the deepest", () => view.search(p.deepest));
  seen.deep = (await view.select()).label;
  await session.shot(page, "deep");
  await view.search("");
  await timed("to the table", () => view.tab("Table"));
  await timed("scroll the table", async () => {
    await page.getByRole("region", { name: "Functions" }).focus();
    await page.keyboard.press("End");
  });
  await session.shot(page, "table");
  await timed("to the sandwich", () => view.tab("Sandwich"));
  await timed("to the heatmap", () => view.tab("Heatmap"));
  await timed("back to the flame graph", () => view.tab("Flame graph"));
}

/** measure notes when the flame graph is there, and the slowest event from the hand to the next picture. */
function measure() {
  window.slowest = 0;
  new PerformanceObserver((list) => {
    for (const e of list.getEntries()) window.slowest = Math.max(window.slowest, e.duration);
  }).observe({ type: "event", durationThreshold: 16, buffered: true });
  const look = () => {
    const canvas = document.querySelector(".flame canvas");
    // A canvas that nobody has drawn on is 300 wide.
    if (canvas && canvas.width !== 300) requestAnimationFrame(() => (window.painted = performance.now()));
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}
