package gemini

import (
	"testing"

	"github.com/turnfold/turnfold/streamer/provider/adaptertest"
)

func FuzzDecode(f *testing.F) {
	adaptertest.FuzzDecode(f, API{},
		parts(`{"text":"\ud83d"},{"text":"b","thoughtSignature":"c"},{"functionCall":{"name":"f","args":{"a":1}}}`)+"\n\n["+finish("STOP")+"]",
	)
}
