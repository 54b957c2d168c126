// Makes elements. Text becomes text nodes and nothing else: nothing here parses markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(el, attrs, children) {
  for (const [name, value] of Object.entries(attrs ?? {})) {
    if (value === undefined || value === null) continue;
    if (name.startsWith('aria-')) { el.setAttribute(name, value); continue; }
    if (value === false) continue;
    if (name.startsWith('on')) el.addEventListener(name.slice(2), value);
    else if (name === 'style') for (const [k, v] of Object.entries(value)) el.style.setProperty(k, v);
    else el.setAttribute(name, value === true ? '' : String(value));
  }
  add(el, children);
  return el;
}

// add appends children: nodes, lists of them, or anything as text; null and false are left out.
export function add(el, children) {
  for (const c of children) {
    if (c === null || c === undefined || c === false) continue;
    if (Array.isArray(c)) add(el, c);
    else el.append(c instanceof Node ? c : document.createTextNode(String(c)));
  }
  return el;
}

export const h = (tag, attrs, ...children) => fill(document.createElement(tag), attrs, children);
export const svg = (tag, attrs, ...children) => fill(document.createElementNS(SVG, tag), attrs, children);

// put replaces what an element holds.
export function put(el, ...children) {
  el.replaceChildren();
  return add(el, children);
}

export const pct = (x) => (100 * x).toFixed(3) + '%';

// copyable shows a command, and a button that copies it.
export function copyable(text, label = 'Copy') {
  const button = h('button', {
    type: 'button', class: 'quiet copy', 'aria-label': `${label}: ${text}`,
    onclick: async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = 'Copied';
      } catch { // no clipboard without a secure context: select it for the person to copy
        getSelection().selectAllChildren(code);
        button.textContent = 'Selected';
      }
      setTimeout(() => { button.textContent = label; }, 1400);
    },
  }, label);
  const code = h('code', null, text);
  return h('span', { class: 'command' }, code, button);
}
