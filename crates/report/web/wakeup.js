// The figures of wake-ups: distributions by condition, stages of the worst, what factors add, and the sweep.

// What bars of a histogram lie apart, as a ratio, and the bins that a figure has room for.
const BAR = Math.log(1.01);
const BINS = 160;
// What is compared first; other conditions are behind their names in the legend.
const FIRST_SEEN = ["none", "study", "study-vm"];
const STAGES = ["before-irq", "irq-to-wakeup", "wakeup-to-switch", "switch-to-user", "wakeup-to-user"];
const SYMBOLS = ["circle", "rect", "triangle", "diamond"];

// Whole bars a bin, so that none gets more of them than its neighbours.
function bins(counts, least, bars) {
  const by = new Map();
  for (const [v, n] of counts) {
    const k = Math.floor(Math.round(Math.log(v / least) / BAR) / bars);
    const bin = by.get(k) ?? { k, n: 0, from: v, to: v };
    by.set(k, { ...bin, n: bin.n + n, to: v });
  }
  return [...by.values()].map((b) => ({ ...b, x: least * Math.exp((b.k + 0.5) * bars * BAR), y: b.n }));
}

// The stages of a worst activation; 0 for one that it does not have.
function stagesOf(f) {
  if (!f.detail.stages) return null;
  const by = new Map(f.detail.stages);
  return STAGES.map((s) => Math.max(by.get(s) ?? 0, 0));
}

// Rows with a point and its interval on one axis with a zero.
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
        // Filled where the interval leaves zero out.
        const sure = api.value(1) > 0 || api.value(3) < 0;
        const colour = sure ? c.series[1] : c.series[0];
        return { type: "group", children: [
          { type: "line", shape: { x1: low, y1: y, x2: high, y2: y }, style: { stroke: colour, lineWidth: 2 } },
          { type: "circle", shape: { cx: mid, cy: y, r: 5 }, style: { fill: sure ? colour : c.ground, stroke: colour, lineWidth: 2 } },
        ] };
      },
      markLine: { symbol: "none", silent: true, animation: false, label: { show: false }, lineStyle: { color: c.quiet, type: "solid" }, data: [{ xAxis: 0 }] },
    }],
  };
}

// Rows as bars of parts, one behind the other.
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

// The cells of a stressor and a mode: stride, bytes, and the finding.
function swept(report, of, metric) {
  return ofMetrics(report, metric)
    .filter((f) => f.at.stressor === of.stressor && f.at.mode === of.mode && f.value > 0)
    .map((f) => ({ step: f.at.stride, bytes: f.at.size, x: f.at.size, y: f.value, low: f.low, high: f.high, n: f.count, unit: f.unit }))
    .sort((a, b) => a.bytes - b.bytes || a.step - b.step);
}

// Where curves of a stressor and a mode change: stride, ends, and in words.
function inflections(report, of) {
  const word = (metric, index) => report.findings.findings.find((f) => f.metric === metric && f.at.index === index)?.value;
  return ofMetrics(report, "inflection.{index}.bytes")
    .filter((f) => f.detail.stressor === of.stressor && f.detail.mode === of.mode && f.low > 0 && f.high > 0)
    .map((f) => {
      const { index } = f.at;
      const [kind, statistic] = ["inflection.{index}.kind", "inflection.{index}.statistic"].map((metric) => word(metric, index));
      return { step: f.detail.stride, low: f.low, high: f.high, text: `${index}: ${kind ?? "change"}, ${statistic ?? "tail"}` };
    });
}

