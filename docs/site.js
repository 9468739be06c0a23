// Code that scrolls sideways can be reached by keyboard; a copy button is no landmark of the page.
const mend = () => {
  for (const code of document.querySelectorAll("pre > code")) if (code.scrollWidth > code.clientWidth) code.tabIndex = 0;
  for (const nav of document.querySelectorAll("nav.md-code__nav")) nav.setAttribute("role", "none");
};
for (const event of ["load", "resize", "toggle"]) addEventListener(event, mend, true);
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
