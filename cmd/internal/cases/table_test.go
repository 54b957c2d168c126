package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root     = "../../.."
	casesMax = 32
)

var (
	tableRow  = regexp.MustCompile(`(?m)^\| (\d\d) ([a-z0-9-]+) \| (.*) \|$`)
	reference = regexp.MustCompile("`([a-z/]+)` (Test[A-Za-z0-9]+)(?:/([a-z0-9-]+))?")
	fileOf    = regexp.MustCompile(`(?m)^\s+"(\d\d-[a-z0-9-]+)\.(?:sse|ndjson)"`)
)

// TestTable: the table of docs/testing.md has every case, every test that it names
// exists and has the case, and every case that a dialect or this package has is in it.
func TestTable(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(root, "docs", "testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := tableRow.FindAllStringSubmatch(string(doc), -1)
	if len(found) != casesMax {
		t.Fatalf("the table has %d cases, want %d", len(found), casesMax)
	}
	for i, row := range found {
		n, refs := row[1], reference.FindAllStringSubmatch(row[3], -1)
		if n != fmt.Sprintf("%02d", i+1) {
			t.Errorf("case %s stands at place %d", n, i+1)
		}
		if len(refs) == 0 || len(refs) != len(strings.Split(row[3], "<br>")) {
			t.Errorf("case %s: cannot read %q", n, row[3])
		}
		for _, ref := range refs {
			if fault := missing(t, n, ref[1], ref[2], ref[3]); fault != "" {
				t.Errorf("case %s: %s: %s", n, ref[0], fault)
			}
		}
	}
	for _, folder := range folders {
		dir := "streamer/provider/" + folder
		for _, m := range fileOf.FindAllStringSubmatch(source(t, dir), -1) {
			if !strings.Contains(string(doc), "`"+dir+"` TestCases/"+m[1]) {
				t.Errorf("the table misses %s of %s", m[1], dir)
			}
		}
	}
	for _, r := range rows {
		if !strings.Contains(string(doc), "`cmd/internal/cases` TestCases/"+r.n) {
			t.Errorf("the table misses case %s of this package", r.n)
		}
	}
}

// missing says what is wrong with a reference.
func missing(t *testing.T, n, dir, test, sub string) string {
	t.Helper()
	src := source(t, dir)
	switch {
	case !strings.Contains(src, "\nfunc "+test+"(t *testing.T)"):
		return "there is no such test"
	case test == "TestStories":
		story, err := os.ReadFile(filepath.Join(root, dir, "testdata", sub+".txt"))
		if err != nil {
			return err.Error()
		}
		told := regexp.MustCompile(`(?m)^#.*[Cc]ases? (\d\d(, | and ))*` + n)
		if !told.Match(story) {
			return "the story does not name the case"
		}
	case dir == "cmd/internal/cases":
		if sub != n || !slices.ContainsFunc(rows, func(r row) bool { return r.n == n }) {
			return "there is no such row"
		}
	case sub != "":
		if !strings.HasPrefix(sub, n) || !strings.Contains(src, "\n\t\""+sub+".") {
			return "the test does not have the case"
		}
	}
	return ""
}

// source is the text of a package's tests.
func source(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no tests: %v", dir, err)
	}
	var out strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("\n" + string(data))
	}
	return out.String()
}
