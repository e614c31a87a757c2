(() => {
  "use strict";
  const charts = JSON.parse(document.getElementById("curves").textContent);
  const root = document.getElementById("charts");
  const paper = document.documentElement;
  const height = 230;
  const drawn = [];
  const dashes = [[], [7, 4], [2, 3], [10, 3, 2, 3]];  // of the first eight curves, of the next eight, and so on

  const colour = (name) => getComputedStyle(paper).getPropertyValue(name).trim();

  // 0.00012 as 1.2e-4, 1234567 as 1.23e6: as short as an axis needs.
  function short(value) {
    if (value === null || value === undefined) return "";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
    return String(Number(value.toPrecision(4)));
  }

  // Whether a logarithmic axis shows more: the numbers span more than a factor of ten, and none is 0 or less.
  function spans(chart) {
    let least = Infinity;
    let most = -Infinity;
    for (const one of chart.series) for (const y of one.y) {
      if (y === null) continue;
      least = Math.min(least, y);
      most = Math.max(most, y);
    }
    return least > 0 && most > 10 * least;
  }

  function columns(one, logarithmic) {
    const kept = (values) => values.map((value) => (logarithmic && value <= 0 ? null : value));
    return one.low.length > 0 ? [one.x, kept(one.y), kept(one.high), kept(one.low)] : [one.x, kept(one.y)];
  }

  function options(chart, logarithmic, width) {
    const series = [{ label: "step", value: (u, v) => (v === null ? "" : v.toLocaleString("en")) }];
    const bands = [];
    chart.series.forEach((one) => {
      const stroke = colour("--c" + (one.place % 8));
      const dash = dashes[Math.floor(one.place / 8) % dashes.length];
      const few = one.x.length < 40;
      series.push({ label: one.name, stroke, dash, width: 1.6, spanGaps: true, points: { show: few, size: 5, fill: stroke },
                    value: (u, v) => short(v) });
      if (one.low.length === 0) return;
      const edge = { stroke: "transparent", width: 0, spanGaps: true, points: { show: false }, class: "band" };
      bands.push({ series: [series.length, series.length + 1], fill: stroke + "33" });
      series.push({ label: "high", ...edge }, { label: "low", ...edge });
    });
    const ink = { stroke: colour("--soft"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), width: 1 },
                  font: "12px system-ui, sans-serif" };
    return {
      width, height, series, bands,
      scales: { x: { time: false }, y: logarithmic ? { distr: 3 } : {} },
      axes: [{ ...ink }, { ...ink, size: 58, values: (u, splits) => splits.map(short) }],
      cursor: { points: { size: 6 } },
    };
  }

  function draw(entry) {
    if (entry.plot) entry.plot.destroy();
    const data = uPlot.join(entry.chart.series.map((one) => columns(one, entry.logarithmic)));
    entry.plot = new uPlot(options(entry.chart, entry.logarithmic, entry.box.clientWidth), data, entry.box);
  }

  function label(entry) {
    entry.button.textContent = entry.logarithmic ? "linear axis" : "logarithmic axis";
  }

  function add(chart) {
    const card = document.createElement("article");
    card.className = "card";
    const head = document.createElement("div");
    head.className = "chart-head";
    const title = document.createElement("h3");
    title.textContent = chart.unit ? chart.title + ", " + chart.unit : chart.title;
    const button = document.createElement("button");
    button.type = "button";
    const box = document.createElement("div");
    box.className = "plot";
    head.append(title, button);
    card.append(head, box);
    if (chart.note) {
      const note = document.createElement("div");
      note.className = "soft";
      note.textContent = chart.note;
      card.append(note);
    }
    root.append(card);
    const entry = { chart, box, button, logarithmic: chart.log && spans(chart), plot: null };
    button.addEventListener("click", () => {
      entry.logarithmic = !entry.logarithmic;
      label(entry);
      draw(entry);
    });
    label(entry);
    draw(entry);
    drawn.push(entry);
  }

  charts.forEach(add);

  const fit = () => drawn.forEach((entry) => {
    const width = entry.box.clientWidth;
    if (width > 0 && width !== entry.plot.width) entry.plot.setSize({ width, height });
  });
  new ResizeObserver(fit).observe(root);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach(draw));
  // On paper: two charts beside each other, dark on white.
  addEventListener("beforeprint", () => {
    paper.classList.add("paper");
    drawn.forEach((entry) => { draw(entry); entry.plot.setSize({ width: 320, height }); });
  });
  addEventListener("afterprint", () => {
    paper.classList.remove("paper");
    drawn.forEach(draw);
  });
})();
