package adaptertest

import (
	"reflect"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/streamer/provider/providertest"
	"github.com/turnfold/turnfold/subjects/event"
)

// CutAnywhere cuts the body of a case at every byte, by each way that a connection can
// end: the reply is finished only if its last event was there to its blank line. Last
// begins the last event that is needed; empty means the last one of all.
func CutAnywhere(t *testing.T, api provider.API, file, last string) {
	t.Helper()
	body := read(t, file)
	whole := wholeAt(body, last)
	wanted := Ask(t, api, providertest.Start(t, providertest.Body(body, providertest.Clean)), provider.Endpoint{}, provider.Request{})
	wanted.Finished(t)
	for _, end := range []providertest.End{providertest.Clean, providertest.Closed, providertest.Cut, providertest.Reset} {
		s := providertest.Start(t, providertest.Answer{})
		for n := range len(body) + 1 {
			s.Answer(providertest.Body(body[:n], end))
			r := Ask(t, api, s, provider.Endpoint{}, provider.Request{})
			switch f := r.End.(type) {
			case *event.AttemptFinished:
				if n < whole || !reflect.DeepEqual(r.Calls, wanted.Calls) || r.Text != wanted.Text {
					t.Fatalf("end %d after %d bytes: finished with %q", end, n, r.Calls)
				}
			case *event.AttemptFailed:
				class := event.Connection
				if end == providertest.Clean || end == providertest.Closed {
					class = event.Truncated
				}
				// A reset may take back bytes that were sent before it.
				if f.Class != class || !f.Retryable || n >= whole && end != providertest.Reset {
					t.Fatalf("end %d after %d bytes: %+v", end, n, f)
				}
			}
		}
		if got := len(s.Requests()); got != len(body)+1 {
			t.Errorf("end %d: %d requests for %d attempts", end, got, len(body)+1)
		}
	}
}

// wholeAt is the number of bytes after which the event that has last is whole.
func wholeAt(body, last string) int {
	if last != "" {
		at := strings.Index(body, last)
		return at + strings.Index(body[at:], "\n\n") + len("\n\n")
	}
	text := strings.TrimRight(body, "\r\n")
	if strings.HasSuffix(body, "\r\n") {
		return len(text) + len("\r\n\r") // a lone CR ends a line as well
	}
	return len(text) + len("\n\n")
}
