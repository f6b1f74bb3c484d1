// What the pages of `ratchet history --html` do beyond links: search, filters and sorting of the overview, and the plot of a case.
"use strict";
const at = id => document.getElementById(id);
const style = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
for (const part of document.querySelectorAll(".tools")) part.hidden = false;
if (at("cases")) overview();
if (at("chart")) plot(JSON.parse(at("data").textContent));
document.addEventListener("keydown", event => {
  if (event.target.matches("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  const link = document.querySelector({ "[": "a[rel=prev]", "]": "a[rel=next]" }[event.key] ?? "none");
  if (link) link.click();
});

function overview() {
  const body = at("cases").tBodies[0], rows = [...body.rows], search = at("search");
  const texts = new Map(rows.map(row => [row, row.textContent.toLowerCase()]));
  const choose = () => {
    const words = search.value.toLowerCase().split(/\s+/), kind = at("filter").value, machine = at("machine")?.value;
    for (const row of rows)
      row.hidden = !words.every(word => texts.get(row).includes(word)) || (machine && row.dataset.machine !== machine)
        || (kind && !row.dataset.kind.split(" ").includes(kind));
    const shown = rows.filter(row => !row.hidden).length;
    at("count").textContent = `${shown} of ${rows.length}`;
  };
  for (const input of [search, at("filter"), at("machine")]) input?.addEventListener("input", choose);
  choose(); // a browser keeps what was typed when it goes back to a page
  at("cases").tHead.querySelectorAll("th").forEach((heading, column) => {
    if (!rows[0]?.cells[column].dataset.sort && column) return;
    const button = document.createElement("button");
    button.textContent = heading.textContent;
    button.addEventListener("click", () => {
      const sign = heading.ariaSort === "ascending" ? -1 : 1;
      const key = row => row.cells[column].dataset.sort;
      rows.sort((a, b) => column
        ? (key(a) === "") - (key(b) === "") || sign * (key(a) - key(b))
        : sign * a.cells[0].textContent.localeCompare(b.cells[0].textContent));
      for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
      heading.ariaSort = sign > 0 ? "ascending" : "descending";
      body.append(...rows);
    });
    heading.replaceChildren(button);
  });
  document.addEventListener("keydown", event => {
    if (event.key === "/" && !event.target.matches("input, select")) { event.preventDefault(); search.focus(); }
    if (event.key === "Escape" && event.target === search) { search.value = ""; choose(); }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !event.target.matches("#search, #cases a")) return;
    const links = [...rows].sort((a, b) => a.rowIndex - b.rowIndex).filter(row => !row.hidden).map(row => row.querySelector("a"));
    const next = links.indexOf(document.activeElement) + step;
    if (next < -1 || !links.length) return;
    event.preventDefault(); // from the search and the cases; elsewhere the arrows scroll
    (next < 0 ? search : links[Math.min(next, links.length - 1)]).focus();
  });
}

function plot(data) {
  const chart = at("chart"), runs = data.time.length;
  let chosen = runs - 1, drawn = null;
  data.series.forEach((one, number) => at("series").add(new Option(one.unit ? `${one.name}, ${one.unit}` : one.name, number)));
  at("range").value = runs > 200 ? "200" : "";

  const text = (value, unit) => value == null ? "–"
    : unit === "%" ? `${value > 0 ? "+" : ""}${value.toFixed(2)} %`.replace("-", "−") : `${value} ${unit}`.trim();
  const date = seconds => new Date(seconds * 1000).toISOString();

  function show(place) {
    chosen = Math.max(0, Math.min(runs - 1, place));
    const one = data.series[at("series").value], link = document.createElement("a");
    link.href = data.page[chosen];
    link.textContent = data.commit[chosen];
    const interval = one.low?.[chosen] == null ? "" : ` [${text(one.low[chosen], "%")}, ${text(one.high[chosen], "%")}]`.replaceAll(" %", "");
    const first = document.createElement("div"), second = document.createElement("div");
    first.append(link, ` ${data.subject[chosen]}`);
    second.textContent = `${date(data.time[chosen]).slice(0, 16).replace("T", " ")} · ${data.outcome[chosen]} ${data.change[chosen]} · `
      + `${one.name} ${text(one.values[chosen], one.unit)}${interval}`;
    at("run").replaceChildren(first, second);
    drawn?.redraw(false);
  }

  function draw() {
    drawn?.destroy();
    const one = data.series[at("series").value], dated = at("dates").checked, last = Number(at("range").value) || runs;
    const x = dated ? data.time : data.time.map((_, place) => place);
    const none = x.map(() => null);
    const of = kind => one.values.map((value, place) => data.kind[place] === kind ? value : null);
    const dots = (kind, colour) => [of(kind), { stroke: () => style(colour), paths: () => null, points: { show: true, size: 7, fill: () => style(colour) } }];
    const columns = [
      [one.low ?? none, { stroke: "transparent", points: { show: false } }],
      [one.high ?? none, { stroke: "transparent", points: { show: false } }],
      [one.values, { stroke: () => style("dot"), width: one.levels ? 0.6 : 1.2, points: { show: last < 400, size: 4, fill: () => style("dot") } }],
      dots("bad", "bad"), dots("unsure", "unsure"), dots("good", "good"),
    ];
    const width = Math.min(chart.clientWidth, 1200);
    const axis = { stroke: () => style("soft"), grid: { stroke: () => style("line"), width: 1 }, ticks: { stroke: () => style("line"), width: 1 } };
    const day = (_, places) => places.map(place => Number.isInteger(place) && place >= 0 && place < runs ? date(data.time[place]).slice(2, 10) : "");
    drawn = new uPlot({
      width, height: Math.max(240, Math.min(420, width * 0.45)), legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: true } },
      scales: { x: { time: dated, range: (_, low, high) => low === high ? [low - 1, high + 1] : [low, high] } },
      axes: [
        dated ? axis : { ...axis, values: day, space: 80 },
        { ...axis, size: 64, values: (_, values) => values.map(value => one.unit === "%" ? text(value, "%").replace(/\.?0* %/, " %") : value) },
      ],
      series: [{}, ...columns.map(([, options]) => options)],
      bands: one.low ? [{ series: [2, 1], fill: () => style("band") }] : [],
      hooks: { draw: [self => marks(self, one, x)], ready: [self => self.over.addEventListener("click", () => show(self.cursor.idx ?? chosen))] },
    }, [x, ...columns.map(([values]) => values)], chart);
    if (last < runs) drawn.setScale("x", { min: x[runs - last], max: x[runs - 1] });
    show(chosen);
  }

  function marks(self, one, x) {
    const context = self.ctx, { left, top, width, height } = self.bbox, ratio = devicePixelRatio;
    const column = place => self.valToPos(x[place], "x", true);
    const line = (colour, thick, dash, ...path) => {
      context.strokeStyle = style(colour);
      context.lineWidth = thick * ratio;
      context.setLineDash(dash.map(part => part * ratio));
      context.beginPath();
      context.moveTo(path[0], path[1]);
      context.lineTo(path[2], path[3]);
      context.stroke();
    };
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    for (const place of data.seams) line("unsure", 1, [2, 4], column(place), top, column(place), top + height);
    if (one.levels) {
      for (const [start, end, level] of one.levels) {
        const row = self.valToPos(level, "y", true);
        line("text", 2, [], column(start), row, column(end), row);
      }
      context.font = `${12 * ratio}px system-ui, sans-serif`;
      context.textAlign = "right";
      for (const [number, [place, change, slower]] of data.changes.entries()) {
        line(slower ? "bad" : "good", 1.5, [5, 4], column(place), top, column(place), top + height);
        context.fillStyle = style(slower ? "bad" : "good");
        context.fillText(change, column(place) - 4 * ratio, top + (14 + number % 3 * 14) * ratio);
      }
    }
    line("soft", 1, [], column(chosen), top, column(chosen), top + height);
    if (one.values[chosen] != null) {
      context.setLineDash([]);
      context.beginPath();
      context.arc(column(chosen), self.valToPos(one.values[chosen], "y", true), 6 * ratio, 0, 7);
      context.stroke();
    }
    context.restore();
  }

  chart.addEventListener("keydown", event => {
    const place = { ArrowLeft: chosen - 1, ArrowRight: chosen + 1, Home: 0, End: runs - 1 }[event.key];
    if (event.key === "Enter") location.assign(data.page[chosen]);
    if (place === undefined) return;
    event.preventDefault();
    show(place);
    const { min, max } = drawn.scales.x, value = drawn.data[0][chosen];
    if (value < min || value > max) drawn.setScale("x", value < min ? { min: value, max: max - min + value } : { min: min - max + value, max: value });
  });
  for (const id of ["series", "range", "dates"]) at(id).addEventListener("input", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.redraw(false));
  let wide = chart.clientWidth;
  addEventListener("resize", () => { if (chart.clientWidth !== wide) { wide = chart.clientWidth; draw(); } });
  draw();
}
