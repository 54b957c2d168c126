package replay

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// fileBytesMax bounds a recording's file. The longest replies known are a few MiB.
const fileBytesMax = 256 << 20

// afterMax bounds when a piece came. No provider streams for so long.
const afterMax = 30 * 24 * time.Hour

// Load reads a recording. A file that is not named .json is taken as a body, byte for
// byte: a whole event stream of status 200.
func Load(path string) (*Recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, fileBytesMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("recording: %w", err)
	case len(data) > fileBytesMax:
		return nil, fmt.Errorf("recording %s: is over %d MiB", path, fileBytesMax>>20)
	}
	name := filepath.Base(path)
	if !strings.EqualFold(filepath.Ext(name), ".json") {
		if len(data) == 0 {
			return nil, fmt.Errorf("recording %s: is empty", path)
		}
		return Body(name, data), nil
	}
	r, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("recording %s: %w", path, err)
	}
	r.Name = name
	return r, nil
}

// Decode reads the text of a recording. Nothing in it is skipped or guessed: what this
// version does not know is refused with the member's name.
func Decode(data []byte) (*Recording, error) {
	var f file
	if err := json.Unmarshal(data, &f, json.RejectUnknownMembers(true)); err != nil {
		return nil, explain(err)
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	var r Recording
	var err error
	if q := f.Request; q != nil {
		r.Request = Request{Method: q.Method, Path: q.Path, Header: q.Header}
		if r.Request.Body, err = q.bytes("request"); err != nil {
			return nil, err
		}
	}
	p := f.Response
	r.Response = Response{Status: p.Status, Header: p.Header, End: p.End}
	if r.Response.Body, err = p.bytes("response"); err != nil {
		return nil, err
	}
	for i, w := range p.Writes {
		if w.AfterMicros > afterMax.Microseconds() { // as nanoseconds it would wrap around
			return nil, fmt.Errorf("response.writes[%d].after_us: is %d; it can be %d", i, w.AfterMicros, afterMax.Microseconds())
		}
		r.Response.Writes = append(r.Response.Writes, Write{After: time.Duration(w.AfterMicros) * time.Microsecond, Bytes: w.Bytes})
	}
	if n := len(r.Response.Body); n > 0 && r.Response.Writes == nil {
		r.Response.Writes = []Write{{Bytes: n}}
	}
	return &r, checkWrites(r.Response.Writes, len(r.Response.Body))
}

// explain says in which member something is wrong.
func explain(err error) error {
	var sem *json.SemanticError
	var syn *jsontext.SyntacticError
	switch {
	case errors.As(err, &sem) && errors.Is(err, json.ErrUnknownName):
		return fmt.Errorf("%s: is unknown", member(sem.JSONPointer))
	case errors.As(err, &sem):
		return fmt.Errorf("%s: cannot be %s", member(sem.JSONPointer), kinds[sem.JSONKind])
	case errors.As(err, &syn):
		return fmt.Errorf("%s: byte %d: %w", member(syn.JSONPointer), syn.ByteOffset, syn.Err)
	}
	return err
}

var kinds = map[jsontext.Kind]string{'n': "null", 't': "true", 'f': "false", '"': "a string",
	'0': "this number", '{': "an object", '[': "a list", 0: "so"}

func member(p jsontext.Pointer) string {
	var out strings.Builder
	for token := range p.Tokens() {
		if out.Len() > 0 {
			out.WriteByte('.')
		}
		out.WriteString(token)
	}
	if out.Len() == 0 {
		return "(the file)"
	}
	return out.String()
}

// Encode gives the text of a recording, ready to be read and edited by people.
func (r *Recording) Encode() ([]byte, error) {
	f := file{V: version, Response: &fileResponse{Status: r.Response.Status, Header: r.Response.Header,
		fileBody: newFileBody(r.Response.Body), End: r.Response.End}}
	if r.Request.Method != "" {
		f.Request = &fileRequest{Method: r.Request.Method, Path: r.Request.Path, Header: r.Request.Header,
			fileBody: newFileBody(r.Request.Body)}
	}
	for _, w := range r.Response.Writes {
		f.Response.Writes = append(f.Response.Writes, fileWrite{w.After.Microseconds(), w.Bytes})
	}
	if err := errors.Join(f.check(), checkWrites(r.Response.Writes, len(r.Response.Body))); err != nil {
		return nil, fmt.Errorf("recording %s: %w", r.Name, err)
	}
	out, err := json.Marshal(&f, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("recording %s: %w", r.Name, err)
	}
	return append(out, '\n'), nil
}

// framing are the headers that belong to the connection and not to the answer.
var framing = []string{"Connection", "Content-Length", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// checkHeader refuses what cannot be sent as it is written.
func checkHeader(at string, h http.Header) error {
	for name, values := range h {
		if name == "" || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == ':' }) {
			return fmt.Errorf("%s: %q is no header's name", at, name)
		}
		for _, v := range values {
			if strings.ContainsAny(v, "\r\n\x00") {
				return fmt.Errorf("%s.%s: a value cannot have line ends", at, name)
			}
		}
		for _, f := range framing {
			if textproto.CanonicalMIMEHeaderKey(name) == f {
				return fmt.Errorf("%s.%s: frames the body, which the server does", at, name)
			}
		}
	}
	return nil
}
