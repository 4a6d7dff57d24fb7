// Draws figures in the width of their containers, also on a phone and on paper.
// `paper` returns the width of a container on paper, and the height there of a figure with a given height.
function drawing(Plotly, figureOf, paper) {
  const NARROW_PX = 520, { fit, wrapTitle } = fitting(NARROW_PX);
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
    const fitted = fit({ data, layout }, width);
    const sized = { ...fitted.layout, width, font: { ...layout.font, color } };
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
  return { draw };
}
