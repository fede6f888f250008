// Draws the charts that views declare, from the findings in the page. It knows kinds of charts, but no metric.

// A logarithmic x axis is a linear axis of octaves, because zooming needs a linear axis. `on` and `off` convert to the
// axis and back.
const OCTAVES = (min, max, name) => ({ on: Math.log2, off: (v) => 2 ** v, min, max, name });
const LINEAR = (min, max, name) => ({ on: (v) => v, off: (v) => v, min, max, name });
const logarithmic = (min, max, name) => ({ type: "log", logBase: Math.log2(max / min) >= 10 ? 4 : 2, min, max, name });

// ln of the ratio of adjacent histogram bars, and the largest number of bins in a figure.
const BAR_LN_RATIO = Math.log(1.01);
const MAX_BINS = 160;
const SYMBOLS = ["circle", "rect", "triangle", "diamond"];


// ---- data of a chart ----

function isOf(series, row) {
  return row.metric === series.metric && series.at.every(([axis, v]) => String(row.at[axis]) === v) && (!series.whose || row.detail[series.whose[0]] === series.whose[1]);
}
// Returns the findings of a series that have a number.
function chosen(report, series) {
  return report.findings.findings.filter((f) => isOf(series, f) && typeof f.value === "number");
}
// Returns a name with its placeholders replaced by coordinates and fields of detail.
function filled(text, row) {
  return text.replace(/\{(detail\.)?(\w+)\}/g, (_, detail, key) => (detail ? row.detail[key] : key === "size" ? size(row.at[key]) : row.at[key]) ?? "");
}
// Returns the rank of a coordinate on its axis: words in the order of their list.
function rank(page, axis, v) {
  const words = page.axes[axis];
  if (!words) return v;
  const at = words.indexOf(String(v));
  return at < 0 ? words.length : at;
}
// Groups rows by their coordinate along an axis, in its order.
function grouped(page, list, axis) {
  const by = new Map();
  for (const row of list) by.set(row.at[axis], [...(by.get(row.at[axis]) ?? []), row]);
  return [...by].sort((a, b) => rank(page, axis, a[0]) - rank(page, axis, b[0])).map(([, rows]) => rows);
}
function pointOf(f, x) {
  return { x, y: f.value, low: f.low, high: f.high, n: f.count };
}
// Returns the curves of a series: name, points in the order of x, and the series.
function curvesOf(page, report, chart, series) {
  const list = chosen(report, series);
  return (series.by ? grouped(page, list, series.by) : [list])
    .map((rows) => ({
      series, name: rows.length ? filled(series.name, rows[0]) : "",
      list: rows.map((f) => pointOf(f, f.at[series.along ?? chart.x.of] * series.times)).filter((p) => Number.isFinite(p.x) && (!chart.y.log || p.y > 0)).sort((a, b) => a.x - b.x),
    }))
    .filter((s) => s.list.length);
}
function writes(scale) {
  return scale.written === "size" ? size : digits;
}
function describe(p, unit) {
  return `${digits(p.y)} ${unit}${span(p.low, p.high)}, n ${p.n}`;
}
function hiddenOf(names, shown) {
  if (!shown.length) return [];
  const first = names.some((name) => shown.includes(name)) ? shown : names.slice(0, 3);
  return names.filter((name) => !first.includes(name));
}

// ---- parts of a chart ----

function marks(name, on, c, colour, list, label) {
  return {
    name, type: "line", data: [], color: colour, silent: true,
    markLine: {
      symbol: "none", animation: false, silent: true,
      lineStyle: { color: colour, type: "dashed", width: 1.5 },
      data: list.map((m, i) => ({
        // Labels next to each other would overlap, so every other one is higher.
        xAxis: on(m.x), label: { formatter: label(m), color: c.text, fontSize: 11, position: "end", distance: [0, i % 2 ? 14 : 2] },
      })),
    },
  };
}

