package gemini

import (
	"reflect"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/streamer/provider/adaptertest"
	"github.com/turnfold/turnfold/streamer/provider/providertest"
	"github.com/turnfold/turnfold/subjects/event"
)

// parts is a chunk with parts.
func parts(p string) string {
	return `{"candidates":[{"content":{"role":"model","parts":[` + p + `]},"index":0}]}`
}

func finish(reason string) string {
	return `{"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"` + reason + `"}]}`
}

const callF = `{"functionCall":{"name":"f","args":{"n":1}}}`

// TestParts: what parts come to, and in which order.
func TestParts(t *testing.T) {
	f := call{"", "f", `{"n":1}`}
	for _, c := range []struct {
		name            string
		in              []string
		calls           []call
		opaque          []string
		blocks          []string
		text, reasoning string
		order           string
	}{
		{"each part is a call", []string{parts(callF + "," + callF), parts(callF)}, []call{f, f, f}, []string{`["gemini",{}]`, `["gemini",{}]`, `["gemini",{}]`}, nil, "", "", "012"},
		{"one id for two", []string{parts(`{"functionCall":{"id":"a","name":"f","args":{"n":1}}},{"functionCall":{"id":"a","name":"f","args":{"n":1}}}`)},
			[]call{{"a", "f", `{"n":1}`}, {"a", "f", `{"n":1}`}}, []string{`["gemini",{"id":"a"}]`, `["gemini",{"id":"a"}]`}, nil, "", "", "01"},
		{"argument text as it came", []string{parts(`{"functionCall":{"args":{ "e" : "\u00e9", "n" : 9007199254740993.10 },"name":"f"}}`)},
			[]call{{"", "f", `{ "e" : "\u00e9", "n" : 9007199254740993.10 }`}}, []string{`["gemini",{}]`}, nil, "", "", "0"},
		{"no arguments", []string{parts(`{"functionCall":{"name":"f"}},{"functionCall":{"name":"f","args":null}}`)}, []call{{"", "f", ""}, {"", "f", ""}}, []string{`["gemini",{}]`, `["gemini",{}]`}, nil, "", "", "01"},
		{"a signature on a call", []string{parts(`{"thoughtSignature":"c2ln","functionCall":{"name":"f","args":{"n":1}}},` + callF)}, []call{f, f}, []string{`["gemini",{"thoughtSignature":"c2ln"}]`, `["gemini",{}]`}, nil, "", "", "01"},
		{"a signature on a text", []string{parts(`{"text":"a"}`), parts(`{"text":"b", "thoughtSignature":"c2ln"},{"text":"c"}`), parts(callF)}, []call{f}, []string{`["gemini",{}]`},
			[]string{`{"text":"b", "thoughtSignature":"c2ln"}`}, "abc", "", "tot0"},
		{"a signature alone, after the finish", []string{parts(`{"text":"a"}`), finish("STOP"), parts(`{"text":"","thoughtSignature":"c2ln"}`)}, nil, nil,
			[]string{`{"text":"","thoughtSignature":"c2ln"}`}, "a", "", "to"},
		{"thoughts are no text", []string{parts(`{"text":"hm","thought":true},{"thought":false,"text":"a"}`)}, nil, nil, nil, "a", "hm", "rt"},
		{"another candidate", []string{`{"candidates":[{"index":1,"content":{"parts":[{"text":"no"}]}},{"content":{"parts":[{"text":"a"}]}}]}`}, nil, nil, nil, "a", "", "t"},
		{"a pair cut between texts", []string{parts(`{"text":"\ud83d"}`), parts(`{"text":"\ude00"}`)}, nil, nil, nil, "😀", "", "t"},
		{"several values in one event", []string{parts(callF) + "\n" + parts(`{"text":"a"}`)}, []call{f}, []string{`["gemini",{}]`}, nil, "a", "", "0t"},
		{"an array", []string{"[" + parts(callF) + ",\r\n" + parts(`{"text":"a"}`) + "]"}, []call{f}, []string{`["gemini",{}]`}, nil, "a", "", "0t"},
		{"parts that nobody asked for", []string{parts(`{"executableCode":{"code":"1"}},{"inlineData":{"data":"aGk="}},{"text":"a"}`), parts(""), `{"candidates":[{}]}`, `{"candidates":[{"content":null}]}`}, nil, nil, nil, "a", "", "t"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := c.in
			if !strings.Contains(strings.Join(in, ""), "STOP") {
				in = append(in, finish("STOP"))
			}
			r := decode(t, in...)
			if !reflect.DeepEqual(r.Calls, c.calls) || !reflect.DeepEqual(r.Opaque, c.opaque) || !reflect.DeepEqual(r.Blocks, c.blocks) {
				t.Errorf("calls %q opaque %q blocks %q", r.Calls, r.Opaque, r.Blocks)
			}
			if r.Text != c.text || r.Reasoning != c.reasoning || r.Order != c.order {
				t.Errorf("text %q reasoning %q order %s", r.Text, r.Reasoning, r.Order)
			}
			r.Finished(t)
		})
	}
}

