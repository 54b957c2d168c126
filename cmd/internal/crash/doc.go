// Package crash holds the tests that kill turnfold as a process and take its stores
// back in time. It has no code of its own.
package crash
