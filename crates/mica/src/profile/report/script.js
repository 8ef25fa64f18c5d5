"use strict";
// The parts of the page that move: tooltips, sorting and filtering of tables, the matrix's cell
// under the pointer, and the time line. Charts and tables are there without it. What was drawn is
// written to the root element (data-timeline, data-errors), where a test reads it.
(() => {
const root = document.documentElement;
let errors = 0;
addEventListener("error", (event) => { root.dataset.errors = ++errors + ": " + event.message; });
root.dataset.errors = "0";
const data = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");

const digits = (value) => String(Number(value.toPrecision(3)));
function time(ns) {
  for (const [unit, factor] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]]) {
    if (Math.abs(ns) >= factor * 0.9995) return digits(ns / factor) + " " + unit;
  }
  return digits(ns) + " ns";
}
function volume(bytes) {
  for (const [unit, shift] of [["TiB", 40], ["GiB", 30], ["MiB", 20], ["KiB", 10]]) {
    if (bytes >= 2 ** shift * 0.9995) return digits(bytes / 2 ** shift) + " " + unit;
  }
  return bytes + " B";
}
const count = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");

// Tooltips
function show(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const right = x + 14 + width > innerWidth ? x - 14 - width : x + 14;
  const low = y + 14 + height > innerHeight ? y - 14 - height : y + 14;
  tip.style.left = Math.max(4, right) + "px";
  tip.style.top = Math.max(4, low) + "px";
}
const hide = () => { tip.hidden = true; };
document.addEventListener("pointermove", (event) => {
  if (event.target.id === "canvas" || event.target.closest(".heat")) return;
  const found = event.target.closest("[data-tip]");
  if (found && found.dataset.tip) show(found.dataset.tip, event.clientX, event.clientY);
  else hide();
});
document.addEventListener("pointerleave", hide);

// Tables
for (const table of document.querySelectorAll("table.data")) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === "descending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.n;
      const order = (a, b) => key(a) !== undefined && key(b) !== undefined
        ? key(a) - key(b)
        : b.cells[column].textContent.localeCompare(a.cells[column].textContent, "en",
          { numeric: true });
      const rows = [...body.rows].sort(order);
      body.append(...(up ? rows : rows.reverse()));
    });
  });
}
const filter = document.getElementById("filter");
if (filter) {
  const rows = [...document.querySelectorAll("#sites tbody tr")];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const apply = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, place) => {
      row.hidden = !words.every((word) => texts[place].includes(word));
      shown += row.hidden ? 0 : 1;
    });
    document.getElementById("filtered").textContent = shown + " of " + rows.length;
  };
  filter.addEventListener("input", apply);
  apply();
}

// Matrix: the cell under the pointer
for (const map of document.querySelectorAll(".heat")) {
  const [left, top, extent, side] =
    ["left", "top", "extent", "side"].map((name) => Number(map.dataset[name]));
  const flat = data.matrix[map.dataset.key];
  const cells = new Map();
  for (let at = 0; at < flat.length; at += 4) {
    cells.set(flat[at] + " " + flat[at + 1], [flat[at + 2], flat[at + 3]]);
  }
  const cursor = map.querySelector(".cursor");
  const names = data.matrix.labels;
  map.addEventListener("pointermove", (event) => {
    const at = new DOMPoint(event.clientX, event.clientY)
      .matrixTransform(map.ownerSVGElement.getScreenCTM().inverse());
    const [column, row] = [at.x - left, at.y - top].map((way) =>
      Math.min(side - 1, Math.max(0, Math.floor(way / extent * side))));
    const [messages, bytes] = cells.get(column + " " + row) || [0, 0];
    const size = extent / side;
    cursor.setAttribute("d",
      `M${left + column * size} ${top + row * size}h${size}v${size}h${-size}z`);
    const what = map.dataset.key === "messages" ? "messages" : "blocks";
    show(`${names[row]} \u2192 ${names[column]}\n${count(messages)} ${what}, ${volume(bytes)}`,
      event.clientX, event.clientY);
  });
  map.addEventListener("pointerleave", () => { cursor.setAttribute("d", ""); hide(); });
}