// Whiskers of the 95 % intervals: a custom series, because there is no built-in one.
function whiskers(name, on, data, colour, fits) {
  return {
    name, type: "custom", clip: true, color: colour, silent: true, z: 1, encode: { x: 0, y: [1, 2] },
    data: data.filter(fits).map((p) => [on(p.x), p.low, p.high]),
    renderItem: (_, api) => {
      const [x, a] = api.coord([api.value(0), api.value(1)]);
      const b = api.coord([api.value(0), api.value(2)])[1];
      const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style: { stroke: colour, lineWidth: 1.2 } });
      return { type: "group", children: [line(x, a, x, b), line(x - 4, a, x + 4, a), line(x - 4, b, x + 4, b)] };
    },
  };
}

function curve(name, on, data, colour, more = {}) {
  return {
    name, type: "line", color: colour, data: data.map((p) => [on(p.x), p.y]), symbol: "circle", symbolSize: 5,
    lineStyle: { width: 2 }, emphasis: { focus: "series" }, ...more,
  };
}

// Heights at one place: a dash each, with its names next to it. Names are on the left if there is space; overlapping
// ones are moved up.
function heights(name, c, x, groups) {
  return {
    name, type: "custom", clip: true, color: c.series[3], silent: true, z: 5,
    encode: { x: 0, y: groups.map((_, i) => i + 1) }, data: [[x, ...groups.map((g) => g.y)]],
    renderItem: (params, api) => {
      let free = Infinity;
      const all = groups.map((g) => `${g.names.join(", ")} ${digits(g.y)}`);
      const begin = api.coord([x - 0.4, 0])[0];
      const left = begin - 24 - 6 * Math.max(...all.map((t) => t.length)) > params.coordSys.x;
      const children = groups.flatMap((g, i) => {
        const [x1, y] = api.coord([x - 0.4, api.value(i + 1)]);
        const x2 = api.coord([x + 0.4, api.value(i + 1)])[0];
        const at = (free = Math.min(y, free) - 14) + 14;
        const fits = left || g.names.length < 2 || x2 + 20 + 6 * all[i].length < api.getWidth();
        const text = fits ? all[i] : `${g.names[0]} and ${g.names.length - 1} more ${digits(g.y)}`;
        const [near, far] = left ? [x1, x1 - 14] : [x2, x2 + 14];
        return [
          { type: "line", shape: { x1, y1: y, x2, y2: y }, style: { stroke: c.series[3], lineWidth: 2.5 } },
          { type: "line", shape: { x1: near, y1: y, x2: far, y2: at }, style: { stroke: c.series[3], lineWidth: 1 } },
          { type: "text", x: far + (left ? -3 : 3), y: at, style: { text, fill: c.text, font: `11px ${FONT}`, align: left ? "right" : "left", verticalAlign: "middle", backgroundColor: c.ground, padding: [0, 2] } },
        ];
      });
      return { type: "group", children };
    },
  };
}

// Ranges of x in the background of the curves; prominent ones are labelled separately.
function areas(chart, on, min, max, c) {
  const named = chart.bands_name !== "";
  const short = (b, from, to) => (on(to) - on(from) < (on(max) - on(min)) / 9 ? b.label.split(" ").at(-1) : b.label);
  let weak = 0;
  return {
    silent: true, animation: false, label: { color: named ? c.text : c.quiet, fontSize: 11, position: "insideTop" },
    data: chart.bands.map((b, i) => {
      const [from, to] = [b.from ?? min, b.to ?? max];
      const style = !b.strong ? { color: c.shade[weak++ % 2] }
        : named ? { color: c.series[3], opacity: 0.3, borderColor: c.series[3], borderWidth: 1 } : { color: c.series[0], opacity: 0.35 };
      // Several ranges may overlap: their names are stacked.
      return [
        { xAxis: on(from), name: named ? b.label : short(b, from, to), ...(named ? { label: { distance: 4 + 14 * (i % 4) } } : {}), itemStyle: style },
        { xAxis: on(to) },
      ];
    }),
  };
}
function bandAt(chart, x) {
  const band = chart.bands.find((b) => !b.strong && b.label && x > (b.from ?? -Infinity) && x <= (b.to ?? Infinity));
  return band ? `, ${band.label}` : "";
}
function heightAxis(scale, list, room) {
  const ys = list.map((p) => p.y);
  if (scale.log) return logarithmic(Math.min(...ys) * 0.85, Math.max(...ys) * room, scale.name);
  if (!scale.zero) return { type: "value", name: scale.name, scale: true };
  return { type: "value", name: scale.name, min: Math.min(0, ...ys, ...list.map((p) => p.low ?? 0)), ...(scale.most === null ? {} : { max: scale.most }) };
}

