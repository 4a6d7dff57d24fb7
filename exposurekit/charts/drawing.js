// Fits figures to the width of their containers, also on a phone and on paper.
// `paper` returns the width of a container on paper, and the height there of a figure with a given height.
function drawing(Plotly, figureOf, paper) {
  const NARROW_PX = 520, CHARACTER_PX = 7, AXIS_PX = 88, SHORT_PX = 110, MAX_TEXT_SHARE = 0.6, LINE_PX = 8, TWO_LINES_PX = 48;
  const TITLE_CHARACTER_PX = 9.2, TITLE_PX = 21, SUBTITLE_CHARACTER_PX = 6.6, SUBTITLE_PX = 16;
  const SYMBOL_PX = 46, LEGEND_PX = 20, BOTTOM_PX = 48;
  const INK = "#000"; // on paper, also from a dark page
  let onPaper = false;
  const figures = new Map(), widths = new Map(); // by container: its figure, and the width at which it was drawn

  function figure(container) {
    if (!figures.has(container)) figures.set(container, figureOf(container));
    return figures.get(container);
  }
  function draw(container) {
    const { data, layout, config } = figure(container);
    const width = onPaper ? paper.width(container) : container.clientWidth;
    if (!width) return; // hidden: drawn when it becomes visible
    const color = onPaper ? INK : getComputedStyle(container).color; // of the page, light or dark
    widths.set(container, width);
    const fitted = fit(data, layout, width);
    const sized = { ...fitted.layout, ...header(fitted, width), width, font: { ...layout.font, color } };
    if (onPaper && !sized.xaxis?.tickangle) sized.height = paper.height(sized.height); // labels aslant need the height
    if (sized.yaxis) sized.yaxis = { ...sized.yaxis, title: wrapTitle(sized.yaxis.title, sized.height - sized.margin.t - sized.margin.b) };
    const usable = width < NARROW_PX ? { ...config, displayModeBar: false } : config; // its buttons would cover the plot
    Plotly.react(container, onPaper ? fitted.data.map(withPattern) : fitted.data, sized, usable);
    resizeObserver.observe(container);
  }
  // Paper may have no colours.
  function withPattern(trace) {
    if (trace.marker?.pattern?.shape) return { ...trace, marker: { ...trace.marker, pattern: { ...trace.marker.pattern, solidity: 0.2 } } };
    return trace.fillpattern?.shape ? { ...trace, fillpattern: { ...trace.fillpattern, solidity: 0.2 } } : trace;
  }
  const resizeObserver = new ResizeObserver((entries) => {
    for (const { target } of entries) if (!onPaper && widths.get(target) !== target.clientWidth) draw(target);
  });
  function setPrinting(isPrinting) {
    onPaper = isPrinting;
    // Purged, because Plotly keeps the automatic margins of the other width.
    for (const container of figures.keys()) { Plotly.purge(container); draw(container); }
  }
  addEventListener("beforeprint", () => setPrinting(true));
  addEventListener("afterprint", () => setPrinting(false));

  // Title and subtitle wrapped to the width, and the margins and height that they and the legend need.
  function header({ data, layout }, width) {
    const { margin, height } = layout;
    const isBelow = layout.showlegend && layout.legend.orientation === "h";
    const rows = isBelow ? legendRows(data, width - margin.l - margin.r - labelsPx(layout)) : 0;
    const b = isBelow ? BOTTOM_PX + LEGEND_PX * rows : margin.b;
    const framed = { margin: { ...margin, b }, height: height + b - margin.b };
    if (!layout.title || !layout.title.text) return framed;
    const { title } = layout, inner = width - 32;
    const lines = (text, characterPx) => (text ? wrap(text.replaceAll("<br>", " "), inner / characterPx) : []);
    const titleLines = lines(title.text, TITLE_CHARACTER_PX);
    const subtitleLines = lines(title.subtitle?.text, SUBTITLE_CHARACTER_PX);
    const t = 40 + TITLE_PX * titleLines.length + SUBTITLE_PX * subtitleLines.length;
    return {
      title: { ...title, text: titleLines.join("<br>"),
        subtitle: { ...title.subtitle, text: subtitleLines.join("<br>") },
        pad: { ...title.pad, t: titleLines.length < 2 ? 16 : 16 + 12 * (titleLines.length - 1) } },
      margin: { ...framed.margin, t },
      height: framed.height + t - margin.t,
    };
  }
  function labelsPx({ yaxis }) {
    return Math.max(40, ...(yaxis.ticktext || []).map((text) => CHARACTER_PX * text.length));
  }
  function legendRows(data, width) {
    const names = data.filter((trace) => trace.name && trace.showlegend !== false).map((trace) => trace.name);
    const entryWidths = names.map((name) => SYMBOL_PX + CHARACTER_PX * name.length);
    const total = entryWidths.reduce((sum, entryWidth) => sum + entryWidth, 0);
    if (names.length < 2 || total <= width) return Number(names.length > 1);
    return Math.ceil(names.length / Math.max(Math.floor(width / Math.max(...entryWidths)), 1));
  }
  // On a narrow screen: stack two panels vertically, wrap axis titles and texts in rows, and put the legend below.
  function fit(data, layout, width) {
    if (width >= NARROW_PX) return { data, layout };
    const axes = Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name));
    const wrapped = axes.map((name) => [name, { ...layout[name], title: wrapTitle(layout[name].title, width / 2) }]);
    const narrow = { ...layout, ...Object.fromEntries(wrapped) };
    const { ticktext } = narrow.xaxis;
    if (ticktext && narrow.xaxis.tickangle === undefined) {
      narrow.xaxis.tickangle = 90; // at an oblique angle the last label would be cut off
      const isDense = ticktext.length * TWO_LINES_PX > width;
      if (isDense) narrow.xaxis.ticktext = ticktext.map((text) => text.replaceAll("<br>", " "));
    }
    const hasText = (trace) => trace.mode === "text" || trace.textposition === "outside" && trace.orientation === "h";
    const traces = data.map((trace) => (hasText(trace) ? wrapText(trace, narrow, width / 3) : trace));
    const isWrapped = traces.some((trace) => hasText(trace) && trace.text.some((text) => text.includes("<br>")));
    if (isWrapped && narrow.yaxis.ticktext) narrow.height += LINE_PX * narrow.yaxis.ticktext.length;
    if (narrow.legend) narrow.legend = { ...narrow.legend, orientation: "h", yref: "container", x: 0, y: 0, yanchor: "bottom" };
    if (!narrow.xaxis2 || narrow.yaxis2) return { data: traces, layout: narrow };
    stackPanels(narrow);
    return { data: traces.map((trace) => (trace.xaxis === "x2" ? { ...trace, yaxis: "y2" } : trace)), layout: narrow };
  }
  function stackPanels(layout) {
    const margins = layout.margin.t + layout.margin.b, plot = layout.height - margins;
    layout.height = 2 * plot + margins + AXIS_PX;
    const share = plot / (layout.height - margins);
    Object.assign(layout, {
      yaxis2: { ...layout.yaxis, domain: [0, share], anchor: "x2" },
      yaxis: { ...layout.yaxis, domain: [1 - share, 1], anchor: "x" },
      xaxis: { ...layout.xaxis, domain: [0, 1], anchor: "y" },
      xaxis2: { ...layout.xaxis2, domain: [0, 1], anchor: "y2" },
    });
  }
  function wrapTitle(title, width) {
    return title && title.text ? { ...title, text: wrap(title.text, width / CHARACTER_PX).join("<br>") } : title;
  }
  function wrap(text, characters) {
    const lines = [""];
    for (const word of text.split(" ")) {
      const longer = `${lines.at(-1)} ${word}`.trim();
      if (longer.length > characters && lines.at(-1)) lines.push(word); else lines[lines.length - 1] = longer;
    }
    return lines;
  }
  // Break the texts of a trace into two lines, and extend its axis so that they fit.
  function wrapText(trace, layout, width) {
    const texts = trace.text.map(halve), axis = layout[(trace.xaxis || "x").replace("x", "xaxis")];
    if (!axis.range) return trace;
    const [from, to] = axis.range;
    const ends = texts.map((text, index) => {
      const characters = Math.max(...text.split("<br>").map((line) => line.length));
      return from + (trace.x[index] - from) / (1 - Math.min(characters * CHARACTER_PX / width, MAX_TEXT_SHARE));
    });
    axis.range = [from, Math.max(to, ...ends)];
    return { ...trace, text: texts };
  }
  function halve(text) {
    const line = text.trim(), spaces = [...line.matchAll(/ /g)].map((match) => match.index);
    const offset = (index) => Math.abs(index - line.length / 2);
    const middle = spaces.sort((one, other) => offset(one) - offset(other))[0];
    if (line.length * CHARACTER_PX < SHORT_PX || !middle) return text;
    return `  ${line.slice(0, middle)}<br>  ${line.slice(middle + 1)}`;
  }
  return { draw };
}
