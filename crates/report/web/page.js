// Draws the figures from the findings in this page, without any further analysis.
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
    const spec = specOf(page, figure.dataset);
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

// Okabe and Ito's colours, distinguishable for the colour-blind; lighter ones on a dark background.
function palette(light) {
  return light
    ? { text: "#14202b", quiet: "#55626f", line: "#d5dbe1", ground: "#ffffff", shade: ["#0060a80f", "#0060a81f"],
        series: ["#0072b2", "#d55e00", "#009e73", "#a8518a", "#b07a00", "#2a8ac0", "#555555"] }
    : { text: "#e6ebf0", quiet: "#9dabb8", line: "#33404c", ground: "#19222b", shade: ["#6cb8f514", "#6cb8f528"],
        series: ["#6cb8f5", "#ff9757", "#4fcf9f", "#e59ac6", "#f0c45a", "#8fd3ff", "#bbbbbb"] };
}

// One hue from light to dark, readable without colours and on both backgrounds.
const HEAT = ["#e6f0f8", "#a9cbe6", "#5a9bd0", "#1f679f", "#0a3558"];

// Named fonts, because the width of text is measured before it is drawn.
const FONT = '"Noto Sans", "Liberation Sans", "DejaVu Sans", system-ui, sans-serif';

// ---- formatting of numbers ----

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
// Text in a tooltip may come from an untrusted record.
function safe(text) {
  return String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}
