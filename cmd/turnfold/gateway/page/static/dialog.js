import { h, put } from './dom.js';

// ask shows a dialog and gives what the person entered, or null. Fields are {name, label,
// hint, value, kind, required, options}; done, if given, is awaited before the dialog
// closes, and what it throws is shown in it. choices are [value, label, class] for several
// answers; the first is Enter's, and the one taken is in the entry "choice".
export function ask({ title, about, body, fields = [], yes = 'OK', danger = false, choices, done }) {
  return new Promise((resolve) => {
    const inputs = new Map();
    const wrong = h('p', { class: 'wrong', role: 'alert', hidden: true });
    const answers = (choices ?? [['', yes, danger ? 'no' : 'yes']]).map(([value, label, tone]) => h('button', { class: tone, type: 'submit', value }, label));
    const [ok] = answers;
    const asks = fields.length > 0 || done;
    const form = h('form', { novalidate: true, onsubmit: submit },
      h('h2', { id: 'dialog-title' }, title), about && h('p', { class: 'about' }, about), body,
      fields.map((f) => {
        const el = f.options
          ? h('select', { name: f.name }, f.options.map(([v, label]) => h('option', { value: v }, label)))
          : h(f.kind === 'long' ? 'textarea' : 'input', { name: f.name, type: f.kind === 'secret' ? 'password' : undefined, autocomplete: 'off', spellcheck: 'false', required: f.required });
        if (f.value) el.value = f.value;
        inputs.set(f.name, { el, ...f });
        return h('label', null, f.label, f.hint && h('span', { class: 'hint' }, f.hint), el);
      }),
      wrong, h('div', { class: 'row answers' }, h('button', { type: 'button', class: asks ? 'quiet' : '', onclick: () => box.close() }, asks ? 'Back' : 'Close'), asks && answers));
    const box = h('dialog', { 'aria-labelledby': 'dialog-title' }, form);
    let result = null;
    async function submit(e) {
      e.preventDefault();
      const values = choices ? { choice: (e.submitter ?? ok).value } : {};
      for (const [name, f] of inputs) {
        values[name] = f.el.value.trim();
        if (f.required && !values[name]) {
          say(`${f.label} is missing.`);
          f.el.focus();
          return;
        }
      }
      for (const b of answers) b.disabled = true;
      try {
        result = (await done?.(values)) ?? values;
        box.close();
      } catch (err) {
        say(err.message);
      } finally {
        for (const b of answers) b.disabled = false;
      }
    }
    function say(text) { put(wrong, text); wrong.hidden = false; }
    box.addEventListener('close', () => { box.remove(); resolve(result); });
    document.body.append(box);
    box.showModal();
    const all = [...inputs.values()];
    (all.find((f) => !f.el.value) ?? all[0] ?? { el: asks ? ok : box.querySelector('button') }).el.focus();
  });
}
