package anthropic

import (
	"testing"

	"github.com/turnfold/turnfold/streamer/provider/adaptertest"
)

// TestCutAnywhere cuts a stream of text and two calls at every byte.
func TestCutAnywhere(t *testing.T) { adaptertest.CutAnywhere(t, API{}, "two-calls.sse", "") }
