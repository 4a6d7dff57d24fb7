// For each chart: its size, the types of its traces, and its labels that overlap, are repeated or are cut off.
(slack) => {
  const isVisible = (one) => one.getClientRects().length && one.textContent.trim()
    && getComputedStyle(one).visibility !== "hidden" && getComputedStyle(one).opacity !== "0";
  // The corners of a text as drawn, turned or not: two that stand aslant side by side do not overlap.
  function corners(text) {
    const { x, y, width, height } = text.getBBox(), to = text.getScreenCTM();
    return [[x, y], [x + width, y], [x + width, y + height], [x, y + height]].map(
      ([left, top]) => new DOMPoint(left, top).matrixTransform(to));
  }
  function apart(one, other) {
    for (const shape of [one, other]) for (let at = 0; at < 2; at += 1) {
      const along = { x: shape[at + 1].x - shape[at].x, y: shape[at + 1].y - shape[at].y };
      const length = Math.hypot(along.x, along.y) || 1;
      const on = (points) => points.map((point) => (point.x * along.x + point.y * along.y) / length);
      const [first, second] = [on(one), on(other)];
      if (Math.max(...first) <= Math.min(...second) + slack || Math.max(...second) <= Math.min(...first) + slack) return true;
    }
    return false;
  }
  function measured(chart) {
    const frame = chart.querySelector(".svg-container").getBoundingClientRect();
    const zoom = chart.currentCSSZoom ?? 1;  // on paper, charts are smaller
    const texts = [...chart.querySelectorAll("svg.main-svg text")].filter(isVisible).map((text) => ({
      words: text.textContent, corners: corners(text), box: text.getBoundingClientRect() }));
    const overlapping = [];
    texts.forEach((one, at) => texts.slice(at + 1).forEach((other) => {
      if (!apart(one.corners, other.corners)) overlapping.push(`${one.words} / ${other.words}`);
    }));
    // The labels that an axis has twice. One of time may have each noon.
    const isDate = (axis) => chart._fullLayout[axis.replace(/^(.)(\d*)tick$/, "$1axis$2")].type === "date";
    const axes = new Set([...chart.querySelectorAll("svg.main-svg g[class$=tick]")].map((tick) => tick.classList[0]));
    const repeated = [...axes].filter((axis) => !isDate(axis)).flatMap((axis) => {
      const labels = [...chart.querySelectorAll(`svg.main-svg g.${axis}`)].filter(isVisible).map((tick) => tick.textContent);
      return labels.filter((label, at) => labels.indexOf(label) < at).map((label) => `${axis} ${label}`);
    });
    const outside = ({ box }) => box.left < frame.left - 1 || box.right > frame.right + 1
      || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
    return {
      title: (chart.layout.title?.text ?? chart.id).replaceAll("<br>", " ").replace(/<.?span[^>]*>/g, ""),
      height: frame.height / zoom, described_height: chart.layout.height ?? chart._fullLayout.height,
      width: Math.max(...[chart.querySelector(".svg-container"), ...chart.querySelectorAll("svg.main-svg")].map(
        (one) => one.getBoundingClientRect().width / zoom)),
      room: Math.min(chart.clientWidth, chart.parentElement.clientWidth / zoom), visible_height: chart.getBoundingClientRect().height / zoom,
      types: chart.data.map((trace) => trace.type ?? "scatter"),
      drawn_types: chart.data.map((_, at) => chart._fullData.find((trace) => trace.index === at)?.type),
      overlapping, repeated, outside: texts.filter(outside).map((text) => text.words),
    };
  }
  return [...document.querySelectorAll(".js-plotly-plot")].filter((one) => one._fullLayout).map(measured);
}
