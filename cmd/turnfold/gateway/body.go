package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// bodyTimeout bounds how long a client may take to send a body.
const bodyTimeout = 30 * time.Second

// readBody reads a whole body of bounded size.
func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	tooLarge := fault{http.StatusRequestEntityTooLarge, "", fmt.Sprintf("The body may have %d bytes.", g.cfg.BodyBytesMax)}
	if r.ContentLength > g.cfg.BodyBytesMax {
		return nil, tooLarge
	}
	// The bound is of this body alone: a deadline that stayed would end the feed.
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // where there are none, tests
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, g.cfg.BodyBytesMax))
	_ = rc.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, tooLarge
	case err != nil:
		return nil, fault{http.StatusBadRequest, "", "The body ends early."}
	}
	return body, nil
}

// members reads a body that is one JSON object, and hands each member to fn, which
// reads its value. Repeated members, invalid UTF-8 and anything after the object are
// refused; where the text can be read in two ways, neither is guessed.
func members(body []byte, fn func(d *jsontext.Decoder, name string) error) error {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	if len(bytes.TrimSpace(body)) == 0 {
		return fault{http.StatusBadRequest, "", "The body is empty; send a JSON object."}
	}
	if err := object(d, "", fn); err != nil {
		return err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return fault{http.StatusBadRequest, "", "Something follows the JSON object."}
	}
	return nil
}

func object(d *jsontext.Decoder, field string, fn func(d *jsontext.Decoder, name string) error) error {
	if err := expect(d, field, '{', "an object"); err != nil {
		return err
	}
	if _, err := d.ReadToken(); err != nil {
		return syntax(field, err)
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return syntax(field, err)
		}
		if err := fn(d, name.String()); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return syntax(field, err)
}

func list(d *jsontext.Decoder, field string, fn func(d *jsontext.Decoder, field string) error) error {
	if err := expect(d, field, '[', "a list"); err != nil {
		return err
	}
	if _, err := d.ReadToken(); err != nil {
		return syntax(field, err)
	}
	for i := 0; d.PeekKind() != ']'; i++ {
		if err := fn(d, fmt.Sprintf("%s[%d]", field, i)); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return syntax(field, err)
}

func text(d *jsontext.Decoder, field string, into *string) error {
	if err := expect(d, field, '"', "a string"); err != nil {
		return err
	}
	token, err := d.ReadToken()
	if err != nil {
		return syntax(field, err)
	}
	*into = token.String()
	return nil
}

// expect refuses a value of another kind. What is no value at all is a fault of
// syntax, which reading it tells.
func expect(d *jsontext.Decoder, field string, kind jsontext.Kind, want string) error {
	have := d.PeekKind()
	if have == kind {
		return nil
	}
	switch have {
	case 'n', 't', 'f', '"', '0', '{', '[':
		return fault{http.StatusUnprocessableEntity, field, fmt.Sprintf("is %s; it must be %s", kinds[have], want)}
	}
	_, err := d.ReadToken()
	if err == nil {
		return fault{http.StatusBadRequest, field, "is no JSON value"}
	}
	return syntax(field, err)
}

var kinds = map[jsontext.Kind]string{'n': "null", 't': "a boolean", 'f': "a boolean", '"': "a string",
	'0': "a number", '{': "an object", '[': "a list"}

func unknown(parent, name string) error {
	if parent != "" {
		name = parent + "." + name
	}
	return fault{http.StatusUnprocessableEntity, name, "is unknown"}
}

func syntax(field string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fault{http.StatusBadRequest, field, "The JSON text ends early."}
	}
	var f fault
	if errors.As(err, &f) {
		return f
	}
	return fault{http.StatusBadRequest, field, "The body is not JSON: " + err.Error()}
}
