// Draws the figures from the findings in this page. Judges nothing: every number here is a finding's.
"use strict";
(async () => {
  const page = JSON.parse(document.getElementById("fathom-data").textContent);
  const figures = [...document.querySelectorAll("figure.chart")];
  const failed = (why) => {
    for (const f of figures) f.querySelector("figcaption").textContent = why;
  };
  let echarts;
  try {
    echarts = await load(document.getElementById("echarts").textContent.trim());
  } catch (e) {
    return failed(`Drawn in characters: this browser cannot unpack the charts (${e.message}).`);
  }
  const root = document.documentElement;
  const charts = [];
  for (const figure of figures) {
    const spec = SPECS[figure.dataset.chart]?.(page, figure.dataset);
    if (spec) charts.push(mount(echarts, figure, spec));
    else if (!figure.querySelector("pre")) figure.remove();
  }
  const repaint = (light) => charts.forEach((c) => c.paint(light));
  const button = document.getElementById("theme");
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    repaint();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => repaint());
  addEventListener("beforeprint", () => repaint(true));
  addEventListener("afterprint", () => repaint());
  let width = innerWidth;
  addEventListener("resize", () => {
    charts.forEach((c) => c.resize(innerWidth !== width));
    width = innerWidth;
  });
  root.dataset.drawn = charts.length;

  async function load(packed) {
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    return window.echarts;
  }
})();

