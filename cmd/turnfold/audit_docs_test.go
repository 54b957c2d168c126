package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documented are the command lines of docs/audit.md, without remarks and with every
// option that they show in brackets.
func documented(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "audit.md"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range regexp.MustCompile("(?m)^(turnfold .*)$|`(turnfold [^`]* -[^`]*)`").FindAllStringSubmatch(string(text), -1) {
		line, _, _ := strings.Cut(m[1]+m[2], "  ") // remarks stand apart
		either := regexp.MustCompile(`\[(\S+)\|(\S+)\]`).FindStringSubmatch(line)
		if either == nil {
			out = append(out, strings.NewReplacer("[", "", "]", "").Replace(line))
			continue
		}
		for _, one := range either[1:] {
			out = append(out, strings.Replace(line, either[0], one, 1))
		}
	}
	return out
}

// TestAuditDocCommands runs every command line of docs/audit.md, in their order, on the
// store of a turn that has the name used there.
func TestAuditDocCommands(t *testing.T) {
	t.Parallel()
	dir := configure(t, provide(t, nil), "")
	s := serve(t, dir)
	if code, out, errs := invoke(t, dir, "run", "Hi", "--turn", "0198c1", "--server", s.url); code != 0 {
		t.Fatalf("exit %d: %s %s", code, out, errs)
	}
	if _, out, _ := invoke(t, dir, "tail", "0198c1", "--json", "--server", s.url); !strings.Contains(out, "message_saved") {
		t.Fatalf("the turn does not end: %s", out) // later, nothing is due any more
	}
	public, private, err := ed25519.GenerateKey(nil)
	secret, err1 := x509.MarshalPKCS8PrivateKey(private)
	open, err2 := x509.MarshalPKIXPublicKey(public)
	evidence := filepath.Join(dir, "evidence")
	if err := errors.Join(err, err1, err2, os.Mkdir(evidence, 0o700)); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	write(t, dir, "pub.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open})))
	write(t, dir, "policy.yaml", "attempts_per_step: 1\ncaps: {\"*\": 1}\n")
	_, said, _ := invoke(t, dir, "audit", "export", "--all", "day.ndjson", "--json")
	deployment := regexp.MustCompile(`"deployment":"(\w+)"`).FindStringSubmatch(said)
	if deployment == nil {
		t.Fatalf("export says %s", said)
	}
	lines := documented(t)
	if len(lines) < 15 {
		t.Fatalf("docs/audit.md shows %d command lines: %q", len(lines), lines)
	}
	verbs := map[string]bool{}
	for _, line := range lines {
		if strings.Contains(line, "bench") || line == "turnfold audit export --since …" {
			continue // run by TestAuditGoesOn; a part of a line that is here
		}
		line = strings.NewReplacer("/evidence/", evidence, "6:7,1:1,…", "1:1,1:1", "--deployment ID", "--deployment "+deployment[1]).Replace(line)
		args := strings.Fields(line)[1:]
		if strings.Contains(line, "verify") { // it is signed, as --key asks for
			if code, out, errs := invoke(t, dir, "audit", "export", "0198c1", args[2], "--sign", "key.pem"); code != 0 {
				t.Errorf("exit %d: %s%s", code, out, errs)
			}
		}
		if args[0] == "audit" && len(args) == 2 && !strings.HasPrefix(args[1], "-") || args[0] == "show" {
			args = append(args, "--server", s.url)
		}
		if code, out, errs := invoke(t, dir, args...); code != 0 || out == "" {
			t.Errorf("%s: exit %d: %s%s", line, code, out, errs)
		}
		verbs[strings.Join(strings.Fields(line)[1:3], " ")] = true
	}
	for _, must := range []string{"audit 0198c1", "audit --all", "audit --since", "audit --from", "audit export", "audit verify", "replay 0198c1",
		"replay --since", "show 0198c1", "cost --since"} {
		if !verbs[must] {
			t.Errorf("docs/audit.md does not show turnfold %s", must)
		}
	}
}
