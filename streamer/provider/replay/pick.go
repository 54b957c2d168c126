package replay

import (
	"strings"
	"sync"
)

// Play is a recording and what happens to it.
type Play struct {
	Recording *Recording
	Fault     Fault
}

// Pick chooses what a request gets; false gives it a 404. It may be called by several
// requests at once.
type Pick func(Asked) (Play, bool)

// InOrder gives the plays in order, and the last one again and again.
func InOrder(plays ...Play) Pick {
	var mu sync.Mutex
	next := 0
	return func(Asked) (Play, bool) {
		mu.Lock()
		defer mu.Unlock()
		if len(plays) == 0 {
			return Play{}, false
		}
		p := plays[min(next, len(plays)-1)]
		next++
		return p, true
	}
}

// Matched gives each request the next play whose recording is of the same API, or of
// the same path where the path tells no API, and the last such play again and again.
// Recordings without a request answer any.
func Matched(plays ...Play) Pick {
	var mu sync.Mutex
	played := make([]bool, len(plays))
	return func(a Asked) (Play, bool) {
		mu.Lock()
		defer mu.Unlock()
		last := -1
		for i, p := range plays {
			if q := p.Recording.Request; q.Method != "" && topic(q.Path) != topic(a.Path) {
				continue
			}
			if last = i; !played[i] {
				break
			}
		}
		if last < 0 {
			return Play{}, false
		}
		played[last] = true
		return plays[last], true
	}
}

// topic is what a request is about: its API, or else its path.
func topic(path string) string {
	if api := API(path); api != "" {
		return api
	}
	path, _, _ = strings.Cut(path, "?")
	return path
}

// API names the API that a path belongs to, as the configuration spells it; empty if it
// is none that turnfold knows.
func API(path string) string {
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimRight(path, "/")
	for _, a := range []struct{ suffix, api string }{
		{"/chat/completions", "openai-chat"},
		{"/responses", "openai-responses"},
		{"/messages", "anthropic-messages"},
		{":streamGenerateContent", "gemini"},
	} {
		if strings.HasSuffix(path, a.suffix) {
			return a.api
		}
	}
	return ""
}