// TestEndings: what the last words mean.
func TestEndings(t *testing.T) {
	hi := parts(`{"text":"hi"}`)
	in := func(s ...string) []string { return s }
	args := func(a string) string { return parts(`{"functionCall":{"name":"f","args":` + a + `}}`) }
	for _, c := range []struct {
		name  string
		in    []string
		class event.Class // "" means finished
		retry bool
	}{
		{"STOP", in(hi, finish("STOP")), "", false},
		{"STOP with calls", in(parts(callF), finish("STOP")), "", false},
		{"finish before its parts", in(`{"candidates":[{"finishReason":"STOP","content":{"parts":[{"text":"hi"}]}}]}`), "", false},
		{"STOP without content", in(hi, `{"candidates":[{"finishReason":"STOP"}]}`), "", false},
		{"STOP with each chunk", in(`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}`, `{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}]}`), "", false},
		{"it goes on after STOP, and breaks off", in(hi, finish("STOP"), hi), event.Truncated, true},
		{"a call after STOP, and no more", in(hi, finish("STOP"), parts(callF)), event.Truncated, true},
		{"no finish", in(hi), event.Truncated, true},
		{"no reason yet", in(hi, finish("FINISH_REASON_UNSPECIFIED")), event.Truncated, true},
		{"DONE proves nothing", in(hi, "[DONE]"), event.Truncated, true},
		{"empty STOP", in(finish("STOP")), event.Truncated, true},
		{"thoughts alone", in(parts(`{"text":"hm","thought":true}`), finish("STOP")), event.Truncated, true},
		{"MAX_TOKENS", in(hi, finish("MAX_TOKENS")), event.Truncated, false},
		{"MAX_TOKENS after a call", in(parts(callF), finish("MAX_TOKENS")), event.Truncated, false},
		{"malformed", in(`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: f({\"secret\":1})"}]}`), event.MalformedCall, true},
		{"unexpected", in(finish("UNEXPECTED_TOOL_CALL")), event.MalformedCall, true},
		{"too many", in(parts(callF), finish("TOO_MANY_TOOL_CALLS")), event.MalformedCall, true},
		{"safety", in(hi, finish("SAFETY")), event.Filtered, false},
		{"recitation", in(hi, finish("RECITATION")), event.Filtered, false},
		{"blocklist", in(finish("BLOCKLIST")), event.Filtered, false},
		{"prohibited", in(finish("PROHIBITED_CONTENT")), event.Filtered, false},
		{"personal data", in(finish("SPII")), event.Filtered, false},
		{"prompt blocked", in(`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4}}`), event.Filtered, false},
		{"prompt rated", in(`{"promptFeedback":{"safetyRatings":[]}}`, hi, finish("STOP")), "", false},
		{"other", in(hi, finish("OTHER")), event.ServerError, true},
		{"missing signature", in(finish("MISSING_THOUGHT_SIGNATURE")), event.InvalidRequest, false},
		{"unknown", in(hi, finish("FUNCTION_CALL")), event.UnknownFinish, true},
		{"nameless call", in(parts(`{"functionCall":{"args":{}}}`), finish("STOP")), event.MalformedCall, true},
		{"arguments as text", in(args(`"{}"`), finish("STOP")), event.MalformedCall, true},
		{"arguments as a list", in(args(`[1]`), finish("STOP")), event.MalformedCall, true},
		{"arguments repeat a member", in(args(`{"a":1,"a":2}`), finish("STOP")), event.MalformedCall, true},
		{"arguments with half a pair", in(args(`{"a":"\ud83d"}`), finish("STOP")), event.MalformedCall, true},
		{"arguments with broken bytes", in(args("{\"a\":\"\xff\"}"), finish("STOP")), event.MalformedCall, true},
		{"arguments in pieces", in(parts(`{"functionCall":{"name":"f","args":{},"willContinue":true}}`), finish("STOP")), event.MalformedCall, true},
		{"a lost piece", in(hi, `{"candidates":[{"content"`, finish("STOP")), event.ServerError, true},
		{"unavailable", in(hi, `{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}`), event.ServerError, true},
		{"quota", in(`{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}`), event.RateLimited, true},
		{"internal", in(`{"error":{"message":"m","status":"INTERNAL"}}`), event.ServerError, true},
		{"bad", in(`{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}`), event.InvalidRequest, false},
		{"error in a list", in(`[{"error":{"code":429,"message":"m"}}]`), event.RateLimited, true},
		{"error null", in(`{"error":null,"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}]}`), "", false},
		{"error after the finish", in(hi, finish("STOP"), `{"error":{"code":500,"message":"m"}}`), "", false},
		{"rubbish after the finish", in(hi, finish("STOP"), `{"usageMeta`), "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := decode(t, c.in...)
			if c.class == "" {
				r.Finished(t)
				return
			}
			f := r.Failed(t)
			if f.Class != c.class || f.Retryable != c.retry || f.Detail == "" || len(f.Detail) > 300 || strings.Contains(f.Detail, "secret") {
				t.Errorf("%+v, want class %s, retryable %v", f, c.class, c.retry)
			}
			if f.Length != strings.HasPrefix(c.name, "MAX_TOKENS") {
				t.Errorf("Length is %v", f.Length)
			}
		})
	}
}

