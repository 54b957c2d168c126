package openaichat

import (
	"reflect"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/streamer/provider/adaptertest"
	"github.com/turnfold/turnfold/streamer/provider/providertest"
	"github.com/turnfold/turnfold/subjects/event"
)

// delta is a chunk with one delta.
func delta(d string) string {
	return `{"choices":[{"index":0,"delta":` + d + `,"finish_reason":null}]}`
}

// entries is a chunk with tool_calls.
func entries(e string) string { return delta(`{"tool_calls":[` + e + `]}`) }

func finish(reason string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

// TestSlots: how servers number and label the pieces of calls, and what is meant.
func TestSlots(t *testing.T) {
	two := []call{{"a", "f", `{"n":1}`}, {"b", "f", `{"n":2}`}}
	for _, c := range []struct {
		name string
		in   []string
		want []call
	}{
		{"one index for all, ids differ", []string{
			entries(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}}`),
			entries(`{"index":0,"id":"b","function":{"name":"f","arguments":"{\"n\":2}"}}`)}, two},
		{"no index, ids differ, fragments follow", []string{
			entries(`{"id":"a","function":{"name":"f","arguments":"{\"n\":"}},{"function":{"arguments":"1}"}}`),
			entries(`{"id":"b","function":{"name":"f"}}`), entries(`{"function":{"arguments":"{\"n\":2}"}}`)}, two},
		{"no index, id and name with each fragment", []string{
			entries(`{"id":"a","function":{"name":"f","arguments":"{\"n\":"}}`), entries(`{"id":"a","function":{"name":"f","arguments":"1}"}}`),
			entries(`{"id":"b","function":{"name":"f","arguments":"{\"n\":"}}`), entries(`{"id":"b","function":{"name":"f","arguments":"2}"}}`)}, two},
		{"no index, one id, whole calls", []string{
			entries(`{"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}}`),
			entries(`{"id":"a","function":{"name":"f","arguments":"{\"n\":2}"}}`)}, []call{{"a", "f", `{"n":1}`}, {"a", "f", `{"n":2}`}}},
		{"no index, no id, whole calls", []string{
			entries(`{"function":{"name":"f","arguments":"{\"n\":1}"}},{"function":{"name":"f","arguments":"{\"n\":2}"}}`)},
			[]call{{"", "f", `{"n":1}`}, {"", "f", `{"n":2}`}}},
		{"no index, no id, two tools without parameters", []string{
			entries(`{"function":{"name":"f","arguments":""}}`), entries(`{"function":{"name":"g"}}`)},
			[]call{{"", "f", ""}, {"", "g", ""}}},
		{"index 0 for all, empty ids", []string{
			entries(`{"index":0,"id":"","function":{"name":"f","arguments":"{\"n\":1}"}}`),
			entries(`{"index":0,"id":"","function":{"name":"f","arguments":"{\"n\":2}"}}`)}, []call{{"", "f", `{"n":1}`}, {"", "f", `{"n":2}`}}},
		{"the id changes for one call", []string{
			entries(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":"}}`),
			entries(`{"index":0,"id":"z","function":{"arguments":"1}"}}`)}, []call{{"a", "f", `{"n":1}`}}},
		{"null id, null name, null arguments", []string{
			entries(`{"index":0,"id":"a","function":{"name":"f","arguments":null}}`),
			entries(`{"index":0,"id":null,"function":{"name":null,"arguments":"{\"n\":1}"}}`)}, two[:1]},
		{"late id and late name", []string{
			entries(`{"index":0,"function":{"arguments":"{\"n\":"}}`), entries(`{"index":0,"id":"a","function":{"arguments":"1}"}}`),
			entries(`{"index":0,"function":{"name":"f"}}`)}, two[:1]},
		{"late id with the name repeated", []string{
			entries(`{"index":0,"function":{"name":"f","arguments":"{\"n\":"}}`), entries(`{"index":0,"id":"a","function":{"name":"f","arguments":"1}"}}`)}, two[:1]},
		{"index only on later fragments", []string{
			entries(`{"id":"a","function":{"name":"f"}}`), entries(`{"index":0,"function":{"arguments":"{\"n\":1}"}}`)}, two[:1]},
		{"interleaved, opened out of order", []string{
			entries(`{"index":1,"id":"a","function":{"name":"f"}},{"index":0,"id":"b","function":{"name":"f"}}`),
			entries(`{"index":0,"function":{"arguments":"{\"n\":2}"}},{"index":1,"function":{"arguments":"{\"n\":1}"}}`)}, two},
		{"a repeated label after the end says nothing", []string{
			entries(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}}`),
			entries(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`)}, two[:1]},
		{"arguments as an object", []string{
			entries(`{"index":0,"id":"a","function":{"name":"f","arguments":{"n":1}}}`)}, two[:1]},
		{"an entry that says nothing", []string{
			entries(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}}`), entries(`{"index":7}`), delta(`{"tool_calls":[]}`), delta(`{"tool_calls":null}`)}, two[:1]},
		{"whole calls and finish in one chunk", []string{
			`{"choices":[{"finish_reason":"tool_calls","delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{\"n\":1}","name":"f"}}]}}]}`}, two[:1]},
		{"the old function_call", []string{
			delta(`{"function_call":{"name":"f","arguments":"{\"n\":"}}`), delta(`{"function_call":{"arguments":"1}"}}`), finish("function_call")}, []call{{"", "f", `{"n":1}`}}},
		{"several values in one event", []string{
			entries(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":"}}`) + "\n" + entries(`{"index":0,"function":{"arguments":"1}"}}`)}, two[:1]},
		{"a choice split in two", []string{
			`{"choices":[{"index":0,"delta":{"role":"assistant"}},{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}}]}},{"index":1,"delta":{"content":"other"}}]}`}, two[:1]},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := decode(t, append(c.in, finish("tool_calls"))...)
			if !reflect.DeepEqual(r.Calls, c.want) {
				t.Errorf("calls %q, want %q", r.Calls, c.want)
			}
			r.Finished(t)
		})
	}
}

// TestEndings: what the last words mean.
func TestEndings(t *testing.T) {
	ok := entries(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}}`)
	args := func(a string) string {
		return entries(`{"index":0,"id":"a","function":{"name":"f","arguments":` + a + `}}`)
	}
	text := delta(`{"content":"hi"}`)
	for _, c := range []struct {
		name  string
		in    []string
		class event.Class // "" means finished
		retry bool
	}{
		{"stop", []string{text, finish("stop")}, "", false},
		{"text and reason in one chunk", []string{`{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}`}, "", false},
		{"finish before its delta", []string{`{"choices":[{"finish_reason":"stop","delta":{"content":"hi"}}]}`}, "", false},
		{"no finish", []string{text}, event.Truncated, true},
		{"DONE without a reason", []string{text, "[DONE]"}, event.Truncated, true},
		{"DONE glued to the last event", []string{text + "\n[DONE]"}, event.Truncated, true},
		{"finish and DONE in one event", []string{text, finish("stop") + "\n[DONE]"}, "", false},
		{"empty reason", []string{text, finish("")}, event.Truncated, true},
		{"absent reason", []string{`{"choices":[{"delta":{"content":"hi"}}]}`}, event.Truncated, true},
		{"length", []string{text, finish("length")}, event.Truncated, false},
		{"filter", []string{text, finish("content_filter")}, event.Filtered, false},
		{"refusal", []string{delta(`{"refusal":"I cannot"}`), finish("stop")}, event.Filtered, false},
		{"no resources", []string{text, finish("insufficient_system_resource")}, event.Overloaded, true},
		{"reason error", []string{text, finish("error")}, event.ServerError, true},
		{"a call dropped by the provider", []string{finish("function_call_filter: MALFORMED_FUNCTION_CALL")}, event.MalformedCall, true},
		{"unknown reason", []string{text, finish("abort")}, event.UnknownFinish, true},
		{"tool reason without a call", []string{text, finish("tool_calls")}, event.MalformedCall, true},
		{"empty", []string{delta(`{"role":"assistant","content":""}`), finish("stop")}, event.Truncated, true},
		{"reasoning alone", []string{delta(`{"reasoning_content":"hm"}`), finish("stop")}, event.Truncated, true},
		{"nameless call", []string{entries(`{"index":0,"id":"a","function":{"arguments":"{}"}}`), finish("tool_calls")}, event.MalformedCall, true},
		{"one good call, one cut", []string{ok, entries(`{"index":1,"id":"b","function":{"name":"f","arguments":"{"}}`), finish("tool_calls")}, event.MalformedCall, true},
		{"arguments blank", []string{args(`" \n"`), finish("tool_calls")}, "", false},
		{"arguments no object", []string{args(`"[1]"`), finish("tool_calls")}, event.MalformedCall, true},
		{"arguments null", []string{args(`"null"`), finish("tool_calls")}, event.MalformedCall, true},
		{"arguments twice", []string{args(`"{}{}"`), finish("tool_calls")}, event.MalformedCall, true},
		{"arguments repeat a member, deep down", []string{args(`"{\"a\":[{\"b\":1,\"\\u0062\":2}]}"`), finish("tool_calls")}, event.MalformedCall, true},
		{"arguments with an escaped lone surrogate", []string{args(`"{\"a\":\"\\ud83d\"}"`), finish("tool_calls")}, event.MalformedCall, true},
		{"arguments with a lone surrogate", []string{args(`"{\"a\":\"\ud83d\"}"`), finish("tool_calls")}, event.MalformedCall, true},
		{"arguments with broken UTF-8", []string{args("\"{\\\"a\\\":\\\"\xff\\\"}\""), finish("tool_calls")}, event.MalformedCall, true},
		{"arguments that end in half a pair", []string{args(`"{}\ud83d"`), finish("tool_calls")}, event.MalformedCall, true},
		{"arguments as a list", []string{args(`[{"n":1}]`), finish("tool_calls")}, event.MalformedCall, true},
		{"second finish", []string{text, finish("stop"), finish("length")}, "", false},
		{"calls after the finish", []string{text, finish("stop"), ok, `{"id":"","choices":[{"index":0}]}`}, "", false},
		{"error after the finish", []string{text, finish("stop"), `{"error":{"message":"accounting","code":500}}`}, "", false},
		{"rubbish after the finish", []string{text, finish("stop"), `{"usage":`}, "", false},
		{"error null", []string{`{"error":null,"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}`}, "", false},
		{"error", []string{text, `{"error":{"message":"m","type":"server_error","code":null}}`}, event.ServerError, true},
		{"error, then DONE", []string{text, `{"object":"error","message":"m","type":"BadRequestError","code":400}`, "[DONE]"}, event.InvalidRequest, false},
		{"vLLM error 500", []string{text, `{"message":"m","code":500,"object":"error"}`}, event.ServerError, true},
		{"error beside a choice", []string{text, `{"choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"code":502,"message":"m"}}`}, event.ServerError, true},
		{"error beside stop", []string{text, `{"choices":[{"delta":{"content":""},"finish_reason":"stop"}],"error":{"code":429,"message":"m"}}`}, event.RateLimited, true},
		{"error in a choice", []string{text, `{"choices":[{"error":{"code":"overloaded","message":"m"},"delta":{}}]}`}, event.Overloaded, true},
		{"error without its member", []string{text, `{"type":"error","message":"m","code":"503"}`}, event.ServerError, true},
		{"error as text", []string{text, `{"error":"m"}`}, event.ServerError, true},
		{"error in a list", []string{`[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}]`}, event.RateLimited, true},
		{"quota", []string{`{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}`}, event.RateLimited, false},
		{"context", []string{`{"error":{"message":"m","type":"invalid_request_error","code":"context_length_exceeded"}}`}, event.ContextLength, false},
		{"overloaded", []string{`{"error":{"message":"m","type":"overloaded_error"}}`}, event.Overloaded, true},
		{"timeout", []string{`{"error":{"message":"m","type":"timeout_error"}}`}, event.ServerError, true},
		{"auth", []string{`{"error":{"message":"m","type":"authentication_error"}}`}, event.Auth, false},
		{"a lost piece", []string{text, `{"choices":[{"delta":{"content":"x`, finish("stop")}, event.ServerError, true},
		{"keep-alives as data", []string{": keepalive", "ping", text, "", "null", finish("stop")}, "", false},
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
			if f.Length != (c.name == "length") {
				t.Errorf("Length is %v", f.Length)
			}
		})
	}
}

