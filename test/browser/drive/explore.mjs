// One process in one range of time: search, zoom, filter, table, sandwich, download, link, status, colours.
import { join } from "node:path";
import { ViewPage } from "./view.mjs";

export async function run(session, page, p, seen) {
  const view = new ViewPage(session, page);
  await view.goto(`?from=${p.from}&to=${p.to}`);
  await session.shot(page, "1-flame-all");

  seen.processes = await view.filter("process", p.process);
  seen.chips = await page.locator(".chip").allInnerTexts();
  seen.found = await view.search(p.function);
  seen.frame = (await view.select()).label;
  seen.details = await view.details();
  await session.shot(page, "2-flame-search");

  await zoom(session, view, seen);
  await link(session, view, seen);
  await download(session, view, p, seen);
  await page.getByRole("button", { name: "Reset zoom" }).click();
  await view.settled();

  await view.tab("Table");
  seen.row = (await view.row(p.function)).cells;
  await session.shot(page, "5-table");
  await sandwich(session, view, p, seen);
  await status(session, page, seen);
  await colours(page, seen);
}

async function zoom(session, view, seen) {
  const { page } = view;
  const whole = await view.picture();
  // The selected frame's outline says where the frame lies on the canvas.
  const { box } = await view.selected();
  await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
  await page.getByRole("navigation", { name: "Zoomed to" }).waitFor();
  await view.settled();
  seen.zoomed = {
    crumbs: await page.getByRole("navigation", { name: "Zoomed to" }).locator("li").allInnerTexts(),
    share: await page.locator(".flame-share").innerText(),
    width: (await view.selected()).box.width,
    graph: (await page.getByRole("tree").boundingBox()).width,
    changed: (await view.picture()) !== whole,
  };
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  seen.tooltip = await page.getByRole("tooltip").innerText();
  await session.shot(page, "3-flame-zoomed");
  // Out by the keys, in again by the history.
  await page.getByRole("tree").focus();
  await page.keyboard.press("Escape");
  await page.getByRole("navigation", { name: "Zoomed to" }).waitFor({ state: "detached" });
  await view.settled();
  await page.mouse.move(2, 2);
  seen.zoomedOut = { focus: view.query("focus"), same: (await view.picture()) === whole };
  await page.goBack();
  await page.getByRole("navigation", { name: "Zoomed to" }).waitFor();
}

/** link follows the link to this view as someone else would. */
async function link(session, view, seen) {
  const { page } = view;
  await page.getByRole("button", { name: "Link", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Link to this view" });
  const address = await dialog.getByLabel("This view, exactly these data", { exact: true }).inputValue();
  await session.shot(page, "4-link");
  await page.keyboard.press("Escape");
  const other = new ViewPage(session, await session.fresh());
  await other.page.goto(address);
  await other.page.getByRole("tablist").waitFor();
  seen.link = { here: await view.looks(), there: await other.looks() };
  await other.page.context().close();
}

async function download(session, view, p, seen) {
  const { page } = view;
  await page.getByRole("button", { name: "Export", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Download" });
  await session.shot(page, "4-export");
  seen.command = await dialog.getByLabel("Command", { exact: true }).inputValue();
  seen.files = {};
  for (const name of await dialog.getByRole("link").allInnerTexts()) {
    const [title] = name.split("\n");
    const started = page.waitForEvent("download");
    await dialog.getByRole("link", { name: title }).click();
    const file = await started;
    seen.files[title] = join(p.files, file.suggestedFilename());
    await file.saveAs(seen.files[title]);
  }
  await page.keyboard.press("Escape");
}

async function sandwich(session, view, p, seen) {
  const { page } = view;
  const { row } = await view.row(p.function);
  await row.hover();
  await row.getByRole("button", { name: `Sandwich: ${p.function}` }).click();
  await view.inURL("tab", "sandwich");
  await view.settled();
  const of = async () => ({
    name: await page.locator(".sandwich-name").innerText(),
    numbers: await page.locator(".sandwich-numbers").innerText(),
    callees: await page.getByRole("region", { name: "Callees" }).innerText(),
  });
  const callers = page.getByRole("region", { name: "Callers" });
  await callers.getByRole("tree").waitFor();
  seen.sandwich = await of();
  // The keys go from the function up to who calls it.
  await callers.getByRole("tree").focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowUp");
  seen.sandwich.caller = (await view.selected(callers)).label;
  await session.shot(page, "6-sandwich");
}

async function status(session, page, seen) {
  await page.locator(".header button[title^='Health']").click();
  const panel = page.getByRole("dialog", { name: "Status" });
  await panel.waitFor();
  seen.status = {
    tiles: Object.fromEntries(
      await panel
        .locator(".tile")
        .evaluateAll((all) =>
          all.map((t) => [t.querySelector(".tile-name").textContent, t.querySelector(".tile-value").textContent]),
        ),
    ),
    text: await panel.innerText(),
  };
  await session.shot(page, "7-status");
  await panel.getByRole("button", { name: "Close the status" }).click();
}

async function colours(page, seen) {
  const button = page.getByRole("button", { name: /^Colours: / });
  const now = () =>
    page.evaluate(() => [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]);
  seen.themes = [];
  for (let i = 0; i < 3; i++) {
    seen.themes.push(await now());
    await button.click();
  }
}
