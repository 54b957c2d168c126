// Package mock asks a whole turnfold against a mock provider that nobody of this
// project wrote, so that no misreading of a dialect can be in both.
//
// Invariant: the mock's own journal counts as many requests as a turn has attempts, no
// more and no less, whatever happened to them.
//
// The mock is the npm package that install_test.go names. What it cannot do, the tests
// of the packages "cut" and "provider" do with recorded bytes: a clean end in the middle
// of a stream, errors inside a stream, and the habits of compatible servers. One thing
// it does otherwise than the real API: it ends Gemini's calls with FUNCTION_CALL, which
// no documentation of that API has, and which is therefore a failure that names the
// word (TestUnknownFinish). The other tests have it say STOP.
package mock