// Time line
const canvas = document.getElementById("canvas");
if (!canvas) { root.dataset.timeline = "none"; return; }
const { span, calls, hues, sites, lanes } = data.timeline;
const threads = lanes.some((lane) => lane.thread > 0);
const FIELDS = 9;
for (const lane of lanes) {
  const bars = lane.bars;
  let start = 0;
  lane.longest = 0;
  for (let at = 0; at < bars.length; at += FIELDS) {
    start += bars[at];
    bars[at] = start;
    lane.longest = Math.max(lane.longest, bars[at + 1]);
  }
}
const AXIS = 26;
const LABEL = threads ? 82 : 66;
const pad = Math.max(1, span * 0.005);
const whole = { from: -pad, to: span + pad, low: 0, high: lanes.length };
let view = { ...whole };
let size = { width: 0, height: 0 };
let pointer = null;

const plot = () => size.width - LABEL - 10;
const x = (ns) => LABEL + (ns - view.from) / (view.to - view.from) * plot();
const ns = (px) => view.from + (px - LABEL) / plot() * (view.to - view.from);
const rowHeight = () => (size.height - AXIS - 4) / (view.high - view.low);
const y = (lane) => AXIS + (lane - view.low) * rowHeight();

function colours() {
  const style = getComputedStyle(root);
  const get = (name) => style.getPropertyValue(name).trim();
  return { ground: get("--panel"), soft: get("--soft"), ink: get("--ink"), quiet: get("--quiet"),
    rule: get("--rule"), accent: get("--accent"),
    hues: [0, 1, 2, 3, 4, 5, 6, 7].map((hue) => get("--c" + hue)) };
}

function step(range, room) {
  const raw = range / Math.max(1, room);
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= raw) || raw;
}

function resize() {
  const width = canvas.parentElement.clientWidth;
  // Rows of whole pixels: where some were rounded up and others down, some ranks would vanish.
  const each = lanes.length * 26 <= 560 ? 26 : Math.max(1, Math.floor(560 / lanes.length));
  const height = Math.min(Math.max(each * lanes.length, 60), 1000) + AXIS + 4;
  const ratio = devicePixelRatio || 1;
  size = { width, height };
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  draw();
}

// The first bar that may reach into the window.
function first(lane, from) {
  const bars = lane.bars;
  let [low, high] = [0, bars.length / FIELDS];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (bars[middle * FIELDS] < from - lane.longest) low = middle + 1;
    else high = middle;
  }
  return low * FIELDS;
}

function draw() {
  const context = canvas.getContext("2d");
  const ratio = devicePixelRatio || 1;
  const colour = colours();
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = colour.ground;
  context.fillRect(0, 0, size.width, size.height);
  context.font = "12px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif";
  axis(context, colour);
  const height = rowHeight();
  const gap = height >= 12 ? Math.min(6, height * 0.25) : height >= 4 ? 1 : 0;
  context.save();
  context.beginPath();
  context.rect(LABEL, AXIS, plot(), size.height - AXIS);
  context.clip();
  let drawn = 0;
  for (let row = Math.floor(view.low); row < Math.min(lanes.length, view.high); row++) {
    const lane = lanes[row];
    // Rows of a pixel or two end at whole pixels: fractions would show as stripes.
    const thin = height < 4;
    const top = thin ? Math.floor(y(row)) : y(row) + gap / 2;
    const tall = thin ? Math.max(1, Math.floor(y(row + 1)) - top) : height - gap;
    if (height >= 8) {
      // Only while the rank ran: a rank that was killed does not compute until the end.
      context.globalAlpha = 1;
      context.fillStyle = colour.soft;
      const [from, to] = [Math.max(LABEL, x(lane.run[0])), Math.min(size.width, x(lane.run[1]))];
      if (to > from) context.fillRect(from, top, to - from, height - gap);
    }
    drawn += drawLane(context, colour, lane, top, tall);
  }
  context.restore();
  context.globalAlpha = 1;
  labels(context, colour, height);
  root.dataset.drawn = drawn;
}

function drawLane(context, colour, lane, top, height) {
  const bars = lane.bars;
  let drawn = 0;
  // Bars of less than a pixel that would cover the same pixel are drawn once.
  let last = -1;
  for (let at = first(lane, view.from); at < bars.length && bars[at] < view.to; at += FIELDS) {
    const [start, length] = [bars[at], bars[at + 1]];
    const left = Math.max(LABEL - 1, x(start));
    const right = Math.min(size.width, x(start + length));
    if (right < LABEL || (right - left < 0.5 && right <= last)) continue;
    const width = Math.max(0.8, right - left);
    last = left + width;
    context.globalAlpha = bars[at + 5] > 1
      ? Math.max(0.25, Math.min(1, bars[at + 6] / Math.max(1, length))) : 1;
    const paused = bars[at + 8] && bars[at + 5] === 0;
    context.fillStyle = paused ? colour.ground : colour.hues[hues[bars[at + 2]]];
    context.fillRect(left, top, width, height);
    if (bars[at + 8] && width >= 3) hatch(context, colour, left, top, width, height);
    drawn++;
  }
  return drawn;
}