// TestErrorEvent: an event named error is one, whatever its data is.
func TestErrorEvent(t *testing.T) {
	for data, class := range map[string]event.Class{`{"message":"m","type":"overloaded_error"}`: event.Overloaded, "upstream died": event.ServerError, "{": event.ServerError} {
		d := newDecoder()
		if done, err := d.Event("error", []byte(data), nil); !done || err != nil {
			t.Errorf("%s: %v %v", data, done, err)
		}
		if f := d.End(nil).(*event.AttemptFailed); f.Class != class || !f.Retryable || f.Detail == "" {
			t.Errorf("%s: %+v", data, f)
		}
	}
}

// TestText: what is text, what is not, and how it is joined.
func TestText(t *testing.T) {
	for _, c := range []struct{ name, in, text, reasoning string }{
		{"escapes", `{"content":"a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}`, "a\"\\/\b\f\n\r\té😀", ""},
		{"pair cut", `{"content":"a\ud83d"}|{"content":"\ude00b"}`, "a😀b", ""},
		{"pair cut, another kind between", `{"content":"a\ud83d"}|{"reasoning":"r"}|{"content":"\ude00"}`, "a😀", "r"},
		{"half a pair", `{"content":"a\ud83d"}|{"content":"b"}`, "a\uFFFDb", ""},
		{"other half", `{"content":"\ude00b"}`, "\uFFFDb", ""},
		{"half at the end", `{"content":"a\ud83d"}`, "a\uFFFD", ""},
		{"two highs", `{"content":"\ud83d\ud83d"}|{"content":"\ude00"}`, "\uFFFD😀", ""},
		{"character cut", "{\"content\":\"na\xc3\"}|{\"content\":\"\xafve\"}", "naïve", ""},
		{"broken bytes", "{\"content\":\"a\xffb\"}", "a\uFFFDb", ""},
		{"reasoning twice in a chunk", `{"reasoning":"r","reasoning_content":"r","content":"t"}`, "t", "r"},
		{"null content", `{"role":"assistant","content":null}|{"content":"t"}`, "t", ""},
		{"parts", `{"content":[{"type":"thinking","thinking":[{"type":"text","text":"r"}]},{"type":"text","text":"t"}]}`, "t", "r"},
		{"padding is skipped", `{"content":"t","obfuscation":"xyz"}`, "t", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var in []string
			for _, d := range strings.Split(c.in, "|") {
				in = append(in, delta(d))
			}
			r := decode(t, append(in, finish("stop"))...)
			if r.Text != c.text || r.Reasoning != c.reasoning {
				t.Errorf("text %q reasoning %q, want %q %q", r.Text, r.Reasoning, c.text, c.reasoning)
			}
			r.Finished(t)
		})
	}
	t.Run("pair cut in arguments", func(t *testing.T) {
		r := decode(t, entries(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"e\":\"\ud83d"}}`),
			entries(`{"index":0,"function":{"arguments":"\ude00\"}"}}`), finish("stop"))
		if r.Calls[0].Args() != `{"e":"😀"}` {
			t.Errorf("arguments %q", r.Calls[0].Args())
		}
		r.Finished(t)
	})
	t.Run("opaque goes with its call", func(t *testing.T) {
		d := newDecoder()
		var opaque string
		d.Event("", []byte(entries(`{"index":0,"id":"a","extra_content":{"google":{"thought_signature":"s"}},"function":{"name":"f","arguments":"{}"}}`)),
			func(b event.Body) error { opaque += b.(*event.CallDelta).Opaque; return nil })
		if opaque != `{"google":{"thought_signature":"s"}}` {
			t.Errorf("opaque %q", opaque)
		}
	})
}

// TestUsage: the last snapshot wins, wherever it comes.
func TestUsage(t *testing.T) {
	text := delta(`{"content":"hi"}`)
	usage := func(in, out string) string {
		return `"usage":{"prompt_tokens":` + in + `,"completion_tokens":` + out + `,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":2}}`
	}
	want := event.Usage{Input: 9, Output: 4, CacheRead: 3, Reasoning: 2}
	partial := want
	partial.Partial = true
	for _, c := range []struct {
		name string
		in   []string
		want event.Usage
	}{
		{"last chunk", []string{text, finish("stop"), `{"choices":[],` + usage("9", "4") + `}`}, want},
		{"cumulative", []string{`{"choices":[{"delta":{"content":"hi"}}],` + usage("9", "1") + `}`, finish("stop"), `{"choices":[],` + usage("9", "4.0") + `}`}, want},
		{"null elsewhere", []string{`{"choices":[{"delta":{"content":"hi"}}],` + usage("9", "4") + `}`, `{"usage":null,"choices":[{"finish_reason":"stop"}]}`}, want},
		{"in the choice", []string{text, `{"choices":[{"finish_reason":"stop",` + usage("9", "4") + `}]}`}, want},
		{"cut", []string{`{"choices":[{"delta":{"content":"hi"}}],` + usage("9", "4") + `}`}, partial},
		{"never", []string{text, finish("stop")}, adaptertest.NoUsage},
		{"empty", []string{text, finish("stop"), `{"choices":[],"usage":{}}`}, adaptertest.NoUsage},
	} {
		r := decode(t, c.in...)
		if got := usageOf(r.End); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func usageOf(b event.Body) event.Usage {
	if f, ok := b.(*event.AttemptFinished); ok {
		return f.Usage
	}
	return b.(*event.AttemptFailed).Usage
}

// TestFieldLineError: an error line that is no SSE field is skipped by any parser, so
// the missing finish must tell.
func TestFieldLineError(t *testing.T) {
	eachWay(t, "data: "+delta(`{"content":"hi"}`)+"\n\nerror: {\"code\":500}\n\n", providertest.Clean, func(t *testing.T, r *adaptertest.Reply) {
		if f := r.Failed(t); f.Class != event.Truncated || !f.Retryable {
			t.Errorf("%+v", f)
		}
	})
}
