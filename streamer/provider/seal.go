package provider

import (
	"sort"
	"strings"

	"github.com/turnfold/turnfold/subjects/event"
)

// sealed completes a verdict with what only the answer's header knows, and makes its
// detail fit for the log: one line, without secrets and without argument text.
func (a *attempt) sealed(b event.Body) event.Body {
	switch b := b.(type) {
	case *event.AttemptFinished:
		if b.RequestID == "" {
			b.RequestID = a.requestID()
		}
	case *event.AttemptFailed:
		if b.RequestID == "" {
			b.RequestID = a.requestID()
		}
		if b.Status == 0 {
			b.Status = a.status
		}
		b.Detail = OneLine(a.clean(b.Detail), detailBytesMax)
	}
	return b
}

// requestID is the header's name for the answer, or else the answer's own.
func (a *attempt) requestID() string {
	if a.header == nil {
		return ""
	}
	id := RequestID(a.header)
	if d, ok := a.dec.(Identified); ok && id == "" {
		id = OneLine(d.ResponseID(), 200)
	}
	return a.clean(id)
}

// clean takes out whatever the endpoint keeps secret and whatever the conversation's
// calls said: an error message may quote either.
func (a *attempt) clean(s string) string {
	if s == "" {
		return s
	}
	var secrets []string
	secrets = append(secrets, a.ep.Key)
	for _, v := range a.ep.Headers {
		for _, w := range strings.Fields(v) { // "Bearer key" may come back without its scheme
			if len(w) >= 8 { // a shorter one is a flag, not a key
				secrets = append(secrets, w)
			}
		}
	}
	for _, m := range a.req.Messages {
		for _, p := range m.Parts {
			if p.Call != nil && len(p.Call.Args) > 2 {
				secrets = append(secrets, p.Call.Args)
			}
		}
	}
	sort.SliceStable(secrets, func(i, j int) bool { return len(secrets[i]) > len(secrets[j]) })
	for _, v := range secrets {
		if v != "" {
			s = strings.ReplaceAll(s, v, "[redacted]")
		}
	}
	return s
}

func usageOf(b event.Body) event.Usage {
	switch b := b.(type) {
	case *event.AttemptFinished:
		return b.Usage
	case *event.AttemptFailed:
		return b.Usage
	}
	return event.Usage{}
}
