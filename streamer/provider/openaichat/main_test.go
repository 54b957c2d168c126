package openaichat

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

// eachWay serves a body whole and byte by byte.
func eachWay(t *testing.T, body string, end providertest.End, check func(t *testing.T, r *adaptertest.Reply)) {
	t.Helper()
	t.Run("whole", func(t *testing.T) {
		check(t, ask(t, providertest.Start(t, providertest.Body(body, end)), provider.Endpoint{}, provider.Request{}))
	})
	t.Run("bytewise", func(t *testing.T) {
		check(t, ask(t, providertest.Start(t, providertest.Bytewise(body, end)), provider.Endpoint{}, provider.Request{}))
	})
}

func decode(t testing.TB, data ...string) *adaptertest.Reply {
	t.Helper()
	return adaptertest.Decode(t, API{}, data...)
}
