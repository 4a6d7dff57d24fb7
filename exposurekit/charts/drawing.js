// Draws figures in the width of their containers, also on a phone and on paper.
// `figureOf` returns the figure of a container; `paper` the width of a container on paper, and the height there of a figure
// with a given height. A container is narrow below `narrowPx`; `onClick` receives it and the clicked points.
function drawing(Plotly, figureOf, paper, { narrowPx = COMPACT_PX, onClick = () => {} } = {}) {
  const SCROLLBAR_PX = 20, { fit, wrapTitle } = fitting();
  const INK = "#000"; // on paper, also from a dark page
  let onPaper = false;
  const figures = new Map(), widths = new Map(); // by container: its figure, and the width at which it was drawn
  const narrow = new Set();

  function figure(container) {
    if (!figures.has(container)) figures.set(container, figureOf(container));
    return figures.get(container);
  }
  // What is narrow stays so until there is room for a scroll bar, too: with its height, a chart may make one come or go.
  function isNarrow(container, width) {
    if (onPaper) return width < narrowPx;
    if (width < narrowPx) narrow.add(container);
    else if (width > narrowPx + SCROLLBAR_PX) narrow.delete(container);
    return narrow.has(container);
  }
  // A figure that cannot be drawn says so, and never costs the others of the page.
  function draw(container) {
    resizeObserver.observe(container);
    try { drawFitted(container); } catch (error) {
      console.error(error);
      Plotly.purge(container);
      container.textContent = "This chart could not be drawn.";
    }
  }
  function drawFitted(container) {
    const { data, layout, config } = figure(container);
    const width = onPaper ? paper.width(container) : container.clientWidth;
    if (!width) return void widths.delete(container); // hidden: drawn when it becomes visible
    const color = onPaper ? INK : getComputedStyle(container).color; // of the page, light or dark
    widths.set(container, width);
    const fitted = fit({ data, layout }, width, isNarrow(container, width));
    const sized = { ...fitted.layout, width, font: { ...layout.font, color } };
    const isAslant = sized.xaxis?.tickangle || sized.xaxis?.autotickangles;
    if (onPaper && !isAslant) sized.height = paper.height(sized.height, container); // labels aslant need the height
    if (sized.yaxis) sized.yaxis = { ...sized.yaxis, title: wrapTitle(sized.yaxis.title, sized.height - sized.margin.t - sized.margin.b) };
    const usable = width < narrowPx ? { ...config, displayModeBar: false } : config; // its buttons would cover the plot
    const isNew = !container.on; // Plotly's listeners end with a purge
    if (isNew) container.replaceChildren();
    Plotly.react(container, onPaper ? fitted.data.map(withPattern) : fitted.data, sized, usable);
    if (isNew) container.on("plotly_click", ({ points }) => onClick(container, points));
  }
  // Draw the figure that a container has now.
  function redraw(container) {
    const before = figures.get(container);
    figures.delete(container);
    const isAlike = JSON.stringify(before?.layout) === JSON.stringify(figure(container).layout);
    (isAlike ? draw : drawAnew)(container);
  }
  // Without the automatic margins of another figure or width, which Plotly keeps and which may leave no room.
  function drawAnew(container) {
    const { minHeight } = container.style;
    container.style.minHeight = `${container.offsetHeight}px`; // else the page would move meanwhile
    Plotly.purge(container);
    draw(container);
    container.style.minHeight = minHeight;
  }
  function remove(container) {
    resizeObserver.unobserve(container);
    for (const known of [figures, widths, narrow]) known.delete(container);
    Plotly.purge(container);
  }
  // Paper may have no colours.
  function withPattern(trace) {
    if (trace.marker?.pattern?.shape) return { ...trace, marker: { ...trace.marker, pattern: { ...trace.marker.pattern, solidity: 0.2 } } };
    return trace.fillpattern?.shape ? { ...trace, fillpattern: { ...trace.fillpattern, solidity: 0.2 } } : trace;
  }
  const resizeObserver = new ResizeObserver((entries) => {
    for (const { target } of entries) if (!onPaper && target.clientWidth && widths.get(target) !== target.clientWidth) draw(target);
  });
  function setPrinting(isPrinting) {
    onPaper = isPrinting;
    for (const container of figures.keys()) drawAnew(container);
  }
  addEventListener("beforeprint", () => setPrinting(true));
  addEventListener("afterprint", () => setPrinting(false));
  return { draw, redraw, remove };
}
