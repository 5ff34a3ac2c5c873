// Of the positions page: shows the views of what is chosen, and keeps the choice in the address. No arithmetic.
const dark = matchMedia("(prefers-color-scheme: dark)");
const inTheDark = () => document.body.classList.toggle("dark", dark.matches);
dark.addEventListener("change", inTheDark);
inTheDark();

const selects = [...document.querySelectorAll(".choices select")];
const place = document.getElementById("views");
const said = document.getElementById("status");
const arrived = new Map();  // By key: the views that a script of data/ has brought.

function longreachViews(key, views) {
  arrived.set(key, views);
}

// Scripts and not requests: a page that is opened from a disk may read no other file.
function views(key) {
  if (arrived.has(key)) return Promise.resolve(arrived.get(key));
  return new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = `data/${key}.js`;
    script.onload = () => done(arrived.get(key));
    script.onerror = () => failed(new Error(key));
    document.head.append(script);
  });
}

function built(parts) {
  const grid = document.createElement("div");
  grid.className = "lr-views";
  for (const part of parts) {
    const template = document.createElement("template");
    template.innerHTML = part.html;
    template.content.querySelectorAll(".lr-chart").forEach((chart, number) => {
      chart.dataset.spec = JSON.stringify(part.specs[number]);
    });
    grid.append(template.content);
  }
  return grid;
}

let wanted = place.dataset.start;
const chosen = () => selects.map((select) => select.value).join("-");

async function show() {
  const key = chosen();
  if (key === wanted) return;
  wanted = key;
  const lengths = selects.slice(2).map((select) => select.value).join("-");
  try {
    const parts = await Promise.all([views(key), views(lengths)]);
    if (key !== wanted) return;  // Something else was chosen meanwhile.
    place.replaceChildren(built(parts));
    said.textContent = "Shown: " + selects.map((select) => select.selectedOptions[0].text).join(", ");
  } catch {
    said.textContent = "This setting could not be read; is the folder data/ beside this page?";
  }
}

// An address names stops that there are, or nothing happens.
function restore() {
  const asked = new URLSearchParams(location.hash.slice(1));
  for (const select of selects) {
    const value = asked.get(select.name);
    if ([...select.options].some((option) => option.value === value)) select.value = value;
  }
  show();
}

for (const select of selects) {
  select.addEventListener("change", () => {
    const query = new URLSearchParams(selects.map((each) => [each.name, each.value]));
    history.replaceState(null, "", "#" + query);
    show();
  });
}
addEventListener("hashchange", restore);
restore();