Object.assign(SPECS, {
  wakeups(page, data) {
    const found = page.reports[data.report].findings.histograms
      .filter((h) => h.metric === "wakeup.{place}.{condition}" && h.at.place === data.place)
      .map((h) => ({ name: h.at.condition, unit: h.unit, counts: h.counts.filter(([v, n]) => v > 0 && n > 0) }))
      .filter((s) => s.counts.length);
    if (!found.length) return null;
    const first = found.some((s) => FIRST_SEEN.includes(s.name)) ? FIRST_SEEN : found.slice(0, 3).map((s) => s.name);
    // Keys read what is shown before what is not.
    found.sort((a, b) => first.includes(b.name) - first.includes(a.name));
    const least = Math.min(...found.map((s) => s.counts[0][0]));
    const most = Math.max(...found.map((s) => s.counts.at(-1)[0]));
    const bars = Math.max(Math.ceil(Math.log(most / least) / BAR / BINS), 1);
    const sets = found.map((s) => ({ ...s, list: bins(s.counts, least, bars), total: s.counts.reduce((sum, c) => sum + c[1], 0) }));
    const unit = sets[0].unit;
    const room = Math.exp(2 * bars * BAR);
    return {
      caption: "Activations by wake-up latency, one curve a condition; both axes logarithmic. A name in the legend shows or hides its condition.",
      hidden: sets.map((s) => s.name).filter((name) => !first.includes(name)),
      items: sets.flatMap((s) => s.list.map((p) => ({
        p, of: s.name,
        text: `${s.name}: ${p.from === p.to ? digits(p.from) : `${digits(p.from)} to ${digits(p.to)}`} ${unit}: ${p.n} of ${s.total} activations`,
      }))),
      x: OCTAVES(least / room, most * room, unit), xLabel: digits,
      y: { type: "log", logBase: 10, min: 0.7, name: "activations" },
      series: (c) => sets.map((s, i) => {
        // A curve ends where a bin is empty: no logarithm has a place for it. A step reaches half way to its neighbour,
        // so that the ends have one.
        const bin = (bars * BAR) / Math.LN2;
        const data = s.list.flatMap((p, at) => {
          const on = Math.log2(p.x);
          const [before, behind] = [s.list[at - 1]?.k === p.k - 1, s.list[at + 1]?.k === p.k + 1];
          return [...(before ? [] : [[on - bin, null]]), [on, p.y], ...(behind ? [] : [[on + bin, null]])];
        });
        return curve(s.name, Math.log2, s.list, c.series[i % c.series.length], {
          data, step: "middle", symbol: SYMBOLS[Math.floor(i / c.series.length) % SYMBOLS.length], symbolSize: 4, lineStyle: { width: 1.5 },
        });
      }),
    };
  },

  stages(page, data) {
    const rows = ofMetrics(page.reports[data.report], "worst.{rank}.latency")
      .sort((a, b) => a.at.rank - b.at.rank)
      .map((f) => ({ f, parts: stagesOf(f) }))
      .filter((r) => r.parts);
    return stacked(rows.map((r) => ({ label: `${r.f.at.rank}, under ${r.f.detail.condition}`, parts: r.parts })), STAGES, rows[0]?.f.unit,
      "The worst activations, each by the stages that its time went into. What ran then stands below.");
  },

  effects(page, data) {
    // What is there with every factor off is no effect.
    const metrics = data.name === "effect"
      ? ["effect.{factor}", "interaction.{factor}.{with}"]
      : ["explained.increase", "explained.{factor}", "explained.rest"];
    const label = ({ metric, at }) => at.with ? `${at.factor} with ${at.with}` : at.factor ?? metric.replace("explained.", "");
    const rows = ofMetrics(page.reports[data.report], ...metrics).map((f) => ({ ...f, label: label(f) }));
    if (!rows.length) return null;
    const what = data.name === "effect" ? "What each factor adds by itself" : "What the study's memory workers add, and what of it each factor explains";
    return intervals(rows, rows[0].unit, `${what}, with 95 % intervals; filled where they leave zero out.`);
  },

  sweep(page, data) {
    const report = page.reports[data.report];
    const [tails, maxima, medians] = ["tail", "max", "p50"].map((what) => swept(report, data, `sweep.{stressor}.{mode}.{stride}.{size}.${what}`));
    const all = [...tails, ...maxima, ...medians];
    const [xs, ys] = [all.map((p) => p.x), all.map((p) => p.y)];
    const [least, most] = [Math.min(...xs), Math.max(...xs)];
    if (!(most > least)) return null;
    const unit = all[0].unit;
    const steps = [...new Set(all.map((p) => p.step))].sort((a, b) => a - b);
    const named = (step) => `stride ${size(step)}`;
    const breaks = inflections(report, data);
    const told = (step) => breaks.some((b) => b.step === step);
    // Of many curves those that change are shown, and the ends.
    const shown = steps.length > 4 ? steps.filter((s, i) => told(s) || i === 0 || i === steps.length - 1) : steps;
    const of = (list, step) => list.filter((p) => p.step === step);
    const item = (what) => (p) => ({ p, of: named(p.step), text: `${size(p.bytes)} at ${named(p.step)}: ${what} ${say(p, unit)}` });
    return {
      caption: `Wake-up latency by block size, one colour a stride; both axes logarithmic. Solid: the tail (p99.9, or p99) with 95 % intervals; dotted: the maximum; dashed: the median.${breaks.length ? " Bands: inflections, between the sizes where they lie." : ""}`,
      hidden: steps.filter((s) => !shown.includes(s)).map(named),
      items: [...tails.map(item("tail")), ...maxima.map(item("maximum")), ...medians.map(item("median"))],
      x: OCTAVES(least, most, "block size"), xLabel: size,
      y: logarithmic(Math.min(...ys) * 0.85, Math.max(...ys) * 1.2, unit),
      series: (c) => [
        ...steps.flatMap((step, i) => {
          const [colour, symbol] = [c.series[i % c.series.length], SYMBOLS[i % SYMBOLS.length]];
          return [
            curve(named(step), Math.log2, of(tails, step), colour, { symbol }),
            whiskers(named(step), Math.log2, of(tails, step), colour),
            curve(named(step), Math.log2, of(maxima, step), colour, { symbol, symbolSize: 4, lineStyle: { width: 1.2, type: "dotted" } }),
            curve(named(step), Math.log2, of(medians, step), colour, { symbol, symbolSize: 4, lineStyle: { width: 1.2, type: "dashed" } }),
          ];
        }),
        ...(breaks.length ? [{
          name: "inflections", type: "line", data: [], color: c.series[3], silent: true,
          markArea: {
            silent: true, animation: false, label: { color: c.text, fontSize: 11, position: "insideTop" },
            // Several may lie in one place: their names stand below each other.
            data: breaks.map((b, i) => [
              { xAxis: Math.log2(b.low), name: b.text, label: { distance: 4 + 14 * (i % 4) }, itemStyle: { color: c.series[3], opacity: 0.3, borderColor: c.series[3], borderWidth: 1 } },
              { xAxis: Math.log2(b.high) },
            ]),
          },
        }] : []),
      ],
    };
  },

  sweepheat(page, data) {
    const cells = swept(page.reports[data.report], data, "sweep.{stressor}.{mode}.{stride}.{size}.tail");
    const unit = cells[0]?.unit;
    return heatMap(cells, {
      name: "tail", unit, step: "stride",
      caption: `The tail of wake-up latency (${unit}), block sizes by strides: the darker, the later; colours are logarithmic.`,
      text: (c) => `${size(c.bytes)} at a stride of ${c.step} B: ${say(c, unit)}`,
    });
  },
});
