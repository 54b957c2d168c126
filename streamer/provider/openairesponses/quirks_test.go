package openairesponses

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/streamer/provider/adaptertest"
	"github.com/turnfold/turnfold/streamer/provider/providertest"
	"github.com/turnfold/turnfold/subjects/event"
)

// ev is an event of a type, with more members.
func ev(kind, members string) string { return `{"type":"response.` + kind + `",` + members + `}` }

func added(output int, id, args string) string {
	return ev("output_item.added", fmt.Sprintf(`"output_index":%d,"item":{"type":"function_call","id":"fc","call_id":"%s","name":"f","arguments":%s}`, output, id, args))
}

func delta(output int, args string) string {
	return ev("function_call_arguments.delta", fmt.Sprintf(`"output_index":%d,"delta":%s`, output, args))
}

func argsDone(output int, args string) string {
	return ev("function_call_arguments.done", fmt.Sprintf(`"output_index":%d,"arguments":%s`, output, args))
}

func itemDone(output int, id, args string) string {
	return ev("output_item.done", fmt.Sprintf(`"output_index":%d,"item":{"type":"function_call","call_id":"%s","name":"f","arguments":%s,"status":"completed"}`, output, id, args))
}

func text(t string) string {
	return ev("output_text.delta", `"output_index":9,"content_index":0,"delta":`+t)
}

func end(kind, members string) string {
	return ev(kind, `"response":{"id":"resp_1","status":"`+kind+`"`+members+`}`)
}

var completed = end("completed", "")

// TestSlots: how the pieces of calls come, and what is meant.
func TestSlots(t *testing.T) {
	one := []call{{"a", "f", `{"n":1}`}}
	two := append(one[:1:1], call{"b", "f", `{"n":2}`})
	numbered := func(n int, e string) string {
		return strings.Replace(e, "{", fmt.Sprintf(`{"sequence_number":%d,`, n), 1)
	}
	for _, c := range []struct {
		name string
		in   []string
		want []call
	}{
		{"pieces, then whole twice", []string{added(0, "a", `""`), delta(0, `"{\"n\":"`), delta(0, `"1}"`), argsDone(0, `"{\"n\":1}"`), itemDone(0, "a", `"{\"n\":1}"`)}, one},
		{"whole in arguments.done alone", []string{added(0, "a", `""`), argsDone(0, `"{\"n\":1}"`)}, one},
		{"whole in item.done alone", []string{added(0, "a", `""`), itemDone(0, "a", `"{\"n\":1}"`)}, one},
		{"only item.done", []string{itemDone(0, "a", `"{\"n\":1}"`)}, one},
		{"the whole goes on from the pieces", []string{added(0, "a", `""`), delta(0, `"{\"n"`), itemDone(0, "a", `"{\"n\":1}"`)}, one},
		{"the whole has other spaces", []string{added(0, "a", `""`), delta(0, `"{\"n\":1}"`), itemDone(0, "a", `"{ \"n\": 1 }"`)}, one},
		{"an empty whole", []string{added(0, "a", `""`), delta(0, `"{\"n\":1}"`), argsDone(0, `""`)}, one},
		{"pieces after the whole", []string{added(0, "a", `""`), argsDone(0, `"{\"n\":1}"`), delta(0, `"{\"n\":1}"`), itemDone(0, "a", `"{\"n\":1}"`)}, one},
		{"no parameters", []string{added(0, "a", `""`), argsDone(0, `""`)}, []call{{"a", "f", ""}}},
		{"interleaved", []string{added(0, "a", `""`), added(1, "b", `""`), delta(1, `"{\"n\":"`), delta(0, `"{\"n\":1}"`), delta(1, `"2}"`), argsDone(1, `"{\"n\":2}"`), argsDone(0, `"{\"n\":1}"`)}, two},
		{"one id for two", []string{itemDone(0, "a", `"{\"n\":1}"`), itemDone(1, "a", `"{\"n\":1}"`)}, append(one[:1:1], one...)},
		{"other items between", []string{itemDone(2, "a", `"{\"n\":1}"`), itemDone(5, "b", `"{\"n\":2}"`)}, two},
		{"no index", []string{strings.Replace(added(0, "a", `""`), `"output_index":0,`, "", 1), strings.Replace(delta(0, `"{\"n\":1}"`), `"output_index":0,`, "", 1), strings.Replace(itemDone(0, "a", `"{\"n\":1}"`), `"output_index":0,`, "", 1),
			strings.Replace(added(0, "b", `""`), `"output_index":0,`, "", 1), strings.Replace(itemDone(0, "b", `"{\"n\":2}"`), `"output_index":0,`, "", 1)}, two},
		{"arguments as an object", []string{added(0, "a", `""`), itemDone(0, "a", `{"n":1}`)}, one},
		{"a late name", []string{ev("output_item.added", `"output_index":0,"item":{"type":"function_call","call_id":"a"}`), delta(0, `"{\"n\":1}"`), itemDone(0, "a", `"{\"n\":1}"`)}, one},
		{"repeats and go-backs", []string{numbered(0, ev("created", `"response":{"id":"r"}`)), numbered(1, added(0, "a", `""`)), numbered(2, delta(0, `"{\"n\":"`)), numbered(2, delta(0, `"{\"n\":"`)), numbered(0, text(`"x"`)), numbered(1, delta(0, `"9"`)), numbered(5, delta(0, `"1}"`)), numbered(6, argsDone(0, `"{\"n\":1}"`))}, one},
		{"all numbers 0", []string{numbered(0, added(0, "a", `""`)), numbered(0, delta(0, `"{\"n\":"`)), numbered(0, delta(0, `"1}"`)), numbered(0, argsDone(0, `"{\"n\":1}"`))}, one},
		{"a pair cut", []string{added(0, "a", `""`), delta(0, `"{\"e\":\"\ud83d"`), delta(0, `"\ude00\"}"`), argsDone(0, `"{\"e\":\"\ud83d\ude00\"}"`)}, []call{{"a", "f", `{"e":"😀"}`}}},
		{"several values in one event", []string{added(0, "a", `""`) + "\n" + argsDone(0, `"{\"n\":1}"`)}, one},
		{"closed by the end alone", []string{added(0, "a", `""`), delta(0, `"{\"n\":1}"`), end("completed", `,"output":[{"type":"reasoning"},{"type":"function_call","call_id":"a","name":"f","arguments":"{\"n\":1}"}]`)}, one},
		{"all in the end alone", []string{end("completed", `,"output":[{"type":"message","content":[{"type":"output_text","text":""}]},{"type":"function_call","call_id":"a","name":"f","arguments":"{\"n\":1}"},{"type":"function_call","call_id":"b","name":"f","arguments":"{\"n\":2}"}]`)}, two},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := decode(t, append(c.in, completed)...)
			if !reflect.DeepEqual(r.Calls, c.want) {
				t.Errorf("calls %q, want %q", r.Calls, c.want)
			}
			r.Finished(t)
		})
	}
}

