package openairesponses

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/streamer/provider/adaptertest"
	"github.com/turnfold/turnfold/streamer/provider/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type call = adaptertest.Call

func ask(t testing.TB, s *providertest.Server, ep provider.Endpoint, req provider.Request) *adaptertest.Reply {
	t.Helper()
	return adaptertest.Ask(t, API{}, s, ep, req)
}

func decode(t testing.TB, data ...string) *adaptertest.Reply {
	t.Helper()
	return adaptertest.Decode(t, API{}, data...)
}
