/* The page: a conversation, the list of earlier ones, and what the reader does with them. */
import { copy, make, show } from "./markdown.js";
import { overlay } from "./overlay.js";
import { $, button, factsOf, newId, preview, sayer, typeOf } from "./parts.js";
import * as store from "./store.js";
import { mediaBefore, messagesOf, namesOf, send, stageText } from "./stream.js";

const EXAMPLES = [
  ["picture0005.png", "Describe the image.", "A picture"],
  ["picture0000.png", "What number is written?", "A picture with a number"],
  ["drawn031_12.mp4", "Which number appears last?", "A video of 12 frames"],
];
const METHODS = ["prefill", "decode", "kv"];
const settings = store.settings();
let chats = [], chat = null, files = [], editing = -1, running = null, info = null, models = [], key = "";
try { key = sessionStorage.getItem("saccade-key") || ""; } catch { /* asked for anew */ }

function showTheme() { document.documentElement.dataset.theme = settings.theme || ""; }
function notice(text) { $("notice").textContent = text; $("notice").hidden = !text; }

/* ---------------------------------------------------------------- the server */

async function askServer() {
  let reply;
  try {
    reply = await fetch("v1/models", { headers: key ? { Authorization: "Bearer " + key } : {} });
  } catch { return notice("The server cannot be reached."); }
  if (reply.status === 401) {
    notice(key ? "The server does not know this API key." : "The server wants an API key.");
    return openSettings("key");
  }
  if (!reply.ok) return notice("The server replied " + reply.status);
  notice("");
  models = (await reply.json()).data;
  info = models[0].saccade;
  $("name").textContent = models[0].id;
  $("name").hidden = models.length > 1;
  $("model").hidden = models.length < 2;
  $("model").replaceChildren(...models.map(m => make("option", {}, m.id)));
  $("methods").hidden = !info.request_methods;
  for (const kind of METHODS) {
    const { own, names } = info.methods[kind];
    const as = own ? `as the server (${own.split(":")[0]})` : "as the server";
    $(kind).replaceChildren(make("option", { value: "" }, as), ...names.map(n => make("option", {}, n)));
  }
  $("temperature").placeholder = info.temperature;
  $("attach").hidden = $("photo").hidden = !info.vision;
}

function requestOf(messages) {
  const own = { progress: true, places: true, place_layers: true };
  const body = { model: $("model").value || models[0].id, stream: true, stream_options: { include_usage: true }, saccade: own, messages };
  if (settings.temperature) body.temperature = Number(settings.temperature);
  if (settings.length) body.max_tokens = Number(settings.length);
  if (settings.frames) body.media_io_kwargs = { video: { num_frames: Number(settings.frames) } };
  if (info.request_methods) for (const kind of METHODS) if (settings[kind]) own[kind] = settings[kind];
  return JSON.stringify(body);
}

/* ---------------------------------------------------------------- files to send */

function add(list) {
  const good = [...list].filter(typeOf);
  notice(good.length < list.length ? "Only pictures and videos can be added." : "");
  for (const f of good) files.push({ id: newId(), name: f.name || "picture", type: typeOf(f), blob: f });
  if (info && files.length > info.max_media) {
    files.length = info.max_media;
    notice(`The server takes ${info.max_media} files at a time.`);
  }
  showFiles();
}

function showFiles() {
  const stick = atEnd();
  $("files").replaceChildren(...files.map((f, i) => {
    const drop = button("x", "Remove " + f.name, () => { files.splice(i, 1); showFiles(); $("question").focus(); });
    drop.className = "";
    return make("li", {}, preview(f, false), drop);
  }));
  if (stick) toEnd();
  ready();
}

function ready() {
  $("ask").disabled = !running && !files.length && !$("question").value.trim();
  $("ask").classList.toggle("running", !!running);
  $("ask").ariaLabel = running ? "Stop" : "Ask";
  $("ask").firstElementChild.firstElementChild.setAttribute("href", running ? "#i-stop" : "#i-send");
}

/* ---------------------------------------------------------------- the conversation */

const atEnd = () => $("log").scrollHeight - $("log").scrollTop - $("log").clientHeight < 80;
const toEnd = () => { $("log").scrollTop = $("log").scrollHeight; };

