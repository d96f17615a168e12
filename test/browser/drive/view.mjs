// What a person does with the page, by the names that its controls have.
import { patience } from "./session.mjs";

export class ViewPage {
  constructor(session, page) {
    this.session = session;
    this.page = page;
  }

  /** goto opens the page with a query, and returns when its data are there. */
  async goto(query = "") {
    await this.page.goto(this.session.base + query);
    await this.page.getByRole("tablist").waitFor();
    await this.settled();
  }

  /** settled waits until every question has its answer. The page asks some of them a moment after the cause. */
  async settled() {
    const end = Date.now() + patience;
    for (let quiet = 0; quiet < 2; ) {
      await this.page.evaluate(() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => done()), 200)));
      quiet = this.page.underway.size === 0 ? quiet + 1 : 0;
      if (Date.now() > end) throw new Error(`no answer for ${[...this.page.underway].map((r) => r.url())}`);
    }
  }

  url() {
    return new URL(this.page.url());
  }

  query(name) {
    return this.url().searchParams.get(name);
  }

  async inURL(name, value) {
    await this.page.waitForFunction(([n, v]) => new URLSearchParams(location.search).get(n) === v, [name, value]);
  }

  async tab(name) {
    await this.page.getByRole("tab", { name }).click();
    await this.settled();
  }

  /** search types into the search box and returns what is said of what it found. */
  async search(text) {
    const box = this.page.getByRole("textbox", { name: "Search functions, files and mappings" });
    await box.fill("");
    await box.pressSequentially(text);
    await this.inURL("search", text === "" ? null : text);
    await this.settled();
    return text === "" ? "" : this.found();
  }

  async found() {
    await this.page.locator("#search-result strong").waitFor();
    return this.page.locator("#search-result").innerText();
  }

  /** select makes the first frame that matches the search the selected one, and returns what the page tells of it. */
  async select() {
    await this.page.getByRole("button", { name: "Next match" }).click();
    return this.selected();
  }

  /** selected is the selected frame of the graph, or of the one in a part of the page. */
  async selected(part = this.page) {
    const frame = part.locator("[role=treeitem][aria-selected=true]");
    await frame.waitFor();
    return { label: await frame.getAttribute("aria-label"), box: await frame.boundingBox() };
  }

  /** filter adds a filter, as its popover offers it, and returns the names of all values of the key. */
  async filter(key, value) {
    await this.page.getByRole("button", { name: "Filter", exact: true }).click();
    const picker = this.page.getByRole("dialog", { name: "Add a filter" });
    const values = await this.pick(picker, key, value);
    await this.page.keyboard.press("Escape");
    await picker.waitFor({ state: "detached" });
    await this.settled();
    return values;
  }

  async pick(picker, key, value) {
    await picker
      .getByRole("group", { name: "Filter by" })
      .getByRole("button", { name: new RegExp(`^${key}\\s*\\d`) })
      .click();
    const list = picker.getByRole("list", { name: `Values of ${key}` });
    await list.waitFor();
    await this.settled();
    const boxes = list.getByRole("checkbox");
    const values = await boxes.evaluateAll((all) => all.map((b) => b.getAttribute("aria-label")));
    await boxes.and(picker.locator(`[aria-label^=${JSON.stringify(`${value}, `)}]`)).click();
    return values;
  }

  /** details is the table of values of the selected frame, by row: [total, self] of [share, value, samples]. */
  async details() {
    const panel = this.page.getByRole("complementary", { name: "Details" });
    return {
      name: await panel.locator(".details-name").innerText(),
      rows: await panel
        .locator("table.numbers tbody tr")
        .evaluateAll((all) => all.map((r) => [...r.cells].map((c) => c.innerText))),
      source: await panel.locator(".frame-source").allInnerTexts(),
    };
  }

  /** row is the table's row of a function: the text of its cells by the heads of their columns. */
  async row(name) {
    const table = this.page.getByRole("table", { name: "Functions with their values" });
    const heads = await table.locator("thead th").allInnerTexts();
    const row = table
      .locator("tbody tr")
      .filter({ has: this.page.locator(".fn-name", { hasText: new RegExp(`^${name}$`) }) });
    await row.waitFor();
    const cells = await row
      .locator("td")
      .evaluateAll((all) => all.map((c) => (c.querySelector(".cell-share, .diff-pill, .fn-name") ?? c).textContent));
    return { row, cells: Object.fromEntries(heads.map((h, i) => [h.trim(), cells[i]])) };
  }

  /** mark drags over a part of a time axis, given in Unix ms. */
  async mark(name, from, to) {
    const axis = this.page.getByRole("slider", { name });
    const box = await axis.boundingBox();
    const [begin, end] = [
      Number(await axis.getAttribute("aria-valuemin")),
      Number(await axis.getAttribute("aria-valuemax")),
    ];
    const x = (t) => box.x + (Math.min(Math.max((t - begin) / (end - begin), 0), 1) * box.width || 1);
    const y = box.y + box.height / 2;
    await this.page.mouse.move(x(from), y);
    await this.page.mouse.down();
    await this.page.mouse.move((x(from) + x(to)) / 2, y);
    await this.page.mouse.move(x(to) - 1, y);
    await this.page.mouse.up();
  }

  /** picture is what the flame graph's canvas shows. */
  picture() {
    return this.page
      .locator(".flame canvas")
      .first()
      .evaluate((c) => c.toDataURL());
  }

  /** looks is the view as someone would compare it with another. */
  async looks() {
    await this.page.mouse.move(2, 2);
    await this.settled();
    const texts = (selector) => this.page.locator(selector).allInnerTexts();
    return {
      query: this.url().search,
      tab: await this.page.getByRole("tab", { selected: true }).innerText(),
      chips: await texts(".chip"),
      crumbs: await texts(".crumbs"),
      found: await texts("#search-result"),
      panel: await texts(".panel-body"),
      bar: await texts(".compare-bar"),
      range: await this.page.getByRole("group", { name: "Time", exact: true }).innerText(),
      picture: await this.picture(),
    };
  }
}
