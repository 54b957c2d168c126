package feed

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// headBytes is about what the members of a head take besides their values.
const headBytes = len(`{"type":"reasoning_delta","id":"","turn":"","step":000,"attempt":000,"text":""}`)

// spell writes an output as subjects.Seal does, byte for byte, in a shorter way: heads
// are all alike, and most bodies are one text.
func spell(o Output) ([]byte, error) {
	text, isText := "", true
	var body []byte
	switch b := o.Body.(type) {
	case *TextDelta:
		text = b.Text
	case *ReasoningDelta:
		text = b.Text
	default:
		var err error
		if body, err = json.Marshal(b, json.Deterministic(true)); err != nil {
			return nil, err
		}
		isText = false
	}
	w := speller{data: make([]byte, 0, headBytes+len(o.ID)+len(o.Turn)+len(text)+len(text)/8+len(body))}
	w.text(`{"type":`, o.Body.Type())
	if o.ID != "" {
		w.text(`,"id":`, o.ID)
	}
	if o.Turn != "" {
		w.text(`,"turn":`, o.Turn)
	}
	w.number(`,"step":`, o.Step)
	w.number(`,"attempt":`, o.Attempt)
	switch {
	case isText:
		w.text(`,"text":`, text)
	case len(body) > len("{}"):
		w.data = append(append(w.data, ','), body[1:len(body)-1]...)
	}
	return append(w.data, '}'), w.err
}

// speller appends members.
type speller struct {
	data []byte
	err  error // what cannot be written
}

func (w *speller) text(name, value string) {
	data, err := jsontext.AppendQuote(append(w.data, name...), value)
	if w.data = data; err != nil {
		w.err = err
	}
}

func (w *speller) number(name string, value int) {
	w.data = strconv.AppendInt(append(w.data, name...), int64(value), 10)
}
