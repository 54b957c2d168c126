package jet

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// A cluster that is coming up refuses for reasons that pass, and a process that starts
// with it must wait for it; what a person has to mend is told at once.
func TestPassing(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&jetstream.APIError{Code: 400, ErrorCode: 10005, Description: "no suitable peers for placement, peer offline"}, true},
		{&jetstream.APIError{Code: 503, ErrorCode: 10008, Description: "JetStream system temporarily unavailable"}, true},
		{context.DeadlineExceeded, true},
		{&jetstream.APIError{Code: 400, ErrorCode: 10052, Description: "invalid stream configuration"}, false},
		{ErrLayout, false},
	} {
		if got := passing(fmt.Errorf("ensure: %w", c.err)); got != c.want {
			t.Errorf("%v: passes %v, want %v", c.err, got, c.want)
		}
	}
}
