package openairesponses

import (
	"testing"

	"github.com/turnfold/turnfold/subjects/event"
)

// BenchmarkDecode is the decoder alone, on small deltas; goal: 60 MB/s.
func BenchmarkDecode(b *testing.B) {
	for name, one := range map[string]string{
		"text": `{"type":"response.output_text.delta","item_id":"msg_0123456789abcdef","output_index":9,"content_index":0,"delta":" tok7","logprobs":[],"obfuscation":"xyz0123456789"}`,
		"args": `{"type":"response.function_call_arguments.delta","item_id":"fc_0123456789abcdef","output_index":0,"delta":"\"k7\":","obfuscation":"xyz0123456789"}`,
	} {
		b.Run(name, func(b *testing.B) {
			d, data := newDecoder(), []byte(one)
			emit := func(event.Body) error { return nil }
			for _, before := range []string{added(0, "a", `""`)} {
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
