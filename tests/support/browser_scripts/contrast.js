// For each visible text within some elements: its words, its contrast, its colour and that behind it.
async (selector) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const read = (text) => {  // any CSS colour as red, green, blue and how opaque it is
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = "#000";
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => {
    const a = top[3] + below[3] * (1 - top[3]);
    const mix = (i) => (a ? (top[i] * top[3] + below[i] * below[3] * (1 - top[3])) / a : 0);
    return [mix(0), mix(1), mix(2), a];
  };
  const light = (one) => one.slice(0, 3).map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const opacity = (node) => {
    let all = 1;
    for (let one = node; one; one = one.parentElement) all *= parseFloat(getComputedStyle(one).opacity);
    return all;
  };
  const fill = (node, style) => {
    const pattern = /url\("?#([^")]+)/.exec(style.fill);
    const text = pattern ? document.getElementById(pattern[1])?.querySelector("rect")?.getAttribute("fill") : style.fill;
    return text && text !== "none" ? read(text) : [0, 0, 0, 0];
  };
  const pictures = new Map();  // the cells of a heat map are a picture
  for (const one of document.querySelectorAll("svg image")) {
    const picture = new Image();
    picture.src = one.href.baseVal;
    await picture.decode();
    pictures.set(one, picture);
  }
  const pixel = (node, x, y) => {
    const box = node.getBoundingClientRect(), picture = pictures.get(node);
    const across = Math.floor(((x - box.left) / box.width) * picture.naturalWidth);
    const down = Math.floor(((y - box.top) / box.height) * picture.naturalHeight);
    canvas.clearRect(0, 0, 1, 1);
    canvas.drawImage(picture, across, down, 1, 1, 0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, (a / 255) * opacity(node)];
  };
  const painted = (node, x, y) => {
    if (pictures.has(node)) return pixel(node, x, y);
    const style = getComputedStyle(node), isDrawn = node instanceof SVGElement && !(node instanceof SVGSVGElement);
    if (isDrawn && Math.min(node.getBBox().width, node.getBBox().height) === 0) return [0, 0, 0, 0];  // a line has no area to fill
    const colour = isDrawn ? fill(node, style) : read(style.backgroundColor);
    const part = isDrawn ? parseFloat(style.fillOpacity) : 1;
    return [...colour.slice(0, 3), colour[3] * part * opacity(node)];
  };
  const behind = (node, x, y) => {
    const all = document.elementsFromPoint(x, y), at = all.findIndex((one) => one.contains(node)), around = [];
    for (let one = node; one; one = one.parentElement) around.push(one);  // where it is out of sight
    let colour = [0, 0, 0, 0];
    for (const one of at < 0 ? around : all.slice(at)) {
      if (one.closest("text")) continue;
      colour = over(colour, painted(one, x, y));
      if (colour[3] > 0.99) return colour;
    }
    return over(colour, read(getComputedStyle(document.documentElement).colorScheme === "dark" ? "#111" : "#fff"));
  };
  const everything = document.head.appendChild(document.createElement("style"));
  everything.textContent = "* { pointer-events: auto !important; } .nsewdrag, .drag { pointer-events: none !important; }";
  const measured = [];
  for (const root of document.querySelectorAll(selector)) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const words = walker.currentNode.textContent.trim(), node = walker.currentNode.parentElement;
      if (!words || node.closest("style, script, datalist, option, .hoverlayer")) continue;
      const range = document.createRange();
      range.selectNodeContents(walker.currentNode);
      if (!range.getClientRects().length || !node.checkVisibility({ visibilityProperty: true })) continue;
      node.scrollIntoView({ block: "center", behavior: "instant" });
      const box = range.getClientRects()[0], style = getComputedStyle(node);
      const ground = behind(node, box.left + box.width / 2, box.top + box.height / 2);
      const ink = read(node instanceof SVGElement ? style.fill : style.color);
      const drawn = over([...ink.slice(0, 3), ink[3] * opacity(node)], ground);
      measured.push({ words, ratio: ratio(drawn, ground), ink: drawn.join(), ground: ground.join() });
    }
  }
  everything.remove();
  return measured;
}
