package openaichat

import (
	"strings"
	"testing"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/streamer/provider/providertest"
	"github.com/turnfold/turnfold/subjects/event"
)

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		header map[string]string
		body   string
		want   event.AttemptFailed
	}{
		{"bad request", 400, nil, `{"error":{"message":"no such parameter","type":"invalid_request_error","code":null}}`,
			event.AttemptFailed{Class: event.InvalidRequest, Detail: "status 400: no such parameter"}},
		{"context", 400, nil, `{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}`,
			event.AttemptFailed{Class: event.ContextLength, Detail: "status 400: too long"}},
		{"context in words", 400, nil, `{"object":"error","message":"This model's maximum context length is 8 tokens","type":"BadRequestError","code":400}`,
			event.AttemptFailed{Class: event.ContextLength, Detail: "status 400: This model's maximum context length is 8 tokens"}},
		{"arguments quoted", 422, nil, `{"detail":"cannot use {\"card\":4111}"}`,
			event.AttemptFailed{Class: event.InvalidRequest, Detail: "status 422: cannot use …"}},
		{"key", 401, nil, `{"error":{"message":"Incorrect API key: sk-1","code":"invalid_api_key"}}`,
			event.AttemptFailed{Class: event.Auth, Detail: "status 401: Incorrect API key: sk-1"}},
		{"not found", 404, nil, "", event.AttemptFailed{Class: event.InvalidRequest, Detail: "status 404: no message"}},
		{"timeout", 408, nil, "slow\nserver", event.AttemptFailed{Class: event.Timeout, Retryable: true, Detail: "status 408: slow server"}},
		{"rate limit", 429, map[string]string{"retry-after": "2", "retry-after-ms": "1500", "x-request-id": "req_9"}, `[{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}]`,
			event.AttemptFailed{Class: event.RateLimited, Retryable: true, RetryAfterMS: 1500, RequestID: "req_9", Detail: "status 429: slow down"}},
		{"quota", 429, map[string]string{"retry-after": "2"}, `{"error":{"message":"pay","type":"insufficient_quota","code":"insufficient_quota"}}`,
			event.AttemptFailed{Class: event.RateLimited, RetryAfterMS: 2000, Detail: "status 429: pay"}},
		{"page", 502, nil, "<html>Bad gateway</html>", event.AttemptFailed{Class: event.ServerError, Retryable: true, Detail: "status 502: no message"}},
		{"should not retry", 503, map[string]string{"x-should-retry": "false"}, "", event.AttemptFailed{Class: event.ServerError, Detail: "status 503: no message"}},
		{"overloaded", 529, nil, `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`,
			event.AttemptFailed{Class: event.Overloaded, Retryable: true, Detail: "status 529: busy"}},
		{"redirect", 302, map[string]string{"Location": "https://login.example/?key=k"}, "",
			event.AttemptFailed{Class: event.InvalidRequest, Detail: "status 302 redirects to login.example, which is not followed"}},
		{"error as a success", 200, map[string]string{"Content-Type": "application/json"}, `{"error":{"message":"busy","code":529}}`,
			event.AttemptFailed{Class: event.Overloaded, Retryable: true, Detail: "status 200: busy"}},
		{"whole answer instead of a stream", 200, map[string]string{"Content-Type": "application/json"}, `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`,
			event.AttemptFailed{Class: event.ServerError, Retryable: true, Detail: "status 200: the answer is no event stream"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := providertest.Start(t, providertest.Answer{Status: c.status, Header: c.header, Writes: [][]byte{[]byte(c.body)}})
			f := ask(t, s, provider.Endpoint{}, provider.Request{}).Failed(t)
			c.want.Status = c.status
			if *f != c.want {
				t.Errorf("got  %+v\nwant %+v", *f, c.want)
			}
			if n := len(s.Requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// TestLongDetail: details stay one short line whatever comes.
func TestLongDetail(t *testing.T) {
	r := decode(t, `{"error":{"message":"`+strings.Repeat(`é\n`, 1000)+`"}}`)
	if f := r.Failed(t); strings.Contains(f.Detail, "\n") {
		t.Errorf("%q", f.Detail)
	}
	if f := decode(t, delta(`{"content":"hi"}`), finish(strings.Repeat("x", 1000))).Failed(t); len(f.Detail) > 300 {
		t.Errorf("%q", f.Detail)
	}
}
