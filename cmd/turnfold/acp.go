package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/spf13/cobra"
)

func acpCommand(g *globals) *cobra.Command {
	var route string
	cmd := &cobra.Command{
		Use: "acp", Short: "Serve an editor over standard input and output (Agent Client Protocol)",
		Long: "acp is an agent for editors that speak the Agent Client Protocol, version 1. Each prompt is a turn of the\n" +
			"running server; if none answers, one is started in this process. An attempt is shown once it has won,\n" +
			"because the protocol cannot take text back. Calls that need a person's approval ask the editor for it.",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withServer(g, cmd, func(c *client) error {
				return newACP(c, route, cmd.OutOrStdout()).serve(cmd.Context(), cmd.InOrStdin())
			})
		},
	}
	cmd.Flags().StringVar(&route, "route", "", "route of the configuration")
	return cmd
}

// acpMessage is any JSON-RPC message.
type acpMessage struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *acpError       `json:"error,omitempty"`
}

// acpReply is an answer to a request of ours.
type acpReply struct {
	ID     json.RawMessage
	Result json.RawMessage
	Error  *acpError
}

type acpError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *acpError) Error() string { return e.Message }

// Codes of JSON-RPC 2.0, and of the protocol.
const (
	acpParse    = -32700
	acpNoMethod = -32601
	acpParams   = -32602
	acpInternal = -32603
)

// acpAgent serves one editor.
type acpAgent struct {
	c     *client
	route string

	out      sync.Mutex // held for one line
	w        io.Writer
	mu       sync.Mutex
	sessions map[string]*acpSession
	asked    map[string]chan acpReply // requests of ours, by id
	n        int
}

func newACP(c *client, route string, w io.Writer) *acpAgent {
	return &acpAgent{c: c, route: route, w: w, sessions: map[string]*acpSession{}, asked: map[string]chan acpReply{}}
}

// serve reads messages until the editor closes its end. Prompts run beside each other, so
// that a cancel is heard.
func (a *acpAgent) serve(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	lines, failed := make(chan []byte), make(chan error, 1)
	go func() { // ends with the process at the latest: a read of standard input cannot be given up
		scan := bufio.NewScanner(in)
		scan.Buffer(make([]byte, 64<<10), lineBytesMax)
		for scan.Scan() {
			select {
			case lines <- append([]byte(nil), scan.Bytes()...):
			case <-ctx.Done():
				return
			}
		}
		failed <- scan.Err()
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case line := <-lines:
			if len(line) > 0 {
				a.take(ctx, line, &running)
			}
		}
	}
}

// take handles one message.
func (a *acpAgent) take(ctx context.Context, line []byte, running *sync.WaitGroup) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
		Result json.RawMessage
		Error  *acpError
	}
	if err := json.Unmarshal(line, &m); err != nil {
		a.send(acpMessage{ID: json.RawMessage("null"), Error: &acpError{acpParse, "this is no JSON-RPC message"}})
		return
	}
	if m.Method == "" {
		a.mu.Lock()
		ch := a.asked[string(m.ID)]
		delete(a.asked, string(m.ID))
		a.mu.Unlock()
		if ch != nil {
			ch <- acpReply{m.ID, m.Result, m.Error}
		}
		return
	}
	if m.ID == nil {
		if m.Method == "session/cancel" {
			a.cancel(m.Params)
		}
		return
	}
	running.Go(func() {
		result, err := a.call(ctx, m.Method, m.Params)
		var e *acpError
		switch {
		case err == nil:
			a.send(acpMessage{ID: m.ID, Result: result})
		case errors.As(err, &e):
			a.send(acpMessage{ID: m.ID, Error: e})
		default:
			a.send(acpMessage{ID: m.ID, Error: &acpError{acpInternal, err.Error()}})
		}
	})
}

func (a *acpAgent) call(ctx context.Context, method string, params json.RawMessage) (any, error) {
	switch method {
	case "initialize":
		return map[string]any{"protocolVersion": 1, "authMethods": []any{},
			"agentInfo":         map[string]any{"name": "turnfold", "title": "turnfold", "version": buildVersion().Version},
			"agentCapabilities": map[string]any{"loadSession": false, "promptCapabilities": map[string]any{"embeddedContext": true}}}, nil
	case "session/new":
		return a.newSession(), nil
	case "session/prompt":
		return a.prompt(ctx, params)
	}
	return nil, &acpError{acpNoMethod, "this agent has no method " + method}
}

// ask sends a request and waits for the editor's answer.
func (a *acpAgent) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	ch := make(chan acpReply, 1)
	a.mu.Lock()
	a.n++
	id, _ := json.Marshal(a.n) // a number
	a.asked[string(id)] = ch
	a.mu.Unlock()
	a.request(id, method, params)
	select {
	case r := <-ch:
		if r.Error != nil {
			return nil, r.Error
		}
		return r.Result, nil
	case <-ctx.Done():
		a.mu.Lock()
		delete(a.asked, string(id))
		a.mu.Unlock()
		return nil, ctx.Err()
	}
}

func (a *acpAgent) notify(method string, params any) { a.request(nil, method, params) }

func (a *acpAgent) request(id json.RawMessage, method string, params any) {
	data, err := json.Marshal(params)
	if err == nil {
		a.send(acpMessage{ID: id, Method: method, Params: data})
	}
}

// send writes one line. An editor that has gone closes our input too.
func (a *acpAgent) send(m acpMessage) {
	m.Version = "2.0"
	data, err := json.Marshal(m)
	if err != nil {
		return
	}
	a.out.Lock()
	defer a.out.Unlock()
	_, _ = a.w.Write(append(data, '\n'))
}
