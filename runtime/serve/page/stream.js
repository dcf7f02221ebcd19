/* A question to the server, and the events of its answer. XMLHttpRequest because it tells how much was uploaded. */
export function send(body, key, on) {
  const x = new XMLHttpRequest();
  const done = new Promise((whole, failed) => {
    let read = 0;
    const problem = text => {
      let said = null;
      try { said = JSON.parse(text).error.message; } catch { /* a proxy's page */ }
      return Object.assign(new Error(said || `The server replied ${x.status} ${x.statusText}`), { status: x.status });
    };
    const take = () => {
      if (x.status !== 200) return;
      for (let end; (end = x.responseText.indexOf("\n", read)) >= 0; read = end + 1) {
        const line = x.responseText.slice(read, end);
        if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
        const event = JSON.parse(line.slice(6));
        if (event.error) throw Object.assign(new Error(event.error.message), { status: 200 });
        on(event);
      }
    };
    const guarded = () => { try { take(); } catch (error) { failed(error); x.abort(); } };
    x.upload.onprogress = e => { if (e.lengthComputable) on({ progress: { stage: "upload", done: e.loaded, total: e.total } }); };
    x.onprogress = guarded;
    x.onload = () => { guarded(); if (x.status === 200) whole(); else failed(problem(x.responseText)); };
    x.onerror = () => failed(new Error("The server cannot be reached."));
    x.onabort = () => failed(new DOMException("stopped", "AbortError"));
    x.open("POST", "v1/chat/completions");
    x.setRequestHeader("Content-Type", "application/json");
    if (key) x.setRequestHeader("Authorization", "Bearer " + key);
    x.send(body);
  });
  return { done, stop: () => x.abort() };
}

/* What a stage of waiting is called, and how much of it is done (null: not known). */
export function stageText(p, names) {
  const share = p.total > 0 ? p.done / p.total : null, percent = share === null ? "" : ` ${Math.round(100 * share)} %`;
  switch (p.stage) {
    case "upload": return share === 1 ? ["Waiting for the server", null] : ["Uploading" + percent, share];
    case "queue": return [p.total > 0 ? `Waiting: ${p.total} before you` : "Waiting", null];
    case "decode": return [`Decoding ${names[p.medium] || "media"}` + (p.total > 1 ? `: frame ${p.done} of ${p.total}` : ""), share];
    case "vision": return [p.total > 1 ? `Looking: frame ${p.done} of ${p.total}` : "Looking", share];
    case "prefill": return ["Reading" + percent, share];
    default: return ["Waiting", null];
  }
}

export const dataUri = file => new Promise((done, failed) => {
  const reader = new FileReader();
  reader.onload = () => done(`data:${file.type};base64,` + reader.result.slice(reader.result.indexOf(",") + 1));
  reader.onerror = () => failed(new Error(file.name + " cannot be read any more."));
  reader.readAsDataURL(file.blob);
});

/* The messages of a conversation as the server takes them. Questions that got no answer are left out, but for the last. */
export async function messagesOf(messages) {
  const list = [];
  for (let i = 0; i < messages.length; i++) {
    const m = messages[i], next = messages[i + 1];
    if (m.role === "assistant") {
      if (m.text) list.push({ role: "assistant", content: m.text });
    } else if (!next || next.text) {
      const content = [];
      for (const f of m.files) {
        const kind = f.type.startsWith("video/") ? "video_url" : "image_url";
        if (f.blob) content.push({ type: kind, [kind]: { url: await dataUri(f) } });
      }
      if (m.text) content.push({ type: "text", text: m.text });
      if (content.length) list.push({ role: "user", content });
    }
  }
  return list;
}

/* What their media are called, in the order in which they are sent. */
export function namesOf(messages) {
  const names = [];
  messages.forEach((m, i) => {
    if (m.role === "user" && (!messages[i + 1] || messages[i + 1].text)) names.push(...m.files.filter(f => f.blob).map(f => f.name));
  });
  return names;
}

/* How many media stand before the last question, in what messagesOf gives. */
export function mediaBefore(messages) {
  let n = 0;
  messages.slice(0, -1).forEach((m, i) => { if (m.role === "user" && messages[i + 1].text) n += m.files.filter(f => f.blob).length; });
  return n;
}
