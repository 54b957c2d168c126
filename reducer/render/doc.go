// Package render turns a feed into what its reader shows: a text, bytes on a wire, or
// lines on a terminal.
//
// Invariant: a renderer that only follows the feed ends with the winner's text, on
// every path (docs/invariants.md, I3). So each of them drops what a reset names, and
// skips types that it does not know.
package render
