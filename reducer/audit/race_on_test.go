//go:build race

package audit_test

// Defaults of flags. The race detector makes each forgery ten times as slow, and an audit
// of a bundle has no goroutines: fewer will do in a race run. A flag that is given stands.
const (
	flipsDefault  = 3
	someDefault   = 8
	strideDefault = 40
)
