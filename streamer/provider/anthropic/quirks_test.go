package anthropic

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/streamer/provider/adaptertest"
	"github.com/turnfold/turnfold/streamer/provider/providertest"
	"github.com/turnfold/turnfold/subjects/event"
)

const (
	start = `{"type":"message_start","message":{"id":"msg_1","content":[],"usage":{"input_tokens":9,"output_tokens":1}}}`
	last  = `{"type":"message_stop"}`
)

func open(index int, block string) string {
	return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, index, block)
}

func tool(index int, id string) string {
	return open(index, `{"type":"tool_use","id":"`+id+`","name":"f","input":{}}`)
}

func piece(index int, kind, member, text string) string {
	return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"%s","%s":%s}}`, index, kind, member, text)
}

func text(index int, quoted string) string { return piece(index, "text_delta", "text", quoted) }
func args(index int, quoted string) string {
	return piece(index, "input_json_delta", "partial_json", quoted)
}
func shut(index int) string { return fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index) }
func stop(word string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + word + `"},"usage":{"output_tokens":4}}`
}

// says is a whole text block.
func says(index int, quoted string) []string {
	return []string{open(index, `{"type":"text","text":""}`), text(index, quoted), shut(index)}
}

func seq(parts ...any) (out []string) {
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			out = append(out, p)
		case []string:
			out = append(out, p...)
		}
	}
	return out
}

// TestBlocks: how pieces of blocks come, and what is meant.
func TestBlocks(t *testing.T) {
	one := []call{{"a", "f", `{"n":1}`}}
	two := append(one[:1:1], call{"b", "f", `{"n":2}`})
	for _, c := range []struct {
		name  string
		in    []string
		want  []call
		text  string
		order string
	}{
		{"interleaved by index", seq(start, open(0, `{"type":"text","text":""}`), tool(1, "a"), tool(2, "b"), text(0, `"x"`), args(2, `"{\"n\":"`), args(1, `"{\"n\":1"`),
			shut(0), args(2, `"2}"`), shut(2), args(1, `"}"`), shut(1)), two, "x", "01t1010"},
		{"an empty fragment first", seq(tool(0, "a"), args(0, `""`), args(0, `"{\"n\":1}"`), shut(0)), one, "", "0"},
		{"no fragment", seq(tool(0, "a"), shut(0)), []call{{"a", "f", ""}}, "", "0"},
		{"input with the start", seq(open(0, `{"type":"tool_use","id":"a","name":"f","input":{"n":1}}`), shut(0)), one, "", "0"},
		{"input with the start, big number", seq(open(0, `{"type":"tool_use","id":"a","name":"f","input":{"n": 9007199254740993}}`), shut(0)), []call{{"a", "f", `{"n": 9007199254740993}`}}, "", "0"},
		{"input with the start and again", seq(open(0, `{"type":"tool_use","id":"a","name":"f","input":{"n": 1}}`), args(0, `"{\"n\":1}"`), shut(0)), one, "", "0"},
		{"a gap in the indices", seq(tool(3, "a"), args(3, `"{\"n\":1}"`), shut(3)), one, "", "0"},
		{"one index for all blocks", seq(tool(0, "a"), args(0, `"{\"n\":1}"`), shut(0), tool(0, "b"), args(0, `"{\"n\":2}"`), shut(0)), two, "", "01"},
		{"pings and unknown events", seq(`{"type":"ping"}`, tool(0, "a"), `{"type":"news","index":0}`, args(0, `"{\"n\":1}"`), `{"type":"ping"}`, shut(0)), one, "", "0"},
		{"an unknown block", seq(open(0, `{"type":"server_tool_use","id":"s","name":"search","input":{}}`), args(0, `"{\"q\":1"`), shut(0), tool(1, "a"), args(1, `"{\"n\":1}"`), shut(1)), one, "", "0"},
		{"text with the start", seq(open(0, `{"type":"text","text":"a"}`), text(0, `"b"`), shut(0), tool(1, "a"), args(1, `"{\"n\":1}"`), shut(1)), one, "ab", "t0"},
		{"a pair cut in the arguments", seq(tool(0, "a"), args(0, `"{\"e\":\"\ud83d"`), args(0, `"\ude00\"}"`), shut(0)), []call{{"a", "f", `{"e":"😀"}`}}, "", "0"},
		{"several values in one event", seq(tool(0, "a")+"\n"+args(0, `"{\"n\":1}"`), shut(0)), one, "", "0"},
		{"a second stop of a block", seq(tool(0, "a"), args(0, `"{\"n\":1}"`), shut(0), shut(0)), one, "", "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := decode(t, seq(c.in, stop("tool_use"), last)...)
			if !reflect.DeepEqual(r.Calls, c.want) || r.Text != c.text || r.Order != c.order {
				t.Errorf("calls %q text %q order %s, want %q %q %s", r.Calls, r.Text, r.Order, c.want, c.text, c.order)
			}
			r.Finished(t)
		})
	}
}

