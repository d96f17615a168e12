// Every place of the page that shows a name, with names that are HTML, scripts and worse.
import { ViewPage } from "./view.mjs";

export async function run(session, page, p, seen) {
  const view = new ViewPage(session, page);
  seen.active = {};
  seen.texts = {};
  const look = async (where, shot = true) => {
    await view.settled();
    seen.active[where] = await page.evaluate(active);
    seen.texts[where] = await page.evaluate(
      () =>
        document.body.innerText +
        [...document.querySelectorAll("[aria-label]")].map((e) => e.getAttribute("aria-label")).join("\n"),
    );
    if (shot) await session.shot(page, where.replaceAll(" ", "-"));
  };
  const range = `from=${p.from}&to=${p.to}`;
  await view.goto(`?${range}`);
  await look("flame graph");

  await view.search(p.search);
  const { box } = await view.select();
  await look("details");
  const [x, y] = [box.x + Math.min(box.width / 2, 200), box.y + box.height / 2];
  await page.mouse.move(x, y);
  await page.getByRole("tooltip").waitFor();
  await look("tooltip");
  await page.mouse.click(x, y, { button: "right" });
  await page.getByRole("menu", { name: /^Actions for/ }).waitFor();
  await look("menu");
  await page.keyboard.press("Escape");
  await page.mouse.click(x, y);
  await look("crumbs");

  // Why a stack ends early is what its producer says: below the process stands a marker with it.
  const stopped = new URLSearchParams({ filter: `hostprofiles.stack.stop_reason=${p.search}` });
  await view.goto(`?${range}&${stopped}`);
  await page.getByRole("tree").focus();
  for (const key of ["Home", "ArrowDown", "ArrowDown"]) await page.keyboard.press(key);
  const marker = await view.selected();
  seen.marker = marker.label;
  await page.mouse.move(marker.box.x + Math.min(marker.box.width / 2, 200), marker.box.y + marker.box.height / 2);
  await page.getByRole("tooltip").waitFor();
  await look("marker");

  await page.goto(`${session.base}?${range}`);
  await page.getByRole("button", { name: "Filter", exact: true }).click();
  const keys = page
    .getByRole("dialog", { name: "Add a filter" })
    .getByRole("group", { name: "Filter by" })
    .getByRole("button");
  await keys.first().waitFor();
  for (let i = 0; i < (await keys.count()); i++) {
    await keys.nth(i).click();
    await look(`filter ${i}`, i === 0);
  }
  await page.keyboard.press("Escape");
  await page
    .getByRole("button", { name: /^Health/ })
    .or(page.locator("button[title^=Health]"))
    .click();
  await look("status");

  // A link from a stranger: what is in it is as hostile.
  const stranger = new URLSearchParams({
    from: p.from,
    to: p.to,
    process: p.process,
    search: p.search,
    focus: p.search,
    node: p.search,
    function: "",
    sort: p.search,
    theme: p.search,
  });
  for (const tab of ["flame", "table", "sandwich", "heatmap"]) {
    await page.goto(`${session.base}?tab=${tab}&${stranger}`);
    await page.getByRole("tablist").waitFor();
    await look(`link ${tab}`);
  }
  await page.goto(
    `${session.base}?${stranger}&base_filter=${encodeURIComponent(`process.executable.name=${p.process}`)}`,
  );
  await look("link compare");
}

/** active lists everything that a name can have brought to life. */
function active() {
  const out = [];
  if (window.pwned !== undefined) out.push("a script ran");
  if (document.title !== "hostprofiles: live flame graph") out.push(`the title is ${document.title}`);
  const scripts = [...document.scripts].filter((s) => !new URL(s.src, location.href).pathname.startsWith("/assets/"));
  const suspects = document.querySelectorAll(
    "img, iframe, frame, object, embed, video, audio, base, meta[http-equiv], form[action], b, marquee",
  );
  const links = [...document.links].filter((a) => new URL(a.href).origin !== location.origin);
  const handlers = [...document.querySelectorAll("*")].filter((e) =>
    e.getAttributeNames().some((n) => n.startsWith("on")),
  );
  for (const e of [...scripts, ...suspects, ...links, ...handlers]) out.push(e.outerHTML.slice(0, 200));
  return out;
}
