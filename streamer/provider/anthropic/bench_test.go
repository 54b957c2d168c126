package anthropic

import (
	"testing"

	"github.com/turnfold/turnfold/subjects/event"
)

// BenchmarkDecode is the decoder alone, on small deltas; goal: 60 MB/s.
func BenchmarkDecode(b *testing.B) {
	for name, one := range map[string]string{
		"text": text(7, `" tok7"`),
		"args": args(8, `"\"k7\":"`),
	} {
		b.Run(name, func(b *testing.B) {
			d, data := newDecoder(), []byte(one)
			emit := func(event.Body) error { return nil }
			for _, before := range []string{open(7, `{"type":"text","text":""}`), tool(8, "a")} {
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
