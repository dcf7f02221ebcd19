/* Conversations in the browser's database, their files beside them. Where there is none, or it is full, what is open stays in memory. */
let base = null, opening = null;

function open() {
  return new Promise((done, failed) => {
    const r = indexedDB.open("saccade", 1);
    r.onupgradeneeded = () => { r.result.createObjectStore("chats", { keyPath: "id" }); r.result.createObjectStore("files"); };
    r.onsuccess = () => done(r.result);
    r.onerror = r.onblocked = () => failed(r.error);
  });
}

/* Whether there is a database; it is opened once. */
async function ready() {
  opening = opening || open().then(b => { base = b; }, () => {});
  await opening;
  return base !== null;
}

/* The result of the request that work makes, once all of it is written. */
function run(mode, work) {
  return new Promise((done, failed) => {
    const t = base.transaction(["chats", "files"], mode);
    let r = null;
    t.oncomplete = () => done(r && r.result);
    t.onabort = t.onerror = e => failed(t.error || (e.target && e.target.error) || new Error("not stored"));
    try { r = work(t.objectStore("chats"), t.objectStore("files")); } catch (error) { t.abort(); failed(error); }
  });
}

export async function list() {
  if (!await ready()) return [];
  const all = await run("readonly", chats => chats.getAll());
  return all.sort((a, b) => b.updated - a.updated);
}

export async function fill(chat) {
  for (const m of chat.messages)
    for (const f of m.files || [])
      if (!f.blob && base) {
        f.blob = await run("readonly", (_, files) => files.get(f.id)).catch(() => null) || null;
        f.kept = !!f.blob;
      }
}

const fileIds = chat => chat.messages.flatMap(m => (m.files || []).map(f => f.id));
const FRAMES_BYTES = 3e5; // of what attention kept: more of it is shown, and not kept
const plain = chat => ({ ...chat, messages: chat.messages.map(m => ({
  ...m,
  files: (m.files || []).map(({ id, name, type }) => ({ id, name, type })),
  frames: m.frames && JSON.stringify(m.frames).length < FRAMES_BYTES ? m.frames : undefined,
})) });

export async function remove(chat) {
  if (base) await run("readwrite", (chats, files) => { for (const id of fileIds(chat)) files.delete(id); chats.delete(chat.id); });
}

export async function clear() {
  if (base) await run("readwrite", (chats, files) => { files.clear(); chats.clear(); });
}

/* Messages may be added meanwhile: what counts as kept is what was written. Files of messages that were edited away go. */
async function write(chat, withFiles) {
  const added = withFiles ? chat.messages.flatMap(m => m.files || []).filter(f => f.blob && !f.kept) : [], now = new Set(fileIds(chat));
  await run("readwrite", (chats, files) => {
    const had = chats.get(chat.id);
    had.onsuccess = () => { for (const id of had.result ? fileIds(had.result) : []) if (!now.has(id)) files.delete(id); };
    for (const f of added) files.put(f.blob, f.id);
    chats.put(plain(chat));
  });
  for (const f of added) f.kept = true;
}

/* What became of it: {lost: older conversations that had to go, said: a text for the reader or ""}. */
export async function save(chat) {
  const lost = [];
  let why = "The browser's storage is full";
  if (!await ready()) return { lost, said: "" };
  for (;;) {
    try {
      await write(chat, true);
      return { lost, said: lost.length ? "The browser's storage is full: the oldest conversations were deleted." : "" };
    } catch (error) {
      if (error.name !== "QuotaExceededError") { // as for a file that is gone from the disk: others need not make room
        why = "The browser does not store all of it";
        break;
      }
      const others = (await list().catch(() => [])).filter(c => c.id !== chat.id);
      const oldest = others.pop();
      if (!oldest) break;
      try { await remove(oldest); } catch { break; }
      lost.push(oldest.id);
    }
  }
  try {
    await write(chat, false);
    return { lost, said: why + ": files of this conversation are kept until the page is closed." };
  } catch {
    return { lost, said: why + ": this conversation is kept until the page is closed." };
  }
}

/* Settings; a browser may forbid to keep any. */
export function settings() {
  try { return JSON.parse(localStorage.getItem("saccade") || "{}") || {}; } catch { return {}; }
}

export function keepSettings(values) {
  try { localStorage.setItem("saccade", JSON.stringify(values)); } catch { /* they hold until the page is closed */ }
}
