// Package cases plays the cases from the field to a whole turnfold: real bytes over real
// sockets, in each dialect that has the case. It has no code of its own.
//
// Invariant: what is checked is what the world saw, the requests at the provider, the
// runs at the tools, the feed as its reader has it, and beside that the turn's own
// account of its attempts. docs/testing.md lists which test covers which case.
package cases
