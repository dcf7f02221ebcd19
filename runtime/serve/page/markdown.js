/* Markdown as models write it, into nodes: text never becomes markup, links lead to http, https and mailto only, pictures are links.
   Runs of what may be long are bounded, so that no text takes time quadratic in its length. */
const INLINE = new RegExp([
  /\\([!-/:-@[-`{-~])/, // 1 escaped
  /(`{1,3})(?!`)([^]{0,2000}?[^`])\2(?!`)/, // 2, 3 code
  /!?\[([^\]\n]{0,500})\]\(<?([^()\s<>]{1,2000}(?:\([^()\s]{0,200}\)[^()\s]{0,200})?)>?(?:\s+"[^"\n]{0,200}")?\)/, // 4, 5 link
  /<?(https?:\/\/[^\s<>]{0,2000}[^\s<>.,:;!?'")\]])>?/, // 6 address
  /(\*\*|__)(?=\S)([^]{0,2000}?\S)\7(?![*_])/, // 7, 8 strong
  /~~(?=\S)([^]{0,2000}?\S)~~/, // 9 struck out
  /\*(?=[^\s*])([^]{0,2000}?[^\s*])\*(?!\*)/, // 10 emphasis
  /(?<![\w_])_(?=[^\s_])([^]{0,2000}?[^\s_])_(?![\w_])/, // 11 emphasis
  /(\n)/, // 12
].map(r => r.source).join("|"), "g");

/* Children: nodes, texts, and lists of them, which may be longer than a call takes arguments. */
export function make(tag, properties, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  for (const child of children.flat()) node.append(child);
  return node;
}

const anchor = (href, shown) => make("a", { href, target: "_blank", rel: "noopener noreferrer" }, shown);

function link(text, address) {
  let url;
  try { url = new URL(address); } catch { return inline(text); }
  if (!["http:", "https:", "mailto:"].includes(url.protocol)) return inline(text);
  return [anchor(url.href, inline(text || address, true))];
}

/* Nodes of a line or paragraph. */
function inline(text, inLink) {
  const nodes = [];
  let from = 0;
  for (const m of text.matchAll(INLINE)) {
    let found = null;
    if (m[1]) found = [m[1]];
    else if (m[2]) found = [make("code", {}, m[3].replace(/^ (.*) $/, "$1"))];
    else if (m[5] && !inLink) found = link(m[4], m[5]);
    else if (m[6] && !inLink) found = [anchor(m[6], m[6])];
    else if (m[8]) found = [make("strong", {}, inline(m[8], inLink))];
    else if (m[9]) found = [make("del", {}, inline(m[9], inLink))];
    else if (m[10] || m[11]) found = [make("em", {}, inline(m[10] || m[11], inLink))];
    else if (m[12]) found = [make("br")];
    if (!found) continue;
    if (m.index > from) nodes.push(text.slice(from, m.index));
    for (const f of found) nodes.push(f);
    from = m.index + m[0].length;
  }
  if (from < text.length) nodes.push(text.slice(from));
  return nodes;
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*).*$/, ITEM = /^( {0,9})([-*+]|\d{1,9}[.)])(?: +|$)(.*)$/, HEAD = /^ {0,3}(#{1,6})\s+(.*)$/,
  RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/, DASHES = /^ *(?:\| *)?:?-+:? *(?:\| *:?-+:? *)*(?:\| *)?$/;
const begins = line => FENCE.test(line) || HEAD.test(line) || RULE.test(line) || /^ {0,3}>/.test(line) || ITEM.test(line);
const isTable = (lines, i) => lines[i].includes("|") && i + 1 < lines.length && lines[i + 1].includes("|") && DASHES.test(lines[i + 1]);

/* A text as blocks: lists of lines that go together. */
function split(lines) {
  const blocks = [];
  for (let i = 0; i < lines.length;) {
    const from = i, line = lines[i];
    if (!line.trim()) { i++; continue; }
    const fence = FENCE.exec(line);
    if (fence) {
      for (i++; i < lines.length && !(lines[i].trim().startsWith(fence[1]) && !/[^`~\s]/.test(lines[i]));) i++;
      i++;
    } else if (HEAD.test(line) || RULE.test(line)) i++;
    else if (/^ {0,3}>/.test(line)) while (i < lines.length && (/^ {0,3}>/.test(lines[i]) || (lines[i].trim() && !begins(lines[i])))) i++;
    else if (ITEM.test(line)) {
      const kind = /\d/.test(ITEM.exec(line)[2]);
      for (i++; i < lines.length; i++) {
        const item = ITEM.exec(lines[i]);
        if (item && item[1].length < 2 && /\d/.test(item[2]) !== kind) break;
        if (!item && !/^( {2,}|\t)/.test(lines[i]) && lines[i].trim() && (!lines[i - 1].trim() || begins(lines[i]))) break;
        if (!lines[i].trim() && !lines.slice(i + 1, i + 2).some(l => ITEM.test(l) || /^( {2,}|\t)/.test(l))) break;
      }
    } else if (isTable(lines, i)) while (i < lines.length && lines[i].includes("|")) i++;
    else for (i++; i < lines.length && lines[i].trim() && !begins(lines[i]) && !isTable(lines, i);) i++;
    blocks.push(lines.slice(from, i));
  }
  return blocks;
}

