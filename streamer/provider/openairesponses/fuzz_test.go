package openairesponses

import (
	"testing"

	"github.com/turnfold/turnfold/streamer/provider/adaptertest"
)

func FuzzDecode(f *testing.F) {
	adaptertest.FuzzDecode(f, API{},
		added(0, "a", `""`)+"\n\n"+delta(0, `"{"`)+"\n\n"+argsDone(0, `"{}"`)+"\n\n"+text(`"\ud83d"`)+"\n\n"+completed,
		end("completed", `,"output":[{"type":"function_call","call_id":"a","name":"f","arguments":{}},{"type":"message","content":[{"refusal":"x"}]}]`),
	)
}
