package anthropic

import (
	"testing"

	"github.com/turnfold/turnfold/streamer/provider/adaptertest"
)

func FuzzDecode(f *testing.F) {
	adaptertest.FuzzDecode(f, API{},
		start+"\n\n"+open(0, `{"type":"thinking"}`)+"\n\n"+piece(0, "signature_delta", "signature", `"c2ln"`)+"\n\n"+tool(1, "a")+"\n\n"+args(1, `"{}"`)+"\n\n"+shut(1)+"\n\n"+shut(0)+"\n\n"+stop("tool_use")+"\n\n"+last,
	)
}
