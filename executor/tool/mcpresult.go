package tool

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/subjects/effect"
)

// mcpAnswer is a tool's answer, with the parts that are passed on left as they came:
// the SDK's types would turn numbers into floats.
type mcpAnswer struct {
	Content    []jsontext.Value `json:"content"`
	Structured jsontext.Value   `json:"structuredContent"`
	IsError    bool             `json:"isError"`
	ResultType string           `json:"resultType"`
	Requests   jsontext.Value   `json:"inputRequests"`
}

// answered is the result of an answer.
//
// An error that a tool reports (isError) is no proof that nothing was done: SDKs report
// in the same form an answer that does not fit the output schema, after the work. So for
// tools that change something it leaves the outcome unknown, unless the declaration says
// errors: failed.
func (r *mcpRunner) answered(raw []byte) Result {
	var a mcpAnswer
	lax := json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := json.Unmarshal(raw, &a, lax); err != nil {
		return inDoubt(ClassConnection, "the answer is no tool result")
	}
	body := a.text()
	result := Result{Outcome: effect.Succeeded, Body: answerText([]byte(body), len(body) > answerBytesMax), Detail: "answered", Ran: true}
	switch {
	case a.IsError:
		result.ErrorClass = errorClass([]byte(body), ClassTool)
		result.Detail = "the tool reports an error"
	case a.ResultType == "input_required" || present(a.Requests):
		result.ErrorClass = ClassInputRequired
		result.Detail = "the server asks for input, which turnfold does not give"
	default:
		return result
	}
	result.Outcome = r.outcomeOfError()
	if result.Body == "" {
		result.Body = result.Detail
	}
	return result
}

func (r *mcpRunner) outcomeOfError() effect.Outcome {
	if r.mcp.ErrorsFail {
		return effect.Failed
	}
	return effect.Unknown
}

func present(v jsontext.Value) bool { return len(v) > 0 && v.Kind() != 'n' }

// text is the answer for the model: the structured content if there is some, else the
// texts, else all of the content.
func (a mcpAnswer) text() string {
	if present(a.Structured) {
		return string(a.Structured)
	}
	var texts []string
	for _, raw := range a.Content {
		var c struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(raw, &c, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil || c.Type != "text" {
			return a.whole()
		}
		texts = append(texts, c.Text)
	}
	return strings.Join(texts, "\n")
}

func (a mcpAnswer) whole() string {
	parts := make([]string, len(a.Content))
	for i, raw := range a.Content {
		parts[i] = string(raw)
	}
	return `{"content":[` + strings.Join(parts, ",") + `]}`
}

// refusals are the protocol's own errors by which a server says that it did not call
// the tool. Invalid parameters (-32602) is none of them: servers also report with it
// that a tool's answer does not fit its schema.
var refusals = map[int64]string{
	-32700: "parse error",
	-32600: "invalid request",
	-32601: "method not found",
	-32020: "header mismatch",
	-32021: "missing client capability",
	-32022: "protocol version not supported",
	-32042: "needs a person to open a page first",
}

// refused is the result of an error of the protocol.
func (r *mcpRunner) refused(code int64, message string) Result {
	result := Result{Outcome: r.outcomeOfError(), ErrorClass: fmt.Sprintf("rpc_%d", -code), Body: answerText([]byte(message), false),
		Detail: fmt.Sprintf("protocol error %d", code), Ran: true}
	if _, ok := refusals[code]; ok {
		result.Outcome = effect.Failed
	}
	if code == -32603 && r.class != effect.Read {
		result.Outcome = effect.Unknown // an error inside the server is none of the tool's
	}
	if result.Body == "" {
		result.Body = result.Detail
	}
	return result
}

// turnedAway is the result of an HTTP status without an error of the protocol.
func (r *mcpRunner) turnedAway(status int) Result {
	detail := fmt.Sprintf("status %d", status)
	result := Result{Outcome: effect.Unknown, ErrorClass: fmt.Sprintf("http_%d", status), Body: detail, Detail: detail, Ran: true}
	switch {
	case status == http.StatusRequestTimeout, status == http.StatusConflict: // a request with this key may be at work
	case status >= 400 && status < 500, status == http.StatusTemporaryRedirect, status == http.StatusPermanentRedirect:
		result.Outcome = effect.Failed
	}
	return result
}
