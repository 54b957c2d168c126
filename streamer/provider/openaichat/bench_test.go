package openaichat

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/streamer/provider/providertest"
	"github.com/turnfold/turnfold/subjects/event"
)

func smallDelta(i int) string {
	return fmt.Sprintf(`{"id":"cmpl-1","object":"chat.completion.chunk","created":1790000000,"model":"m-small","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" tok%d"},"logprobs":null,"finish_reason":null}],"usage":null}`, i%1000)
}

func argsDelta(i int) string {
	return fmt.Sprintf(`{"id":"cmpl-1","object":"chat.completion.chunk","created":1790000000,"model":"m-small","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"k%d\":"}}]},"finish_reason":null}]}`, i%1000)
}

// BenchmarkDecode is the decoder alone; goal: 60 MB/s.
func BenchmarkDecode(b *testing.B) {
	for name, one := range map[string]string{"text": smallDelta(7), "args": argsDelta(7)} {
		b.Run(name, func(b *testing.B) {
			d, data := newDecoder(), []byte(one)
			first := []byte(entries(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}`))
			emit := func(event.Body) error { return nil }
			d.Event("", first, emit)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Event("", data, emit); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStream is a whole attempt over a socket: the server's writes, HTTP, SSE and
// the decoder on one machine.
func BenchmarkStream(b *testing.B) {
	var body bytes.Buffer
	const n = 20_000
	for i := range n {
		body.WriteString("data: " + smallDelta(i) + "\n\n")
	}
	body.WriteString("data: " + finish("stop") + "\n\ndata: [DONE]\n\n")
	a := providertest.Answer{}
	for chunk := range strings.SplitSeq(body.String(), "7\"}") { // some thousand writes
		a.Writes = append(a.Writes, []byte(chunk+"7\"}"))
	}
	last := &a.Writes[len(a.Writes)-1]
	*last = (*last)[:len(*last)-3]
	s, requester := providertest.Start(b, a), provider.NewRequester(provider.Config{})
	b.SetBytes(int64(body.Len()))
	b.ReportAllocs()
	for b.Loop() {
		got := 0
		end := requester.Attempt(b.Context(), API{}, provider.Endpoint{BaseURL: s.URL}, provider.Request{}, nil, func(event.Body) error { got++; return nil })
		if _, ok := end.(*event.AttemptFinished); !ok || got != n {
			b.Fatalf("%#v after %d deltas", end, got)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/delta")
}