function dark() {
  const set = document.documentElement.dataset.theme;
  return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// Okabe and Ito's colours, told apart by the colour-blind; lighter ones on dark ground.
function palette(light) {
  return light
    ? { text: "#14202b", quiet: "#55626f", line: "#d5dbe1", ground: "#ffffff", shade: ["#0060a80f", "#0060a81f"],
        series: ["#0072b2", "#d55e00", "#009e73", "#a8518a", "#b07a00", "#2a8ac0", "#555555"] }
    : { text: "#e6ebf0", quiet: "#9dabb8", line: "#33404c", ground: "#19222b", shade: ["#6cb8f514", "#6cb8f528"],
        series: ["#6cb8f5", "#ff9757", "#4fcf9f", "#e59ac6", "#f0c45a", "#8fd3ff", "#bbbbbb"] };
}

// One hue from light to dark: read without colours too, on either ground.
const HEAT = ["#e6f0f8", "#a9cbe6", "#5a9bd0", "#1f679f", "#0a3558"];

// Named, because the width of text is measured before it is drawn.
const FONT = '"Noto Sans", "Liberation Sans", "DejaVu Sans", system-ui, sans-serif';

// ---- numbers as people write them ----

function size(v) {
  for (const [unit, k] of [["GiB", 30], ["MiB", 20], ["KiB", 10]]) {
    if (v >= 2 ** k) return `${digits(v / 2 ** k)} ${unit}`;
  }
  return `${digits(v)} B`;
}
function digits(v) {
  if (!Number.isFinite(v)) return "none";
  return Math.abs(v) >= 1e5 ? Math.round(v).toString() : Number(v.toPrecision(4)).toString();
}
function span(low, high, write = digits) {
  return Number.isFinite(low) && Number.isFinite(high) ? ` (${write(low)}..${write(high)})` : "";
}
// Everything that goes into a tooltip may come from a record that somebody else wrote.
function safe(text) {
  return String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

// ---- findings ----

// The findings of some metrics, each by its pattern, that have a number, in the report's order.
function ofMetrics(report, ...metrics) {
  return report.findings.findings.filter((f) => metrics.includes(f.metric) && typeof f.value === "number");
}
// Findings as points along one of their axes, in its order.
function curveOf(list, axis) {
  return list.map((f) => ({ x: f.at[axis], y: f.value, low: f.low, high: f.high, n: f.count })).sort((a, b) => a.x - b.x);
}
function tiers(report) {
  const by = new Map();
  for (const [word, metric] of Object.entries({ latency: "tier.{level}.latency", capacity: "tier.{level}.capacity" })) {
    for (const f of ofMetrics(report, metric)) by.set(f.at.level, { n: f.at.level, ...by.get(f.at.level), [word]: f });
  }
  return [...by.values()].sort((a, b) => a.n - b.n);
}
function points(report) {
  const cycles = new Map(ofMetrics(report, "latency.{size}.cycles").map((f) => [f.at.size, f]));
  return curveOf(ofMetrics(report, "latency.{size}.time"), "size").filter((p) => p.y > 0).map((p) => ({ ...p, cycles: cycles.get(p.x) }));
}
function claims(report) {
  const by = new Map();
  for (const f of ofMetrics(report, "claim.{source}.level.{level}.{side}.size")) {
    const { level, side, source } = f.at;
    if (side === "instructions") continue;
    const key = `${level} ${f.value}`;
    const known = by.get(key) ?? { level, bytes: f.value, sources: [] };
    if (!known.sources.includes(source)) known.sources.push(source);
    by.set(key, known);
  }
  return [...by.values()];
}

// ---- charts: each answers {series, x, y, caption, items} or nothing ----

// A logarithmic axis of x is a linear one of octaves, because zooming works in what the axis is linear in.
const OCTAVES = (min, max, name) => ({ on: Math.log2, off: (v) => 2 ** v, min, max, name });
const LINEAR = (min, max, name) => ({ on: (v) => v, off: (v) => v, min, max, name });
const logarithmic = (min, max, name) => ({ type: "log", logBase: Math.log2(max / min) >= 10 ? 4 : 2, min, max, name });

function marks(name, on, c, colour, list, label) {
  return {
    name, type: "line", data: [], color: colour, silent: true,
    markLine: {
      symbol: "none", animation: false, silent: true,
      lineStyle: { color: colour, type: "dashed", width: 1.5 },
      data: list.map((m, i) => ({
        // Side by side they would overlap: every other one stands higher.
        xAxis: on(m.x), label: { formatter: label(m), color: c.text, fontSize: 11, position: "end", distance: [0, i % 2 ? 14 : 2] },
      })),
    },
  };
}

// Whiskers of the 95 % intervals: a custom series, because no built-in one draws them.
function whiskers(name, on, data, colour, fits = (p) => p.low > 0 && p.high > 0) {
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

function say(p, unit = "ns a load") {
  const cycles = p.cycles ? `, ${digits(p.cycles.value)} cycles` : "";
  return `${digits(p.y)} ${unit}${span(p.low, p.high)}${cycles}, n ${p.n}`;
}

// Cells by size and step, in order of both: a colour each, its number in it where it is.
function heatMap(cells, words) {
  const unique = (key) => [...new Set(cells.map((c) => c[key]))].sort((a, b) => a - b);
  const [sizes, steps] = [unique("bytes"), unique("step")];
  if (sizes.length < 2 || steps.length < 2) return null;
  const heats = cells.map((c) => Math.log2(c.y));
  const [least, most] = [Math.min(...heats), Math.max(...heats)];
  return {
    small: sizes.length < 8,
    caption: words.caption,
    items: cells.map((c) => ({ p: { x: c.step, y: sizes.indexOf(c.bytes) }, text: words.text(c) })),
    x: { on: (v) => steps.indexOf(v), off: (v) => steps[v], min: steps[0], max: steps.at(-1), name: words.step, data: steps.map(size) },
    xLabel: size,
    y: { type: "category", data: sizes.map(size) },
    heat: { min: least, max: Math.max(most, least + 1e-6), color: HEAT, formatter: (v) => `${digits(2 ** v)} ${words.unit}` },
    series: () => [{
      name: words.name, type: "heatmap", color: HEAT.at(-2), emphasis: { itemStyle: { borderColor: "#000", borderWidth: 1 } },
      data: cells.map((c, i) => ({
        value: [steps.indexOf(c.step), sizes.indexOf(c.bytes), heats[i]],
        label: { show: true, formatter: c.y >= 100 ? c.y.toFixed(0) : c.y.toPrecision(3), color: heats[i] - least > 0.45 * (most - least) ? "#ffffff" : "#14202b" },
      })),
    }],
  };
}

const SPECS = {
  latency_curve(page, data) {
    const report = page.reports[data.report];
    const stairs = points(report);
    if (stairs.length < 2) return null;
    const steps = tiers(report);
    const [min, max] = [stairs[0].x, stairs.at(-1).x];
    const low = Math.min(...stairs.map((p) => p.y), ...steps.map((t) => t.latency?.value ?? Infinity)) * 0.85;
    const high = Math.max(...stairs.map((p) => p.y)) * 1.8;
    const bandName = (n, from, to) => (Math.log2(to / from) < Math.log2(max / min) / 9 ? `${n}` : `tier ${n}`);
    const base = Number(report.findings.subject.facts["page.base"]);
    const walk = base > 0
      ? curveOf(ofMetrics(report, "pages.{pages}.extra"), "pages").map((p) => ({ ...p, x: p.x * base }))
          .filter((p) => p.y >= low && p.x >= min && p.x <= max)
      : [];
    const within = claims(report).map((c) => ({ ...c, x: c.bytes })).filter((c) => c.x >= min && c.x <= max);
    const tierOf = (x) => steps.find((t) => x <= (t.capacity?.value ?? Infinity));
    return {
      caption: "Both axes logarithmic. Bands are tiers, their borders the capacities with their 95 % intervals.",
      items: stairs.map((p) => ({ p, text: `${size(p.x)}: ${say(p)}${tierOf(p.x) ? `, tier ${tierOf(p.x).n}` : ""}` })),
      x: OCTAVES(min, max, "working set"), xLabel: size, y: logarithmic(low, high, "ns a load"),
      series: (c) => {
        const bands = steps.map((t, i) => [
          { xAxis: Math.log2(i ? steps[i - 1].capacity?.value ?? min : min), name: bandName(t.n, i ? steps[i - 1].capacity?.value ?? min : min, t.capacity?.value ?? max),
            itemStyle: { color: c.shade[i % 2] } },
          { xAxis: Math.log2(t.capacity?.value ?? max) },
        ]);
        const ends = steps.filter((t) => t.capacity?.low).map((t) => [
          { xAxis: Math.log2(t.capacity.low), itemStyle: { color: c.series[0], opacity: 0.35 } }, { xAxis: Math.log2(t.capacity.high) },
        ]);
        const series = [
          curve("cache: random loads", Math.log2, stairs, c.series[0], {
            z: 3,
            markArea: { silent: true, animation: false, label: { color: c.quiet, fontSize: 11, position: "insideTop" }, data: [...bands, ...ends] },
          }),
          whiskers("95 % intervals", Math.log2, stairs, c.series[0]),
        ];
        if (walk.length > 1) {
          series.push(curve(`TLB: what translation adds, at pages x ${size(base)}`, Math.log2, walk, c.series[1], { lineStyle: { width: 1.5, type: "dashed" }, symbolSize: 3 }));
        }
        if (within.length) {
          series.push(marks("claimed sizes", Math.log2, c, c.series[3], within, (m) => `L${m.level} ${size(m.bytes)}`));
        }
        return series;
      },
    };
  },

  pages(page, data) {
    const report = page.reports[data.report];
    const list = curveOf(ofMetrics(report, "pages.{pages}.extra"), "pages");
    if (list.length < 2) return null;
    const [min, max] = [list[0].x, list.at(-1).x];
    const reach = curveOf(ofMetrics(report, "tlb.{tlb}.entries"), "tlb").map((p) => ({ n: p.x, x: p.y })).filter((f) => f.x >= min && f.x <= max);
    return {
      small: true,
      caption: "What a load pays more on that many pages, one line in each, than on as many lines packed together.",
      items: list.map((p) => ({ p, text: `${p.x} pages: ${say(p, "ns more")}` })),
      x: OCTAVES(min, max, "pages"), xLabel: digits, y: { type: "value", name: "ns more", scale: true },
      series: (c) => [
        curve("translation", Math.log2, list, c.series[1]),
        whiskers("95 % intervals", Math.log2, list, c.series[1]),
        ...(reach.length ? [marks("TLB entries", Math.log2, c, c.series[3], reach, (m) => `TLB ${m.n}: ${digits(m.x)} entries`)] : []),
      ],
    };
  },

  histogram(page, data) {
    const report = page.reports[data.report];
    const h = report.findings.histograms.find((h) => h.metric === "latency.{size}.single" && h.at.size === Number(data.size));
    const counts = h?.counts.filter(([v, n]) => Number.isFinite(v) && n > 0) ?? [];
    if (!counts.length) return null;
    const total = counts.reduce((sum, c) => sum + c[1], 0);
    const [min, max] = [counts[0][0], counts.at(-1)[0]];
    const log = min > 0 && max / min > 8;
    const bars = binned(counts, log);
    const bias = report.findings.findings.find((f) => f.metric === "bias.sample");
    const peak = report.findings.findings.find((f) => f.metric === "latency.{size}.peak" && f.at.size === h.at.size);
    const at = peak && bias && typeof peak.value === "number" ? peak.value + (bias.value ?? 0) / h.loads_per_sample : null;
    const what = h.loads_per_sample > 1 ? `means of ${h.loads_per_sample} loads` : "single loads";
    const room = Math.max((max - min) * 0.06, 4 * (bars[0].to - bars[0].from));
    const axis = log ? OCTAVES(bars[0].from / 1.15, bars.at(-1).to * 1.15, h.unit) : LINEAR(min - room, max + room, h.unit);
    // One interrupt in a thousand loads would squeeze the rest into a corner: what lies far out begins out of view.
    let sum = 0;
    const most = counts.find((c) => (sum += c[1]) >= 0.995 * total)[0];
    const edge = axis.on(most) + Math.max(0.1 * (axis.on(most) - axis.on(min)), axis.on(bars[0].to) - axis.on(bars[0].from));
    const beyond = counts.reduce((sum, c) => sum + (axis.on(c[0]) > edge ? c[1] : 0), 0);
    const share = (100 * (edge - axis.on(axis.min))) / (axis.on(axis.max) - axis.on(axis.min));
    return {
      small: true, counts: true,
      caption: `${total} ${what}, ${h.unit} with the bias${log ? "; the axis of times is logarithmic" : ""}.${beyond && share < 60 ? ` ${beyond} lie beyond the right edge: press all.` : ""}`,
      zoom: beyond && share < 60 ? [0, share] : undefined,
      items: bars.map((b) => ({
        p: { x: (b.from + b.to) / 2, y: b.n },
        text: `${b.first === b.last ? digits(b.first) : `${digits(b.first)} to ${digits(b.last)}`} ${h.unit}: ${b.n} of ${total} (${digits((100 * b.n) / total)} %)`,
      })),
      x: axis,
      xLabel: digits,
      y: { name: "samples" },
      series: (c, logCounts) => [
        {
          name: what, type: "custom", clip: true, color: c.series[0], encode: { x: [0, 1], y: 2 },
          data: bars.map((b) => [axis.on(b.from), axis.on(b.to), b.n]),
          renderItem: (_, api) => {
            const [x1, y] = api.coord([api.value(0), api.value(2)]);
            const [x2, zero] = api.coord([api.value(1), logCounts ? 0.5 : 0]);
            // A lone sample is still to be seen.
            return { type: "rect", shape: { x: x1, y: Math.min(y, zero - 1), width: Math.max(x2 - x1 - 0.5, 1.5), height: Math.max(zero - y, 1) }, style: { fill: c.series[0] } };
          },
        },
        ...(at ? [marks("main peak", axis.on, c, c.series[1], [{ x: at }], () => `${digits(peak.value)} + bias${h.loads_per_sample > 1 ? ` / ${h.loads_per_sample}` : ""}`)] : []),
      ],
    };
  },

  stride(page, data) {
    const found = ofMetrics(page.reports[data.report], "stride.{size}.{stride}.{operation}.time_per_access")
      .filter((f) => f.at.operation === data.operation && f.value > 0);
    const sizes = [...new Set(found.map((f) => f.at.size))].sort((a, b) => a - b);
    const sets = sizes.map((bytes) => ({ bytes, list: curveOf(found.filter((f) => f.at.size === bytes), "stride") }));
    const all = sets.flatMap((s) => s.list);
    const [least, most] = [Math.min(...all.map((p) => p.x)), Math.max(...all.map((p) => p.x))];
    if (!(most > least)) return null;
    const ys = all.map((p) => p.y);
    return {
      caption: "Time an access by step, one curve a working set; both axes logarithmic. It stops growing where each access brings a line of its own.",
      items: sets.flatMap((s) => s.list.map((p) => ({ p, text: `${size(s.bytes)} at a stride of ${p.x} B: ${say(p, "ns an access")}` }))),
      x: OCTAVES(least, most, "step"), xLabel: size,
      y: logarithmic(Math.min(...ys) * 0.85, Math.max(...ys) * 1.2, "ns an access"),
      series: (c) => sets.flatMap((s, i) => {
        const colour = c.series[i % c.series.length];
        return [curve(size(s.bytes), Math.log2, s.list, colour, { symbol: ["circle", "rect", "triangle", "diamond"][i % 4] }), whiskers(size(s.bytes), Math.log2, s.list, colour)];
      }),
    };
  },

  attributes(page, data) {
    const found = ofMetrics(page.reports[data.report], "cacheability.{operation}.{attribute}.{size}.time")
      .filter((f) => f.at.operation === data.operation && f.value > 0);
    const sets = page.axes.attribute
      .map((attribute) => ({ attribute, list: curveOf(found.filter((f) => f.at.attribute === attribute), "size") }))
      .filter((s) => s.list.length);
    const all = sets.flatMap((s) => s.list);
    const [least, most] = [Math.min(...all.map((p) => p.x)), Math.max(...all.map((p) => p.x))];
    if (!(most > least)) return null;
    const ys = all.map((p) => p.y);
    return {
      caption: "Time of 8 bytes by working set, one curve an attribute; both axes logarithmic.",
      items: sets.flatMap((s) => s.list.map((p) => ({ p, text: `${s.attribute}, ${size(p.x)}: ${say(p, "ns for 8 bytes")}` }))),
      x: OCTAVES(least, most, "working set"), xLabel: size,
      y: logarithmic(Math.min(...ys) * 0.85, Math.max(...ys) * 1.2, "ns for 8 bytes"),
      series: (c) => sets.flatMap((s, i) => {
        const colour = c.series[i % c.series.length];
        return [curve(s.attribute, Math.log2, s.list, colour, { symbol: ["circle", "rect", "triangle", "diamond"][i % 4] }), whiskers(s.attribute, Math.log2, s.list, colour)];
      }),
    };
  },

  heat(page, data) {
    const cells = ofMetrics(page.reports[data.report], "stride.{size}.{stride}.{operation}.time_per_line")
      .filter((f) => f.at.operation === data.operation && f.value > 0)
      .map((f) => ({ bytes: f.at.size, step: f.at.stride, y: f.value, low: f.low, high: f.high, n: f.count }))
      .sort((a, b) => a.bytes - b.bytes || a.step - b.step);
    return heatMap(cells, {
      name: "time a line", unit: "ns", step: "step",
      caption: "Time a line touched (ns), working sets by steps: the darker, the slower; colours are logarithmic.",
      text: (c) => `${size(c.bytes)} at a stride of ${c.step} B: ${say(c, "ns a line")}`,
    });
  },

  overlay(page) {
    const all = page.reports.map((r) => ({ name: r.name, list: points(r) })).filter((r) => r.list.length);
    if (!all.length) return null;
    const xs = all.flatMap((r) => r.list.map((p) => p.x));
    const ys = all.flatMap((r) => r.list.map((p) => p.y));
    return {
      caption: "Random loads, one curve a record; both axes logarithmic. A name in the legend hides its curve.",
      items: all.flatMap((r) => r.list.map((p) => ({ p, text: `${r.name}, ${size(p.x)}: ${say(p)}` }))),
      x: OCTAVES(Math.min(...xs), Math.max(...xs), "working set"), xLabel: size,
      y: logarithmic(Math.min(...ys) * 0.85, Math.max(...ys) * 1.2, "ns a load"),
      series: (c) => all.flatMap((r, i) => {
        const colour = c.series[i % c.series.length];
        return [curve(r.name, Math.log2, r.list, colour, { symbol: ["circle", "rect", "triangle", "diamond"][i % 4] }), whiskers(r.name, Math.log2, r.list, colour)];
      }),
    };
  },

  change(page, data) {
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
          const sure = api.value(4) === 1;
          const colour = sure ? c.series[1] : c.series[0];
          return { type: "group", children: [
            { type: "line", shape: { x1: low, y1: y, x2: high, y2: y }, style: { stroke: colour, lineWidth: 2 } },
            { type: "circle", shape: { cx: mid, cy: y, r: 5 }, style: { fill: sure ? colour : c.ground, stroke: colour, lineWidth: 2 } },
          ] };
        },
        markLine: { symbol: "none", silent: true, animation: false, label: { show: false }, lineStyle: { color: c.quiet, type: "solid" }, data: [{ xAxis: 0 }] },
      }],
    };
  },
};

// At most some 160 bars, of equal width on the axis that they stand on; as fine as the clock where that is fewer.
function binned(counts, log) {
  const on = log ? Math.log2 : (v) => v;
  const off = log ? (v) => 2 ** v : (v) => v;
  const places = counts.map((c) => on(c[0]));
  const least = places.slice(1).reduce((m, v, i) => Math.min(m, v - places[i]), Infinity);
  const width = Math.max((places.at(-1) - places[0]) / 160, Number.isFinite(least) ? Math.min(least, log ? 0.02 : Infinity) : log ? 0.02 : 1);
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
