package upkeep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRetentionPage runs the commands that docs/retention.md shows, in its order, with
// folders and turns of this test in place of its own.
func TestRetentionPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/retention.md")
	if err != nil {
		t.Fatal(err)
	}
	o := newOffice(t)
	o.start()
	o.turn("TURN")
	dir := t.TempDir()
	places := strings.NewReplacer("/archive", filepath.Join(dir, "archive"), "/restored", filepath.Join(dir, "restored"),
		"/backup/monday", filepath.Join(dir, "monday"), "--older-than 600h", "--older-than 1ms", "--tenant acme", "--tenant local")
	ran := map[string]int{}
	for n, block := range strings.Split(string(page), "```sh\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
			args := strings.Fields(places.Replace(line))
			if args[0] != "turnfold" {
				t.Fatalf("block %d shows %q", n, line)
			}
			if args[1] == "backup" {
				if err := o.p.Stop(); err != nil {
					t.Fatal(err)
				}
			}
			o.must(args[1:]...)
			ran[args[1]]++
		}
	}
	for _, verb := range []string{"archive", "audit", "restore", "erase", "backup"} {
		if ran[verb] == 0 {
			t.Errorf("the page does not show %s", verb)
		}
	}
	o.clean("TURN", "after the page")
}
