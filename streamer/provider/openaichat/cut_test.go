package openaichat

import (
	"fmt"
	"testing"
	"time"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/streamer/provider/adaptertest"
	"github.com/turnfold/turnfold/streamer/provider/providertest"
	"github.com/turnfold/turnfold/subjects/event"
)

// TestCutAnywhere cuts a stream of two calls at every byte: it is finished once the event
// with the finish is whole.
func TestCutAnywhere(t *testing.T) {
	adaptertest.CutAnywhere(t, API{}, "15-duplicate-index-and-interleave.sse", `"finish_reason":"tool_calls"`)
}

// TestNothingIsHeldBack: each piece is out before the server sends the next.
func TestNothingIsHeldBack(t *testing.T) {
	got := make(chan string)
	a := providertest.Answer{End: providertest.Clean}
	for i := range 20 {
		a.Writes = append(a.Writes, []byte("data: "+delta(fmt.Sprintf(`{"content":"%d"}`, i))+"\n\n"))
	}
	a.Writes = append(a.Writes, []byte("data: "+finish("stop")+"\n\n"))
	a.Before = func(i int) {
		if i == 0 || i > 20 {
			return
		}
		select {
		case <-got:
		case <-time.After(time.Minute):
			t.Errorf("piece %d was held back", i-1)
		}
	}
	s := providertest.Start(t, a)
	r := new(adaptertest.Reply)
	r.End = provider.NewRequester(provider.Config{}).Attempt(t.Context(), API{}, provider.Endpoint{BaseURL: s.URL}, provider.Request{}, nil, func(b event.Body) error {
		got <- ""
		return r.Take(b)
	})
	r.Finished(t)
}

// TestTrailing: after the finish a silent stream, or one of pings only, is waited for
// only briefly, and the reply is finished.
func TestTrailing(t *testing.T) {
	body := "data: " + delta(`{"content":"hi"}`) + "\n\ndata: " + finish("stop") + "\n\n"
	for name, a := range map[string]providertest.Answer{
		"silence": providertest.Body(body, providertest.Hang),
		"pings": {Writes: [][]byte{[]byte(body), []byte(": ping\n\n"), []byte("data: : ping\n\n"), []byte(": ping\n\n")}, End: providertest.Hang,
			Before: func(int) { time.Sleep(40 * time.Millisecond) }},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			f := ask(t, providertest.Start(t, a), provider.Endpoint{}, provider.Request{}).Finished(t)
			if took := time.Since(began); took > 10*time.Second || !f.Usage.Partial {
				t.Errorf("%+v after %s", f, took)
			}
		})
	}
	t.Run("done closes at once", func(t *testing.T) {
		s := providertest.Start(t, providertest.Body(body+"data: [DONE]\n\n", providertest.Hang))
		patient := provider.NewRequester(provider.Config{Trailing: time.Hour})
		r := new(adaptertest.Reply)
		r.End = patient.Attempt(t.Context(), API{}, provider.Endpoint{BaseURL: s.URL}, provider.Request{}, nil, r.Take)
		r.Finished(t)
		<-s.ClientClosed
	})
}

// TestStallIgnoresNoise: chunks without content are no progress.
func TestStallIgnoresNoise(t *testing.T) {
	a := providertest.Answer{End: providertest.Hang, Before: func(int) { time.Sleep(20 * time.Millisecond) }}
	noise := []string{": ping\n\n", "data: " + delta(`{"role":"assistant","content":""}`) + "\n\n", "data:\n\n"}
	for i := range 60 {
		a.Writes = append(a.Writes, []byte(noise[i%len(noise)]))
	}
	f := ask(t, providertest.Start(t, a), provider.Endpoint{StallTimeout: 150 * time.Millisecond}, provider.Request{}).Failed(t)
	if f.Class != event.Stall || !f.Retryable {
		t.Errorf("%+v", f)
	}
}