// ---- kinds of charts: each returns {series, x, y, caption, items} or null ----

function lines(page, report, chart) {
  const every = chart.series.flatMap((series) => curvesOf(page, report, chart, series));
  const own = every.filter((s) => !s.series.within);
  const points = own.flatMap((s) => s.list);
  const xs = points.map((p) => p.x);
  const [min, max] = [Math.min(...xs), Math.max(...xs)];
  if (!(max > min)) return null;
  const y = heightAxis(chart.y, points, chart.bands.length ? 1.8 : 1.2);
  const inside = (p) => p.x >= min && p.x <= max && p.y >= (y.min ?? -Infinity);
  const all = every.map((s) => (s.series.within ? { ...s, list: s.list.filter(inside) } : s)).filter((s) => !s.series.within || s.list.length > 1);
  const names = [...new Set(all.map((s) => s.name))];
  const on = chart.x.log ? Math.log2 : (v) => v;
  const write = writes(chart.x);
  const fits = chart.y.log ? (p) => p.low > 0 && p.high > 0 : (p) => Number.isFinite(p.low) && Number.isFinite(p.high);
  const of = (s) => `${names.length > 1 ? `, ${s.name}` : ""}${s.series.what ? `, ${s.series.what}` : ""}`;
  const nested = chart.kind === "nested";
  const look = (s) => {
    const nth = names.indexOf(s.name), left = names.length - 1 - nth;
    const type = { solid: "solid", dotted: "dotted", dashed: "dashed" }[s.series.line];
    return nested ? { symbolSize: 5 + 3 * left, lineStyle: { width: 2 + 2 * left } }
      : { symbol: SYMBOLS[nth % SYMBOLS.length], symbolSize: type === "solid" ? 5 : 4, lineStyle: { width: type === "solid" ? 2 : 1.2, type } };
  };
  return {
    caption: chart.caption, small: chart.small, hidden: hiddenOf(names, chart.shown),
    items: [
      ...all.flatMap((s) => s.list.map((p) => ({ p, of: s.name, text: `${write(p.x)} ${chart.x.written === "size" ? "" : chart.x.name}`.trim() + `${of(s)}: ${describe(p, chart.y.name)}${bandAt(chart, p.x)}` }))),
      ...chart.levels.map((l) => ({ p: { x: l.x, y: l.y }, text: l.text })),
    ],
    x: { ...(chart.x.log ? OCTAVES : LINEAR)(min, max, chart.x.name), whole: chart.x.whole }, xLabel: write, y,
    series: (c) => {
      const drawn = all.flatMap((s, i) => {
        const colour = c.series[names.indexOf(s.name) % c.series.length];
        const background = i === 0 && chart.bands.length && !chart.bands_name ? { z: 3, markArea: areas(chart, on, min, max, c) } : {};
        return [
          curve(s.name, on, s.list, colour, { ...look(s), ...background }),
          ...(s.series.line === "solid" ? [whiskers(s.name, on, s.list, colour, fits)] : []),
        ];
      });
      if (chart.marks.length) drawn.push(marks(chart.marks_name, on, c, c.series[3], chart.marks, (m) => m.label));
      if (chart.levels.length) drawn.push(heights(chart.levels_name, c, chart.levels[0].x, chart.levels));
      if (chart.bands.length && chart.bands_name) {
        drawn.push({ name: chart.bands_name, type: "line", data: [], color: c.series[3], silent: true, markArea: areas(chart, on, min, max, c) });
      }
      return drawn;
    },
  };
}

