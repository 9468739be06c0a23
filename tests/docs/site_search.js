// Types each query into the search of the site, waits for its results, and reports the titles and addresses of the first.
const wait = ms => new Promise(done => setTimeout(done, ms));
const deep = root => [...root.querySelectorAll("*")].flatMap(e => [e, ...(e.shadowRoot ? deep(e.shadowRoot) : [])]);

async function until(found) {
  for (let tries = 0; tries < 300; tries++) {
    const value = found();
    if (value) return value;
    await wait(100);
  }
  return null;
}

addEventListener("load", async () => {
  const frame = document.createElement("iframe");
  frame.width = 1280;
  frame.height = 900;
  await new Promise(done => { frame.onload = done; frame.src = "/"; document.body.append(frame); });
  const view = frame.contentWindow, page = view.document;
  page.querySelector('label[for="__search"]').click();
  const input = await until(() => deep(page).find(e => e.tagName === "INPUT" && e.type === "text"));
  const links = () => deep(input.getRootNode()).filter(e => e.tagName === "A");
  const results = {};
  for (const query of JSON.parse(document.getElementById("wanted").textContent)) {
    Object.getOwnPropertyDescriptor(view.HTMLInputElement.prototype, "value").set.call(input, query);
    input.dispatchEvent(new view.InputEvent("input", { bubbles: true, composed: true }));
    const current = () => links().every(e => new URL(e.href).searchParams.get("h") === query);
    // Nothing found looks like not yet searched, so it is believed after ten seconds.
    let empty = 0;
    await until(() => links().length ? current() : ++empty > 100);
    results[query] = links().slice(0, 3).map(e => [new URL(e.href).pathname, e.textContent]);
  }
  report(results);
});
