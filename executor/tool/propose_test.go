package tool

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnfold/turnfold/executor/tool/strict"
	"github.com/turnfold/turnfold/subjects/effect"
)

// confirm does what a person does who has read the proposal.
func confirm(t *testing.T, text string) *Set {
	t.Helper()
	var faults strict.Faults
	if _, err := Parse("tools.yaml", []byte(text)); !errors.As(err, &faults) || len(faults) != strings.Count(text, "proposed: true") {
		t.Fatalf("before it is confirmed: %v\n%s", err, text)
	} else {
		for _, f := range faults {
			if f.Fix != "confirm effect and identity, then delete this line" {
				t.Errorf("fault %v", f)
			}
		}
	}
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "proposed: true") {
			kept = append(kept, line)
		}
	}
	return parse(t, strings.Join(kept, ""))
}

func TestProposeMCP(t *testing.T) {
	yes, no := true, false
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{PageSize: 2})
	for _, tool := range []*mcp.Tool{
		{Name: "a.find", Description: "Finds: \"it\"\u2028\u0085 # {x}\n\U0001F600", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}, InputSchema: anyObject},
		{Name: "a_find", Annotations: &mcp.ToolAnnotations{IdempotentHint: true, DestructiveHint: &no},
			InputSchema: json.RawMessage(`{"type":"object","required":["id"],"properties":{"id":{"type":"string"},"note":{}}}`)},
		{Name: "pay", Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes},
			InputSchema: json.RawMessage(`{"type":"object","required":["z","order id"],"properties":{"z":{"maximum":9007199254740993},"note":{"pattern":"a: #\n'"},"order id":{}}}`)},
		{Name: "free", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{}}}`)},
	} {
		s.AddTool(tool, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, nil })
	}
	for _, stateless := range []bool{false, true} {
		web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: stateless}))
		server := &MCPServer{Name: "shop", URL: web.URL, HeadersEnv: map[string]string{"Authorization": "TOKEN"}}
		text, err := ProposeMCP(t.Context(), server, RunnerConfig{Env: func(string) (string, bool) { return "x", true }})
		for ss := range s.Sessions() {
			_ = ss.Close()
		}
		web.CloseClientConnections()
		web.Close()
		if err != nil {
			t.Fatal(err)
		}
		set := confirm(t, text)
		if got := set.Names(); !reflect.DeepEqual(got, []string{"a_find", "a_find_2", "free", "pay"}) {
			t.Errorf("names %v", got)
		}
		get := func(name string) *Declaration { d, _ := set.Get(name); return d }
		if d := get("a_find"); d.Effect != effect.Read || d.Description != "Finds: \"it\"\u2028\u0085 # {x}\n\U0001F600" || d.Run.MCP.Tool != "a.find" ||
			d.Run.MCP.Server.URL != web.URL || d.Run.MCP.Server.HeadersEnv["Authorization"] != "TOKEN" {
			t.Errorf("a_find %+v of %+v", d, d.Run.MCP)
		}
		if d := get("a_find_2"); d.Effect != effect.Keyed || !d.Identity.All || !d.IdentityDeclared {
			t.Errorf("a_find_2 %+v", d)
		}
		if d := get("pay"); d.Effect != effect.Once || !reflect.DeepEqual(d.Identity.Fields, []string{"z", "order id"}) || !strings.Contains(d.Parameters, "9007199254740993") {
			t.Errorf("pay %+v", d)
		}
		if d := get("free"); d.Effect != effect.Once || !d.Identity.All {
			t.Errorf("free %+v", d)
		}
		for _, want := range []string{"readOnlyHint true, idempotentHint false, destructiveHint not given (true)", `# Taken for decoration: "note".`} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
}

func TestProposeReferenceServers(t *testing.T) {
	programs := nodeServers(t)
	for name, want := range map[string]map[string]effect.Class{
		"memory":     {"read_graph": effect.Read, "add_observations": effect.Once, "delete_entities": effect.Keyed},
		"filesystem": {"read_text_file": effect.Read, "edit_file": effect.Once, "write_file": effect.Keyed},
		"everything": {"get-sum": "", "echo": ""},
	} {
		args := []string{t.TempDir()}
		if name == "everything" {
			args = []string{"stdio"}
		}
		text, err := ProposeMCP(t.Context(), nodeServer(t, programs(name), nil, args...), RunnerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		set := confirm(t, text)
		for tool, class := range want {
			if d, ok := set.Get(tool); !ok || class != "" && d.Effect != class {
				t.Errorf("%s %s: %+v", name, tool, d)
			}
		}
		if findings := Errors(Lint(set)); len(findings) > 0 {
			t.Errorf("%s: %v", name, findings)
		}
	}
}
