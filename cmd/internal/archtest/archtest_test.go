package archtest

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// rules are all that is checked.
var rules = map[string]func(tree) []string{
	"arrows": arrowFaults, "modules": moduleFaults, "pure": pureFaults, "docs": docFaults, "size": sizeFaults, "top": topFaults,
	"wall": wallFaults,
}

func TestModule(t *testing.T) {
	src, err := load(os.DirFS("../../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(src.files) < 50 {
		t.Fatalf("only %d files: this is not the module", len(src.files))
	}
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			faults := rule(src)
			slices.Sort(faults)
			for _, f := range faults {
				t.Error(f)
			}
		})
	}
}

// TestRulesCatch breaks each rule once, to see that it would be told.
func TestRulesCatch(t *testing.T) {
	const own = `"` + module + `/`
	for _, c := range []struct {
		rule, path, src, says string
	}{
		{"arrows", "subjects/event/x.go", "package event\nimport " + own + `reducer/fold"`, "subjects/event -> reducer/fold is in no table"},
		{"arrows", "reducer/fold/x.go", "package fold\nimport " + own + `subjects/jet"`, "reducer/fold -> subjects/jet is in no table"},
		{"arrows", "keystore/x_test.go", "package keystore\nimport " + own + `executor"`, "keystore -> executor is in no table"},
		{"arrows", "streamer/x.go", "package streamer\nimport " + own + `streamer/provider/openaichat"`, "streamer -> streamer/provider/openaichat is in no table"},
		{"arrows", "subjects/x.go", "package subjects\nimport " + own + `cmd/turnfold/config"`, "subjects -> cmd/turnfold/config is in no table"},
		{"arrows", "README.md", "", "reducer/fold -> subjects/event is in the table, and nobody needs it"},
		{"modules", "streamer/x.go", `package streamer` + "\n" + `import "github.com/nats-io/nats.go/jetstream"`, "which only [subjects/jet] may"},
		{"modules", "executor/x.go", `package executor` + "\n" + `import "github.com/cockroachdb/pebble/v2"`, "which only [keystore] may"},
		{"modules", "reducer/x.go", `package reducer` + "\n" + `import "github.com/nats-io/nats-server/v2/server"`, "which only [subjects/embed] may"},
		{"modules", "reducer/x_test.go", `package reducer` + "\n" + `import "github.com/stretchr/testify"`, "which is no permitted module"},
		{"modules", "keystore/x.go", `package keystore` + "\n" + `import "pgregory.net/rapid"`, "which is no permitted module"},
		{"pure", "reducer/fold/x.go", `package fold` + "\n" + `import "time"`, "imports time, but reducer/fold is pure"},
		{"pure", "reducer/fold/x.go", `package fold` + "\n" + `import "math/rand/v2"`, "imports math/rand/v2"},
		{"pure", "reducer/fold/x.go", `package fold` + "\n" + `import "log/slog"`, "imports log/slog"},
		{"pure", "reducer/fold/x.go", `package fold` + "\n" + `import "github.com/rs/zerolog"`, "imports github.com/rs/zerolog"},
		{"pure", "subjects/feed/x.go", "package feed\nvar half = 0.5", "uses 0.5"},
		{"pure", "reducer/fold/x.go", "package fold\nfunc f(x float64) {}", "uses float64"},
		{"docs", "reducer/x.go", "// Reducer is undocumented.\npackage reducer", "package reducer has no comment"},
		{"docs", "cmd/turnfold/x.go", "package main", "package main has no comment"},
		{"wall", "reducer/x.go", "package reducer\nvar x = time.UnixMilli(1)", "uses the wall clock (time.UnixMilli)"},
		{"wall", "executor/x.go", "package executor\nfunc f(t time.Time) string { return t.Format(x) }", "uses the wall clock (Format)"},
		{"wall", "subjects/jet/x.go", "package jet\ntype x struct { At time.Time `json:\"at\"` }", "uses the wall clock (a time in JSON)"},
		{"wall", "reducer/x.go", "package reducer", "reducer/timers.go is in the table of the wall clock, and nobody needs it"},
		{"size", "reducer/x.go", "package reducer" + strings.Repeat("\n", linesMax+1), "reducer/x.go has 601 lines"},
		{"top", "internal/x.go", "package internal", "it must have [cmd deploy"},
		{"top", "Makefile", "", "Makefile is no file of the top level"},
	} {
		src, err := load(fstest.MapFS{c.path: {Data: []byte(c.src)}})
		if err != nil {
			t.Fatalf("%s: %v", c.path, err)
		}
		if faults := rules[c.rule](src); !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, c.says) }) {
			t.Errorf("%s with %q: %q, want %q", c.path, c.src, faults, c.says)
		}
	}
}

// TestRulesAllow: what is right is not told.
func TestRulesAllow(t *testing.T) {
	const own = `"` + module + `/`
	fsys := fstest.MapFS{
		"reducer/fold/a.go":          {Data: []byte("// Package fold folds.\npackage fold\nimport (\n\"strings\"\n" + own + "subjects/event\"\n)\n")},
		"reducer/fold/a_test.go":     {Data: []byte("package fold_test\nimport (\n\"time\"\n" + own + "reducer/fold\"\n\"pgregory.net/rapid\"\n)\nvar x = 0.5\n")},
		"cmd/turnfold/main.go":       {Data: []byte("// Command turnfold runs turns.\npackage main\nimport " + own + "streamer\"\n")},
		"cmd/internal/sim/a_test.go": {Data: []byte("// Package sim simulates.\npackage sim\nimport " + own + "executor\"\n")},
		"streamer/x_test.go":         {Data: []byte("// Package streamer streams.\npackage streamer\nimport " + own + "streamer/provider/gemini\"\n")},
		"subjects/testdata/bad.go":   {Data: []byte("package bad\nimport \"example.com/x\"\n")},
		"streamer/sdk/go.mod":        {Data: []byte("module example.com/sdk\n")},
		"streamer/sdk/x/sdk.go":      {Data: []byte("package x\nimport \"example.com/y\"\n")},
		".git/hook.go":               {Data: []byte("no go at all")},
	}
	for _, d := range folders {
		fsys[d+"/keep"] = &fstest.MapFile{}
		fsys[d] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	}
	src, err := load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	for name, rule := range rules {
		for _, f := range rule(src) {
			if !strings.HasSuffix(f, "nobody needs it") {
				t.Errorf("%s: %s", name, f)
			}
		}
	}
}