// Lines across what was not recorded call by call.
function hatch(context, colour, left, top, width, height) {
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.globalAlpha = 0.6;
  context.strokeStyle = colour.ink;
  context.lineWidth = 1;
  context.beginPath();
  const [from, to] = [Math.max(left, LABEL), Math.min(left + width, size.width)];
  for (let at = Math.floor((from - height) / 6) * 6; at < to; at += 6) {
    context.moveTo(at, top + height);
    context.lineTo(at + height, top);
  }
  context.stroke();
  context.restore();
}

function axis(context, colour) {
  const every = step(view.to - view.from, plot() / 110);
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let at = Math.ceil(view.from / every) * every; at <= view.to; at += every) {
    if (at < -every / 2 || at > span + pad) continue;
    const place = Math.round(x(at)) + 0.5;
    context.fillStyle = colour.rule;
    context.fillRect(place - 0.5, AXIS - 4, 1, size.height);
    context.fillStyle = colour.quiet;
    const text = Math.abs(at) < every / 2 ? "0" : exact(at, every);
    const half = context.measureText(text).width / 2;
    const middle = Math.min(size.width - 4 - half, Math.max(LABEL + half - 8, place));
    context.fillText(text, middle, AXIS / 2 - 1);
  }
}

// As many digits as the step between ticks needs.
function exact(at, every) {
  const units = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]];
  const [unit, factor] = units.find(([, factor]) => at >= factor && every >= factor / 1000)
    || units.find(([, factor]) => every >= factor / 1000) || units[3];
  const digits = Math.max(0, -Math.floor(Math.log10(every / factor) + 1e-9));
  return (at / factor).toFixed(Math.min(6, digits)) + " " + unit;
}

function labels(context, colour, height) {
  context.fillStyle = colour.quiet;
  context.textAlign = "right";
  context.textBaseline = "middle";
  const every = 2 ** Math.max(0, Math.ceil(Math.log2(16 / height)));
  const begin = Math.ceil(Math.max(0, view.low) / every) * every;
  for (let row = begin; row < Math.min(lanes.length, view.high); row += every) {
    const lane = lanes[row];
    const name = "rank " + lane.rank + (threads ? "." + lane.thread : "");
    const middle = Math.max(AXIS + 5, y(row) + height / 2);
    context.fillText(name, LABEL - 8, middle);
  }
}

function clamp() {
  const range = Math.min(whole.to - whole.from, Math.max(view.to - view.from, 20));
  view.from = Math.min(Math.max(view.from, whole.from), whole.to - range);
  view.to = view.from + range;
  const rows = Math.min(lanes.length, Math.max(view.high - view.low, Math.min(1, lanes.length)));
  view.low = Math.min(Math.max(view.low, 0), lanes.length - rows);
  view.high = view.low + rows;
}
function say() {
  const shown = Math.min(span, view.to) - Math.max(0, view.from);
  const ranks = Math.round(view.high - view.low);
  document.getElementById("window").textContent =
    `${view.from > 0 ? time(view.from) : 0} to ${time(Math.min(span, view.to))}, `
    + `${time(shown)} shown`
    + (ranks < lanes.length ? `, ${ranks} of ${lanes.length} ranks` : "");
}
let pending = false;
function changed() {
  clamp();
  say();
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => { pending = false; draw(); });
}
function zoom(factor, around = (view.from + view.to) / 2) {
  view.from = around - (around - view.from) * factor;
  view.to = around + (view.to - around) * factor;
  changed();
}
function zoomRows(factor, around = (view.low + view.high) / 2) {
  view.low = around - (around - view.low) * factor;
  view.high = around + (view.high - around) * factor;
  changed();
}
function move(share) {
  const by = (view.to - view.from) * share;
  view.from += by;
  view.to += by;
  changed();
}
function moveRows(by) { view.low += by; view.high += by; changed(); }
const all = () => { view = { ...whole }; changed(); };
const actions = { "zoom-in": () => zoom(0.5), "zoom-out": () => zoom(2), left: () => move(-0.25),
  right: () => move(0.25), all };
for (const button of document.querySelectorAll("[data-do]")) {
  button.addEventListener("click", actions[button.dataset.do]);
}

