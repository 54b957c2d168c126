package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/subjects/effect"
)

// verb runs a command below a root that has the flags of the real one.
func verb(t *testing.T, c *cobra.Command, stdin string, list ...string) (string, error) {
	t.Helper()
	g := &globals{}
	root := &cobra.Command{Use: "turnfold", SilenceErrors: true, SilenceUsage: true}
	root.PersistentFlags().BoolVar(&g.json, "json", false, "")
	root.PersistentFlags().StringVar(&g.configFile, "config", "turnfold.yaml", "")
	root.PersistentFlags().StringArrayVar(&g.set, "set", nil, "")
	root.AddCommand(c)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetIn(strings.NewReader(stdin))
	root.SetArgs(append([]string{c.Name()}, list...))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func writeTools(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tools.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestEffectsKey(t *testing.T) {
	file := writeTools(t, `tools:
- name: issue_refund
  effect: keyed
  identity: [order_id, shop]
  parameters: {type: object, properties: {order_id: {type: integer}, note: {type: string}, shop: {}}}
  run: {http: {url: "http://a"}}
`)
	key := effect.Meaning{Tenant: "local", Scope: "t1", Tool: "issue_refund", Identity: `{"order_id":9007199254740993}`, Ordinal: 1}.Key()
	base := []string{"--tool", "issue_refund", "--tools", file, "--turn", "t1", "--ordinal", "1"}
	var previous string
	for _, args := range []string{`{"note":"a","order_id":9007199254740993}`, `{"order_id":9007199254740993.0,"note":"other words"}`} {
		out, err := verb(t, newEffectsKeyCommand(), args, append(base, "--args", "-", "--json")...)
		if err != nil {
			t.Fatal(err)
		}
		var a keyAnswer
		if err := json.Unmarshal([]byte(out), &a); err != nil || strings.Count(out, "\n") != 1 {
			t.Fatalf("%s: %v", out, err)
		}
		if a.Key != key || a.Preimage != `["local","t1","issue_refund",{"order_id":9007199254740993},1]` {
			t.Errorf("%+v, want %s", a, key)
		}
		var roles []string
		for _, f := range a.Fields {
			roles = append(roles, f.Name+" "+f.Role)
		}
		if got := strings.Join(roles, ", "); got != "order_id identity, shop absent, note decoration" {
			t.Errorf("fields %s", got)
		}
		previous = a.Key
	}
	out, err := verb(t, newEffectsKeyCommand(), "", append(base, "--args", `{"order_id":9007199254740993}`)...)
	if err != nil || !strings.Contains(out, "key         "+previous) || !strings.Contains(out, "identity    order_id ") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = verb(t, newEffectsKeyCommand(), "", "--tool", "issue_refund", "--tools", file, "--args", `{"order_id":"x"}`)
	if err != nil || strings.Contains(out, "tfk1_") || !strings.Contains(out, "needs --turn") || !strings.Contains(out, "refused     ") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, bad := range [][]string{
		{"--args", "{}"}, {"--tool", "x", "--tools", file, "--args", "{}"}, {"--tool", "issue_refund", "--tools", file},
		append(base, "--args", `{"a":1,"a":2}`), append(base, "--args", `{}`, "--tenant", "a b"), append(base, "--args", `{}`, "--ordinal", "-1"),
	} {
		var c coded
		if out, err := verb(t, newEffectsKeyCommand(), "", bad...); !errors.As(err, &c) || c.code != exitUsage || out != "" {
			t.Errorf("%v: %v, %q", bad, err, out)
		}
	}
}
