// Package cut holds the tests that cut a model's stream at every byte, and the tests
// with a provider that mostly fails. It has no code of its own.
//
// Invariant: what a test expects is computed from the bytes that were let through, by a
// reading of the four dialects that shares nothing with the product's.
package cut
