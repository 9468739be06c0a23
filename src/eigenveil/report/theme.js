(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const show = () => { button.textContent = dark() ? "Light theme" : "Dark theme"; };
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; show(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  button.hidden = false;
  show();
})();
