// Package oracle holds the tests in which the makers' own SDKs read what the replay
// server serves, beside the project's adapters. It is a module of its own, so that no
// SDK is a dependency of the product.
//
// Invariant: an SDK and an adapter that read the same bytes say the same of text, calls,
// usage and end, but for the differences that the table of the test lists with their
// reason. A listed difference that is gone fails the test too: then an SDK was mended,
// or an adapter was broken.
package oracle
