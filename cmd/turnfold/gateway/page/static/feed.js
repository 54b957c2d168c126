// The client side of a feed, by its contract (docs/feed.md): text is appended to its step,
// a reset drops what was shown of its step, or of the whole turn if the step is 0, and
// items of unknown types are skipped. What was dropped is kept aside, for people who ask
// what the user has seen.

// Shown is what a reader is left looking at after some items.
export class Shown {
  // blocks are the parts in the order in which they came: {kind: 'text', step, attempt,
  // parts, dropped}, {kind: 'tool', call, tool, outcome, …}. dropped is the reset's
  // {reason, id}.
  blocks = [];
  reasoning = new Map(); // step → parts
  ended = null; // 'completion' or 'error' item
  over = false; // nothing follows
  #open = new Map(); // step → its text block

  apply(item) {
    switch (item.type) {
      case 'text_delta': this.#text(item); break;
      case 'reasoning_delta': this.#reason(item); break;
      case 'reset': this.#reset(item); break;
      case 'tool_start': case 'approval_request': case 'client_call': this.#tool(item); break;
      case 'tool_progress': case 'tool_result': this.#told(item); break;
      case 'completion': this.ended = item; break;
      case 'error': this.ended = item; this.over = true; break;
      case 'message_saved': this.over = true; break;
    }
    return this;
  }

  #text(item) {
    let b = this.#open.get(item.step);
    if (b?.attempt !== item.attempt) {
      b = { kind: 'text', step: item.step, attempt: item.attempt, parts: [], dropped: null };
      this.#open.set(item.step, b);
      this.blocks.push(b);
    }
    b.parts.push(item.text);
  }

  #reason(item) {
    if (!this.reasoning.has(item.step)) this.reasoning.set(item.step, []);
    this.reasoning.get(item.step).push(item.text);
  }

  #reset(item) {
    const drops = (b) => item.step === 0 || b.step === item.step;
    let any = false;
    for (const b of this.blocks) {
      if (b.dropped || !drops(b)) continue;
      b.dropped = { reason: item.reason, id: item.id, abandoned: item.abandoned };
      any ||= b.kind === 'text';
    }
    if (!any) { // it had shown nothing, and is told all the same
      this.blocks.push({ kind: 'text', step: item.step, attempt: item.abandoned, parts: [],
        dropped: { reason: item.reason, id: item.id, abandoned: item.abandoned } });
    }
    if (item.step === 0) {
      this.#open.clear();
      this.reasoning.clear();
      this.ended = null;
      this.over = false;
      return;
    }
    this.#open.delete(item.step);
    this.reasoning.delete(item.step);
  }

  #tool(item) {
    const known = this.blocks.findLast((b) => b.kind === 'tool' && b.call === item.call && !b.dropped);
    const b = known ?? { kind: 'tool', step: item.step, call: item.call, dropped: null };
    b.tool = item.tool;
    b.state = item.type === 'approval_request' ? 'waiting' : item.type === 'client_call' ? 'client' : 'open';
    if (!known) this.blocks.push(b);
  }

  #told(item) {
    const b = this.blocks.findLast((x) => x.kind === 'tool' && x.call === item.call && !x.dropped);
    if (item.type === 'tool_progress') {
      if (b) b.progress = item.message ?? '';
      return;
    }
    const told = b ?? { kind: 'tool', step: item.step, call: item.call, tool: item.tool, dropped: null };
    told.state = item.outcome;
    told.replayed = item.replayed;
    if (!b) this.blocks.push(told);
  }

  // text is the answer: the texts of the steps, joined without a separator.
  text() {
    const steps = new Map();
    for (const b of this.blocks) {
      if (b.kind !== 'text' || b.dropped) continue;
      if (!steps.has(b.step)) steps.set(b.step, []);
      steps.get(b.step).push(b.parts.join(''));
    }
    return [...steps.keys()].sort((a, b) => a - b).map((s) => steps.get(s).join('')).join('');
  }
}

// fold gives what is shown after the first n items.
export function fold(items, n = items.length) {
  const shown = new Shown();
  for (let i = 0; i < n; i++) shown.apply(items[i]);
  return shown;
}

// seqOf is the event that an item came of; 0 for items that are of no event.
export function seqOf(item) {
  const n = Number.parseInt(item.id, 10);
  return Number.isFinite(n) ? n : 0;
}