// TestText: each text once, and reasoning beside it.
func TestText(t *testing.T) {
	message := ev("output_item.done", `"output_index":9,"item":{"type":"message","content":[{"type":"output_text","text":"ab"},{"type":"output_text","text":"c"}]}`)
	thought := `{"type":"reasoning", "id":"rs_1","summary":[],"encrypted_content":"b3BhcXVl"}`
	for _, c := range []struct {
		name            string
		in              []string
		text, reasoning string
		blocks          []string
	}{
		{"pieces, then whole twice", []string{text(`"a"`), text(`"b"`), ev("output_text.done", `"output_index":9,"content_index":0,"text":"ab"`), ev("output_text.delta", `"output_index":9,"content_index":1,"delta":"c"`), message}, "abc", "", nil},
		{"whole in text.done alone", []string{ev("output_text.done", `"output_index":9,"content_index":0,"text":"ab"`)}, "ab", "", nil},
		{"whole in item.done alone", []string{message}, "abc", "", nil},
		{"whole in the end alone", []string{end("completed", `,"output":[{"type":"message","content":[{"type":"output_text","text":"ab"}]}]`)}, "ab", "", nil},
		{"half a pair at the end", []string{text(`"a\ud83d"`)}, "a\uFFFD", "", nil},
		{"reasoning", []string{ev("reasoning_summary_text.delta", `"output_index":0,"delta":"r"`), ev("reasoning_text.delta", `"output_index":0,"delta":"s"`), ev("reasoning_summary_text.done", `"text":"rs"`), text(`"a"`)}, "a", "rs", nil},
		{"reasoning to give back", []string{ev("output_item.added", `"output_index":0,"item":`+thought), ev("output_item.done", `"output_index":0,"item":`+thought), text(`"a"`)}, "a", "", []string{thought}},
		{"reasoning that cannot go back", []string{ev("output_item.done", `"output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":null}`), text(`"a"`)}, "a", "", nil},
		{"unknown events and items", []string{ev("news", `"delta":"n","error":null`), ev("output_item.done", `"output_index":0,"item":{"type":"web_search_call","id":"w"}`), `{"type":"keepalive"}`, text(`"a"`)}, "a", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := decode(t, append(c.in, completed)...)
			if r.Text != c.text || r.Reasoning != c.reasoning || !reflect.DeepEqual(r.Blocks, c.blocks) {
				t.Errorf("text %q reasoning %q blocks %q", r.Text, r.Reasoning, r.Blocks)
			}
			r.Finished(t)
		})
	}
}

