//go:build !race

package viewers

const raceFree = true
