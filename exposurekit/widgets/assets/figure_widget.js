const NARROW_PX = 360;
async function loaded(model) {
  const library = await model.widget_manager.get_model(model.get("_library").replace("IPY_MODEL_", ""));
  const url = URL.createObjectURL(new Blob([library.get("code")], { type: "text/javascript" }));
  try {
    const models = new Map(), { default: drawing } = await import(url);  // models by the element of a view
    const paper = { width: (el) => el.clientWidth, height: (height) => height };
    const onClick = (el, points) => {
      const { pointNumber, x } = points.reduce((one, other) => other.curveNumber < one.curveNumber ? other : one);
      models.get(el)?.send({ row: pointNumber, x });
    };
    const drawn = drawing((el) => structuredClone(models.get(el).get("figure")), paper, { narrowPx: NARROW_PX, onClick });
    return { models, ...drawn };
  } finally { URL.revokeObjectURL(url); }
}
function library(model) {
  const once = (globalThis.exposurekitDrawing ??= {}), version = model.get("_version");
  once[version] ??= loaded(model).catch((error) => { delete once[version]; throw error; });
  return once[version];
}
function render({ model, el }) {
  let end = () => { end = null; };
  el.classList.add("exposurekit-loading");
  library(model).then(({ models, draw, redraw, remove }) => {
    if (!end) return;
    const change = () => redraw(el);
    models.set(el, model);
    el.classList.remove("exposurekit-loading");
    model.on("change:figure", change);
    end = () => { model.off("change:figure", change); remove(el); models.delete(el); };
    draw(el);
  }, (error) => {
    console.error(error);
    el.classList.remove("exposurekit-loading");
    el.textContent = "Plotly could not be loaded: run the cell again.";
  });
  return () => end?.();
}
export default { render };
