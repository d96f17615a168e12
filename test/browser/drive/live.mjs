// The page from before the first profile on: it waits, shows data by itself, and follows what comes in.
import { ViewPage } from "./view.mjs";

export async function run(session, page, p, seen) {
  const view = new ViewPage(session, page);
  await page.goto(session.base);
  await page.getByRole("tablist").waitFor();
  seen.live = await page.getByRole("button", { name: "Live", exact: true }).getAttribute("aria-pressed");
  seen.first = await view.search(p.function);
  await page.waitForFunction((before) => {
    const now = document.querySelector("#search-result strong")?.parentElement.innerText;
    return now !== undefined && now !== before && !now.startsWith("…");
  }, seen.first);
  seen.second = await view.found();
  await session.shot(page, "0-live");
  await page.getByRole("button", { name: "Live", exact: true }).click();
  await page.getByRole("button", { name: "Paused", exact: true }).waitFor();
  seen.paused = { from: view.query("from"), to: view.query("to") };
}
