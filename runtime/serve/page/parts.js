/* Small parts of the page that know nothing of its state. */
import { make } from "./markdown.js";

export const $ = id => document.getElementById(id);
export const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), b => b.toString(16).padStart(2, "0")).join("");
const icon = name => {
  const [svg, use] = ["svg", "use"].map(tag => document.createElementNS("http://www.w3.org/2000/svg", tag));
  use.setAttribute("href", "#i-" + name);
  svg.append(use);
  return svg;
};
export function button(name, label, run) {
  return make("button", { type: "button", className: "icon", title: label, ariaLabel: label, onclick: run }, icon(name));
}
const TYPES = { mp4: "mp4", m4v: "mp4", mov: "quicktime", mkv: "x-matroska", webm: "webm", avi: "x-msvideo" };

export function typeOf(file) {
  if (/^(image|video)\//.test(file.type)) return file.type;
  const end = file.name.split(".").pop().toLowerCase();
  return TYPES[end] ? "video/" + TYPES[end] : "";
}

/* A picture or a video of the reader's; where the browser cannot show it, its name. */
export function preview(file, controls) {
  if (!file.blob) return make("span", { className: "gone" }, file.name + " is not kept any more");
  const video = file.type.startsWith("video/");
  file.url = file.url || URL.createObjectURL(file.blob);
  const view = make(video ? "video" : "img", { src: file.url, title: file.name });
  if (video) Object.assign(view, { muted: true, controls, preload: "metadata", playsInline: true, tabIndex: controls ? 0 : -1, ariaLabel: file.name });
  else view.alt = file.name;
  view.onerror = () => view.replaceWith(make("span", { className: "gone" }, file.name));
  return view;
}

export function factsOf(usage, seconds) {
  const cached = usage.prompt_tokens_details.cached_tokens;
  const facts = [`${usage.prompt_tokens} tokens read` + (cached ? ` (${cached} from the cache)` : ""), `${usage.completion_tokens} written`,
    `first after ${seconds.toFixed(seconds < 10 ? 2 : 0)} s`];
  if (usage.frames > 1) facts.splice(1, 0, `${usage.frames} frames`);
  return facts.join(" · ");
}

/* Blocks that are whole are read out, one after the other. */
export function sayer() {
  let n = 0;
  $("said").replaceChildren();
  return (answer, all) => {
    const blocks = [...answer.children];
    for (const end = all ? blocks.length : blocks.length - 1; n < end; n++) $("said").append(make("p", {}, blocks[n].textContent));
  };
}
