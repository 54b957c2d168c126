package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/executor/tool"
)

func TestToolsImportFlags(t *testing.T) {
	for _, c := range []struct {
		o    importMCP
		list []string
		want string
	}{
		{importMCP{command: "npx -y server-memory"}, nil, "npx: npx|-y|server-memory"},
		{importMCP{command: "/opt/my server", name: "mine"}, []string{"a b"}, "mine: /opt/my server|a b"},
		{importMCP{command: "./serve.sh"}, nil, "serve_sh: ./serve.sh"},
		{importMCP{url: "https://shop.example:8443/mcp", headerEnv: []string{"Authorization=TOKEN"}}, nil, "shop_example: "},
	} {
		s, err := c.o.server(c.list)
		if err != nil || s.Name+": "+strings.Join(s.Argv, "|") != c.want || len(s.HeadersEnv) != len(c.o.headerEnv) {
			t.Errorf("%+v: %+v, %v", c.o, s, err)
		}
	}
	for _, bad := range [][]string{{"mcp"}, {"mcp", "--url", "http://a", "--command", "x"}, {"mcp", "--url", "http://a", "--", "x"},
		{"mcp", "--command", "sh -c 'x y'"}, {"mcp", "--url", "http://a", "--header-env", "x"}, {"mcp", "--command", "x", "--header-env", "A=B"}, {}} {
		var c coded
		if out, err := verb(t, newToolsImportCommand(), "", bad...); !errors.As(err, &c) || c.code != exitUsage || out != "" {
			t.Errorf("%v: %v, %q", bad, err, out)
		}
	}
}

func TestToolsImportFailsWithoutServer(t *testing.T) {
	web := httptest.NewServer(nil)
	web.Close()
	var c coded
	for _, list := range [][]string{{"--url", web.URL}, {"--command", "./no-such-program"}} {
		if out, err := verb(t, newToolsImportCommand(), "", append([]string{"mcp"}, list...)...); !errors.As(err, &c) || c.code != exitUnavailable || out != "" {
			t.Errorf("%v: %v, %q", list, err, out)
		}
	}
	if _, err := tool.ProposeMCP(context.Background(), &tool.MCPServer{Name: "x", URL: web.URL}, tool.RunnerConfig{}); err == nil {
		t.Error("a proposal without a server")
	}
}

func TestWriteChanges(t *testing.T) {
	changes := []tool.Change{{Tool: "a", What: "identity", Before: "*", After: "[b]", Keys: true, Running: true, Message: "m"}, {Tool: "b", What: "added", Message: "n"}}
	var text, lines bytes.Buffer
	if err := writeChanges(&text, changes, false); err != nil || text.String() != "a: identity * -> [b]: m [keys] [running turns]\nb: added: n\n" {
		t.Errorf("%v %q", err, text.String())
	}
	var back tool.Change
	if err := writeChanges(&lines, changes[:1], true); err != nil || json.Unmarshal(lines.Bytes(), &back) != nil || back != changes[0] {
		t.Errorf("%v %q", err, lines.String())
	}
}