function code(lines) {
  const language = FENCE.exec(lines[0]), last = lines[lines.length - 1].trim();
  const closed = lines.length > 1 && last.startsWith(language[1]) && !/[^`~]/.test(last);
  const text = lines.slice(1, closed ? -1 : undefined).join("\n");
  const button = make("button", { type: "button", textContent: "Copy" });
  button.onclick = () => copy(text, button);
  return make("div", { className: "code" }, make("div", {}, make("span", {}, language[2] || "text"), button),
    make("pre", { tabIndex: 0 }, make("code", {}, text)));
}

export async function copy(text, button) {
  const had = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch { /* no clipboard for pages without TLS */
    const area = make("textarea", { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  if (!had) return;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = had; }, 1500);
}

function unwrap(node) {
  while (node.firstChild) node.before(node.firstChild);
  node.remove();
}

function list(lines, depth) {
  const first = ITEM.exec(lines[0]), ordered = /\d/.test(first[2]), items = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && item[1].length <= first[1].length + 1) items.push([item[3]]);
    else items[items.length - 1].push(line.replace(/^(\t| {1,4})/, ""));
  }
  const tight = !lines.some((l, i) => !l.trim() && i < lines.length - 1);
  const nodes = items.map(lines => {
    const li = make("li", {}, blocks(lines, depth + 1));
    if (tight) for (const p of [...li.children]) if (p.tagName === "P") unwrap(p);
    return li;
  });
  return make(ordered ? "ol" : "ul", ordered ? { start: parseInt(first[2], 10) } : {}, nodes);
}

const cells = line => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map(c => inline(c.trim().replace(/\\\|/g, "|")));

function table(lines) {
  const row = (tag, line) => make("tr", {}, cells(line).map(c => make(tag, {}, c)));
  return make("div", { className: "scroll", tabIndex: 0 }, make("table", {}, make("thead", {}, row("th", lines[0])),
    make("tbody", {}, lines.slice(2).map(l => row("td", l)))));
}

/* Without the blanks and #s at its end, in one pass. */
function heading(text) {
  let n = text.trimEnd().length;
  while (text[n - 1] === "#") n--;
  return text.slice(0, n).trimEnd();
}

function block(lines, depth) {
  const head = HEAD.exec(lines[0]);
  if (FENCE.test(lines[0])) return code(lines);
  if (head) return make("h" + Math.min(6, 2 + head[1].length), {}, inline(heading(head[2])));
  if (RULE.test(lines[0])) return make("hr");
  if (depth < 12 && /^ {0,3}>/.test(lines[0])) return make("blockquote", {}, blocks(lines.map(l => l.replace(/^ {0,3}> ?/, "")), depth + 1));
  if (depth < 12 && ITEM.test(lines[0])) return list(lines, depth);
  if (isTable(lines, 0)) return table(lines);
  return make("p", {}, inline(lines.map(l => l.trim()).join("\n")));
}

const blocks = (lines, depth) => split(lines).map(b => block(b, depth));

/* Shows the text in a node; a block that is as it was stays the node it was. */
export function show(node, text) {
  const had = node.blocks || [], now = split(text.replace(/\r\n?/g, "\n").split("\n"));
  now.forEach((lines, i) => {
    const source = lines.join("\n");
    if (had[i] && had[i].source === source) return;
    const made = block(lines, 0);
    if (had[i]) had[i].node.replaceWith(made); else node.append(made);
    had[i] = { source, node: made };
  });
  for (const old of had.splice(now.length)) old.node.remove();
  node.blocks = had;
}