// TestEndings: what the last words mean.
func TestEndings(t *testing.T) {
	hi := text(`"hi"`)
	whole := func(a string) string { return itemDone(0, "a", a) }
	for _, c := range []struct {
		name  string
		in    []string
		class event.Class // "" means finished
		retry bool
	}{
		{"completed", []string{hi, completed}, "", false},
		{"completed without an envelope", []string{hi, `{"type":"response.completed"}`}, "", false},
		{"no end", []string{hi}, event.Truncated, true},
		{"DONE proves nothing", []string{hi, "[DONE]"}, event.Truncated, true},
		{"length", []string{hi, end("incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`)}, event.Truncated, false},
		{"length, by another name", []string{whole(`"{}"`), ev("completed", `"response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}`)}, event.Truncated, false},
		{"filter", []string{hi, end("incomplete", `,"incomplete_details":{"reason":"content_filter"}`)}, event.Filtered, false},
		{"steered", []string{hi, end("incomplete", `,"incomplete_details":{"reason":"steered"}`)}, event.Truncated, true},
		{"incomplete, and no reason", []string{hi, end("incomplete", "")}, event.Truncated, true},
		{"cancelled", []string{hi, end("cancelled", "")}, event.ServerError, true},
		{"refusal", []string{ev("refusal.delta", `"output_index":0,"content_index":0,"delta":"I cannot"`), completed}, event.Filtered, false},
		{"refusal in the item alone", []string{ev("output_item.done", `"output_index":0,"item":{"type":"message","content":[{"type":"refusal","refusal":"I cannot"}]}`), completed}, event.Filtered, false},
		{"empty", []string{completed}, event.Truncated, true},
		{"reasoning alone", []string{ev("reasoning_text.delta", `"delta":"r"`), completed}, event.Truncated, true},
		{"server error", []string{hi, end("failed", `,"error":{"code":"server_error","message":"m"}`)}, event.ServerError, true},
		{"rate limit", []string{end("failed", `,"error":{"code":"rate_limit_exceeded","message":"m"}`)}, event.RateLimited, true},
		{"bad prompt", []string{end("failed", `,"error":{"code":"invalid_prompt","message":"m"}`)}, event.InvalidRequest, false},
		{"bad image", []string{end("failed", `,"error":{"code":"image_too_large","message":"m"}`)}, event.InvalidRequest, false},
		{"policy", []string{end("failed", `,"error":{"code":"image_content_policy_violation","message":"m"}`)}, event.Filtered, false},
		{"failed, and no error", []string{hi, end("failed", `,"error":null`)}, event.ServerError, true},
		{"flat error", []string{`{"type":"error","sequence_number":2,"code":"server_is_overloaded","message":"m","param":null}`}, event.Overloaded, true},
		{"nested error", []string{hi, `{"type":"error","error":{"type":"service_unavailable_error","code":"server_is_overloaded","message":"m"},"sequence_number":2}`}, event.Overloaded, true},
		{"window", []string{`{"type":"error","code":"context_length_exceeded","message":"m"}`}, event.ContextLength, false},
		{"quota", []string{`{"type":"error","error":{"type":"insufficient_quota","code":"insufficient_quota","message":"m"}}`}, event.RateLimited, false},
		{"another API's error", []string{hi, `{"error":{"message":"m","code":502}}`}, event.ServerError, true},
		{"a call not closed", []string{added(0, "a", `""`), delta(0, `"{}"`), completed}, event.MalformedCall, true},
		{"a call without a byte", []string{added(0, "a", `""`), completed}, event.MalformedCall, true},
		{"a call closed as cut", []string{ev("output_item.done", `"output_index":0,"item":{"type":"function_call","call_id":"a","name":"f","arguments":"{}","status":"incomplete"}`), completed}, event.MalformedCall, true},
		{"nameless", []string{argsDone(0, `"{}"`), completed}, event.MalformedCall, true},
		{"contradicted", []string{added(0, "a", `""`), delta(0, `"{\"n\":1}"`), argsDone(0, `"{\"n\":2}"`), completed}, event.MalformedCall, true},
		{"contradicted by the item", []string{added(0, "a", `""`), argsDone(0, `"{\"n\":1}"`), itemDone(0, "a", `"{\"n\":1,\"m\":2}"`), completed}, event.MalformedCall, true},
		{"arguments cut", []string{whole(`"{\"a\":"`), completed}, event.MalformedCall, true},
		{"arguments repeat a member", []string{whole(`"{\"a\":1,\"a\":1}"`), completed}, event.MalformedCall, true},
		{"arguments with half a pair", []string{whole(`"{\"a\":\"\ud83d\"}"`), completed}, event.MalformedCall, true},
		{"pieces that end in half a pair", []string{added(0, "a", `""`), delta(0, `"{}\ud83d"`), argsDone(0, `""`), completed}, event.MalformedCall, true},
		{"a lost piece", []string{hi, `{"type":"response.output_text.delta","del`, completed}, event.ServerError, true},
		{"after the end nothing counts", []string{hi, completed, `{"type":"error","code":"server_error","message":"m"}`}, "", false},
		{"keep-alives as data", []string{": ping", "", "null", hi, completed}, "", false},
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
			if f.Length != strings.HasPrefix(c.name, "length") {
				t.Errorf("Length is %v", f.Length)
			}
		})
	}
}

// TestNames: the type may stand in the event's name alone, and an error may be plain text.
func TestNames(t *testing.T) {
	d, r := newDecoder(), new(adaptertest.Reply)
	for _, e := range [][2]string{{"response.output_text.delta", `{"delta":"hi"}`}, {"response.completed", `{"response":{}}`}} {
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

// TestUsage: it stands in the last event.
func TestUsage(t *testing.T) {
	r := decode(t, text(`"a"`), end("completed", `,"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":3},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":13}`))
	if got, want := r.Finished(t).Usage, (event.Usage{Input: 9, Output: 4, CacheRead: 3, Reasoning: 2}); got != want {
		t.Errorf("%+v", got)
	}
	if u := decode(t, text(`"a"`), completed).Finished(t).Usage; u != adaptertest.NoUsage {
		t.Errorf("%+v", u)
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
		{429, map[string]string{"retry-after-ms": "1500", "x-request-id": "req_9"}, `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}`,
			event.AttemptFailed{Class: event.RateLimited, Retryable: true, RetryAfterMS: 1500, RequestID: "req_9", Detail: "status 429: slow down"}},
		{400, nil, `{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}`,
			event.AttemptFailed{Class: event.ContextLength, Detail: "status 400: too long"}},
		{400, nil, `{"error":{"message":"cannot use {\"card\":4111}","type":"invalid_request_error"}}`,
			event.AttemptFailed{Class: event.InvalidRequest, Detail: "status 400: cannot use …"}},
		{503, map[string]string{"x-should-retry": "false"}, "", event.AttemptFailed{Class: event.ServerError, Detail: "status 503: no message"}},
		{302, map[string]string{"Location": "https://login.example/?key=k"}, "",
			event.AttemptFailed{Class: event.InvalidRequest, Detail: "status 302 redirects to login.example, which is not followed"}},
	} {
		s := providertest.Start(t, providertest.Answer{Status: c.status, Header: c.header, Writes: [][]byte{[]byte(c.body)}})
		f := ask(t, s, provider.Endpoint{}, provider.Request{}).Failed(t)
		c.want.Status = c.status
		if *f != c.want {
			t.Errorf("got  %+v\nwant %+v", *f, c.want)
		}
	}
}