function userItem(m, i) {
  const li = make("li", { className: "user" }, make("span", { className: "unseen" }, "You: "));
  if (m.files.length) li.append(make("div", { className: "media" }, ...m.files.map(f => preview(f, true))));
  if (m.text) li.append(make("div", { className: "bubble" }, m.text));
  li.append(make("div", { className: "acts" }, button("edit", "Edit", () => edit(i))));
  return li;
}

function answerItem(m, i) {
  const li = make("li", { className: "model" }, make("span", { className: "unseen" }, "Answer: "));
  fillAnswer(li, m, i);
  return li;
}

function fillAnswer(li, m, i) {
  const asked = chat.messages[i - 1], last = i === chat.messages.length - 1;
  while (li.childNodes.length > 1) li.lastChild.remove();
  if (m.thinking) li.append(make("details", { className: "thinking" }, make("summary", {}, "Thinking"), make("div", {}, m.thinking)));
  const answer = make("div", { className: "answer" });
  show(answer, m.text);
  li.append(answer);
  const seen = m.frames && overlay(m.frames, asked.files, m.first);
  if (seen) li.append(seen);
  if (m.error) li.append(make("p", { className: "problem" }, m.error));
  const acts = make("div", { className: "acts" });
  if (m.text) acts.append(button("copy", "Copy", e => copied(e.currentTarget, m.text)));
  if (last) acts.append(button("again", m.error ? "Try again" : "Regenerate", () => again()));
  if (m.facts) acts.append(make("span", { className: "facts" }, m.facts));
  li.append(acts);
}

async function copied(from, text) {
  await copy(text, from);
  $("status").textContent = "Copied";
}

function showChat() {
  $("messages").replaceChildren(...chat.messages.map((m, i) => (m.role === "user" ? userItem : answerItem)(m, i)));
  $("hello").hidden = chat.messages.length > 0;
  $("title").textContent = chat.title || "New conversation";
  document.title = chat.title ? chat.title + " · Saccade" : "Saccade";
  showChats();
}

function showChats() {
  $("chats").replaceChildren(...chats.map(c => {
    const open = make("button", { type: "button", className: "open", title: c.title, onclick: () => openChat(c) }, c.title);
    if (c.id === chat.id) open.ariaCurrent = "page";
    return make("li", { className: c.id === chat.id ? "now" : "" }, open, button("x", "Delete " + c.title, () => drop(c)));
  }));
}

const emptyChat = () => ({ id: newId(), title: "", updated: 0, messages: [] });

function turnTo(c) {
  chat = c;
  stopEditing();
  showChat();
  showSide(false);
  $("question").focus();
}

function newChat() {
  halt();
  turnTo(emptyChat());
}

async function openChat(c) {
  halt();
  await store.fill(c);
  turnTo(c);
  toEnd();
}

/* An answer that is on its way must not bring it back: see keep. */
async function drop(c) {
  c.gone = true;
  chats = chats.filter(other => other.id !== c.id);
  await store.remove(c).catch(() => {});
  if (c.id === chat.id) newChat(); else showChats();
}

async function keep(which) {
  if (which.gone) return;
  which.updated = Date.now();
  chats = [which, ...chats.filter(c => c.id !== which.id)];
  const { lost, said } = await store.save(which);
  chats = chats.filter(c => !lost.includes(c.id));
  if (said) notice(said);
  showChats();
}

/* ---------------------------------------------------------------- an answer */

