// The figures of transfers: CPU time by size, the parts of one size, and what a victim lost.

const CPU = "dma.{strategy}.{direction}.{size}.cpu";
// Of CPU time, in the order in which they are stacked.
const PARTS = {
  use: "dma.{strategy}.{direction}.{size}.use",
  copy: "dma.{strategy}.{direction}.{size}.copy",
  map: "dma.{strategy}.{direction}.{size}.map",
  unmap: "dma.{strategy}.{direction}.{size}.unmap",
  setup: "dma.{strategy}.{direction}.{size}.setup",
};

// Points by strategy of the findings of a metric, in a direction; strategies in the order of their list.
function byStrategy(page, data, metric) {
  const found = ofMetrics(page.reports[data.report], metric).filter((f) => f.at.direction === data.direction);
  return page.axes.strategy.map((name, nth) => ({ name, nth, list: curveOf(found.filter((f) => f.at.strategy === name), "size") }))
    .filter((s) => s.list.length);
}

// One curve a strategy over sizes.
function strategies(sets, caption, unit, y) {
  const all = sets.flatMap((s) => s.list);
  const [least, most] = [Math.min(...all.map((p) => p.x)), Math.max(...all.map((p) => p.x))];
  if (!(most > least)) return null;
  return {
    caption,
    items: sets.flatMap((s) => s.list.map((p) => ({ p, of: s.name, text: `${s.name}, ${size(p.x)}: ${say(p, unit)}` }))),
    x: OCTAVES(least, most, "transfer"), xLabel: size,
    y: y(all),
    series: (c) => sets.flatMap((s) => {
      const colour = c.series[s.nth % c.series.length];
      return [curve(s.name, Math.log2, s.list, colour, { symbol: SYMBOLS[s.nth % SYMBOLS.length] }), whiskers(s.name, Math.log2, s.list, colour)];
    }),
  };
}

Object.assign(SPECS, {
  transfers(page, data) {
    const sets = byStrategy(page, data, CPU)
      .map((s) => ({ ...s, list: s.list.filter((p) => p.y > 0) }));
    const y = (all) => logarithmic(Math.min(...all.map((p) => p.y)) * 0.85, Math.max(...all.map((p) => p.y)) * 1.2, "ns of CPU");
    return strategies(sets, "CPU time of a transfer by its size, one curve a strategy; both axes logarithmic.", "ns of CPU", y);
  },

  transferparts(page, data) {
    const { report, direction } = data, bytes = Number(data.size);
    const all = page.reports[report].findings.findings.filter((f) => f.at.direction === direction && f.at.size === bytes);
    const of = (name, metric) => all.find((f) => f.metric === metric && f.at.strategy === name);
    const rows = page.axes.strategy.filter((name) => of(name, CPU))
      .map((name) => ({ label: name, parts: Object.values(PARTS).map((metric) => of(name, metric)?.value ?? 0) }));
    return stacked(rows, Object.keys(PARTS), "ns", `CPU time of ${size(bytes)} ${direction}, by its parts.`);
  },

  pollution(page, data) {
    const sets = byStrategy(page, data, "pollution.{strategy}.{direction}.{size}");
    const y = (all) => {
      const ends = all.flatMap((p) => [p.low ?? p.y, p.high ?? p.y]);
      return LINEAR(Math.min(0, ...ends), Math.max(0, ...ends), "ns lost");
    };
    return strategies(sets, "What a walk through the victim's working set took longer after a transfer, by the transfer's size.", "ns", y);
  },
});
