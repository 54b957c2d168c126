import { h, pct } from './dom.js';
import { span } from './format.js';

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000];

// A stretch is drawn short if it is longer than breakMin (ms), and than breakTimes all
// shorter ones together.
const breakMin = 3000;
const breakTimes = 4;

// Clock is the one scale that all lanes share. Stretches in which nothing at all happened
// are drawn short and marked, or a day of waiting would make a dot of everything else.
export class Clock {
  // moments are all times at which something happened.
  constructor(from, to, moments) {
    this.from = from;
    this.to = Math.max(to, from + 1);
    const sorted = [from, ...moments.filter((m) => m > from && m < this.to).sort((a, b) => a - b), this.to];
    const gaps = [];
    for (let i = 1; i < sorted.length; i++) if (sorted[i] > sorted[i - 1]) gaps.push([sorted[i - 1], sorted[i]]);
    const rest = gaps.filter(([a, b]) => b - a <= breakMin).reduce((n, [a, b]) => n + b - a, 0);
    this.breaks = gaps.filter(([a, b]) => b - a > Math.max(breakMin, breakTimes * rest)).map(([a, b]) => ({ from: a, to: b }));
    const gone = this.breaks.reduce((n, b) => n + (b.to - b.from), 0);
    const left = this.to - this.from - gone;
    this.short = Math.max(left * 0.14, 1); // what a break is drawn as, in ms of the scale
    this.length = left + this.short * this.breaks.length;
  }

  // x is the place of a time, 0 to 1.
  x(t) {
    let at = Math.max(this.from, Math.min(t, this.to)) - this.from;
    for (const b of this.breaks) {
      if (t >= b.to) at -= b.to - b.from - this.short;
      else if (t > b.from) at -= (t - b.from) * (1 - this.short / (b.to - b.from));
    }
    return at / this.length;
  }

  ticks(most = innerWidth <= 900 ? 3 : 7) {
    const step = STEPS.find((s) => this.length / s <= most) ?? STEPS.at(-1);
    const out = [];
    for (let t = 0; t <= this.to - this.from && out.length < 200; t += step) {
      const at = this.from + t;
      if (!this.breaks.some((b) => at > b.from && at < b.to)) out.push({ x: this.x(at), label: t === 0 ? '0' : span(t) });
    }
    return out.filter((t, i) => i === 0 || t.x - out[i - 1].x > 0.02);
  }

  // axis draws the ticks, grid their lines and the breaks, for behind the lanes.
  axis() {
    return h('div', { class: 'axis', 'aria-hidden': 'true' }, this.ticks().map((t) => t.x < 0.97 && h('span', { style: { left: pct(t.x) } }, t.label)));
  }

  grid(lines = true) {
    return h('div', { class: 'grid', 'aria-hidden': 'true' }, lines && this.ticks().map((t) => h('i', { style: { left: pct(t.x) } })),
      this.breaks.map((b) => h('b', { style: { left: pct(this.x(b.from)), width: pct(this.x(b.to) - this.x(b.from)) }, title: `nothing happened for ${span(b.to - b.from)}` }, h('em', null, span(b.to - b.from)))));
  }

  bar(from, to, attrs = {}, ...children) {
    const a = this.x(from), b = this.x(to);
    return h('span', { ...attrs, class: 'seg ' + (attrs.class ?? ''), style: { left: pct(a), width: pct(Math.max(b - a, 0)) } }, ...children);
  }
}
