package adaptertest

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/subjects/event"
)

// seedBytesMax keeps large cases out of the corpus, where they would slow mutation down.
const seedBytesMax = 10_000

// FuzzDecode feeds a decoder the data of events, blank lines between them, each with a
// name where it begins with "event: ". Whatever comes, nothing panics, strings are valid
// UTF-8, places have no gaps, and a finished reply has only calls that may run.
func FuzzDecode(f *testing.F, api provider.API, seeds ...string) {
	files, err := filepath.Glob(filepath.Join("testdata", "cases", "*.sse"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) < seedBytesMax {
			f.Add(strings.ReplaceAll(strings.ReplaceAll(string(data), "\r", ""), "data: ", ""), false)
		}
	}
	for _, seed := range seeds {
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, stream string, cut bool) {
		d, c := api.NewDecoder(), checker{t: t}
		for _, data := range strings.Split(stream, "\n\n") {
			name := ""
			if rest, ok := strings.CutPrefix(data, "event: "); ok {
				name, data, _ = strings.Cut(rest, "\n")
			}
			done, err := d.Event(name, []byte(data), c.take)
			if err != nil {
				t.Fatal(err)
			}
			if done {
				break
			}
		}
		var broken error
		if cut {
			broken = io.ErrUnexpectedEOF
		}
		if named, ok := d.(provider.Identified); ok {
			c.valid(named.ResponseID())
		}
		c.end(d.End(broken))
	})
}

// checker holds what a decoder emits to its rules.
type checker struct {
	t    *testing.T
	args []string
}

func (c *checker) valid(s ...string) {
	for _, s := range s {
		if !utf8.ValidString(s) {
			c.t.Fatalf("invalid UTF-8: %q", s)
		}
	}
}

func (c *checker) take(b event.Body) error {
	switch b := b.(type) {
	case *event.TextDelta:
		c.valid(b.Text)
	case *event.ReasoningDelta:
		c.valid(b.Text)
	case *event.OpaqueBlock:
		c.valid(b.Data)
		if !jsontext.Value(b.Data).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			c.t.Fatalf("a block that is no JSON: %q", b.Data)
		}
	case *event.CallDelta:
		c.valid(b.ID, b.Name, b.Args, b.Opaque)
		if b.Index > len(c.args) {
			c.t.Fatalf("call %d opened after %d calls", b.Index, len(c.args))
		}
		if b.Index == len(c.args) {
			c.args = append(c.args, "")
		}
		c.args[b.Index] += b.Args
	}
	return nil
}

func (c *checker) end(b event.Body) {
	switch end := b.(type) {
	case *event.AttemptFinished:
		c.valid(end.Finish)
		for i, a := range c.args {
			if provider.CheckArguments(a) != nil {
				c.t.Fatalf("finished with arguments %d: %q", i, a)
			}
		}
	case *event.AttemptFailed:
		c.valid(end.Detail)
		if end.Class == "" || end.Detail == "" {
			c.t.Fatalf("%+v", end)
		}
	}
}