// TestRetryDelay: how long to wait stands in the error's details.
func TestRetryDelay(t *testing.T) {
	e := `{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}`
	if f := decode(t, e).Failed(t); f.RetryAfterMS != 34_500 {
		t.Errorf("%+v", f)
	}
	for body, want := range map[string]event.AttemptFailed{
		"[" + e + "]": {Class: event.RateLimited, Retryable: true, Status: 429, RetryAfterMS: 34_500, Detail: "status 429: m"},
	} {
		s := providertest.Start(t, providertest.Answer{Status: 429, Header: map[string]string{"Content-Type": "application/json"}, Writes: [][]byte{[]byte(body)}})
		if f := ask(t, s, provider.Endpoint{}, provider.Request{}).Failed(t); *f != want {
			t.Errorf("%+v", f)
		}
	}
	key := `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}`
	s := providertest.Start(t, providertest.Answer{Status: 400, Writes: [][]byte{[]byte(key)}})
	if f := ask(t, s, provider.Endpoint{}, provider.Request{}).Failed(t); f.Class != event.Auth || f.Retryable {
		t.Errorf("%+v", f)
	}
}

// TestUsage: the last snapshot wins; thoughts are output.
func TestUsage(t *testing.T) {
	usage := func(u string) string { return `{"usageMetadata":{` + u + `}}` }
	hi := parts(`{"text":"hi"}`)
	for _, c := range []struct {
		name string
		in   []string
		want event.Usage
	}{
		{"cumulative", []string{usage(`"promptTokenCount":9`), hi, usage(`"promptTokenCount":9,"candidatesTokenCount":2`), finish("STOP"),
			usage(`"promptTokenCount":9,"candidatesTokenCount":4,"thoughtsTokenCount":3,"cachedContentTokenCount":5,"totalTokenCount":16`)}, event.Usage{Input: 9, Output: 7, CacheRead: 5, Reasoning: 3}},
		{"cut", []string{hi, usage(`"promptTokenCount":9,"candidatesTokenCount":2`)}, event.Usage{Input: 9, Output: 2, Partial: true}},
		{"never", []string{hi, finish("STOP"), usage("")}, adaptertest.NoUsage},
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

// TestTrailing: the stream has no end mark, so that silence after STOP is its end.
func TestTrailing(t *testing.T) {
	body := "data: " + parts(`{"text":"hi"}`) + "\r\n\r\ndata: " + finish("STOP") + "\r\n\r\n"
	f := ask(t, providertest.Start(t, providertest.Body(body, providertest.Hang)), provider.Endpoint{}, provider.Request{}).Finished(t)
	if !f.Usage.Partial {
		t.Errorf("%+v", f)
	}
}
