package tool

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// places are the sections of docs/tools.md that explain what may be written where.
var places = map[string]string{
	"":              "## The file",
	"tools[]":       "## A declaration (`tools[]`)",
	"run":           "## How it runs (`run`)",
	"run.http":      "### `run.http`",
	"run.command":   "### `run.command`",
	"run.nats":      "### `run.nats`",
	"run.mcp":       "### `run.mcp`",
	"verify":        "## Asking after an unknown (`verify`)",
	"verify.http":   "### `verify.http`",
	"mcp_servers.*": "## A server (`mcp_servers.*`)",
}

// TestEveryMemberIsDocumented: what the loader knows is in the table of its section, and
// nothing else is.
func TestEveryMemberIsDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	for place, known := range members {
		_, section, ok := strings.Cut(string(data), "\n"+places[place]+"\n")
		if !ok || places[place] == "" {
			t.Errorf("docs/tools.md has no section for %q", place)
			continue
		}
		section, _, _ = strings.Cut(section, "\n#")
		_, table, _ := strings.Cut(section, "\n| member |")
		table, _, _ = strings.Cut(table, "\n\n")
		var got []string
		for line := range strings.Lines(table) {
			if rest, ok := strings.CutPrefix(line, "| `"); ok {
				name, _, _ := strings.Cut(rest, "`")
				got = append(got, name)
			}
		}
		want := slices.Clone(known)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s explains %v, the loader knows %v", places[place], got, want)
		}
	}
}

// TestDocumentedExampleLoads: the example of docs/tools.md is a good file.
func TestDocumentedExampleLoads(t *testing.T) {
	data, err := os.ReadFile("../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(data), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	if findings := Lint(parse(t, example)); len(findings) > 0 || example == "" {
		t.Errorf("findings %v", findings)
	}
}
