// Package executor turns call commands into effects: call → claim → effect → settle.
//
// Invariant: of one effect key, at most one claim is open on the log, and nothing runs
// without one; what a settled event says is never more than the joined facts of the
// key say; and what is known to have succeeded never runs again (docs/invariants.md,
// I7). Nothing of this rests on acknowledgements, on timers or on who else is alive:
// those are for liveness and speed (I9).
//
// A call goes this way. Bad arguments are refused before any claim. A success that
// this host remembers is replayed at once. Else the facts of the key, the log's and
// this host's, are joined and decide: replay, wait for an open claim, or claim. A
// claim is an intent in the host's memory, synced, and then a compare-and-set on the
// log. After the run its report goes into the memory, synced, then to the log behind
// its body, and only then is the call settled for the fold and its command ended.
//
// The parts: performer is the protocol of one call, without a goroutine of its own
// except beside a tool that runs long; desk gives every call one performer at a time; guardian
// closes the gate when the log may have lost its end, and states this host's facts
// again before it opens.
package executor
