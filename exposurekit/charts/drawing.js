// Draws figures as wide as the places where they stand, also on a phone and on paper; each keeps its own height.
// `paper`: how wide the chart of a place is there, and how high by the height that its figure describes.
function drawing(Plotly, figureOf, paper) {
  const NARROW_PX = 520, LETTER_PX = 7, AXIS_PX = 88, SHORT_PX = 110, MOST = 0.6;
  const TITLE_LETTER_PX = 8.6, TITLE_PX = 21, SUBTITLE_LETTER_PX = 6.6, SUBTITLE_PX = 16, SIGN_PX = 46, LEGEND_PX = 20;
  const INK = "#000"; // on paper, whatever page it is printed from
  let onPaper = false;
  const figures = new Map(), widths = new Map(); // by place: read once; and how wide each was drawn

  function figure(place) {
    if (!figures.has(place)) figures.set(place, figureOf(place));
    return figures.get(place);
  }
  function draw(place) {
    const { data, layout, config } = figure(place);
    const width = onPaper ? paper.width(place) : place.clientWidth;
    if (!width) return; // out of sight: drawn once it is seen
    const color = onPaper ? INK : getComputedStyle(place).color; // of the page, light or dark
    widths.set(place, width);
    const fits = fitted(data, layout, width);
    const inside = { ...fits.layout, ...room(fits, width), width, font: { ...layout.font, color } };
    if (onPaper) inside.height = paper.height(inside.height);
    Plotly.react(place, fits.data, inside, config);
    seen.observe(place);
  }
  const seen = new ResizeObserver((changed) => {
    for (const { target } of changed) if (!onPaper && widths.get(target) !== target.clientWidth) draw(target);
  });
  function printing(begins) {
    onPaper = begins;
    for (const place of figures.keys()) { Plotly.purge(place); draw(place); } // else room made for the other width stays
  }
  addEventListener("beforeprint", () => printing(true));
  addEventListener("afterprint", () => printing(false));

  // What stands above the plot in lines as long as the width lets them be, and the room that these take.
  function room({ data, layout }, width) {
    if (!layout.title || !layout.title.text) return {};
    const { title } = layout, inner = width - 32;
    const lines = (text, letter) => (text ? broken(text.replaceAll("<br>", " "), inner / letter) : []);
    const above = lines(title.text, TITLE_LETTER_PX), below = lines(title.subtitle?.text, SUBTITLE_LETTER_PX);
    const rows = layout.showlegend ? legendRows(data, width - layout.margin.l - layout.margin.r - 40) : 0;
    const t = 40 + TITLE_PX * above.length + SUBTITLE_PX * below.length + LEGEND_PX * rows;
    return {
      title: { ...title, text: above.join("<br>"), subtitle: { ...title.subtitle, text: below.join("<br>") },
        pad: { ...title.pad, t: above.length < 2 ? 16 : 16 + 12 * (above.length - 1) } },
      margin: { ...layout.margin, t },
      height: layout.height + t - layout.margin.t,
    };
  }
  function legendRows(data, width) {
    const names = data.filter((trace) => trace.name && trace.showlegend !== false).map((trace) => trace.name);
    const wide = names.map((name) => SIGN_PX + LETTER_PX * name.length), all = wide.reduce((sum, one) => sum + one, 0);
    if (names.length < 2 || all <= width) return Number(names.length > 1);
    return Math.ceil(names.length / Math.max(Math.floor(width / Math.max(...wide)), 1));
  }
  // On a phone: two plots over the same rows stand one above the other; the names of axes, and words in rows, break.
  function fitted(data, layout, width) {
    if (width >= NARROW_PX) return { data, layout };
    const axes = Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name));
    const wrapped = axes.map((name) => [name, { ...layout[name], title: titled(layout[name].title, width / 2) }]);
    const fits = { ...layout, ...Object.fromEntries(wrapped) };
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
  function titled(title, width) {
    return title && title.text ? { ...title, text: broken(title.text, width / LETTER_PX).join("<br>") } : title;
  }
  function broken(text, letters) {
    const lines = [""];
    for (const word of text.split(" ")) {
      const longer = `${lines.at(-1)} ${word}`.trim();
      if (longer.length > letters && lines.at(-1)) lines.push(word); else lines[lines.length - 1] = longer;
    }
    return lines;
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
  return { draw };
}
