// One figure: chart, legend, tools and keys. The content comes from charts.js and rows.js.

// Width of a printed figure, CSS pixels: A4 and Letter less their margins.
const PAPER = 680;

function mount(echarts, figure, spec) {
  const make = (tag, props) => Object.assign(document.createElement(tag), props);
  const caption = figure.querySelector("figcaption");
  const plot = make("div", { className: "plot" });
  const tools = make("div", { className: "tools" });
  const old = figure.querySelector("pre");
  if (old) old.remove();
  if (spec.small) figure.classList.add("small");
  if (spec.rows) plot.style.height = `${6 + (spec.row ?? 1.6) * spec.rows}rem`;
  figure.setAttribute("role", "group");
  figure.prepend(tools, plot);
  caption.setAttribute("aria-live", "polite");
  caption.textContent = spec.caption;
  const legend = make("div", { className: "legend" });
  const selected = Object.fromEntries((spec.hidden ?? []).map((name) => [name, false]));
  let sheet = null;
  let chart = null, logCounts = false, light = !dark(), at = -1;
  let zoom = spec.zoom ?? [0, 100];

  function option() {
    const c = palette(light);
    const narrow = (sheet ?? figure.clientWidth) < 520;
    const axis = { axisLabel: { color: c.quiet, hideOverlap: true }, axisLine: { lineStyle: { color: c.quiet } }, splitLine: { lineStyle: { color: c.line, opacity: 0.6 } }, nameTextStyle: { color: c.quiet } };
    const series = spec.series(c, logCounts);
    const y = spec.counts ? { ...spec.y, type: logCounts ? "log" : "value", ...(logCounts ? { min: 0.5 } : { min: 0 }) } : spec.y;
    const yLabel = y.type === "category"
      ? { color: c.quiet, width: narrow ? 120 : 200, overflow: "truncate" }
      : { ...axis.axisLabel, showMinLabel: y.type === "value", showMaxLabel: y.type === "value", formatter: (v) => digits(v) };
    const { on, off } = spec.x;
    return {
      animation: false, backgroundColor: "transparent", textStyle: { color: c.text, fontFamily: FONT },
      aria: { enabled: true, label: { description: `${figure.getAttribute("aria-label")}. ${spec.caption} The numbers are in the tables below.` } },
      // The names are buttons above the plot, usable by keyboard; this legend holds the selection.
      legend: { show: false, data: names(series), selected },
      grid: { left: 8, right: narrow ? 16 : 28, top: 44, bottom: 52, containLabel: true },
      tooltip: {
        trigger: "item", confine: true, backgroundColor: c.ground, borderColor: c.line, textStyle: { color: c.text },
        formatter: (p) => safe(nearest(p)?.text ?? p.seriesName),
      },
      dataZoom: [
        // Dragging a finger over the plot scrolls the page; the slider moves the view.
        { type: "inside", xAxisIndex: 0, filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, moveOnMouseMove: false, preventDefaultMouseMove: false, start: zoom[0], end: zoom[1] },
        { type: "slider", xAxisIndex: 0, filterMode: "none", height: 16, bottom: 6, start: zoom[0], end: zoom[1], showDetail: false,
          borderColor: c.line, fillerColor: c.shade[1], handleSize: "110%", textStyle: { color: c.quiet }, brushSelect: false, showDataShadow: false },
      ],
      visualMap: spec.heat && {
        type: "continuous", min: spec.heat.min, max: spec.heat.max, dimension: 2, calculable: false, orient: "horizontal", right: 0, top: 0, itemWidth: 12, itemHeight: 120,
        text: [spec.heat.formatter(spec.heat.max), spec.heat.formatter(spec.heat.min)], textStyle: { color: c.quiet }, inRange: { color: spec.heat.color },
      },
      xAxis: spec.x.data ? { ...axis, type: "category", data: spec.x.data, name: spec.x.name, nameLocation: "middle", nameGap: 24, axisLabel: { ...axis.axisLabel, formatter: (v) => v.replace("iB", "") } } : {
        ...axis, type: "value", minInterval: spec.x.whole ? 1 : 0, min: on(spec.x.min), max: on(spec.x.max), name: spec.x.name, nameLocation: "middle", nameGap: 24, splitNumber: narrow ? 5 : 10,
        axisLabel: { ...axis.axisLabel, showMinLabel: Number.isInteger(on(spec.x.min)), showMaxLabel: Number.isInteger(on(spec.x.max)), formatter: (v) => spec.xLabel(off(v)).replace("iB", "") },
      },
      // A long name in the middle would begin beyond the edge.
      yAxis: { ...axis, ...y, axisLabel: yLabel, nameTextStyle: { ...axis.nameTextStyle, align: "left", padding: [0, 0, 0, -24] } },
      series,
    };
  }

  // Returns the item of a hovered element, by its coordinates.
  function nearest(p) {
    const v = Array.isArray(p.value) ? p.value : [];
    if (spec.rows) return spec.items[v[0]];
    if (p.seriesType === "custom" || spec.heat) return spec.items[p.dataIndex];
    const own = spec.items.filter((i) => spec.x.on(i.p.x) === v[0] && i.p.y === v[1]);
    // Curves may overlap.
    return own.find((i) => i.of === p.seriesName) ?? own[0] ?? { text: `${p.seriesName}: ${spec.xLabel(Number(spec.x.off(v[0]).toPrecision(12)))}, ${digits(v[1])} ${spec.y.name ?? ""}` };
  }

  // Paints the figure; for print in the paper's width and in light colours.
  function paint(forPrint) {
    light = forPrint === true || !dark();
    sheet = forPrint === true ? PAPER : null;
    chart.resize({ width: sheet ?? "auto" });
    chart.setOption(option(), { notMerge: true });
    const series = spec.series(palette(light), logCounts);
    legend.querySelectorAll("button").forEach((b, i) => {
      b.firstChild.style.background = series.find((s) => s.name === names(series)[i])?.color ?? "";
    });
  }
  function names(series) {
    return [...new Set(series.map((s) => s.name))];
  }
  function setZoom(from, to) {
    const width = Math.min(Math.max(to - from, spec.finest ?? 2), 100);
    from = Math.min(Math.max(from, 0), 100 - width);
    chart.dispatchAction({ type: "dataZoom", start: from, end: from + width });
  }
  function scale(factor) {
    const middle = (zoom[0] + zoom[1]) / 2, half = ((zoom[1] - zoom[0]) / 2) * factor;
    setZoom(middle - half, middle + half);
  }
  function show(step) {
    at = Math.min(Math.max(at + step, 0), spec.items.length - 1);
    const item = spec.items[at];
    caption.textContent = item.text;
    const [low, high] = [spec.x.on(spec.x.min), spec.x.on(spec.x.max)];
    const percent = (100 * (spec.x.on(item.p.x) - low)) / (high - low);
    if (percent < zoom[0] || percent > zoom[1]) {
      const half = (zoom[1] - zoom[0]) / 2;
      setZoom(percent - half, percent + half);
    }
    const place = chart.convertToPixel({ xAxisIndex: 0, yAxisIndex: 0 }, [spec.x.on(item.p.x), item.p.y]);
    if (place?.every(Number.isFinite)) chart.dispatchAction({ type: "showTip", x: place[0], y: place[1] });
  }
  const KEYS = {
    ArrowRight: () => show(1), ArrowLeft: () => show(-1), Home: () => { at = 0; show(0); }, End: () => { at = spec.items.length - 1; show(0); },
    "+": () => scale(0.5), "=": () => scale(0.5), "-": () => scale(2), 0: () => setZoom(0, 100),
    Escape: () => { caption.textContent = spec.caption; chart.dispatchAction({ type: "hideTip" }); },
  };
  figure.addEventListener("keydown", (e) => {
    if (e.target !== figure || e.ctrlKey || e.metaKey || e.altKey || !KEYS[e.key]) return;
    e.preventDefault();
    KEYS[e.key]();
  });
  tools.append(legend);
  const all = names(spec.series(palette(light), false));
  for (const name of all.length > 1 ? all : []) {
    const b = make("button", { type: "button" });
    b.append(make("i", {}), name);
    b.setAttribute("aria-pressed", selected[name] !== false);
    b.addEventListener("click", () => {
      selected[name] = selected[name] === false;
      b.setAttribute("aria-pressed", selected[name]);
      chart.dispatchAction({ type: selected[name] ? "legendSelect" : "legendUnSelect", name });
    });
    legend.append(b);
  }
  const press = (text, label, act) => {
    const b = make("button", { type: "button", textContent: text, title: label });
    b.setAttribute("aria-label", label);
    b.addEventListener("click", () => act(b));
    tools.append(b);
  };
  if (spec.counts) {
    press("log counts", "Logarithmic counts, which show the tails", (b) => {
      logCounts = !logCounts;
      b.setAttribute("aria-pressed", logCounts);
      paint();
    });
  }
  press("+", "Zoom in (key +)", () => scale(0.5));
  press("\u2212", "Zoom out (key -)", () => scale(2));
  press("all", "Show all (key 0)", () => setZoom(0, 100));
  figure.setAttribute("aria-description", "Arrow keys read the points, plus and minus zoom, 0 shows all.");
  chart = echarts.init(plot, null, { renderer: "svg" });
  chart.on("datazoom", () => {
    const z = chart.getOption().dataZoom[0];
    zoom = [z.start, z.end];
  });
  chart.on("click", (p) => {
    const range = nearest(p)?.range;
    if (range) setZoom(...range);
  });
  paint();
  figure.dataset.items = spec.items.length;
  return { paint, resize: (repaint) => { chart.resize(); if (repaint) paint(); } };
}
