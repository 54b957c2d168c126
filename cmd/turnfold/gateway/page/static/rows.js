import { h } from './dom.js';

// Rows shows a long list with as many elements as fit the window. It owns the keyboard:
// arrows, Page Up and Down, Home, End and Enter, and the letters j and k.
export class Rows {
  #view; #tall; #shown = new Map(); #first = 0; #last = -1; #frame = 0;

  // make(i) gives a row's element; its position is set here. open(i) is Enter or a click,
  // moved(i) a new selection, seen(from, to) what is visible now.
  constructor({ label, height, make, open, moved, seen, over = 6 }) {
    Object.assign(this, { height, make, open, moved, seen, over });
    this.count = 0;
    this.at = -1;
    this.prefix = 'row-' + Math.random().toString(36).slice(2, 8);
    this.#tall = h('div', { class: 'tall', role: 'presentation' });
    this.#view = h('div', { class: 'view', role: 'listbox', tabindex: 0, 'aria-label': label }, this.#tall);
    this.#view.addEventListener('scroll', () => this.#soon(), { passive: true });
    this.#view.addEventListener('keydown', (e) => this.#key(e));
    this.#view.addEventListener('focus', () => { if (this.at < 0 && this.count > 0) this.select(0); });
    this.sizes = new ResizeObserver(() => this.#soon());
    this.sizes.observe(this.#view);
  }

  get element() { return this.#view; }
  focus() { this.#view.focus({ preventScroll: true }); }
  close() { this.sizes.disconnect(); cancelAnimationFrame(this.#frame); }

  // setCount changes how many there are, and refresh makes visible ones anew.
  setCount(n) {
    if (n === this.count) return;
    this.count = n;
    this.#tall.style.height = n * this.height + 'px';
    if (this.at >= n) this.select(n - 1, false);
    this.#soon();
  }

  refresh(from = 0, to = Infinity) {
    for (const [i, el] of this.#shown) {
      if (i >= from && i <= to) { el.remove(); this.#shown.delete(i); }
    }
    this.draw();
  }

  setHeight(px) {
    if (px === this.height) return;
    this.height = px;
    this.#tall.style.height = this.count * px + 'px';
    this.refresh();
  }

  #soon() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => { this.#frame = 0; this.draw(); });
  }

  draw() {
    const top = this.#view.scrollTop, tall = this.#view.clientHeight;
    const from = Math.max(0, Math.floor(top / this.height) - this.over);
    const to = Math.min(this.count - 1, Math.ceil((top + tall) / this.height) + this.over);
    for (const [i, el] of this.#shown) {
      if (i < from || i > to) { el.remove(); this.#shown.delete(i); }
    }
    for (let i = from; i <= to; i++) {
      if (this.#shown.has(i)) continue;
      const el = this.make(i);
      el.id = `${this.prefix}-${i}`;
      el.style.top = i * this.height + 'px';
      el.setAttribute('role', 'option');
      el.setAttribute('aria-posinset', i + 1);
      el.setAttribute('aria-setsize', this.count);
      el.addEventListener('click', (e) => {
        if (e.metaKey || e.ctrlKey || e.shiftKey || e.button !== 0) return;
        e.preventDefault();
        this.select(i, false);
        this.open(i);
      });
      this.#shown.set(i, el);
      this.#tall.append(el);
      this.#paint(i, el);
    }
    if (from !== this.#first || to !== this.#last) {
      [this.#first, this.#last] = [from, to];
      this.seen?.(from, to);
    }
  }

  get visible() { return [this.#first, this.#last]; }

  #paint(i, el) {
    const on = i === this.at;
    el.classList.toggle('on', on);
    el.setAttribute('aria-selected', on);
    if (on) this.#view.setAttribute('aria-activedescendant', el.id);
  }

  select(i, scroll = true) {
    const old = this.at;
    this.at = this.count === 0 ? -1 : Math.max(0, Math.min(i, this.count - 1));
    if (scroll && this.at >= 0) this.#reveal(this.at);
    for (const k of [old, this.at]) if (this.#shown.has(k)) this.#paint(k, this.#shown.get(k));
    if (this.at < 0) this.#view.removeAttribute('aria-activedescendant');
    else if (old !== this.at) this.moved?.(this.at);
  }

  #reveal(i) {
    const top = i * this.height, v = this.#view;
    if (top < v.scrollTop) v.scrollTop = top;
    else if (top + this.height > v.scrollTop + v.clientHeight) v.scrollTop = top + this.height - v.clientHeight;
    this.draw();
  }

  #key(e) {
    if (e.altKey || e.ctrlKey || e.metaKey) return;
    const page = Math.max(1, Math.floor(this.#view.clientHeight / this.height) - 1);
    const to = { ArrowDown: this.at + 1, j: this.at + 1, ArrowUp: this.at - 1, k: this.at - 1, PageDown: this.at + page,
      PageUp: this.at - page, Home: 0, End: this.count - 1 }[e.key];
    if (to !== undefined) {
      e.preventDefault();
      this.select(Math.max(0, to));
    } else if (e.key === 'Enter' && this.at >= 0) {
      e.preventDefault();
      this.open(this.at);
    }
  }
}
