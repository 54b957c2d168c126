//go:build race

package viewers

// raceFree: figures of a test that is slowed down by the race detector mean nothing.
const raceFree = false