// TestThinking: a block goes back only whole, with its signature, before what it led to.
func TestThinking(t *testing.T) {
	think := open(0, `{"type":"thinking","thinking":"","signature":""}`)
	hm := piece(0, "thinking_delta", "thinking", `"h\u006d \"é\""`)
	sign := piece(0, "signature_delta", "signature", `"c2ln"`)
	whole := `{"type":"thinking","thinking":"hm \"é\"","signature":"c2ln"}`
	for _, c := range []struct {
		name   string
		in     []string
		blocks []string
		order  string
	}{
		{"whole", seq(think, hm, sign, shut(0), says(1, `"x"`)), []string{whole}, "rot"},
		{"not shown", seq(think, sign, shut(0), says(1, `"x"`)), []string{`{"type":"thinking","thinking":"","signature":"c2ln"}`}, "ot"},
		{"signed in two pieces", seq(think, hm, piece(0, "signature_delta", "signature", `"c2"`), piece(0, "signature_delta", "signature", `"ln"`), shut(0), says(1, `"x"`)), []string{whole}, "rot"},
		{"unsigned", seq(think, hm, shut(0), says(1, `"x"`)), nil, "rt"},
		{"damaged", seq(think, piece(0, "thinking_delta", "thinking", `"\ud83d"`), sign, shut(0), says(1, `"x"`)), nil, "rt"},
		{"redacted", seq(open(0, `{"type":"redacted_thinking", "data":"b3BhcXVl"}`), shut(0), says(1, `"x"`)), []string{`{"type":"redacted_thinking", "data":"b3BhcXVl"}`}, "ot"},
		{"a call opens before it ends", seq(think, hm, tool(1, "a"), args(1, `"{}"`), shut(1), sign, shut(0), says(2, `"x"`)), []string{whole}, "ro0t"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := decode(t, seq(c.in, stop("end_turn"), last)...)
			if !reflect.DeepEqual(r.Blocks, c.blocks) || r.Order != c.order || r.Text != "x" {
				t.Errorf("blocks %q order %s text %q, want %q %s", r.Blocks, r.Order, r.Text, c.blocks, c.order)
			}
			r.Finished(t)
		})
	}
	r := decode(t, think, hm, sign) // the end of the stream
	if f := r.Failed(t); r.Blocks != nil || f.Class != event.Truncated {
		t.Errorf("%+v with %q", f, r.Blocks)
	}
}

