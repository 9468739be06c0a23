// Shows one page after the other in a frame of a given width and theme, and reports what it finds.
// A frame, since a window of headless Chromium is never narrower than 500 pixels.
function measured(view) {
  return {
    resources: view.performance.getEntriesByType("resource").map(e => e.name), hacked: view.hacked === true,
    paper: view.getComputedStyle(view.document.body).backgroundColor,
  };
}

async function audited(view) {
  const script = view.document.createElement("script");
  script.textContent = document.getElementById("axe").textContent;
  view.document.head.append(script);
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
  const found = await view.axe.run(view.document, { runOnly: { type: "tag", values: tags }, resultTypes: ["violations"] });
  return { passed: found.passes.length, violations: found.violations.flatMap(one =>
    one.nodes.map(node => `${one.id}: ${node.html.slice(0, 160)} ${node.failureSummary.slice(0, 300)}`)) };
}

async function shown({ page, width, theme, axe }) {
  const frame = document.createElement("iframe");
  frame.width = width;
  frame.height = 900;
  let text = document.getElementById(page).textContent;
  if (theme) text = text.replace("<html ", `<html data-theme="${theme}" `);
  // The policy of the page would stop what looks at it too.
  if (axe) text = text.replace(/<meta http-equiv="Content-Security-Policy"[^>]*>/, "");
  await new Promise(done => { frame.onload = done; frame.srcdoc = text; document.body.append(frame); });
  const view = frame.contentWindow;
  view.document.querySelectorAll("details").forEach(d => { d.open = true; });
  const found = measured(view);
  const rules = axe ? await audited(view) : null;
  frame.remove();
  return { page, width, theme, found, rules };
}

addEventListener("load", async () => {
  const results = [];
  for (const wanted of JSON.parse(document.getElementById("wanted").textContent)) results.push(await shown(wanted));
  report(results);
});
