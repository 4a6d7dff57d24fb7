// The first chart is drawn at once, the others when they come into view. Nothing leaves the page.
(() => {
  "use strict";
  const NARROW_PX = 520, LETTER_PX = 7, AXIS_PX = 88, SHORT_PX = 110, MOST = 0.6;
  const PAPER_PX = 960, INK = "#000"; // what A4 and Letter hold as the page is zoomed there, from whatever window
  const FLAT = 0.75, LEAST_PX = 220;
  let onPaper = false;
  const charts = new Map(), were = new Map(); // by the place where each is drawn: read once; and whether it was narrow

  function chart(place) {
    if (!charts.has(place)) charts.set(place, JSON.parse(place.nextElementSibling.textContent));
    return charts.get(place);
  }
  const isNarrow = (place) => !onPaper && place.clientWidth < NARROW_PX;
  function drawn(place) {
    const { data, layout, config } = chart(place);
    const font = { ...layout.font, color: onPaper ? INK : getComputedStyle(document.body).color };
    const size = onPaper ? { width: PAPER_PX, height: Math.max(FLAT * layout.height, LEAST_PX) } : {};
    were.set(place, isNarrow(place));
    const fits = isNarrow(place) ? narrow(data, layout, place.clientWidth) : { data, layout };
    Plotly.react(place, fits.data, { ...fits.layout, ...size, font }, config);
  }
  function printing(begins) {
    onPaper = begins;
    places().forEach((place) => { Plotly.purge(place); drawn(place); }); // else room made for the other width stays
  }
  // On a phone: two plots over the same rows stand one above the other; the names of axes, and words in rows, break.
  function narrow(data, layout, width) {
    const axes = Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name));
    const broken = axes.map((name) => [name, { ...layout[name], title: wrapped(layout[name].title, width / 2) }]);
    const fits = { ...layout, ...Object.fromEntries(broken) };
    if (fits.xaxis.ticktext && fits.xaxis.tickangle === undefined) fits.xaxis.tickangle = 90; // aslant the last is cut
    const says = (trace) => trace.mode === "text" || trace.textposition === "outside" && trace.orientation === "h";
    const traces = data.map((trace) => (says(trace) ? worded(trace, fits, width / 3) : trace));
    if (!fits.xaxis2 || fits.yaxis2) return { data: traces, layout: fits };
    stacked(fits);
    return { data: traces.map((trace) => (trace.xaxis === "x2" ? { ...trace, yaxis: "y2" } : trace)), layout: fits };
  }
  function stacked(fits) {
    const rest = fits.margin.t + fits.margin.b, plot = fits.height - rest;
    fits.height = 2 * plot + rest + AXIS_PX;
    const part = plot / (fits.height - rest);
    Object.assign(fits, {
      yaxis2: { ...fits.yaxis, domain: [0, part], anchor: "x2" },
      yaxis: { ...fits.yaxis, domain: [1 - part, 1], anchor: "x" },
      xaxis: { ...fits.xaxis, domain: [0, 1], anchor: "y" },
      xaxis2: { ...fits.xaxis2, domain: [0, 1], anchor: "y2" },
    });
  }
  function wrapped(title, width) {
    if (!title || !title.text) return title;
    const lines = [""];
    for (const word of title.text.split(" ")) {
      const longer = `${lines.at(-1)} ${word}`.trim();
      if (longer.length * LETTER_PX > width && lines.at(-1)) lines.push(word); else lines[lines.length - 1] = longer;
    }
    return { ...title, text: lines.join("<br>") };
  }
  // Words behind a mark or a bar: in two lines, and the axis as long as they need.
  function worded(trace, fits, width) {
    const text = trace.text.map(halved), axis = fits[(trace.xaxis || "x").replace("x", "xaxis")];
    if (!axis.range) return trace;
    const [from, to] = axis.range;
    const ends = text.map((words, at) => {
      const letters = Math.max(...words.split("<br>").map((line) => line.length));
      return from + (trace.x[at] - from) / (1 - Math.min(letters * LETTER_PX / width, MOST));
    });
    axis.range = [from, Math.max(to, ...ends)];
    return { ...trace, text };
  }
  function halved(words) {
    const line = words.trim(), spaces = [...line.matchAll(/ /g)].map((found) => found.index);
    const far = (at) => Math.abs(at - line.length / 2);
    const at = spaces.sort((one, other) => far(one) - far(other))[0];
    return line.length * LETTER_PX < SHORT_PX || !at ? words : `  ${line.slice(0, at)}<br>  ${line.slice(at + 1)}`;
  }
  const places = () => [...document.querySelectorAll(".chart")];
  const near = new IntersectionObserver((seen) => {
    for (const one of seen) if (one.isIntersecting) { near.unobserve(one.target); drawn(one.target); }
  }, { rootMargin: "400px" });
  drawn(places()[0]); // what stands below is not there yet
  addEventListener("DOMContentLoaded", () => {
    for (const place of places().slice(1)) near.observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => places().forEach(drawn));
    addEventListener("resize", () => were.forEach((was, place) => { if (was !== isNarrow(place)) drawn(place); }));
    addEventListener("beforeprint", () => printing(true));
    addEventListener("afterprint", () => printing(false));
  });
})();
