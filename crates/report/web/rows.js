// Charts with rows: intervals relative to zero, stacked parts, and changes between two records.

// Rows with a point and its interval on one axis that includes zero.
function intervals(rows, unit, caption) {
  const ends = rows.flatMap((r) => [r.value, r.low ?? r.value, r.high ?? r.value]);
  const room = Math.max((Math.max(0, ...ends) - Math.min(0, ...ends)) * 0.1, 0.01);
  return {
    rows: rows.length, caption,
    items: rows.map((r, i) => ({ p: { x: r.value, y: i }, text: `${r.label}: ${digits(r.value)}${span(r.low, r.high)} ${unit}, n ${r.count}` })),
    x: LINEAR(Math.min(0, ...ends) - room, Math.max(0, ...ends) + room, unit), xLabel: digits,
    y: { type: "category", inverse: true, data: rows.map((r) => r.label) },
    series: (c) => [{
      name: unit, type: "custom", clip: true, color: c.series[0], encode: { x: [1, 2, 3], y: 0 },
      data: rows.map((r, i) => [i, r.low ?? r.value, r.value, r.high ?? r.value]),
      renderItem: (_, api) => {
        const [low, y] = api.coord([api.value(1), api.value(0)]);
        const mid = api.coord([api.value(2), api.value(0)])[0];
        const high = api.coord([api.value(3), api.value(0)])[0];
        // Filled if the interval excludes zero.
        const significant = api.value(1) > 0 || api.value(3) < 0;
        const colour = significant ? c.series[1] : c.series[0];
        return { type: "group", children: [
          { type: "line", shape: { x1: low, y1: y, x2: high, y2: y }, style: { stroke: colour, lineWidth: 2 } },
          { type: "circle", shape: { cx: mid, cy: y, r: 5 }, style: { fill: significant ? colour : c.ground, stroke: colour, lineWidth: 2 } },
        ] };
      },
      markLine: { symbol: "none", silent: true, animation: false, label: { show: false }, lineStyle: { color: c.quiet, type: "solid" }, data: [{ xAxis: 0 }] },
    }],
  };
}

// Rows as stacked bars of parts.
function stacked(rows, names, unit, caption) {
  const whole = (parts) => parts.reduce((a, b) => a + b, 0);
  const longest = Math.max(...rows.map((r) => whole(r.parts)));
  if (!(longest > 0)) return null;
  const drawn = names.map((name, k) => ({ name, k })).filter(({ k }) => rows.some((r) => r.parts[k] > 0));
  return {
    rows: rows.length, caption,
    items: rows.map((r, i) => ({
      p: { x: whole(r.parts) / 2, y: i },
      text: `${r.label}: ${digits(whole(r.parts))} ${unit}: ${drawn.filter(({ k }) => r.parts[k] > 0).map(({ name, k }) => `${name} ${digits(r.parts[k])}`).join(", ")}`,
    })),
    x: LINEAR(0, longest * 1.02, unit), xLabel: digits,
    y: { type: "category", inverse: true, data: rows.map((r) => r.label) },
    series: (c) => drawn.map(({ name, k }) => ({
      name, type: "custom", clip: true, color: c.series[k % c.series.length], encode: { x: [1, 2], y: 0 },
      data: rows.map((r, i) => [i, whole(r.parts.slice(0, k)), whole(r.parts.slice(0, k + 1))]),
      renderItem: (_, api) => {
        const [x1, y] = api.coord([api.value(1), api.value(0)]);
        const x2 = api.coord([api.value(2), api.value(0)])[0];
        const height = api.size([0, 1])[1] * 0.6;
        return { type: "rect", shape: { x: x1, y: y - height / 2, width: x2 - x1, height }, style: { fill: c.series[k % c.series.length] } };
      },
    })),
  };
}

function intervalRows(page, report, chart) {
  const rows = chart.series.flatMap((series) => chosen(report, series).map((f) => ({ ...f, label: filled(series.name, f) })));
  return rows.length ? intervals(rows, rows[0].unit, chart.caption) : null;
}

// Returns the value of a finding, or the number of a word in a field of its detail.
function partOf(series, f) {
  if (!series.part) return f.value;
  const [field, word] = series.part;
  return new Map(f.detail[field] ?? []).get(word) ?? 0;
}

function stackedRows(page, report, chart) {
  const by = new Map();
  for (const [nth, series] of chart.series.entries()) {
    for (const f of chosen(report, series)) {
      const row = by.get(f.at[chart.rows]) ?? { label: filled(chart.label, f), parts: chart.series.map(() => 0) };
      row.parts[nth] = Math.max(partOf(series, f), 0);
      by.set(f.at[chart.rows], row);
    }
  }
  const rows = [...by].sort((a, b) => rank(page, chart.rows, a[0]) - rank(page, chart.rows, b[0])).map(([, row]) => row);
  return stacked(rows.filter((row) => row.parts.some((part) => part > 0)), chart.series.map((series) => series.name), chart.x.name, chart.caption);
}

// A row per report of the page.
function stackedReports(page, chart) {
  const part = (report, series) => chosen(report, series).reduce((sum, f) => sum + Math.max(partOf(series, f), 0), 0);
  const rows = page.reports.map((report, i) => ({ label: chart.row_names[i], parts: chart.series.map((series) => part(report, series)) }));
  return stacked(rows, chart.series.map((series) => series.name), chart.x.name, chart.caption);
}

