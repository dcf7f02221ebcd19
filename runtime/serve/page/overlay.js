/* What an attention method kept of pictures and frames: what it left out is darkened, of one layer or over all. */
import { make } from "./markdown.js";

const MOST = 48; // frames drawn
const seek = (video, time) => new Promise(done => { video.onseeked = done; video.currentTime = time; });

/* A picture, or a video that can be sought; null where the browser cannot show it. */
async function open(file) {
  if (!file || !file.blob) return null;
  const video = file.type.startsWith("video/"), source = document.createElement(video ? "video" : "img");
  source.src = URL.createObjectURL(file.blob);
  try {
    if (!video) await source.decode();
    else await new Promise((done, failed) => { source.muted = true; source.onloadeddata = done; source.onerror = failed; setTimeout(failed, 5000); });
    return source;
  } catch { return null; }
}

const keptBy = (frame, layer) => {
  if (layer < 0) return frame.kept;
  const digits = frame.layers && frame.layers[layer];
  return frame.kept.map((k, i) => k < 0 ? -1 : digits ? (parseInt(digits[i >> 2], 16) >> (3 - (i & 3))) & 1 : 1);
};
const shareOf = kept => { const seen = kept.filter(k => k >= 0); return seen.reduce((a, b) => a + b, 0) / (seen.length || 1); };
const percent = x => `${Math.round(100 * x)} %`;

function paint(shot, layer) {
  const { canvas, image, frame, caption, what } = shot, context = canvas.getContext("2d"), side = canvas.width, kept = keptBy(frame, layer);
  context.clearRect(0, 0, side, side);
  if (image) context.drawImage(image, 0, 0);
  const wide = side / frame.columns, high = side / frame.rows;
  kept.forEach((k, i) => {
    if (k < 0) return;
    context.fillStyle = `rgba(0,0,0,${(.8 * (1 - k)).toFixed(3)})`;
    context.fillRect(i % frame.columns * wide, Math.floor(i / frame.columns) * high, wide, high);
    context.strokeStyle = `rgba(255,255,255,${(.3 * k).toFixed(3)})`;
    context.strokeRect(i % frame.columns * wide + .5, Math.floor(i / frame.columns) * high + .5, wide - 1, high - 1);
  });
  caption.textContent = `${what} · ${percent(shareOf(kept))}`;
  canvas.ariaLabel = `${what}: ${percent(shareOf(kept))} kept`;
}

async function makeShot(frame, file, source, tiled) {
  const canvas = make("canvas", { width: 224, height: 224, role: "img" }), caption = make("figcaption");
  const what = frame.time !== null ? frame.time.toFixed(2) + " s" : tiled ? "tile " + frame.tile : file ? file.name : "picture";
  let image = null;
  if (source && !tiled) {
    if (source.tagName === "VIDEO" && frame.time !== null) await seek(source, Math.min(frame.time + .001, source.duration || 0));
    const wide = source.videoWidth || source.naturalWidth, high = source.videoHeight || source.naturalHeight, side = Math.min(wide, high);
    image = make("canvas", { width: 224, height: 224 });
    image.getContext("2d").drawImage(source, (wide - side) / 2, (high - side) / 2, side, side, 0, 0, 224, 224);
  }
  return { frame, canvas, caption, image, what };
}

async function drawAll(box, frames, files, range, shots) {
  const step = Math.max(1, frames.length / MOST), sources = new Map();
  for (let i = 0; i < frames.length; i += step) {
    const frame = frames[Math.floor(i)], file = files[frame.media];
    if (!sources.has(frame.media)) sources.set(frame.media, await open(file));
    const tiled = frame.time === null && frames.filter(f => f.media === frame.media).length > 1;
    const shot = await makeShot(frame, file, sources.get(frame.media), tiled);
    shots.push(shot);
    box.append(make("figure", {}, shot.canvas, shot.caption));
    paint(shot, range.value - 1);
  }
  for (const s of sources.values()) if (s) URL.revokeObjectURL(s.src);
}

/* Of the frames that a prompt was told the places of, those of `files` (the first is media number `first`); null where all was kept. */
export function overlay(frames, files, first) {
  const own = frames.filter(f => f.media >= first).map(f => ({ ...f, media: f.media - first }));
  if (!own.some(f => f.kept.some(k => k >= 0 && k < 1))) return null;
  const n_layers = Math.max(...own.map(f => (f.layers || []).length));
  const range = make("input", { type: "range", min: 0, max: n_layers, value: 0 }), told = make("output"), box = make("div", { className: "shots" });
  const mean = layer => percent(shareOf(own.flatMap(f => keptBy(f, layer))));
  const tell = () => { told.textContent = (+range.value ? `layer ${range.value} of ${n_layers}` : "all layers") + ` · ${mean(range.value - 1)}`; };
  const shots = [], details = make("details", { className: "kept" }, make("summary", {}, `Attention kept ${mean(-1)} of what it saw`),
    make("label", { className: "layer", hidden: !n_layers }, "Layer", range, told), box);
  range.oninput = () => { tell(); range.ariaValueText = told.textContent; for (const s of shots) paint(s, range.value - 1); };
  details.ontoggle = () => { if (details.open && !box.firstChild) drawAll(box, own, files, range, shots); };
  tell();
  return details;
}