// TestEndings: what the last words mean.
func TestEndings(t *testing.T) {
	hi := says(0, `"hi"`)
	with := func(a string) []string { return []string{tool(0, "a"), args(0, a), shut(0)} }
	for _, c := range []struct {
		name  string
		in    []string
		class event.Class // "" means finished
		retry bool
	}{
		{"end_turn", seq(start, hi, stop("end_turn"), last), "", false},
		{"stop_sequence", seq(hi, stop("stop_sequence"), last), "", false},
		{"end_turn with a call", seq(with(`"{}"`), stop("end_turn"), last), "", false},
		{"tool_use without a call", seq(hi, stop("tool_use"), last), event.MalformedCall, true},
		{"no stop", seq(start, hi), event.Truncated, true},
		{"message_stop without a reason", seq(hi, last), event.Truncated, true},
		{"reason without message_stop", seq(hi, stop("end_turn")), event.Truncated, true},
		{"a reason of null", seq(hi, `{"type":"message_delta","delta":{"stop_reason":null}}`, last), event.Truncated, true},
		{"a block left open", seq(open(0, `{"type":"text","text":"hi"}`), stop("end_turn"), last), event.Truncated, true},
		{"a call left open", seq(tool(0, "a"), args(0, `"{}"`), stop("tool_use"), last), event.Truncated, true},
		{"opened twice, closed once", seq(tool(0, "a"), tool(0, "a"), shut(0), stop("tool_use"), last), event.Truncated, true},
		{"max_tokens", seq(hi, stop("max_tokens"), last), event.Truncated, false},
		{"max_tokens, arguments parse", seq(with(`"{}"`), stop("max_tokens"), last), event.Truncated, false},
		{"window", seq(hi, stop("model_context_window_exceeded"), last), event.Truncated, false},
		{"refusal", seq(hi, stop("refusal"), last), event.Filtered, false},
		{"refusal, then the end", seq(hi, stop("refusal")), event.Filtered, false},
		{"pause_turn", seq(hi, stop("pause_turn"), last), event.Truncated, true},
		{"unknown reason", seq(hi, stop("tired"), last), event.UnknownFinish, true},
		{"empty", seq(start, stop("end_turn"), last), event.Truncated, true},
		{"nameless call", seq(open(0, `{"type":"tool_use","id":"a","input":{}}`), shut(0), stop("tool_use"), last), event.MalformedCall, true},
		{"arguments cut", seq(with(`"{\"a\":"`), stop("tool_use"), last), event.MalformedCall, true},
		{"arguments repeat a member", seq(with(`"{\"a\":1,\"a\":1}"`), stop("tool_use"), last), event.MalformedCall, true},
		{"arguments with half a pair", seq(with(`"{\"a\":\"\ud83d\"}"`), stop("tool_use"), last), event.MalformedCall, true},
		{"arguments end in half a pair", seq(with(`"{}\ud83d"`), stop("tool_use"), last), event.MalformedCall, true},
		{"input and pieces differ", seq(open(0, `{"type":"tool_use","id":"a","name":"f","input":{"n":1}}`), args(0, `"{\"n\":2}"`), shut(0), stop("tool_use"), last), event.MalformedCall, true},
		{"a piece for no block", seq(text(0, `"hi"`), stop("end_turn"), last), event.ServerError, true},
		{"a piece for a closed block", seq(with(`"{}"`), args(0, `"{}"`), stop("tool_use"), last), event.ServerError, true},
		{"a lost piece", seq(hi, `{"type":"content_block_delta","ind`, stop("end_turn"), last), event.ServerError, true},
		{"after the end nothing counts", seq(hi, stop("end_turn"), last, `{"type":"error","error":{"type":"api_error","message":"m"}}`), "", false},
		{"end marks and keep-alives as data", seq(": ping", "", "[DONE]", "null", hi, stop("end_turn"), last), "", false},
		{"overloaded", seq(hi, `{"type":"error","error":{"type":"overloaded_error","message":"m"}}`), event.Overloaded, true},
		{"api_error", seq(hi, `{"type":"error","error":{"details":null,"type":"api_error","message":"m"}}`), event.ServerError, true},
		{"timeout", seq(`{"type":"error","error":{"type":"timeout_error","message":"m"}}`), event.ServerError, true},
		{"rate limit", seq(`{"type":"error","error":{"type":"rate_limit_error","message":"m"}}`), event.RateLimited, true},
		{"bad request", seq(`{"type":"error","error":{"type":"invalid_request_error","message":"m"}}`), event.InvalidRequest, false},
		{"too long", seq(`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}`), event.ContextLength, false},
		{"billing", seq(`{"type":"error","error":{"type":"billing_error","message":"m"}}`), event.RateLimited, false},
		{"auth", seq(`{"type":"error","error":{"type":"authentication_error","message":"m"}}`), event.Auth, false},
		{"another API's error", seq(hi, `{"error":{"message":"m","code":429}}`), event.RateLimited, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := decode(t, c.in...)
			if c.class == "" {
				r.Finished(t)
				return
			}
			f := r.Failed(t)
			if f.Class != c.class || f.Retryable != c.retry || f.Detail == "" || len(f.Detail) > 300 {
				t.Errorf("%+v, want class %s, retryable %v", f, c.class, c.retry)
			}
			if f.Length != (strings.HasPrefix(c.name, "max_tokens") || c.name == "window") {
				t.Errorf("Length is %v", f.Length)
			}
		})
	}
}

// TestNames: events with names alone, without names, and with plain text.
func TestNames(t *testing.T) {
	d, r := newDecoder(), new(adaptertest.Reply)
	for _, e := range [][2]string{{"content_block_start", `{"index":0,"content_block":{"type":"text","text":""}}`}, {"message", text(0, `"hi"`)},
		{"content_block_stop", `{"index":0}`}, {"", stop("end_turn")}, {"message_stop", `{}`}} {
		if _, err := d.Event(e[0], []byte(e[1]), r.Take); err != nil {
			t.Fatal(err)
		}
	}
	r.End = d.End(nil)
	if r.Finished(t); r.Text != "hi" {
		t.Errorf("%q", r.Text)
	}
	for data, class := range map[string]event.Class{"upstream died": event.ServerError, `{"type":"overloaded_error","message":"m"}`: event.Overloaded} {
		d = newDecoder()
		if done, err := d.Event("error", []byte(data), nil); !done || err != nil {
			t.Errorf("%s: %v %v", data, done, err)
		}
		if f := d.End(nil).(*event.AttemptFailed); f.Class != class || !f.Retryable || f.Detail == "" {
			t.Errorf("%s: %+v", data, f)
		}
	}
}

