// Draws a figure as Plotly's own renderer does, at its own height, and returns the boxes of its title and of its plot.
async ([{ data, layout, config }, width]) => {
  const chart = document.body.appendChild(document.createElement("div"));
  chart.style.width = `${width}px`;
  await Plotly.newPlot(chart, structuredClone(data), { ...structuredClone(layout), width }, config);
  const { left, top } = chart.getBoundingClientRect();
  const colours = [...chart.querySelectorAll(":is(text, tspan):not(:has(tspan))")].filter(
    (text) => text.textContent.trim() && !text.closest("[class*=heatmap]")).map((text) => getComputedStyle(text).fill);
  const boxes = [...chart.querySelectorAll(".gtitle, .gtitle-subtitle")].map((text) => text.getBoundingClientRect());
  const drawn = { texts: boxes.length, left: Math.min(...boxes.map((one) => one.left - left)),
    right: Math.max(...boxes.map((one) => one.right - left)), top: Math.min(...boxes.map((one) => one.top - top)),
    bottom: Math.max(...boxes.map((one) => one.bottom - top)), colours: [...new Set(colours)], plot: chart._fullLayout._size.t };
  Plotly.purge(chart);
  chart.remove();
  return drawn;
}