// Cells by two coordinates, in order of both: a colour each, with its number if it fits.
function heatMap(page, report, chart) {
  const [series] = chart.series;
  const cells = chosen(report, series).filter((f) => f.value > 0)
    .map((f) => ({ ...pointOf(f, f.at[chart.x.of]), row: f.at[chart.y.of], name: filled(chart.label, f) }))
    .sort((a, b) => a.row - b.row || a.x - b.x);
  const unique = (key) => [...new Set(cells.map((cell) => cell[key]))].sort((a, b) => a - b);
  const [rows, columns] = [unique("row"), unique("x")];
  if (rows.length < 2 || columns.length < 2) return null;
  const heats = cells.map((cell) => Math.log2(cell.y));
  const [min, max] = [Math.min(...heats), Math.max(...heats)];
  const [writeX, writeY] = [writes(chart.x), writes(chart.y)];
  return {
    small: rows.length < 8, caption: chart.caption,
    items: cells.map((cell) => ({ p: { x: cell.x, y: rows.indexOf(cell.row) }, text: `${cell.name}: ${describe(cell, chart.y.name)}` })),
    x: { on: (v) => columns.indexOf(v), off: (v) => columns[v], min: columns[0], max: columns.at(-1), name: chart.x.name, data: columns.map(writeX) },
    xLabel: writeX,
    y: { type: "category", data: rows.map(writeY) },
    heat: { min, max: Math.max(max, min + 1e-6), color: HEAT, formatter: (v) => `${digits(2 ** v)} ${chart.y.name.split(" ")[0]}` },
    series: () => [{
      name: series.name, type: "heatmap", color: HEAT.at(-2), emphasis: { itemStyle: { borderColor: "#000", borderWidth: 1 } },
      data: cells.map((cell, i) => ({
        value: [columns.indexOf(cell.x), rows.indexOf(cell.row), heats[i]],
        label: { show: true, formatter: cell.y >= 100 ? cell.y.toFixed(0) : cell.y.toPrecision(3), color: heats[i] - min > 0.45 * (max - min) ? "#ffffff" : "#14202b" },
      })),
    }],
  };
}

function bars(page, report, chart) {
  const [series] = chart.series;
  const list = curvesOf(page, report, chart, series)[0]?.list ?? [];
  if (!list.length) return null;
  const write = writes(chart.x);
  return {
    small: chart.small, caption: chart.caption,
    items: list.map((p) => ({ p, text: `${write(p.x)} ${chart.x.name}: ${describe(p, chart.y.name)}` })),
    x: { ...LINEAR(list[0].x - 0.6, list.at(-1).x + 0.6, chart.x.name), whole: chart.x.whole }, xLabel: write,
    y: heightAxis(chart.y, list, 1.2),
    series: (c) => [
      {
        name: series.name, type: "custom", clip: true, color: c.series[0], encode: { x: 0, y: 1 }, data: list.map((p) => [p.x, p.y]),
        renderItem: (_, api) => {
          const [x1, y] = api.coord([api.value(0) - 0.35, api.value(1)]);
          const [x2, zero] = api.coord([api.value(0) + 0.35, 0]);
          // A value of zero is drawn as a line.
          return { type: "rect", shape: { x: x1, y: Math.min(y, zero - 2), width: x2 - x1, height: Math.max(zero - y, 2) }, style: { fill: c.series[0] } };
        },
      },
      { ...whiskers("95 % intervals", (v) => v, list, c.series[1], (p) => Number.isFinite(p.low) && Number.isFinite(p.high)), z: 3 },
    ],
  };
}

// Each bin has the same number of histogram bars, so that none is too high.
function bins(counts, min, bars) {
  const by = new Map();
  for (const [v, n] of counts) {
    const k = Math.floor(Math.round(Math.log(v / min) / BAR_LN_RATIO) / bars);
    const bin = by.get(k) ?? { k, n: 0, from: v, to: v };
    by.set(k, { ...bin, n: bin.n + n, to: v });
  }
  return [...by.values()].map((b) => ({ ...b, x: min * Math.exp((b.k + 0.5) * bars * BAR_LN_RATIO), y: b.n }));
}

