package provider

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/subjects/effect"
)

// bytesLimit is small, so that inputs of a few hundred bytes reach it.
const bytesLimit = 256

// FuzzSSE: however a stream is cut into reads, its events are the same; they are those
// of the specification; and what is over the limit fails and says so, instead of being
// dropped or cut.
func FuzzSSE(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "\ufeffdata: a\r\n\r\ndata:b\r\rdata: c\ndata: d\n\n", "event: x\ndata\n\n\n: ping\n\ndata: cut",
		"data: a\n\r\ndata: b\r\n\rdata: c\n\n", "id: 1\nretry: 5\ndatax: 1\ndata: 2\n\n", "event: e\n\ndata: no name\n\n", "data: \ufeff\n\n"} {
		f.Add([]byte(s), 3)
	}
	f.Add(bytes.Repeat([]byte("x"), bytesLimit+1), 7)
	f.Add(append(append([]byte("data: "), bytes.Repeat([]byte("x"), bytesLimit)...), "\n\n"...), 7)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		whole, wholeErr := eventsOf(bytes.NewReader(stream), bytesLimit)
		for name, r := range map[string]io.Reader{"bytewise": iotest.OneByteReader(bytes.NewReader(stream)),
			"in pieces": pieces{bytes.NewReader(stream), 1 + max(size, -size)&63}, "with the end": iotest.DataErrReader(bytes.NewReader(stream))} {
			got, err := eventsOf(r, bytesLimit)
			if !slices.Equal(got, whole) || fmt.Sprint(err) != fmt.Sprint(wholeErr) {
				t.Fatalf("%s: %q %v\nwhole: %q %v", name, got, err, whole, wholeErr)
			}
		}
		var fault *Fault
		if wholeErr != nil && !errors.As(wholeErr, &fault) {
			t.Fatalf("%v", wholeErr)
		}
		if wholeErr != nil && len(stream) < bytesLimit {
			t.Fatalf("%d bytes, and %v", len(stream), wholeErr)
		}
		unbounded, err := eventsOf(bytes.NewReader(stream), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if want := specified(stream); !slices.Equal(unbounded, want) {
			t.Fatalf("%q, want %q", unbounded, want)
		}
		if n := len(whole); n > len(unbounded) || !slices.Equal(whole, unbounded[:n]) || wholeErr == nil && n != len(unbounded) {
			t.Fatalf("under the limit %q %v, without one %q", whole, wholeErr, unbounded)
		}
	})
}

// pieces reads at most n bytes at a time.
type pieces struct {
	r io.Reader
	n int
}

func (p pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.n)]) }

func eventsOf(r io.Reader, limit int) (out []string, err error) {
	err = readEvents(r, limit, func(name string, data []byte) (bool, error) {
		out = append(out, name+"|"+string(data))
		return false, nil
	})
	return out, err
}

// specified reads a stream as the WHATWG specification words it: line by line, with
// nothing but its letter in mind.
func specified(stream []byte) (out []string) {
	stream = bytes.TrimPrefix(stream, []byte("\ufeff"))
	stream = bytes.ReplaceAll(bytes.ReplaceAll(stream, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	lines := bytes.Split(stream, []byte("\n"))
	var name, data []byte
	for _, line := range lines[:len(lines)-1] { // the last one has no end
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0:
			if data = bytes.TrimSuffix(data, []byte("\n")); len(data) > 0 {
				out = append(out, string(name)+"|"+string(data))
			}
			name, data = nil, nil
		case string(field) == "event":
			name = value
		case string(field) == "data":
			data = append(append(data, value...), '\n')
		}
	}
	return out
}

// FuzzScan: the own walk and jsontext take the same texts for JSON, and find the same
// tokens in them.
func FuzzScan(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0.5e+3,"x\u00e9\n",true,false,null,{}],"a":{"b":[]}} [2]`, `{"a":1,}`, `[1 2]`, `{"a" 1}`, `{1:2}`, `[01]`, `[-]`,
		`["\ud800"]`, "[\"\xff\"]", "[\"\n\"]", `["\u12g4"]`, `{"a":}`, `[,]`, `{"a":1]`, `{}{}`, `[tru]`, `1 2`, "\ufeff{}", `[1e]`, `[1.]`, `["\`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewScan()
		s.Reset(data)
		var got []string
		for s.Kind() != 0 {
			got = walk(s, got)
		}
		want, err := tokens(data)
		if (err == nil) != (s.Err() == nil) || err == nil && !slices.Equal(got, want) {
			t.Fatalf("%q: %q %v\njsontext: %q %v", data, got, s.Err(), want, err)
		}
		s.Reset(data)
		for s.Kind() != 0 {
			s.Skip()
		}
		if (err == nil) != (s.Err() == nil) {
			t.Fatalf("%q skipped: %v, jsontext: %v", data, s.Err(), err)
		}
	})
}

// walk takes the next value token by token.
func walk(s *Scan, out []string) []string {
	switch k := s.Kind(); k {
	case '{':
		out = append(out, "{")
		for ok := s.Open(k); ok && s.Member(); {
			out = walk(s, append(out, `"`+string(s.Name())+`"`))
		}
		return append(out, "}")
	case '[':
		out = append(out, "[")
		for ok := s.Open(k); ok && s.Element(); {
			out = walk(s, out)
		}
		return append(out, "]")
	}
	return append(out, string(s.Value()))
}

// tokens is what jsontext finds.
func tokens(data []byte) (out []string, err error) {
	dec := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		var v []byte
		switch k := dec.PeekKind(); k {
		case '{', '}', '[', ']':
			_, err = dec.ReadToken()
			v = []byte{byte(k)}
		default:
			v, err = dec.ReadValue()
		}
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, string(v))
	}
}

// FuzzArguments: what an adapter refuses has no canonical form either, so that nothing
// that runs was ever refused; and what it lets pass without one fails by a rule of keys
// alone.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{"", " {} ", `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, "{\"\u00e9\":1,\"e\u0301\":2}", `{"a":"\ud800"}`, `{"n":1e999999999}`,
		"{\"a\":\"\xff\"}", `{}{}`, `[]`, `{"a":[{"b":null}]}`, "\u00a0{}", "{}\x00", `{"a":01}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, args string) {
		canonical, err := effect.Canonical(args)
		checked := CheckArguments(args)
		switch {
		case err == nil && checked != nil:
			t.Fatalf("%q is refused, but has the canonical form %q", args, canonical)
		case err == nil:
			if again, err := effect.Canonical(canonical); err != nil || again != canonical || CheckArguments(canonical) != nil {
				t.Fatalf("%q: canonical %q, again %q %v", args, canonical, again, err)
			}
		case checked == nil && !keyRule(err):
			t.Fatalf("%q passes, but has no canonical form: %v", args, err)
		}
	})
}

// keyRule reports whether err is about what only keys need: names that are one name
// after normalisation, and bounds of numbers and depth.
func keyRule(err error) bool {
	for _, words := range []string{"repeated member", "nested deeper", "number beyond"} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}
