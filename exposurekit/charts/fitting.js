// Fits a figure to a width. Labels that leave too little of it take two lines, and below `COMPACT_PX` texts do, in the same
// height. In a narrow place the figure also takes more height: two panels stand below each other. Nothing here changes its arguments.
const COMPACT_PX = 520;
function fitting() {
  const CHARACTER_PX = 7, AXIS_PX = 88, SHORT_PX = 110, MAX_TEXT_SHARE = 0.6, LINE_PX = 8, TWO_LINES_PX = 48;
  const TITLE_CHARACTER_PX = 9.2, TITLE_PX = 21, SUBTITLE_CHARACTER_PX = 6.6, SUBTITLE_PX = 16;
  const SYMBOL_PX = 46, LEGEND_PX = 20, BOTTOM_PX = 48;
  const LABEL_SHARE = 0.4, UPRIGHT_PX = 48, WIDE_LABEL_SHARE = 0.3, ONE_PANEL_SHARE = 0.36, PLOT_LEAST = 0.65, LABEL_CHARACTER_PX = 6.5, LABEL_GAP_PX = 14, LABEL_FONT_PX = 11, RIGHT_PX = 28, TWO_LINES_HIGH_PX = 30, LABEL_LINE_PX = 14, DATE_PX = 64, NUMBER_PX = 48;

  // The figure for a width, with the height that it needs there. One without a title has that only in a narrow place.
  function fit(figure, width, isNarrow) {
    const compact = compacted(figure, width, isNarrow);
    const { data, layout } = isNarrow ? narrowed(compact) : compact;
    if (!isNarrow && !layout.title?.text) return { data, layout };
    const entries = legendEntries(data, layout, width);
    return withLegend(data, { ...layout, ...header(layout, width, entries.rows) }, entries, width);
  }
  // Title and subtitle wrapped to the width, and the margins and height that they and the legend need.
  function header(layout, width, rows) {
    const { margin, height } = layout;
    const b = rows ? BOTTOM_PX + LEGEND_PX * rows : margin.b;
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
        pad: { ...title.pad, t: titleLines.length < 2 ? 16 : 28 } },
      margin: { ...framed.margin, t },
      height: framed.height + t - margin.t,
    };
  }
  // An escaped one is one, and the marks around words from right to left belong to the first and the last.
  const characters = (line) => line.match(/\u2068?(?:&[^;\s]+;|.)\u2069?/gu) ?? [];
  // Lines of one text: where one ends within such words, these marks enclose its part of them.
  function isolated(lines) {
    let isOpen = false;
    return lines.map((line) => {
      const text = isOpen ? `\u2068${line}` : line;
      isOpen = text.lastIndexOf("\u2068") > text.lastIndexOf("\u2069");
      return isOpen ? `${text}\u2069` : text;
    });
  }
  const longest = (texts) => Math.max(0, ...texts.flatMap((text) => String(text).split("<br>")).map((line) => characters(line).length));
  const rowAxes = (layout) => Object.keys(layout).filter((name) => /^yaxis/.test(name) && layout[name]?.ticktext);
  const labelsPx = (layout) => Math.max(40, CHARACTER_PX * longest(rowAxes(layout).flatMap((name) => layout[name].ticktext)));
  const hasEntry = (trace) => trace.name && trace.showlegend !== false;
  // Where each entry of a legend below the plot begins, in rows as wide as the figure; none if one row is as wide as the plot.
  function legendEntries(data, layout, width) {
    const traces = data.filter(hasEntry), px = ({ name }) => SYMBOL_PX + CHARACTER_PX * characters(name).length;
    if (!layout.showlegend || layout.legend?.orientation !== "h" || traces.length < 2) return { rows: 0, places: [] };
    const { margin } = layout, total = traces.reduce((sum, trace) => sum + px(trace), 0);
    if (total <= width - margin.l - margin.r - labelsPx(layout)) return { rows: 1, places: [] };
    let left = 0, row = 0;
    const places = traces.map((trace) => {
      if (left && left + px(trace) > width) { left = 0; row += 1; }
      left += px(trace);
      return { trace, row, x: left - px(trace) };
    });
    return { rows: row + 1, places };
  }
  // Plotly gives a legend no more width than the plot, and all its entries that of the longest: so each is its own legend.
  function withLegend(data, layout, { rows, places }, width) {
    const name = (at) => `legend${at ? at + 1 : ""}`, names = new Map(places.map(({ trace }, at) => [trace, name(at)]));
    const legends = places.map(({ row, x }, at) => [name(at), { ...layout.legend, xref: "container", x: x / width, y: LEGEND_PX * (rows - 1 - row) / layout.height }]);
    const placed = data.map((trace) => (names.has(trace) ? { ...trace, legend: names.get(trace) } : trace));
    return { data: placed, layout: { ...layout, ...Object.fromEntries(legends) } };
  }
  // Labels of rows and titles in two lines, and an axis on which the texts have room; below `COMPACT_PX` texts in two lines.
  function compacted({ data, layout }, width, isNarrow) {
    const axes = Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name));
    const isCompact = width < COMPACT_PX;
    const share = (axis) => (isNarrow || !axis?.domain ? 1 : axis.domain[1] - axis.domain[0]); // of one panel of two
    const titlePx = (name) => (isCompact ? width / 2 : name.startsWith("x") ? PLOT_LEAST * width * share(layout[name]) : width);
    const wrapped = axes.map((name) => [name, { ...withTexts(layout[name]), title: wrapTitle(layout[name].title, titlePx(name)) }]);
    const compact = { ...layout, ...Object.fromEntries(wrapped) };
    const ticktext = compact.xaxis?.ticktext;
    if (isCompact && ticktext && compact.xaxis.tickangle === undefined && (isNarrow || !compact.xaxis.autotickangles)) {
      compact.xaxis.tickangle = 90; // at an oblique angle the last label would be cut off
      const isDense = ticktext.length * TWO_LINES_PX > width;
      if (isDense) compact.xaxis.ticktext = ticktext.map((text) => text.replaceAll("<br>", " "));
    }
    const hasRows = rowAxes(compact).length > 0, plot = hasRows ? labelRows(compact, width, isNarrow, isCompact ? LABEL_SHARE : compact.xaxis2 ? WIDE_LABEL_SHARE : ONE_PANEL_SHARE) : width / 3;
    for (const name of axes) if (isCompact && name.startsWith("x")) compact[name] = withFewTicks(compact[name], (hasRows ? plot : width - LABEL_GAP_PX) * share(compact[name]));
    const fitted = (trace) => wrapText(trace, compact, Math.max(plot, width / 3) * share(axisOf(trace, compact)), isCompact);
    return { data: data.map((trace) => (hasText(trace) ? fitted(trace) : trace)), layout: compact };
  }
  const withTexts = (axis) => (Array.isArray(axis.ticktext) ? { ...axis, ticktext: axis.ticktext.map(String) } : axis); // not numbers
  // At most as many ticks as fit side by side, where the axis has none of its own.
  function withFewTicks(axis, px) {
    if (axis.tickvals || axis.dtick) return axis;
    const isDate = axis.type === "date";
    return { ...axis, nticks: Math.max(Math.floor(px / (isDate ? DATE_PX : NUMBER_PX)), 2), ...(isDate ? { tickangle: 0 } : {}) };
  }
  const axisOf = (trace, layout) => layout[(trace.xaxis || "x").replace("x", "xaxis")];
  const isNumber = (one) => typeof one === "number";
  const isText = (one) => typeof one === "string";
  const hasText = (trace) => Array.isArray(trace.text) && trace.text.every(isText) && (trace.mode === "text" || trace.textposition === "outside" && trace.orientation === "h");
  // Two panels below each other, rows as high as their texts, room for upright names of columns, and the legend below.
  function narrowed({ data, layout }) {
    const narrow = { ...layout };
    const isWrapped = data.some((trace) => hasText(trace) && trace.text.some((text) => text.includes("<br>")));
    if (isWrapped && narrow.yaxis?.ticktext) narrow.height += LINE_PX * narrow.yaxis.ticktext.length;
    const { ticktext, tickangle, autotickangles } = narrow.xaxis ?? {};
    if (ticktext && tickangle === 90 && autotickangles) narrow.height += Math.max(LABEL_CHARACTER_PX * longest(ticktext) - UPRIGHT_PX, 0);
    if (narrow.legend) narrow.legend = { ...narrow.legend, orientation: "h", yref: "container", x: 0, y: 0, yanchor: "bottom" };
    if (!narrow.xaxis2 || narrow.yaxis2) return { data, layout: narrow };
    stackPanels(narrow);
    return { data: data.map((trace) => (trace.xaxis === "x2" ? { ...trace, yaxis: "y2" } : trace)), layout: narrow };
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
  // Labels of rows in two lines where one takes more than a share of the width; in a narrow place in three, and the rows as
  // high as they need. Returns the width of the plot.
  function labelRows(layout, width, isNarrow, share) {
    const room = Math.max(Math.floor((share * width - LABEL_GAP_PX) / LABEL_CHARACTER_PX), 6);
    const axes = rowAxes(layout);
    const hasCounts = layout.annotations?.some(({ xref }) => xref === "paper"); // at the right, in the margin
    const r = hasCounts ? layout.margin.r : Math.min(layout.margin.r, RIGHT_PX);
    const whole = axes.flatMap((name) => layout[name].ticktext);
    layout.margin = { ...layout.margin, r };
    if (longest(whole) <= room) return width - LABEL_GAP_PX - CHARACTER_PX * longest(whole) - r;
    for (const name of axes) {
      const { ticktext: labels, domain: [from, to] = [0, 1] } = layout[name];
      const rowPx = (layout.height - layout.margin.t - layout.margin.b) * (to - from) / labels.length;
      const most = isNarrow ? 3 : rowPx < TWO_LINES_HIGH_PX ? 1 : 2;
      const ticktext = labels.map((text) => inLines(text, room, most));
      const lines = Math.max(...ticktext.map((text) => text.split("<br>").length));
      if (isNarrow && lines > 1) layout.height += Math.max(LABEL_LINE_PX * lines + 2 - rowPx, 0) * labels.length / (to - from);
      layout[name] = { ...layout[name], ticktext, automargin: false, tickfont: { ...layout[name].tickfont, size: LABEL_FONT_PX } };
    }
    const labels = axes.flatMap((name) => layout[name].ticktext), standoff = Math.max(...axes.map((name) => layout[name].ticklabelstandoff ?? 0));
    layout.margin.l = Math.min(Math.ceil(LABEL_CHARACTER_PX * longest(labels)) + LABEL_GAP_PX, Math.ceil(share * width)) + standoff;
    return width - layout.margin.l - r;
  }
  // A label in at most so many lines; a line that is too long loses its end, but not what is in brackets, such as (n = 12).
  // Where even the brackets do not fit, they lose the unit.
  function inLines(whole, room, most) {
    if (longest([whole]) <= room) return whole;
    if (most < 2) return cut(whole, room);
    const unit = whole.match(/\(n = [\d,]+( [\w ]+)\)$/), isBrief = unit && unit[0].length > room;
    const text = isBrief ? whole.replace(unit[0], unit[0].replace(unit[1], "")) : whole;
    const [first, ...rest] = text.trim().split(/ (?![^(]*\))/), lines = [first]; // not within brackets
    const fits = (line) => characters(line).length <= room;
    const isApart = rest.at(-1)?.startsWith("(") && fits(rest.at(-1)); // what is in brackets has its line
    for (const word of rest) {
      const isNext = isApart && word === rest.at(-1) || lines.length < most - isApart && !fits(`${lines.at(-1)} ${word}`);
      if (isNext) lines.push(word);
      else lines[lines.length - 1] += ` ${word}`;
    }
    const tail = lines.at(-1).match(/ ?\([^)]*\)$/)?.[0] ?? "";
    return isolated(lines).map((line) => cut(line, room, line.endsWith(tail) ? tail : "")).join("<br>");
  }
  function cut(line, room, end = "") {
    const words = characters(line.slice(0, line.length - end.length)), left = Math.max(room - characters(end).length, 4);
    return words.length > left ? `${isolated([words.slice(0, left - 1).join("").trimEnd()])}…${end}` : line;
  }
  function wrapTitle(title, width) {
    return title && title.text ? { ...title, text: wrap(title.text, width / CHARACTER_PX).join("<br>") } : title;
  }
  function wrap(text, room) {
    const lines = [""];
    for (const word of text.split(" ")) {
      const longer = `${lines.at(-1)} ${word}`.trim();
      if (characters(longer).length > room && lines.at(-1)) lines.push(word); else lines[lines.length - 1] = longer;
    }
    return isolated(lines);
  }
  // Extend the axis of a trace so that its texts, in two lines if wished, fit into a plot of this width. A log axis, or one of
  // dates, categories or descending numbers, stays as it is.
  function wrapText(trace, layout, width, isHalved) {
    const axis = axisOf(trace, layout), [from, to] = axis?.range ?? [];
    const isLinear = [undefined, "-", "linear"].includes(axis?.type) && isNumber(from) && isNumber(to) && from < to;
    if (!isLinear || !Array.isArray(trace.x) || !trace.x.every(isNumber)) return trace;
    const texts = isHalved ? trace.text.map(halve) : trace.text;
    const ends = texts.map((text, index) => {
      const share = longest([text]) * CHARACTER_PX / width;
      return from + (trace.x[index] - from) / (1 - Math.min(share, MAX_TEXT_SHARE));
    });
    axis.range = [from, Math.max(to, ...ends)];
    return { ...trace, text: texts };
  }
  function halve(text) {
    const line = text.trim(), spaces = [...line.matchAll(/ /g)].map((match) => match.index);
    const offset = (index) => Math.abs(index - line.length / 2);
    const middle = spaces.sort((one, other) => offset(one) - offset(other))[0];
    if (line.length * CHARACTER_PX < SHORT_PX || !middle) return text;
    return isolated([`  ${line.slice(0, middle)}`, `  ${line.slice(middle + 1)}`]).join("<br>");
  }
  return { fit, wrapTitle };
}
