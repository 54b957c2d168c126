package render

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/reducer/fold"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/event"
	"github.com/turnfold/turnfold/subjects/feed"
)

var rewrite = flag.Bool("rewrite", false, "write docs/feed.md and the conformance kit anew; read the diff before keeping it")

// TestContract holds docs/feed.md against the code that it describes.
func TestContract(t *testing.T) {
	var page strings.Builder
	page.WriteString("# The feed\n\n<!-- Made by `go test ./reducer/render -run TestContract -rewrite`; edit the code's comments and tables instead. -->\n\n" +
		"A feed is what a turn tells its readers: one JSON object a line (NDJSON), or one a server-sent event. Every object has `type`, `id`\n" +
		"(opaque; resume strictly after it), `turn`, `step` (from 1; 0 is the whole turn) and `attempt`. Types and members are only ever added:\n" +
		"a client skips what it does not know.\n\n" +
		"A client that appends `text_delta` to the text of its step and drops on `reset` what the reset names ends with the winner's text, on every path.\n\n")
	contractItems(t, &page)
	contractEnds(&page)
	contractProtocols(t, &page)
	golden(t, filepath.Join("..", "..", "docs", "feed.md"), page.String())
}

func golden(t *testing.T, file, want string) {
	t.Helper()
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil || string(have) != want {
		t.Errorf("%s is not what the code says (%v); make it anew with -rewrite", file, err)
	}
}

// feedTypes lists the types of the feed lane.
func feedTypes() (out []string) {
	for _, typ := range feed.Types() {
		if b, _ := feed.New(typ); b.Lane() == subjects.LaneFeed {
			out = append(out, typ)
		}
	}
	return out
}

func contractItems(t *testing.T, page *strings.Builder) {
	t.Helper()
	docs := typeDocs(t)
	page.WriteString("## Items\n\n| type | client | does |\n|---|---|---|\n")
	for _, typ := range feedTypes() {
		d, ok := feed.DutyOf(typ)
		if !ok {
			t.Fatalf("nobody has said what a client does with %s", typ)
		}
		word := "may skip it"
		if d.Required {
			word = "**must**"
		}
		fmt.Fprintf(page, "| [`%s`](#%s) | %s | %s |\n", typ, typ, word, d.Does)
	}
	for _, typ := range feedTypes() {
		b, _ := feed.New(typ)
		name := reflect.TypeOf(b).Elem().Name()
		fmt.Fprintf(page, "\n### %s\n\n%s\n", typ, docs[name])
		if rows := fieldRows(docs, reflect.TypeOf(b).Elem()); rows != "" {
			fmt.Fprintf(page, "\n| member | is | |\n|---|---|---|\n%s", rows)
		}
	}
}

func fieldRows(docs map[string]string, typ reflect.Type) string {
	var out strings.Builder
	for i := range typ.NumField() {
		f := typ.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && options == "inline":
			out.WriteString(fieldRows(docs, f.Type))
			continue
		case name == "":
			continue
		}
		kind := map[reflect.Kind]string{reflect.String: "text", reflect.Int: "number", reflect.Int64: "number", reflect.Bool: "true or false", reflect.Struct: "object"}[f.Type.Kind()]
		if strings.Contains(options, "omitzero") {
			kind += ", left out if empty"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", name, kind, docs[typ.Name()+"."+f.Name])
		if f.Type.Kind() == reflect.Struct {
			out.WriteString(strings.ReplaceAll(fieldRows(docs, f.Type), "| `", "| `"+name+"."))
		}
	}
	return out.String()
}

// typeDocs reads the comments of the feed's types and members.
func typeDocs(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "subjects", "feed", "item.go"), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			ts, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			out[ts.Name.Name] = strings.TrimSpace(strings.ReplaceAll(g.Doc.Text(), "\n", " "))
			st, ok := ts.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range st.Fields.List {
				for _, n := range f.Names {
					out[ts.Name.Name+"."+n.Name] = strings.TrimSpace(strings.ReplaceAll(f.Doc.Text()+f.Comment.Text(), "\n", " "))
				}
			}
		}
	}
	return out
}

// contractEnds asks the fold how a turn ends for every failure of its attempts.
func contractEnds(page *strings.Builder) {
	page.WriteString("\n## Failures\n\nHow a turn ends whose attempts all fail in one way, with `attempts_per_step: 2`. Text that was shown is kept: the turn ends as a\n" +
		"message, marked `salvaged`. Without any it ends as an apology, `error`. Nothing lies in between.\n\n" +
		"| class | asked again | without text: `error` says | after text: `completion` says |\n|---|---|---|---|\n")
	for _, class := range event.Classes() {
		if class == event.Cancelled {
			continue // no attempt fails by itself this way: the turn ends, below
		}
		resets, apology := failing(class, "")
		_, message := failing(class, "Some text.")
		again := "no"
		if resets > 0 {
			again = "yes, after a `reset`"
		}
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", class, again, apology, message)
	}
	page.WriteString("\nOther ends, likewise `completion` if text was shown, else `error`: `cancelled`, `deadline`, `attempts_per_turn`, `tokens_per_turn`, `loop`.\n" +
		"`stop` is a whole answer, `tool_calls` one whose calls the client runs.\n\n" +
		"The gateway itself says `error` with class `conflict`, `too_large` or `unavailable` if a turn could not be opened, and `taken_back` to a reader\n" +
		"that cannot retract (`reset=hold`) and would have to.\n")
}

// failing folds a turn whose attempts fail, and tells its resets and its end.
func failing(class event.Class, text string) (resets int, end string) {
	t := subjects.Turn{Tenant: "local", ID: "t"}
	s, seq := fold.State{Turn: t}, uint64(0)
	var outs []feed.Output
	add := func(b event.Body) {
		seq++
		var more []feed.Output
		s, more = fold.Apply(s, event.Event{Turn: t, Seq: seq, Body: b})
		outs = append(outs, more...)
	}
	add(&event.TurnOpened{Rules: event.Rules, Entries: []event.Entry{{Provider: "p", API: "openai-chat", Model: "m"}},
		Messages: []event.Message{{Role: "user", Content: "Hi"}},
		Policy:   event.Policy{AttemptsPerStep: 2, AttemptsPerTurn: 8, CallsPerTurn: 8, AfterText: "reset"}})
	for n := 1; !s.Over() && n < 9; n++ {
		at := event.At{Step: 1, Attempt: n, Token: "k"}
		add(&event.AttemptStarted{Step: 1, Attempt: n, Token: "k", Provider: "p"})
		if text != "" && n == 1 {
			add(&event.TextDelta{At: at, Text: text})
			at.Ord++
		}
		if class == event.Lost {
			add(&event.AttemptLost{Step: 1, Attempt: n, Token: "k"})
			continue
		}
		add(&event.AttemptFailed{At: at, Class: class, Retryable: true})
	}
	for _, o := range outs {
		switch b := o.Body.(type) {
		case *feed.Reset:
			resets++
		case *feed.Completion:
			end = fmt.Sprintf("`%s`: %s", b.Finish, b.Message)
		case *feed.Error:
			end = fmt.Sprintf("`%s`: %s", b.Class, b.Message)
		}
	}
	return resets, end
}
