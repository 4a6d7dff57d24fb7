// The first chart is drawn at once, the others when the page is idle or they come into view.
// The size that fits A4 and Letter at the zoom used in print, whatever the size of the window.
const style = (place, name) => Number(getComputedStyle(place).getPropertyValue(name));
const paper = {
  width: (place) => style(place, "--paper-width"),
  height: (described, place) => Math.max(style(place, "--paper-height") * described, 155),
};
const { draw } = drawing(Plotly, (place) => JSON.parse(place.nextElementSibling.textContent), paper);
const places = () => [...document.querySelectorAll(".chart")];
const drawn = new WeakSet(); // also what cannot be drawn
function drawFirst(place) {
  drawn.add(place);
  draw(place);
}
const near = new IntersectionObserver((entries) => {
  for (const one of entries) if (one.isIntersecting) { near.unobserve(one.target); drawFirst(one.target); }
}, { rootMargin: "400px" });
const idle = window.requestIdleCallback || ((run) => setTimeout(run, 100));
function drawNext() {
  const place = places().find((one) => !drawn.has(one) && one.clientWidth);
  if (!place) return;
  near.unobserve(place);
  drawFirst(place);
  idle(drawNext);
}
drawFirst(places()[0]); // the page below is not parsed yet
addEventListener("DOMContentLoaded", () => {
  for (const place of places().slice(1)) near.observe(place);
  idle(drawNext);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => places().forEach(drawFirst));
  addEventListener("beforeprint", () => places().filter((place) => !drawn.has(place)).forEach(drawFirst));
});
