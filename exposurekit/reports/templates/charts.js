// The first chart is drawn at once, the others when they come into view. Nothing leaves the page.
(() => {
  "use strict";
  const charts = new Map(); // by the place where each is drawn: read once

  function chart(place) {
    if (!charts.has(place)) charts.set(place, JSON.parse(place.nextElementSibling.textContent));
    return charts.get(place);
  }
  function drawn(place) {
    const { data, layout, config } = chart(place);
    const font = { ...layout.font, color: getComputedStyle(document.body).color };
    Plotly.react(place, data, { ...layout, font }, config);
  }
  const places = () => [...document.querySelectorAll(".chart")];
  const near = new IntersectionObserver((seen) => {
    for (const one of seen) if (one.isIntersecting) { near.unobserve(one.target); drawn(one.target); }
  }, { rootMargin: "400px" });
  drawn(places()[0]); // what stands below is not there yet
  addEventListener("DOMContentLoaded", () => {
    for (const place of places().slice(1)) near.observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => places().forEach(drawn));
    addEventListener("beforeprint", () => places().forEach(drawn));
  });
})();
