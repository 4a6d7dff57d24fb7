// Draws every chart of an exported notebook with the plotly.js that one of them brought. Nothing leaves the page.
(() => {
  "use strict";
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const unzipped = (text) => new Blob([bytes(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const unpacked = (script) => new Response(unzipped(script.textContent)).text();
  const paper = { width: () => 540, height: (described) => described }; // beside nbconvert's prompts, on A4 and Letter
  const figures = new Map(); // by the place where each is drawn
  let drawing;
  async function library() {
    const code = await unpacked(document.querySelector("script.exposurekit-drawing"));
    return Function(code)()((plot) => figures.get(plot), paper).draw;
  }
  async function drawn(place) {
    const words = place.querySelector("p"), figure = JSON.parse(await unpacked(place.querySelector("script")));
    const draw = await (drawing ??= library());
    const plot = document.createElement("div");
    place.replaceChildren(plot);
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", words.textContent);
    figures.set(plot, figure);
    draw(plot);
  }
  globalThis.exposurekitCharts = () => {
    for (const place of document.querySelectorAll("figure.exposurekit-chart:not([data-begun])")) {
      place.dataset.begun = "";
      drawn(place);
    }
  };
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", globalThis.exposurekitCharts);
  else globalThis.exposurekitCharts();
})();
