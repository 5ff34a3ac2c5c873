// Of a page with figures: draws them, hands them out as files, and lists their numbers.
const dark = matchMedia("(prefers-color-scheme: dark)");
const drawn = {};

async function draw() {
  for (const [id, spec] of Object.entries(specs)) {
    drawn[id]?.finalize();
    drawn[id] = await vegaEmbed("#" + id, spec, {
      mode: "vega-lite", renderer: "svg", config: themes[dark.matches ? "dark" : "light"],
      actions: false, tooltip: {theme: dark.matches ? "dark" : "light"},
    });
  }
}
dark.addEventListener("change", draw);
draw();

// The drawing that readers without scripts see: light, and the same as the file of the report.
function svgOf(figure) {
  return figure.querySelector("noscript").textContent.trim();
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// Twice as many pixels as the drawing has, for screens that show as many.
async function pngOf(svg) {
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg);
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * image.naturalWidth;
  canvas.height = 2 * image.naturalHeight;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

for (const button of document.querySelectorAll(".downloads button")) {
  button.addEventListener("click", async () => {
    const figure = button.closest("figure");
    const svg = svgOf(figure);
    const png = button.dataset.kind === "png";
    const blob = png ? await pngOf(svg) : new Blob([svg], {type: "image/svg+xml"});
    save(blob, `${figure.id}.${button.dataset.kind}`);
  });
}

// The rows of a CSV text, whose quotes are doubled within quotes.
function parsed(text) {
  const rows = [[]];
  for (const [, quoted, plain, end] of text.replace(/\n$/, "").matchAll(/(?:"((?:[^"]|"")*)"|([^",\n]*))(,|\n|$)/g)) {
    rows.at(-1).push(quoted?.replaceAll('""', '"') ?? plain);
    if (end === "\n") rows.push([]);
    if (end === "") break;
  }
  return rows;
}

function tableOf(rows, label) {
  const table = document.createElement("table");
  table.setAttribute("aria-label", label);
  const [head, ...body] = rows;
  const titles = table.createTHead().insertRow();
  for (const title of head) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = title.replaceAll("_", " ");
    titles.append(cell);
  }
  const lines = table.createTBody();
  for (const row of body) {
    const line = lines.insertRow();
    for (const [place, text] of row.entries()) {
      const cell = document.createElement(place === 0 ? "th" : "td");
      if (place === 0) {
        cell.scope = "row";
        cell.append(document.createElement("span"));
      }
      (cell.firstChild ?? cell).textContent = text;
      line.append(cell);
    }
  }
  return table;
}

for (const details of document.querySelectorAll(".numbers")) {
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    const figure = details.closest("figure");
    const address = figure.querySelector(".downloads a").getAttribute("href");
    const csv = decodeURIComponent(address.slice(address.indexOf(",") + 1));
    const label = "All numbers of " + figure.dataset.title;
    const region = document.createElement("div");
    region.className = "scroll";
    region.tabIndex = 0;
    region.setAttribute("role", "region");
    region.setAttribute("aria-label", label);
    region.append(tableOf(parsed(csv), label));
    details.append(region);
  });
}