async function answer() {
  const own = chat, m = { role: "assistant", text: "", thinking: "", files: [] };
  const names = namesOf(own.messages);
  m.first = mediaBefore(own.messages);
  const asked = own.messages.slice(), began = performance.now();
  own.messages.push(m);
  showChat();
  const li = $("messages").lastElementChild, stage = make("p", { className: "stage" }), text = li.querySelector(".answer"), say = sayer();
  const words = make("span", {}, "Waiting"), bar = make("progress", { max: 1, hidden: true, ariaLabel: "Progress" });
  stage.append(words, bar);
  text.before(stage);
  li.querySelector(".acts").hidden = true;
  toEnd();
  let first = 0, due = 0, stageNow = "";
  const draw = () => {
    due = 0;
    const stick = atEnd();
    if (m.text) show(text, m.text);
    say(text, false);
    if (stick) toEnd();
  };
  const tell = p => {
    const [said, share] = stageText(p, names);
    words.textContent = said;
    bar.hidden = share === null;
    if (share !== null) bar.value = share;
    if (p.stage !== stageNow) $("status").textContent = said.replace(/[:,]? (frame )?\d.*/, "");
    stageNow = p.stage;
  };
  const on = event => {
    const p = event.progress || (event.saccade && event.saccade.progress);
    if (p) return tell(p);
    const delta = event.choices[0] && event.choices[0].delta;
    if (delta && (delta.content || delta.reasoning_content)) {
      first = first || performance.now();
      m.text += delta.content || "";
      m.thinking += delta.reasoning_content || "";
      if (m.text) stage.remove(); else words.textContent = "Thinking", bar.hidden = true;
      due = due || requestAnimationFrame(draw);
    }
    if (event.choices[0] && event.choices[0].finish_reason === "length") m.error = "The answer was cut: it had its longest length.";
    if (event.usage) m.facts = factsOf(event.usage, ((first || performance.now()) - began) / 1000);
    if (event.saccade && event.saccade.frames) m.frames = event.saccade.frames;
  };
  let stopped = false;
  running = { stop: () => { stopped = true; } };
  ready();
  const mine = running;
  try {
    if (!info) await askServer();
    if (!info) throw new Error($("notice").textContent || "The server cannot be reached.");
    const body = requestOf(await messagesOf(asked));
    if (body.length > info.max_body_bytes)
      throw new Error(`The files of this conversation are too large together: ${Math.ceil(body.length / 1e6)} MB, ` +
        `the server takes ${Math.floor(info.max_body_bytes / 1e6)} MB.`);
    if (stopped) throw new DOMException("stopped", "AbortError");
    const sent = send(body, key, on);
    mine.stop = sent.stop;
    await sent.done;
    if (!m.text && !m.error) m.error = "The model said nothing.";
  } catch (error) {
    if (error.name === "AbortError") m.facts = "stopped";
    else m.error = String(error.message || error);
    if (error.status === 401) openSettings("key");
  }
  cancelAnimationFrame(due);
  if (running === mine) running = null;
  if (own === chat) {
    const stick = atEnd();
    stage.remove();
    fillAnswer(li, m, own.messages.length - 1);
    say(li.querySelector(".answer"), true);
    if (m.error) $("said").append(make("p", {}, m.error));
    $("status").textContent = m.error ? "" : "Answered";
    if (stick) toEnd();
  }
  ready();
  if (own.messages.includes(m)) await keep(own);
}

function halt() { if (running) running.stop(); running = null; }

/* ---------------------------------------------------------------- asking */

async function ask() {
  if (running) { running.stop(); return; }
  const text = $("question").value.trim();
  if (!text && !files.length) return;
  if (editing >= 0) chat.messages.length = editing;
  chat.messages.push({ role: "user", text, files });
  if (!chat.title || editing === 0) chat.title = (text || files[0].name).replace(/\s+/g, " ").slice(0, 60);
  stopEditing();
  await answer();
}

async function again() {
  if (running) return;
  chat.messages.pop();
  $("question").focus();
  await answer();
}

function edit(i) {
  if (running) return;
  editing = i;
  $("editing").hidden = false;
  $("question").value = chat.messages[i].text;
  files = chat.messages[i].files.filter(f => f.blob);
  showFiles();
  fit();
  $("question").focus();
}

function stopEditing() {
  editing = -1;
  $("editing").hidden = true;
  $("question").value = "";
  files = [];
  showFiles();
  fit();
}

/* Browsers without field-sizing. */
function fit() {
  const q = $("question");
  if (CSS.supports("field-sizing", "content")) return;
  q.style.height = "auto";
  q.style.height = q.scrollHeight + "px";
}

async function example([name, question]) {
  const reply = await fetch("page/" + name), blob = await reply.blob();
  add([new File([blob], name, { type: blob.type })]);
  $("question").value = question;
  await ask();
}

/* ---------------------------------------------------------------- settings, camera, list */

function openSettings(field) {
  for (const id of ["temperature", "length", "frames", "theme", ...METHODS]) $(id).value = settings[id] || "";
  $("key").value = key;
  if (!$("settings").open) $("settings").showModal();
  if (field) $(field).focus();
}