// TestStall: pings keep the socket alive, and are no progress.
func TestStall(t *testing.T) {
	a := providertest.Answer{End: providertest.Hang, Before: func(int) { time.Sleep(20 * time.Millisecond) }}
	for range 30 {
		a.Writes = append(a.Writes, []byte("event: ping\ndata: {\"type\": \"ping\"}\n\n"))
	}
	f := ask(t, providertest.Start(t, a), provider.Endpoint{StallTimeout: 150 * time.Millisecond}, provider.Request{}).Failed(t)
	if f.Class != event.Stall || !f.Retryable {
		t.Errorf("%+v", f)
	}
}

// TestUsage: each count is the last that came, whoever said it.
func TestUsage(t *testing.T) {
	delta := func(word, usage string) string {
		return `{"type":"message_delta","delta":{"stop_reason":` + word + `},"usage":` + usage + `}`
	}
	for _, c := range []struct {
		name string
		in   []string
		want event.Usage
	}{
		{"overwritten", seq(start, says(0, `"x"`), delta("null", `{"output_tokens":3}`), delta(`"end_turn"`, `{"output_tokens":7,"input_tokens":8,"cache_read_input_tokens":2}`), last), event.Usage{Input: 8, Output: 7, CacheRead: 2}},
		{"null keeps", seq(start, says(0, `"x"`), delta(`"end_turn"`, `{"output_tokens":7,"input_tokens":null}`), last), event.Usage{Input: 9, Output: 7}},
		{"after the reason", seq(start, says(0, `"x"`), delta(`"end_turn"`, "null"), delta("null", `{"output_tokens":7}`), last), event.Usage{Input: 9, Output: 7}},
		{"cut", seq(start, says(0, `"x"`), delta("null", `{"output_tokens":3}`)), event.Usage{Input: 9, Output: 3, Partial: true}},
		{"never", seq(says(0, `"x"`), delta(`"end_turn"`, "null"), last), event.Usage{Partial: true}},
	} {
		r := decode(t, c.in...)
		got := event.Usage{}
		switch b := r.End.(type) {
		case *event.AttemptFinished:
			got = b.Usage
		case *event.AttemptFailed:
			got = b.Usage
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestStatus: an answer that is no stream.
func TestStatus(t *testing.T) {
	for _, c := range []struct {
		status int
		header map[string]string
		body   string
		want   event.AttemptFailed
	}{
		{529, map[string]string{"request-id": "req_1"}, `{"type":"error","error":{"type":"overloaded_error","message":"busy"},"request_id":"req_1"}`,
			event.AttemptFailed{Class: event.Overloaded, Retryable: true, RequestID: "req_1", Detail: "status 529: busy"}},
		{429, map[string]string{"retry-after": "2"}, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"},"request_id":"req_2"}`,
			event.AttemptFailed{Class: event.RateLimited, Retryable: true, RetryAfterMS: 2000, RequestID: "req_2", Detail: "status 429: slow down"}},
		{400, nil, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}`,
			event.AttemptFailed{Class: event.ContextLength, Detail: "status 400: prompt is too long: 9 tokens > 8 maximum"}},
		{401, nil, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`,
			event.AttemptFailed{Class: event.Auth, Detail: "status 401: invalid x-api-key"}},
		{413, nil, "", event.AttemptFailed{Class: event.InvalidRequest, Detail: "status 413: no message"}},
		{502, nil, "<html>", event.AttemptFailed{Class: event.ServerError, Retryable: true, Detail: "status 502: no message"}},
		{200, map[string]string{"Content-Type": "application/json"}, `{"type":"message","content":[]}`,
			event.AttemptFailed{Class: event.ServerError, Retryable: true, Detail: "status 200: the answer is no event stream"}},
	} {
		s := providertest.Start(t, providertest.Answer{Status: c.status, Header: c.header, Writes: [][]byte{[]byte(c.body)}})
		f := ask(t, s, provider.Endpoint{}, provider.Request{}).Failed(t)
		c.want.Status = c.status
		if *f != c.want {
			t.Errorf("got  %+v\nwant %+v", *f, c.want)
		}
	}
}
