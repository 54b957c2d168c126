// Package effect says what makes two tool calls the same effect, and what is
// known of an effect from the facts that hosts have written about it.
//
// Invariant: equal meanings give equal keys, different meanings give different
// keys, and equal sets of facts give equal views, whatever their order and
// however often each is repeated. This holds in any process and in any year, so
// nothing here reads a clock, draws a random number, or touches a network, a
// file or a logger. Source: docs/invariants.md, I6, I7 and I8.
package effect
