package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// walls lists every file of the product that makes or reads a time of the wall clock,
// and what for. Everything else knows only differences of time.Now, which Go takes from
// the monotonic clock: a host's clock may be wrong, or jump, and no lease, silence,
// patience or deadline is longer or shorter for it.
var walls = map[string]string{
	"subjects/jet/msg.go":               "when the log stored a message, by the log's clock",
	"reducer/turns/turns.go":            "the same, for the fold",
	"reducer/timers.go":                 "the same, compared with the log's clock alone",
	"reducer/audit/bundle.go":           "shows it", // and what follows shows or records
	"reducer/audit/cost.go":             "adds up by the day of the log's clock",
	"reducer/audit/export.go":           "shows it, and names a log by when it was made",
	"reducer/archive/manifest.go":       "shown to people",
	"reducer/archive/restore.go":        "shown to people",
	"reducer/archive/spool.go":          "carries along when the log stored a message, for the fold",
	"reducer/erase.go":                  "shown to people",
	"reducer/turns/erasures.go":         "shown to people",
	"keystore/record.go":                "kept for people; the next question of a verify is bounded on reading",
	"keystore/write.go":                 "shown to people",
	"executor/tool/http.go":             "a target's Retry-After, by the target's clock",
	"executor/tool/sign.go":             "the standard signs the time; the receiver compares it with its own",
	"streamer/provider/fault.go":        "a provider's Retry-After, by the provider's clock",
	"streamer/provider/replay/store.go": "names recordings",
	"cmd/turnfold/gateway/request.go":   "a fact of the turn: windows of scopes are cut by it, once",
	"cmd/turnfold/gateway/openai.go":    "the protocol shows it",
	"cmd/turnfold/gateway/directory.go": "orders a list by the log's clock",
	"cmd/turnfold/gateway/effects.go":   "shown to people",
	"cmd/turnfold/approve.go":           "shown to people",
	"cmd/turnfold/audit.go":             "asked for by people",
	"cmd/turnfold/audit_export.go":      "names a file",
	"cmd/turnfold/backup.go":            "shown to people",
	"cmd/turnfold/effects_key.go":       "asked for by people",
}

// wallNames are what makes a time of the wall clock, or takes it out of a time.
var (
	wallMakers  = []string{"time.Parse", "time.ParseInLocation", "time.Unix", "time.UnixMilli", "time.UnixMicro", "time.Date", "http.ParseTime"}
	wallReaders = []string{"Unix", "UnixMilli", "UnixMicro", "UnixNano", "UTC", "Local", "Format", "AppendFormat", "YearDay", "Weekday"}
)

// wallOf says which of them a call uses, if any.
func wallOf(call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(wallMakers, x.Name+"."+sel.Sel.Name) {
		return x.Name + "." + sel.Sel.Name
	}
	if slices.Contains(wallReaders, sel.Sel.Name) {
		return sel.Sel.Name
	}
	return ""
}

// wallField says whether a field is a time that comes from outside.
func wallField(f *ast.Field) bool {
	sel, ok := f.Type.(*ast.SelectorExpr)
	x, named := (*ast.Ident)(nil), false
	if ok {
		x, named = sel.X.(*ast.Ident)
	}
	return named && x.Name == "time" && sel.Sel.Name == "Time" && f.Tag != nil && strings.Contains(f.Tag.Value, "json:")
}

// wallFaults: the wall clock is read where the table says, and nowhere else.
func wallFaults(t tree) []string {
	var out []string
	used := map[string]bool{}
	for _, f := range t.files {
		apart := strings.HasPrefix(f.path, "cmd/internal/") || within(f.dir, "cmd/turnfold/demo") || within(f.dir, "cmd/turnfold/bench")
		if f.test || apart || len(f.walls) == 0 {
			continue
		}
		used[f.path] = true
		if walls[f.path] == "" {
			out = append(out, fmt.Sprintf("%s uses the wall clock (%s); measure with time.Since, or add it to the table with a reason", f.path, f.walls[0]))
		}
	}
	for path := range walls {
		if !used[path] {
			out = append(out, path+" is in the table of the wall clock, and nobody needs it")
		}
	}
	return out
}
