// Opens pages of the site in a frame of a given width, runs axe-core in each, and reports what it finds.
async function looked(wanted) {
  const frame = document.createElement("iframe");
  frame.width = wanted.width;
  frame.height = 900;
  frame.style.border = "0";
  await new Promise(done => { frame.onload = done; frame.src = wanted.page; document.body.append(frame); });
  const view = frame.contentWindow, page = view.document;
  const script = page.createElement("script");
  script.textContent = document.getElementById("axe").textContent;
  page.head.append(script);
  if (wanted.planted) page.querySelector("article").insertAdjacentHTML("beforeend", wanted.planted);
  // Fading elements have colours between two themes.
  page.head.insertAdjacentHTML("beforeend", "<style>*{transition:none!important;animation:none!important}</style>");
  await new Promise(done => setTimeout(done, 300));
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
  const found = await view.axe.run(page, { runOnly: { type: "tag", values: tags }, resultTypes: ["violations"] });
  const header = page.querySelector(".md-header").getBoundingClientRect();
  const result = {
    ...wanted,
    passed: found.passes.length,
    violations: found.violations.flatMap(one =>
      one.nodes.map(node => `${one.id}: ${node.html.slice(0, 160)} ${node.failureSummary.slice(0, 300)}`)),
    wide: page.documentElement.scrollWidth - page.documentElement.clientWidth,
    header: page.documentElement.clientWidth - header.width,
    resources: view.performance.getEntriesByType("resource").map(e => e.name).filter(e => !e.startsWith(location.origin)),
    scheme: page.body.getAttribute("data-md-color-scheme"),
    small: [...page.querySelectorAll(".grid.cards img")].map(e => e.getBoundingClientRect().width / e.naturalWidth),
  };
  frame.remove();
  return result;
}

addEventListener("load", async () => {
  const results = [];
  for (const wanted of JSON.parse(document.getElementById("wanted").textContent)) results.push(await looked(wanted));
  report(results);
});