function distributions(page, report, chart) {
  const [series] = chart.series;
  const found = grouped(page, report.findings.histograms.filter((h) => isOf(series, h)), series.by)
    .map(([h]) => ({ name: filled(series.name, h), unit: h.unit, counts: h.counts.filter(([v, n]) => v > 0 && n > 0) }))
    .filter((s) => s.counts.length);
  if (!found.length) return null;
  const hidden = hiddenOf(found.map((s) => s.name), chart.shown);
  // Arrow keys visit the visible curves first.
  found.sort((a, b) => hidden.includes(a.name) - hidden.includes(b.name));
  const min = Math.min(...found.map((s) => s.counts[0][0]));
  const max = Math.max(...found.map((s) => s.counts.at(-1)[0]));
  const wide = Math.max(Math.ceil(Math.log(max / min) / BAR_LN_RATIO / MAX_BINS), 1);
  const sets = found.map((s) => ({ ...s, list: bins(s.counts, min, wide), total: s.counts.reduce((sum, c) => sum + c[1], 0) }));
  const room = Math.exp(2 * wide * BAR_LN_RATIO);
  return {
    caption: chart.caption, hidden,
    items: sets.flatMap((s) => s.list.map((p) => ({
      p, of: s.name,
      text: `${s.name}: ${p.from === p.to ? digits(p.from) : `${digits(p.from)} to ${digits(p.to)}`} ${s.unit}: ${p.n} of ${s.total} ${chart.y.name}`,
    }))),
    x: OCTAVES(min / room, max * room, sets[0].unit), xLabel: digits,
    y: { type: "log", logBase: 10, min: 0.7, name: chart.y.name },
    series: (c) => sets.map((s, i) => {
      // A curve ends at an empty bin, because 0 has no logarithm. A step extends half way to its neighbour, so the ends
      // are extended too.
      const bin = (wide * BAR_LN_RATIO) / Math.LN2;
      const data = s.list.flatMap((p, at) => {
        const on = Math.log2(p.x);
        const [before, after] = [s.list[at - 1]?.k === p.k - 1, s.list[at + 1]?.k === p.k + 1];
        return [...(before ? [] : [[on - bin, null]]), [on, p.y], ...(after ? [] : [[on + bin, null]])];
      });
      return curve(s.name, Math.log2, s.list, c.series[i % c.series.length], {
        data, step: "middle", symbol: SYMBOLS[Math.floor(i / c.series.length) % SYMBOLS.length], symbolSize: 4, lineStyle: { width: 1.5 },
      });
    }),
  };
}

// At most some 160 bars of equal width on their axis; fewer if the clock is coarser.
function binned(counts, log) {
  const on = log ? Math.log2 : (v) => v;
  const off = log ? (v) => 2 ** v : (v) => v;
  const places = counts.map((c) => on(c[0]));
  const minWidth = places.slice(1).reduce((m, v, i) => Math.min(m, v - places[i]), Infinity);
  const width = Math.max((places.at(-1) - places[0]) / 160, Number.isFinite(minWidth) ? Math.min(minWidth, log ? 0.02 : Infinity) : log ? 0.02 : 1);
  const bars = new Map();
  counts.forEach(([v, n], i) => {
    const k = Math.round((places[i] - places[0]) / width);
    const bar = bars.get(k) ?? { from: off(places[0] + (k - 0.5) * width), to: off(places[0] + (k + 0.5) * width), n: 0, first: v, last: v };
    bar.n += n;
    bar.last = v;
    bars.set(k, bar);
  });
  return [...bars.values()];
}

