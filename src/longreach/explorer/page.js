// Draws every div.lr-chart that comes into sight, in the page's light or dark look. No arithmetic here.
(() => {
  const themes = window.longreachThemes;
  const isDark = () => document.body.classList.contains("dark") ||
    (document.documentElement.dataset.theme || "") === "dark";
  // What stands, or is being drawn, in a place. A page may change a place as well as replace it.
  const known = new WeakMap();
  const wanted = (place) => (isDark() ? "dark" : "light") + place.dataset.spec;
  const stands = (place) => {
    const state = known.get(place);
    return state?.wanted === wanted(place) &&
      (state.busy || place.querySelector("svg.marks") !== null);
  };
  async function draw(place) {
    if (!place.isConnected || place.clientWidth === 0 || stands(place)) return;
    const state = {wanted: wanted(place), busy: true};
    const look = isDark() ? "dark" : "light";
    known.get(place)?.view?.finalize();
    known.set(place, state);
    try {
      const {view} = await vegaEmbed(place, JSON.parse(place.dataset.spec), {
        mode: "vega-lite", renderer: "svg", actions: false,
        config: themes[look], tooltip: {theme: look},
      });
      state.view = view;
      place.dataset.drawn = look;
    } catch (problem) {
      if (place.isConnected && known.get(place) === state) throw problem;  // Else nobody misses it.
    } finally {
      state.busy = false;
    }
    if (!stands(place)) again(place);
  }
  const sight = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
  }, {rootMargin: "300px"});
  function again(place) {  // Told anew whether the place is in sight.
    sight.unobserve(place);
    sight.observe(place);
  }
  function find(root) {
    if (root.nodeType !== Node.ELEMENT_NODE) return;
    if (root.matches(".lr-chart")) again(root);
    root.querySelectorAll(".lr-chart").forEach(again);
  }
  const redraw = () => document.querySelectorAll(".lr-chart").forEach(again);
  function changed(changes) {
    const places = new Set();
    for (const change of changes) {
      change.addedNodes.forEach(find);
      const place = change.target.closest?.(".lr-chart");
      if (place) places.add(place);
    }
    for (const place of places) if (place.isConnected && !stands(place)) again(place);
  }
  function begin() {
    find(document.body);
    new MutationObserver(changed).observe(
      document.body, {childList: true, subtree: true, attributeFilter: ["data-spec"]});
    new MutationObserver(redraw).observe(document.body, {attributeFilter: ["class"]});
  }
  if (document.body) begin(); else addEventListener("DOMContentLoaded", begin);
})();
// Copies blocks, reads a chosen file into the form without sending it anywhere, keeps the address.
(() => {
  const largest = 1000000;
  async function copy(button) {
    const text = button.closest(".lr-paste").querySelector("code").textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(button.closest(".lr-paste").querySelector("code"));
      button.textContent = "Selected: press Ctrl+C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }
  async function read(file, place) {
    const said = place.querySelector("output");
    if (file.size > largest) {
      said.textContent = `${file.name} has ${file.size} bytes; no config is that large`;
      return;
    }
    const box = document.querySelector("#lr-config textarea");
    box.value = await file.text();
    box.dispatchEvent(new Event("input", {bubbles: true}));
    said.textContent = `${file.name} is in the box above`;
    setTimeout(() => document.querySelector("#lr-diagnose").click(), 50);
  }
  const dropOf = (event) => event.target.closest?.(".lr-drop, #lr-config");
  addEventListener("click", (event) => {
    if (event.target.matches?.(".lr-copy")) copy(event.target);
    setTimeout(address, 60);
  });
  addEventListener("change", (event) => {
    if (event.target.matches?.(".lr-drop input") && event.target.files.length)
      read(event.target.files[0], event.target.closest(".lr-drop"));
  });
  addEventListener("dragover", (event) => { if (dropOf(event)) event.preventDefault(); });
  addEventListener("drop", (event) => {
    if (!dropOf(event) || !event.dataTransfer.files.length) return;
    event.preventDefault();
    read(event.dataTransfer.files[0], document.querySelector(".lr-drop"));
  });
  // Until someone acts the address stands as it was opened: the app reads from it what to show.
  let waiting = false, touched = false;
  for (const kind of ["pointerdown", "keydown", "change", "drop"])
    addEventListener(kind, () => { touched = true; }, {capture: true});
  function address() {
    waiting = false;
    if (!touched) return;
    for (const marker of document.querySelectorAll(".lr-address")) {
      if (!marker.parentElement.getClientRects().length) continue;
      const kept = new URLSearchParams(marker.dataset.query);
      for (const [key, value] of new URLSearchParams(location.search))
        if (key.startsWith("__")) kept.set(key, value);
      const wanted = "?" + kept.toString().replaceAll("%2C", ",");
      if (wanted !== location.search) history.replaceState(history.state, "", wanted);
    }
  }
  function watch() {
    new MutationObserver(() => {
      if (!waiting) { waiting = true; setTimeout(address, 60); }
    }).observe(document.body, {childList: true, subtree: true, attributeFilter: ["data-query"]});
  }
  if (document.body) watch(); else addEventListener("DOMContentLoaded", watch);
})();
