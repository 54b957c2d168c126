// Package keystore keeps this host's facts of each effect key on disk.
//
// Invariant: what a write acknowledged survives a power cut, and a known outcome
// never changes. So every write that a decision rests on is synced before it
// returns (callers that write at the same time share one sync), writes to one
// key are one after another, and a reader sees nothing that is not synced yet.
// Source: docs/invariants.md, I7.
//
// The store arbitrates nothing between hosts. It remembers, for this host alone,
// what it set out to do and how that ended, so that after a crash it can say
// again what the shared log may have lost, and can answer repeats by itself.
package keystore
