// Shows one page after the other in a frame of a given width and theme, and reports what it finds.
// A frame, since a window of headless Chromium is never narrower than 500 pixels.
const seen = (view, e) => !e.closest(".skip") && view.getComputedStyle(e.closest("thead") ?? e).position !== "absolute";

function measured(view) {
  const page = view.document, root = page.documentElement, charts = [...page.querySelectorAll("svg.chart")];
  const texts = chart => [...chart.querySelectorAll("text")];
  const outside = charts.flatMap(chart => texts(chart).filter(text => {
    const box = text.getBBox(), frame = chart.viewBox.baseVal;
    return box.x < -0.5 || box.x + box.width > frame.width + 0.5 || box.y < -2 || box.y + box.height > frame.height + 0.5;
  }).map(text => text.textContent));
  // Letters are lower than their boxes, so lines of one text may touch.
  const over = charts.flatMap(chart => texts(chart).flatMap((first, i) => texts(chart).slice(i + 1).filter(second => {
    const a = first.getBBox(), b = second.getBBox();
    return a.x + 1 < b.x + b.width && b.x + 1 < a.x + a.width && a.y + 4 < b.y + b.height && b.y + 4 < a.y + a.height;
  }).map(second => `${first.textContent} | ${second.textContent}`)));
  const sizes = charts.flatMap(chart => texts(chart).map(text => parseFloat(view.getComputedStyle(text).fontSize)
    * chart.getBoundingClientRect().width / chart.viewBox.baseVal.width));
  const all = [...page.querySelectorAll("body *")].filter(e => !e.closest("svg") && seen(view, e));
  const named = e => `${e.tagName}.${e.className} ${e.textContent.slice(0, 40)}`;
  const wider = all.filter(e => e.getBoundingClientRect().right > view.innerWidth + 0.5).map(named);
  const cut = all.filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0
    && (view.getComputedStyle(e).overflowX !== "visible" || e.scrollWidth > view.innerWidth)).map(named);
  const cells = [...page.querySelectorAll("tbody td")].filter(e => e.getBoundingClientRect().width < 8
    || e.getBoundingClientRect().height < 8).map(named);
  return {
    outside, over, wider, cut, cells, smallest: Math.min(...sizes), width: view.innerWidth, scrollWidth: root.scrollWidth,
    charts: charts.map(chart => chart.getAttribute("aria-labelledby").split("-title")[0]),
    resources: view.performance.getEntriesByType("resource").map(e => e.name), hacked: view.hacked === true,
    small: [...page.querySelectorAll("summary, button")].filter(e => e.offsetHeight < 24).map(named),
    paper: view.getComputedStyle(page.body).backgroundColor, heading: page.querySelector("h1").textContent,
  };
}

function themed(view) {
  const page = view.document, button = page.getElementById("theme");
  const state = () => [view.getComputedStyle(page.body).backgroundColor, button.textContent];
  const before = state();
  button.focus();
  const focused = page.activeElement === button;
  button.click();
  return { before, after: state(), focused, tall: button.offsetHeight };
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
  const toggled = theme || axe ? null : themed(view);
  const found = measured(view);
  view.document.querySelectorAll("details").forEach(d => { d.open = true; });
  const opened = measured(view);
  const rules = axe ? await audited(view) : null;
  frame.remove();
  return { page, width, theme, found, opened, toggled, rules };
}

addEventListener("load", async () => {
  const results = [];
  for (const wanted of JSON.parse(document.getElementById("wanted").textContent)) results.push(await shown(wanted));
  report(results);
});
