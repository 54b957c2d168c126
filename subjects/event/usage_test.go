package event

import (
	"slices"
	"testing"
)

func TestSource(t *testing.T) {
	for _, c := range []struct {
		usage Usage
		want  Source
	}{
		{Usage{}, SourceUnknown}, {Usage{Partial: true}, SourceUnknown},
		{Usage{Input: 1}, SourceReported}, {Usage{Reasoning: 1}, SourceReported},
		{Usage{Output: 1, Partial: true}, SourcePartial}, {Usage{CacheRead: 1, Partial: true}, SourcePartial},
	} {
		if got := c.usage.Source(); got != c.want {
			t.Errorf("%+v is %s, want %s", c.usage, got, c.want)
		}
	}
}

// A class is never taken away.
func TestClasses(t *testing.T) {
	want := []Class{"connection", "stall", "timeout", "server_error", "overloaded", "rate_limited", "truncated", "filtered",
		"malformed_call", "invalid_request", "auth", "context_length", "unknown_finish", "lost", "cancelled", "budget"}
	if !slices.Equal(Classes(), want) {
		t.Errorf("classes are %v", Classes())
	}
}
