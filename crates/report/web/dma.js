// The figures of transfers: CPU time by size, the parts of one size, and what a victim lost.

const STRATEGIES = ["streaming-copy", "uncached-copy", "zero-copy", "persistent-copy", "coherent"];
const PARTS = ["use", "copy", "map", "unmap", "setup"];

// Points by strategy of the findings that a pattern of strategy and bytes reads, in a direction.
function byStrategy(report, pattern, direction) {
  const by = new Map(STRATEGIES.map((s) => [s, []]));
  for (const f of report.findings.findings) {
    const m = pattern.exec(f.name);
    if (m && m[2] === direction) by.get(m[1])?.push({ x: Number(m[3]), y: f.value, low: f.low, high: f.high, n: f.count });
  }
  return [...by].map(([name, list]) => ({ name, list: list.sort((a, b) => a.x - b.x) })).filter((s) => s.list.length);
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
      const i = STRATEGIES.indexOf(s.name);
      const colour = c.series[i % c.series.length];
      return [curve(s.name, Math.log2, s.list, colour, { symbol: SYMBOLS[i % SYMBOLS.length] }), whiskers(s.name, Math.log2, s.list, colour)];
    }),
  };
}

Object.assign(SPECS, {
  transfers(page, data) {
    const sets = byStrategy(page.reports[data.report], /^dma\.([\w-]+)\.(to-device|from-device)\.(\d+)\.cpu$/, data.name)
      .map((s) => ({ ...s, list: s.list.filter((p) => p.y > 0) }));
    const y = (all) => logarithmic(Math.min(...all.map((p) => p.y)) * 0.85, Math.max(...all.map((p) => p.y)) * 1.2, "ns of CPU");
    return strategies(sets, "CPU time of a transfer by its size, one curve a strategy; both axes logarithmic.", "ns of CPU", y);
  },

  transferparts(page, data) {
    const [direction, bytes] = data.name.split(".");
    const value = (name, part) => page.reports[data.report].findings.findings.find((f) => f.name === `dma.${name}.${direction}.${bytes}.${part}`);
    const rows = STRATEGIES.filter((name) => value(name, "cpu")).map((name) => ({ label: name, parts: PARTS.map((part) => value(name, part)?.value ?? 0) }));
    return stacked(rows, PARTS, "ns", `CPU time of ${size(Number(bytes))} ${direction}, by its parts.`);
  },

  pollution(page, data) {
    const sets = byStrategy(page.reports[data.report], /^pollution\.([\w-]+)\.(to-device|from-device)\.(\d+)$/, data.name);
    const y = (all) => {
      const ends = all.flatMap((p) => [p.low ?? p.y, p.high ?? p.y]);
      return LINEAR(Math.min(0, ...ends), Math.max(0, ...ends), "ns lost");
    };
    return strategies(sets, "What a walk through the victim's working set took longer after a transfer, by the transfer's size.", "ns", y);
  },
});
