// Draws all charts of an exported notebook with the plotly.js that the first one contains, once they are visible.
(() => {
  "use strict";
  const bytes = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const gunzip = (text) => new Blob([bytes(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const unpack = (script) => new Response(gunzip(script.textContent)).text();
  const paper = { width: () => 540, height: (height) => height }; // fits A4 and Letter beside nbconvert's prompts
  const figures = new Map(); // by the element that each is drawn in
  let drawing;
  async function library() {
    const code = await unpack(document.querySelector("script.exposurekit-drawing"));
    return Function(code)()((plot) => figures.get(plot), paper).draw;
  }
  async function drawIn(container) {
    const alternative = container.querySelector("p");
    const figure = JSON.parse(await unpack(container.querySelector("script")));
    const draw = await (drawing ??= library());
    const plot = document.createElement("div");
    container.replaceChildren(plot);
    container.setAttribute("role", "group"); // no image, as it has buttons
    container.setAttribute("aria-label", alternative.textContent);
    figures.set(plot, figure);
    draw(plot);
  }
  const resizeObserver = new ResizeObserver((entries) => {
    for (const { target } of entries) if (target.clientWidth) { resizeObserver.unobserve(target); drawIn(target); }
  });
  globalThis.exposurekitCharts = () => {
    for (const container of document.querySelectorAll("figure.exposurekit-chart:not([data-drawing])")) {
      container.dataset.drawing = "";
      resizeObserver.observe(container);
    }
  };
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", globalThis.exposurekitCharts);
  else globalThis.exposurekitCharts();
})();