$("settings").onchange = e => {
  if (e.target.id === "key") {
    key = $("key").value;
    try { sessionStorage.setItem("saccade-key", key); } catch { /* it holds until the page is closed */ }
    return;
  }
  if (!e.target.checkValidity()) return;
  settings[e.target.id] = e.target.value;
  store.keepSettings(settings);
  showTheme();
};
$("settings").onclose = () => { if (!info) askServer(); };
$("forget").onclick = async () => {
  if (!confirm("Delete all conversations kept in this browser?")) return;
  for (const c of [...chats, chat]) c.gone = true;
  chats = [];
  newChat();
  await store.clear().catch(() => notice("The browser did not delete them."));
};

async function openCamera() {
  if (!navigator.mediaDevices) { $("snap").click(); return; } // a page without TLS: what phones offer for files
  try {
    $("view").srcObject = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    $("camera").showModal();
  } catch (error) {
    notice(error.name === "NotAllowedError" ? "The browser does not let this page use the camera." : "There is no camera.");
  }
}
$("camera").onclose = () => {
  if ($("view").srcObject) for (const track of $("view").srcObject.getTracks()) track.stop();
  $("view").srcObject = null;
};
$("shot").onclick = async () => {
  const view = $("view"), still = make("canvas", { width: view.videoWidth, height: view.videoHeight });
  if (!view.videoWidth) return;
  still.getContext("2d").drawImage(view, 0, 0);
  const blob = await new Promise(done => still.toBlob(done, "image/jpeg", .92));
  $("camera").close();
  add([new File([blob], "photo.jpg", { type: "image/jpeg" })]);
  $("question").focus();
};

function showSide(open) {
  document.body.classList.toggle("side", open);
  $("menu").ariaExpanded = open;
  if (open) $("new").focus();
}

/* ---------------------------------------------------------------- events */

$("form").onsubmit = e => { e.preventDefault(); ask(); };
$("question").oninput = () => { fit(); ready(); };
$("question").onkeydown = e => {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); if (!running) ask(); }
};
addEventListener("keydown", e => {
  if (e.key !== "Escape" || document.querySelector("dialog[open]")) return;
  if (document.body.classList.contains("side")) { showSide(false); $("menu").focus(); }
  else if (running) running.stop();
  else if (editing >= 0) stopEditing();
});
$("new").onclick = newChat;
$("cancel-edit").onclick = () => { stopEditing(); $("question").focus(); };
$("attach").onclick = () => $("pick").click();
for (const id of ["pick", "snap"]) $(id).onchange = () => { add($(id).files); $(id).value = ""; $("question").focus(); };
$("photo").onclick = openCamera;
$("no-shot").onclick = () => $("camera").close();
$("open-settings").onclick = () => openSettings();
$("menu").onclick = () => showSide(true);
$("scrim").onclick = () => showSide(false);
const take = (e, list) => { if (list.length) { e.preventDefault(); add(list); } };
addEventListener("paste", e => take(e, e.clipboardData.files));
for (const name of ["dragenter", "dragover"])
  addEventListener(name, e => { if (e.dataTransfer.types.includes("Files")) { e.preventDefault(); document.body.classList.add("dragging"); } });
addEventListener("dragleave", e => { if (!e.relatedTarget) document.body.classList.remove("dragging"); });
addEventListener("drop", e => {
  document.body.classList.remove("dragging");
  take(e, e.dataTransfer.files);
});

showTheme();
$("examples").append(...EXAMPLES.map(x => {
  const video = x[0].endsWith("mp4"), shot = make(video ? "video" : "img", { src: "page/" + x[0], className: "shot" });
  if (video) Object.assign(shot, { muted: true, preload: "metadata", tabIndex: -1 }); else shot.alt = "";
  return make("li", {}, make("button", { type: "button", onclick: () => example(x) }, shot, make("span", {}, x[1], make("small", {}, x[2]))));
}));
chat = emptyChat();
stopEditing();
askServer();
store.list().catch(() => []).then(list => { chats = [...chats, ...list.filter(c => !chats.some(o => o.id === c.id))]; showChats(); });
$("question").focus({ preventScroll: true });