function changes(page, data) {
  const rows = page.changes[data.change].rows.filter((r) => Number.isFinite(r.change));
  if (!rows.length) return null;
  const ends = rows.flatMap((r) => [r.change, r.low ?? r.change, r.high ?? r.change]);
  const room = Math.max((Math.max(...ends) - Math.min(...ends)) * 0.1, 0.1);
  return {
    rows: rows.length,
    caption: "Change in percent with its 95 % interval; filled: differs by the corrected test.",
    items: rows.map((r, i) => ({ p: { x: r.change, y: i }, text: `${r.name}: ${digits(r.change)} %${span(r.low, r.high)}, differs: ${r.differs}` })),
    x: LINEAR(Math.min(0, ...ends) - room, Math.max(0, ...ends) + room, "%"), xLabel: digits,
    y: { type: "category", inverse: true, data: rows.map((r) => r.name) },
    series: (c) => [{
      name: "change", type: "custom", clip: true, color: c.series[0], encode: { x: [1, 2, 3], y: 0 },
      data: rows.map((r, i) => [i, r.low ?? r.change, r.change, r.high ?? r.change, r.differs === "yes" ? 1 : 0]),
      renderItem: (_, api) => {
        const [low, y] = api.coord([api.value(1), api.value(0)]);
        const mid = api.coord([api.value(2), api.value(0)])[0];
        const high = api.coord([api.value(3), api.value(0)])[0];
        const significant = api.value(4) === 1;
        const colour = significant ? c.series[1] : c.series[0];
        return { type: "group", children: [
          { type: "line", shape: { x1: low, y1: y, x2: high, y2: y }, style: { stroke: colour, lineWidth: 2 } },
          { type: "circle", shape: { cx: mid, cy: y, r: 5 }, style: { fill: significant ? colour : c.ground, stroke: colour, lineWidth: 2 } },
        ] };
      },
      markLine: { symbol: "none", silent: true, animation: false, label: { show: false }, lineStyle: { color: c.quiet, type: "solid" }, data: [{ xAxis: 0 }] },
    }],
  };
}

// A tree as bars on top of each other: nodes come after those from which they hang.
function flame(page, report, chart) {
  const [series] = chart.series;
  const [axis, above] = chart.tree;
  const nodes = new Map([[0, { depth: -1, end: 0 }]]);
  const files = [];
  for (const f of chosen(report, series).sort((a, b) => a.at[axis] - b.at[axis])) {
    const under = nodes.get(f.detail[above]);
    if (!under || !(f.value > 0)) continue;
    const file = filled(chart.label, f);
    if (!files.includes(file)) files.push(file);
    const [from, width] = [under.end, 100 * f.value];
    under.end += width;
    // `end` is where the next one on top of it begins.
    nodes.set(f.at[axis], { f, from, width, end: from, depth: under.depth + 1, name: filled(series.name, f), file });
  }
  nodes.delete(0);
  const bars = [...nodes.values()];
  if (!bars.length) return null;
  const rows = Math.max(...bars.map((b) => b.depth)) + 1;
  const text = (b) => `${b.name}${b.file ? ` in ${b.file}` : ""}: ${digits(b.width)} %${b.f.low === null ? "" : `${span(100 * b.f.low, 100 * b.f.high)}, n ${b.f.count}`}`;
  return {
    rows, row: 1.15, finest: 0.1, caption: chart.caption,
    items: bars.map((b) => ({ p: { x: b.from + b.width / 2, y: b.depth + 0.5 }, text: text(b), range: [b.from, b.from + b.width] })),
    x: LINEAR(0, 100, chart.x.name), xLabel: digits,
    y: { type: "value", min: 0, max: rows, show: false },
    series: (c) => [{
      name: chart.x.name, type: "custom", clip: true, color: c.series[0], encode: { x: [1, 2], y: 3 },
      data: bars.map((b, i) => [i, b.from, b.from + b.width, b.depth]),
      renderItem: (params, api) => {
        const bar = bars[api.value(0)];
        const { x: left, width: room } = params.coordSys;
        const ends = [api.coord([api.value(1), 0])[0], api.coord([api.value(2), 0])[0]];
        const [x1, x2] = [Math.max(ends[0], left), Math.min(ends[1], left + room)];
        if (x2 - x1 < 0.5) return null;
        const [y1, y2] = [api.coord([0, bar.depth + 1])[1], api.coord([0, bar.depth])[1]];
        const colour = c.series[files.indexOf(bar.file) % c.series.length];
        const box = { type: "rect", shape: { x: x1, y: y1, width: x2 - x1, height: y2 - y1 }, style: { fill: colour, opacity: 0.45, stroke: c.ground, lineWidth: 1 } };
        if (x2 - x1 < 24) return box;
        const label = { text: bar.name, fill: c.text, font: `11px ${FONT}`, x: x1 + 3, y: (y1 + y2) / 2, verticalAlign: "middle", width: x2 - x1 - 6, overflow: "truncate", ellipsis: "\u2026" };
        return { type: "group", children: [box, { type: "text", silent: true, style: label }] };
      },
    }],
  };
}

const KINDS = { lines, nested: lines, heatmap: heatMap, bars, stacked: stackedRows, intervals: intervalRows, distributions, histogram, flame };

// Returns what a figure draws: a chart of its report, or one of the page.
function specOf(page, data) {
  if (data.chart === "overlay") return overlay(page);
  if (data.chart === "change") return changes(page, data);
  if (data.report === "all") return stackedReports(page, page.together[data.nth]);
  const report = page.reports[data.report];
  const chart = report.charts[data.nth];
  return KINDS[chart.kind](page, report, chart);
}
