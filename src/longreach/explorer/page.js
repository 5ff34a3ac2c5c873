// Draws every div.lr-chart that comes into sight, in the page's light or dark look. No arithmetic here.
(() => {
  const themes = window.longreachThemes;
  const isDark = () => document.body.classList.contains("dark") ||
    (document.documentElement.dataset.theme || "") === "dark";
  async function draw(place) {
    const look = isDark() ? "dark" : "light";
    if (!place.isConnected || place.dataset.drawn === look || place.clientWidth === 0) return;
    place.dataset.drawn = look;
    try {
      await vegaEmbed(place, JSON.parse(place.dataset.spec), {
        mode: "vega-lite", renderer: "svg", actions: false,
        config: themes[look], tooltip: {theme: look},
      });
    } catch (problem) {
      if (place.isConnected) throw problem;  // Replaced while it was drawn: nobody misses it.
    }
  }
  const sight = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
  }, {rootMargin: "300px"});
  function find(root) {
    if (root.nodeType !== Node.ELEMENT_NODE) return;
    if (root.matches(".lr-chart")) sight.observe(root);
    root.querySelectorAll(".lr-chart").forEach((place) => sight.observe(place));
  }
  function redraw() {
    document.querySelectorAll(".lr-chart[data-drawn]").forEach((place) => {
      sight.unobserve(place);
      sight.observe(place);
    });
  }
  function begin() {
    find(document.body);
    new MutationObserver((changes) => {
      for (const change of changes) change.addedNodes.forEach(find);
    }).observe(document.body, {childList: true, subtree: true});
    new MutationObserver(redraw).observe(document.body, {attributeFilter: ["class"]});
  }
  if (document.body) begin(); else addEventListener("DOMContentLoaded", begin);
})();