function histogram(page, report, chart) {
  const [series] = chart.series;
  const h = report.findings.histograms.find((h) => isOf(series, h));
  const counts = h?.counts.filter(([v, n]) => Number.isFinite(v) && n > 0) ?? [];
  if (!counts.length) return null;
  const total = counts.reduce((sum, c) => sum + c[1], 0);
  const [min, max] = [counts[0][0], counts.at(-1)[0]];
  const log = min > 0 && max / min > 8;
  const list = binned(counts, log);
  const room = Math.max((max - min) * 0.06, 4 * (list[0].to - list[0].from));
  const axis = log ? OCTAVES(list[0].from / 1.15, list.at(-1).to * 1.15, h.unit) : LINEAR(min - room, max + room, h.unit);
  // Rare outliers would compress the rest, so the initial view leaves them out.
  let sum = 0;
  const typicalMax = counts.find((c) => (sum += c[1]) >= 0.995 * total)[0];
  const edge = axis.on(typicalMax) + Math.max(0.1 * (axis.on(typicalMax) - axis.on(min)), axis.on(list[0].to) - axis.on(list[0].from));
  const beyond = counts.reduce((sum, c) => sum + (axis.on(c[0]) > edge ? c[1] : 0), 0);
  const share = (100 * (edge - axis.on(axis.min))) / (axis.on(axis.max) - axis.on(axis.min));
  return {
    small: chart.small, counts: true,
    caption: `${chart.caption}${log ? "; the axis of values is logarithmic" : ""}.${beyond && share < 60 ? ` ${beyond} lie beyond the right edge: press all.` : ""}`,
    zoom: beyond && share < 60 ? [0, share] : undefined,
    items: list.map((b) => ({
      p: { x: (b.from + b.to) / 2, y: b.n },
      text: `${b.first === b.last ? digits(b.first) : `${digits(b.first)} to ${digits(b.last)}`} ${h.unit}: ${b.n} of ${total} (${digits((100 * b.n) / total)} %)`,
    })),
    x: axis, xLabel: digits, y: { name: chart.y.name },
    series: (c, logCounts) => [
      {
        name: series.name, type: "custom", clip: true, color: c.series[0], encode: { x: [0, 1], y: 2 },
        data: list.map((b) => [axis.on(b.from), axis.on(b.to), b.n]),
        renderItem: (_, api) => {
          const [x1, y] = api.coord([api.value(0), api.value(2)]);
          const [x2, zero] = api.coord([api.value(1), logCounts ? 0.5 : 0]);
          // A single sample remains visible.
          return { type: "rect", shape: { x: x1, y: Math.min(y, zero - 1), width: Math.max(x2 - x1 - 0.5, 1.5), height: Math.max(zero - y, 1) }, style: { fill: c.series[0] } };
        },
      },
      ...(chart.marks.length ? [marks(chart.marks_name, axis.on, c, c.series[1], chart.marks, (m) => m.label)] : []),
    ],
  };
}

// Overlay of the first overlay chart of each report: its first series, one curve per report.
function overlay(page) {
  const all = page.reports.flatMap((report) => {
    const chart = report.charts.find((chart) => chart.overlay);
    const list = chart ? curvesOf(page, report, chart, chart.series[0])[0]?.list : null;
    return list ? [{ name: report.name, list, chart }] : [];
  });
  if (!all.length) return null;
  const { x, y } = all[0].chart;
  const points = all.flatMap((r) => r.list);
  const xs = points.map((p) => p.x);
  const on = x.log ? Math.log2 : (v) => v;
  const write = writes(x);
  return {
    caption: "One curve per record, on the axes of the figures below. A name in the legend hides its curve.",
    items: all.flatMap((r) => r.list.map((p) => ({ p, text: `${r.name}, ${write(p.x)}: ${describe(p, y.name)}` }))),
    x: (x.log ? OCTAVES : LINEAR)(Math.min(...xs), Math.max(...xs), x.name), xLabel: write,
    y: heightAxis(y, points, 1.2),
    series: (c) => all.flatMap((r, i) => {
      const colour = c.series[i % c.series.length];
      return [curve(r.name, on, r.list, colour, { symbol: SYMBOLS[i % SYMBOLS.length] }), whiskers(r.name, on, r.list, colour, (p) => p.low > 0 && p.high > 0)];
    }),
  };
}
