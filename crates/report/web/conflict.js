// The figures of how levels are built and of what conflicts cost.

// Where an axis has a zero, an interval may begin there.
const BOTH_ENDS = (p) => Number.isFinite(p.low) && Number.isFinite(p.high);

// Curves that may lie on each other, each with its intervals: the first the widest, so that all are seen. A set has
// a name and its points.
function nested(sets, on, c, fits) {
  return sets.flatMap((s, i) => {
    const [colour, left] = [c.series[i % c.series.length], sets.length - 1 - i];
    const look = { symbolSize: 5 + 3 * left, lineStyle: { width: 2 + 2 * left } };
    return [curve(s.name, on, s.list, colour, look), whiskers(s.name, on, s.list, colour, fits)];
  });
}

// What some number of reads would do under each policy: a dash at its height, named beside, those of one height
// together. Names stand to the left, where nothing misses yet, if there is room; those that would overlap are moved up.
function policies(name, c, reads, groups) {
  return {
    name, type: "custom", clip: true, color: c.series[3], silent: true, z: 5,
    encode: { x: 0, y: groups.map((_, i) => i + 1) }, data: [[reads, ...groups.map((g) => g.y)]],
    renderItem: (params, api) => {
      let free = Infinity;
      const all = groups.map((g) => `${g.words.join(", ")} ${digits(g.y)}`);
      const begin = api.coord([reads - 0.4, 0])[0];
      const left = begin - 24 - 6 * Math.max(...all.map((t) => t.length)) > params.coordSys.x;
      const children = groups.flatMap((g, i) => {
        const [x1, y] = api.coord([reads - 0.4, api.value(i + 1)]);
        const x2 = api.coord([reads + 0.4, api.value(i + 1)])[0];
        const at = (free = Math.min(y, free) - 14) + 14;
        const fits = left || g.words.length < 2 || x2 + 20 + 6 * all[i].length < api.getWidth();
        const text = fits ? all[i] : `${g.words[0]} and ${g.words.length - 1} more ${digits(g.y)}`;
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

Object.assign(SPECS, {
  rounds(page, data) {
    const report = page.reports[data.report];
    const time = data.shown === "time";
    const unit = time ? "ns a round" : "misses a round";
    const metrics = time
      ? ["conflict.{lines}.time_per_round", "conflict.{lines}.base.time_per_round"]
      : ["conflict.{lines}.misses_per_round", "conflict.{lines}.base.misses_per_round"];
    const [own, base] = metrics.map((metric) => curveOf(ofMetrics(report, metric), "lines"));
    const sets = [{ name: base.length ? "huge pages" : "measured", list: own }, { name: "base pages", list: base }].filter((s) => s.list.length);
    const all = sets.flatMap((s) => s.list);
    const [min, max] = [Math.min(...all.map((p) => p.x)), Math.max(...all.map((p) => p.x))];
    if (!(max > min)) return null;
    const expected = data.expected === "true" ? ofMetrics(report, "conflict.{lines}.expected.{policy}") : [];
    const reads = Math.min(...expected.map((f) => f.at.lines));
    const groups = new Map();
    for (const f of expected.filter((f) => f.at.lines === reads)) {
      const key = f.value.toFixed(2);
      groups.set(key, { y: f.value, words: [...(groups.get(key)?.words ?? []), f.at.policy] });
    }
    const list = [...groups.values()].sort((a, b) => a.y - b.y);
    return {
      caption: time
        ? "Time of a round. Each read more takes time by itself; beyond the ways it takes more, where reads miss."
        : `Misses of the nearest level a round${list.length ? `; at ${reads} reads, what textbook policies would do` : ""}.`,
      items: [
        ...sets.flatMap((s) => s.list.map((p) => ({ p, of: s.name, text: `${p.x} reads, ${s.name}: ${say(p, unit)}` }))),
        ...list.map((g) => ({ p: { x: reads, y: g.y }, text: `${reads} reads, as ${g.words.join(", ")} would: ${digits(g.y)} ${unit}` })),
      ],
      x: { ...LINEAR(min, max, "reads a round"), whole: true }, xLabel: digits, y: { type: "value", name: unit, min: 0 },
      series: (c) => [...nested(sets, (v) => v, c, BOTH_ENDS), ...(list.length ? [policies("textbook policies", c, reads, list)] : [])],
    };
  },

  evicted(page, data) {
    const gone = ofMetrics(page.reports[data.report], "evicted.{level}.{distance}.share");
    const list = curveOf(gone.filter((f) => f.at.level === Number(data.tier)), "distance");
    if (!list.length) return null;
    return {
      small: true,
      caption: "How often the line was gone that had been loaded so many loads before the last, with 95 % intervals.",
      items: list.map((p) => ({ p, text: `${p.x} loads ago: gone in ${say(p, "of the laps")}` })),
      x: { ...LINEAR(list[0].x - 0.6, list.at(-1).x + 0.6, "loads ago"), whole: true }, xLabel: digits,
      y: { type: "value", name: "share gone", min: 0, max: 1 },
      series: (c) => [
        {
          name: "share gone", type: "custom", clip: true, color: c.series[0], encode: { x: 0, y: 1 }, data: list.map((p) => [p.x, p.y]),
          renderItem: (_, api) => {
            const [x1, y] = api.coord([api.value(0) - 0.35, api.value(1)]);
            const [x2, zero] = api.coord([api.value(0) + 0.35, 0]);
            // What never was gone is still to be seen, as a line.
            return { type: "rect", shape: { x: x1, y: Math.min(y, zero - 2), width: x2 - x1, height: Math.max(zero - y, 2) }, style: { fill: c.series[0] } };
          },
        },
        { ...whiskers("95 % intervals", (v) => v, list, c.series[1], BOTH_ENDS), z: 3 },
      ],
    };
  },

  pairs(page, data) {
    const report = page.reports[data.report];
    const by = new Map();
    for (const f of ofMetrics(report, "pair.{level}.{distance}.time")) {
      const { level, distance } = f.at;
      if (f.value > 0) by.set(level, [...(by.get(level) ?? []), { x: distance, y: f.value, low: f.low, high: f.high, n: f.count }]);
    }
    const sets = [...by].sort((a, b) => a[0] - b[0]).map(([n, list]) => ({ name: `beyond tier ${n}`, list: list.sort((a, b) => a.x - b.x) }));
    const all = sets.flatMap((s) => s.list);
    const [xs, ys] = [all.map((p) => p.x), all.map((p) => p.y)];
    const [min, max] = [Math.min(...xs), Math.max(...xs)];
    if (!(max > min)) return null;
    const lines = new Map();
    for (const f of ofMetrics(report, "tier.{level}.line")) {
      if (f.value >= min && f.value <= max) lines.set(f.value, { x: f.value });
    }
    return {
      small: true,
      caption: "Time of the second load of a pair; both axes logarithmic. It rises where the second no longer finds what the first one brought.",
      items: sets.flatMap((s) => s.list.map((p) => ({ p, of: s.name, text: `${p.x} B apart, ${s.name}: ${say(p, "ns")}` }))),
      x: { ...OCTAVES(min, max, "bytes apart"), whole: true }, xLabel: digits, y: logarithmic(Math.min(...ys) * 0.85, Math.max(...ys) * 1.2, "ns"),
      series: (c) => [
        ...nested(sets, Math.log2, c),
        ...(lines.size ? [marks("line", Math.log2, c, c.series[3], [...lines.values()], (m) => `line ${size(m.x)}`)] : []),
      ],
    };
  },

  colours(page, data) {
    const time = data.shown === "time";
    const unit = time ? "ns a round" : "misses a round";
    const metrics = time
      ? ["tier.{level}.colour.shared.{pages}.time_per_round", "tier.{level}.colour.{colours}.{pages}.time_per_round"]
      : ["tier.{level}.colour.shared.{pages}.misses_per_round", "tier.{level}.colour.{colours}.{pages}.misses_per_round"];
    // By the number of colours; 0 stands for one shared frame, which has none.
    const by = new Map();
    for (const f of ofMetrics(page.reports[data.report], ...metrics)) {
      const { level, colours = 0, pages } = f.at;
      if (level !== Number(data.tier)) continue;
      by.set(colours, [...(by.get(colours) ?? []), { x: pages, y: f.value, low: f.low, high: f.high, n: f.count }]);
    }
    const named = (colours) => (colours === 0 ? "one shared frame" : colours === 1 ? "1 colour" : `${colours} colours`);
    const sets = [...by].sort((a, b) => a[0] - b[0]).map(([colours, list]) => ({ name: named(colours), list: list.sort((a, b) => a.x - b.x) }));
    const xs = sets.flatMap((s) => s.list.map((p) => p.x));
    const [min, max] = [Math.min(...xs), Math.max(...xs)];
    if (!(max > min)) return null;
    return {
      caption: `A round loads from each of so many pages once, one curve a number of colours; ${time ? "time of a round" : `misses of tier ${data.tier}`}. Wider curves lie below narrower ones.`,
      items: sets.flatMap((s) => s.list.map((p) => ({ p, of: s.name, text: `${p.x} pages, ${s.name}: ${say(p, unit)}` }))),
      x: { ...LINEAR(min, max, "pages"), whole: true }, xLabel: digits, y: { type: "value", name: unit, min: 0 },
      series: (c) => nested(sets, (v) => v, c, BOTH_ENDS),
    };
  },
});
