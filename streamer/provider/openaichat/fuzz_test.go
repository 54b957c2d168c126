package openaichat

import (
	"testing"

	"github.com/turnfold/turnfold/streamer/provider/adaptertest"
)

func FuzzDecode(f *testing.F) {
	adaptertest.FuzzDecode(f, API{},
		delta(`{"content":"\ud83d"}`)+"\n"+delta(`{"content":[{"text":"x"}],"function_call":{}}`)+"\n"+`[{"error":{"code":429}}]`,
		entries(`{"id":"a","function":{"name":"f","arguments":{"a":1}}}`)+"\n"+finish("stop")+"\n[DONE]",
	)
}
