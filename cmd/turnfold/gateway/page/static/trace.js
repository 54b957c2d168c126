import { now } from './api.js';

// What happened when, derived from a turn's facts. Nothing here draws.

const ENDS = { 'attempt.finished': 'finished', 'attempt.failed': 'failed', 'attempt.lost': 'lost' };
const STREAMED = new Set(['text.delta', 'reasoning.delta', 'call.delta', 'opaque.block']);

// silenceMin is from when on a pause within a stream is a gap worth showing.
const silenceMin = 1000;

// Trace grows with the facts, so that a turn that goes on is not read again.
export class Trace {
  attempts = []; // {step, attempt, from, first, last, to, end, class, detail, marks, gaps, …}
  calls = new Map(); // id → {call, step, asked, parked, decided, settled, outcome, by, why}
  opened = 0; ended = 0; saved = 0; last = 0; firstText = 0; cancelled = null;
  at = new Map(); // seq → ms
  kinds = new Map(); // kind → how many
  #open = new Map(); // "step.attempt" → attempt
  #places = new Map(); // "step.attempt" → how many calls

  add(events) {
    for (const e of events) this.#one(e);
    return this;
  }

  #one({ seq, at_ms: at, kind, body }) {
    this.at.set(seq, at);
    this.last = Math.max(this.last, at);
    this.kinds.set(kind, (this.kinds.get(kind) ?? 0) + 1);
    if (kind === 'turn.opened') { this.opened ||= at; this.route = body.route; this.policy = body.policy; return; }
    if (kind === 'message.saved') { this.saved ||= at; return; }
    if (kind === 'turn.cancelled') { this.cancelled ??= { at, by: body.by, reason: body.reason }; return; }
    if (kind === 'turn.expired') { this.expired ??= at; return; }
    if (kind.startsWith('call.') && kind !== 'call.delta' || kind === 'approval.expired') { this.#call(at, kind, body); return; }
    if (kind === 'attempt.started') { this.#started(seq, at, body); return; }
    this.#streamed(seq, at, kind, body);
  }

  #started(seq, at, b) {
    const name = b.step + '.' + b.attempt;
    if (this.#open.has(name)) return; // opened once, by compare-and-set
    const before = this.attempts.at(-1);
    const a = { name, seq, step: b.step, attempt: b.attempt, token: b.token, provider: b.provider, model: b.model, host: b.instance, from: at, first: 0, last: at,
      to: 0, end: 'open', marks: [], gaps: [], text: 0, since: this.#since(b, before) };
    this.#open.set(name, a);
    this.attempts.push(a);
  }

  // since is when an attempt could have been asked for: with the turn, with the end of the
  // attempt before it, or with the last outcome of the step before it.
  #since(b, before) {
    if (!before) return this.opened;
    if (before.step === b.step) return before.to || before.last;
    let at = before.to;
    for (const c of this.calls.values()) if (c.step === before.step) at = Math.max(at, c.settled ?? 0);
    return at;
  }

  #streamed(seq, at, kind, b) {
    const a = this.#open.get(b.step + '.' + b.attempt);
    if (!a || b.token !== a.token || a.to) return;
    const quiet = at - a.last;
    if (a.first && quiet >= silenceMin) a.gaps.push({ from: a.last, to: at });
    if (STREAMED.has(kind)) {
      a.first ||= at;
      a.marks.push(at);
      if (kind === 'text.delta') { this.firstText ||= at; a.text += b.text.length; }
      if (kind === 'call.delta') this.#places.set(a.name, Math.max(this.#places.get(a.name) ?? 0, b.index + 1));
    }
    if (kind !== 'attempt.alive') a.last = at;
    if (!ENDS[kind]) return;
    Object.assign(a, { to: at, end: ENDS[kind], class: b.class, detail: b.detail ?? b.reason, finish: b.finish, usage: b.usage, requestID: b.request_id, endSeq: seq });
    if (kind !== 'attempt.finished') return;
    for (let i = 0; i < (this.#places.get(a.name) ?? 0); i++) {
      const id = `${a.step}.${i}`;
      this.calls.set(id, { call: id, step: a.step, asked: at });
    }
  }

  #call(at, kind, b) {
    const c = this.calls.get(b.call);
    if (!c) return;
    if (kind === 'call.approved' || kind === 'call.denied') c.decided ??= { at, by: b.by, reason: b.reason, yes: kind === 'call.approved' };
    if (kind === 'approval.expired') c.decided ??= { at, yes: false, reason: 'nobody decided in time' };
    if (kind !== 'call.settled') return;
    if (c.settled) { // what was unknown has become known
      if (c.outcome === 'unknown') Object.assign(c, { resolved: at, outcome: b.outcome, by: b.by, why: b.why });
      return;
    }
    Object.assign(c, { settled: at, outcome: b.outcome, by: b.by, why: b.why, replayed: b.replayed });
  }

  // finish closes what the state knows to be over: a cancelled attempt has no last event.
  finish(state) {
    for (const st of state.steps) {
      for (const sa of st.attempts) {
        const a = this.#open.get(st.step + '.' + sa.attempt);
        if (!a) continue;
        a.state = sa;
        a.won = sa.outcome === 'finished';
        if (sa.outcome !== 'open' && !a.to) Object.assign(a, { end: sa.outcome, to: this.cancelled?.at ?? a.last, class: sa.class, detail: sa.detail });
      }
      for (const sc of st.calls) {
        if (!this.calls.has(sc.call)) this.calls.set(sc.call, { call: sc.call, step: st.step, asked: this.#open.get(`${st.step}.${st.attempts.at(-1)?.attempt}`)?.to ?? this.last });
        Object.assign(this.calls.get(sc.call), { tool: sc.tool, key: sc.key, outcome: sc.outcome, waiting: sc.waiting, replayed: sc.replayed });
      }
    }
    const over = state.status === 'completed' || state.status === 'failed';
    if (over) this.ended = this.#end();
    return this;
  }

  // #end is the last fact that decided something: what comes after it is the saving, or
  // news of effects.
  #end() {
    let end = this.cancelled?.at ?? this.expired ?? 0;
    for (const a of this.attempts) end = Math.max(end, a.to);
    for (const c of this.calls.values()) end = Math.max(end, c.settled ?? 0);
    return end;
  }

  // facts takes the times of claims and reports from what is known of the effects.
  // A call that was claimed again runs from its latest claim; a later word on a claim, a
  // person's for one, does not make the run longer.
  facts(tenant, turn, effects) {
    for (const c of this.calls.values()) Object.assign(c, { claimed: undefined, reported: undefined, claims: 0, renewals: 0, token: '' });
    for (const e of effects) {
      for (const f of e.facts) {
        const c = this.calls.get(f.call?.startsWith(`${tenant}/${turn}/`) ? f.call.split('/')[2] : '');
        if (!c) continue;
        const at = Date.parse(f.at);
        if (f.kind === 'claim') Object.assign(c, { claimed: at, reported: undefined, token: f.token, claims: c.claims + 1, host: f.host });
        if (f.kind === 'renew') c.renewals++;
        if (f.kind === 'report' && f.token === c.token) c.reported ??= at;
      }
    }
    return this;
  }

  get from() { return this.opened || this.attempts[0]?.from || 0; }
  to(live) { return Math.max(this.saved, this.ended, this.last, live ? now() : 0); }
}