canvas.addEventListener("wheel", (event) => {
  // Without focus the wheel scrolls the page, as the reader expects.
  if (document.activeElement !== canvas && !event.ctrlKey) return;
  event.preventDefault();
  const factor = 1.0015 ** event.deltaY;
  const top = view.low + (event.offsetY - AXIS) / rowHeight();
  if (event.shiftKey) zoomRows(factor ** (event.deltaY ? 1 : 0), top);
  else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX / plot());
  else zoom(factor, ns(event.offsetX));
}, { passive: false });
canvas.addEventListener("pointerdown", (event) => {
  canvas.focus({ preventScroll: true });
  canvas.setPointerCapture(event.pointerId);
  pointer = { x: event.clientX, y: event.clientY, view: { ...view } };
});
canvas.addEventListener("pointerup", () => { pointer = null; canvas.style.cursor = ""; });
canvas.addEventListener("pointercancel", () => { pointer = null; });
canvas.addEventListener("dblclick", all);
canvas.addEventListener("pointerleave", hide);
canvas.addEventListener("pointermove", (event) => {
  if (pointer) {
    canvas.style.cursor = "grabbing";
    const old = pointer.view;
    const by = (pointer.x - event.clientX) / plot() * (old.to - old.from);
    const rows = (pointer.y - event.clientY) / rowHeight();
    view = { from: old.from + by, to: old.to + by, low: old.low + rows, high: old.high + rows };
    hide();
    changed();
    return;
  }
  const text = at(event.offsetX, event.offsetY);
  if (text) show(text, event.clientX, event.clientY);
  else hide();
});
canvas.addEventListener("keydown", (event) => {
  const rows = (view.high - view.low) * 0.25;
  const keys = { ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2),
    ArrowUp: () => moveRows(-rows), ArrowDown: () => moveRows(rows),
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), Home: all, "0": all,
    "]": () => zoomRows(0.5), "[": () => zoomRows(2) };
  const action = keys[event.key];
  const modified = event.ctrlKey || event.altKey || event.metaKey;
  if (!action || (modified && !event.getModifierState("AltGraph"))) return;
  event.preventDefault();
  action();
});

// What is at a place of the canvas, in words.
function at(px, py) {
  const row = Math.floor(view.low + (py - AXIS) / rowHeight());
  if (py < AXIS || px < LABEL || row < 0 || row >= lanes.length) return null;
  const lane = lanes[row];
  const [bars, when] = [lane.bars, ns(px)];
  const near = (view.to - view.from) / plot() * 2;
  let best = null;
  let distance = near;
  for (let i = first(lane, when - near); i < bars.length && bars[i] <= when + near; i += FIELDS) {
    const away = Math.max(bars[i] - when, when - bars[i] - bars[i + 1], 0);
    if (away <= distance) [best, distance] = [i, away];
  }
  const who = "rank " + lane.rank + (threads ? ", thread " + lane.thread : "");
  if (best === null) {
    const ran = when >= lane.run[0] && when <= lane.run[1];
    return `${who}\n${ran ? "application" : "not in the job"} at ${time(when)}`;
  }
  const [start, length, call, site, bytes, number, busy, peer, hatched] =
    bars.slice(best, best + FIELDS);
  if (number === 0) {
    return `${who}: nothing recorded\n${time(length)} from ${time(start)}`;
  }
  const lines = number > 1
    ? [`${who}: ${count(number)} calls`, `${time(busy)} in MPI of ${time(length)}`,
      `longest: ${calls[call]}`]
    : [`${who}: ${calls[call]}`, time(length)];
  if (hatched) lines.push("not kept one by one");
  lines.push(sites[site], `from ${time(start)}`);
  if (bytes > 0) lines.push(`sent ${volume(bytes)}`);
  if (peer >= 0 && number === 1) lines.push(`peer: rank ${peer}`);
  return lines.join("\n");
}

say();
new ResizeObserver(resize).observe(canvas.parentElement);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
resize();

// Whether bars reached the canvas: pixels of the plot that are neither ground nor rules.
function check() {
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
  const hues = new Map();
  for (let at = 0; at < pixels.length; at += 4) {
    const [r, g, b] = [pixels[at], pixels[at + 1], pixels[at + 2]];
    if (Math.max(r, g, b) - Math.min(r, g, b) > 40) {
      const key = (r >> 4) + "," + (g >> 4) + "," + (b >> 4);
      hues.set(key, (hues.get(key) || 0) + 1);
    }
  }
  const coloured = [...hues.values()].reduce((sum, one) => sum + one, 0);
  root.dataset.timeline = coloured > 0 ? "drawn" : "empty";
  root.dataset.pixels = coloured;
}
check();
})();
