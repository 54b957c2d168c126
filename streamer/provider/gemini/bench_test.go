package gemini

import (
	"testing"

	"github.com/turnfold/turnfold/subjects/event"
)

// BenchmarkDecode is the decoder alone, on small deltas; goal: 60 MB/s.
func BenchmarkDecode(b *testing.B) {
	for name, one := range map[string]string{
		"text": `{"candidates":[{"content":{"parts":[{"text":" tok7"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":7,"totalTokenCount":37,"promptTokensDetails":[{"modality":"TEXT","tokenCount":30}]},"modelVersion":"m-small","responseId":"g1"}`,
		"args": parts(`{"functionCall":{"name":"f","args":{"k7":7}}}`),
	} {
		b.Run(name, func(b *testing.B) {
			d, data := newDecoder(), []byte(one)
			emit := func(event.Body) error { return nil }
			for _, before := range []string{} {
				d.Event("", []byte(before), emit)
			}
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if done, err := d.Event("", data, emit); done || err != nil {
					b.Fatal(d.failed, err)
				}
			}
		})
	}
}
