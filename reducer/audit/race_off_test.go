//go:build !race

package audit_test

// Defaults of flags. The race detector makes each forgery ten times as slow, and an audit
// of a bundle has no goroutines: fewer will do in a race run. A flag that is given stands.
const (
	flipsDefault  = 12
	someDefault   = 1
	strideDefault = 8
)
