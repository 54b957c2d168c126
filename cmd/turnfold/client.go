package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnfold/turnfold/cmd/turnfold/config"
	"github.com/turnfold/turnfold/reducer/render"
)

const (
	answerTimeout = 30 * time.Second
	// followTries is how often a feed is taken up again without a new item in between.
	followTries   = 10
	followWait    = 300 * time.Millisecond
	lineBytesMax  = 64 << 20
	answerBytes   = 64 << 20
	tokenVariable = "TURNFOLD_TOKEN"
)

// client speaks to a running server.
type client struct {
	base  string
	token string
	http  *http.Client
	query string // of feeds, with its question mark
}

// client finds the server that the flags and the configuration name.
func (g *globals) client(cmd *cobra.Command) (*client, error) {
	cfg, err := g.load(cmd)
	if err != nil {
		return nil, err
	}
	return g.clientOf(cfg)
}

func (g *globals) clientOf(cfg *config.Config) (*client, error) {
	c := &client{base: g.server, token: g.token}
	if c.token == "" {
		c.token = os.Getenv(tokenVariable)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // the server is ours, and mostly on this host
	if c.base == "" {
		scheme := "http"
		if cfg.TLS.Cert != "" {
			scheme = "https"
			trust(transport, cfg.TLS.Cert)
		}
		host, port, err := net.SplitHostPort(cfg.Listen)
		if err != nil {
			return nil, usagef("listen: %v", err)
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		c.base = scheme + "://" + net.JoinHostPort(host, port)
	}
	if !strings.Contains(c.base, "://") {
		c.base = "http://" + c.base
	}
	u, err := url.Parse(c.base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usagef("--server %s: write it as in http://127.0.0.1:8787", c.base)
	}
	c.base = strings.TrimRight(c.base, "/")
	c.http = &http.Client{Transport: transport}
	return c, nil
}

// trust accepts the server's own certificate, which a private deployment signs itself.
func trust(t *http.Transport, file string) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return // the system's roots are tried all the same
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM(pem)
	t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// alive reports whether a turnfold server answers.
func (c *client) alive(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	res, err := c.do(ctx, "GET", "/livez", nil, nil)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK && strings.HasPrefix(res.Header.Get("Server"), "turnfold")
}

func (c *client) do(ctx context.Context, method, path string, body []byte, header map[string]string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, unavailable(fmt.Errorf("no server answers at %s; start one with turnfold serve, or name another with --server: %w", c.base, err))
	}
	return res, nil
}

// get reads a JSON answer, as it came.
func (c *client) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	res, err := c.do(ctx, "GET", path, nil, nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, refused(res)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, answerBytes))
	if err != nil {
		return nil, unavailable(err)
	}
	return bytes.TrimSpace(data), nil
}

// refused is the error of an answer that is a problem.
func refused(res *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // what came is shown
	var p struct{ Title, Detail, Field string }
	if json.Unmarshal(data, &p) != nil || p.Title == "" {
		p.Detail = strings.TrimSpace(string(data))
	}
	text := p.Detail
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	err := fmt.Errorf("%s: %s", res.Status, text)
	switch {
	case res.StatusCode >= 500:
		return unavailable(err)
	case res.StatusCode == http.StatusBadRequest, res.StatusCode == http.StatusUnprocessableEntity:
		return coded{exitUsage, err}
	}
	return coded{exitFailed, err}
}

// lines hands each item of an open NDJSON answer to fn, and says whether the feed ended
// as feeds end.
func lines(body io.Reader, fn func(render.Item) error) (ended bool, err error) {
	scan := bufio.NewScanner(body)
	scan.Buffer(make([]byte, 64<<10), lineBytesMax)
	scan.Split(wholeLines)
	for scan.Scan() {
		raw := bytes.TrimSpace(scan.Bytes())
		if len(raw) == 0 {
			continue
		}
		it, err := render.Read(bytes.Clone(raw))
		if err != nil {
			return ended, err
		}
		if it.Body.Type() == "ping" {
			continue
		}
		if err := fn(it); err != nil {
			return ended, err
		}
		ended = render.Ends(it.Body)
	}
	return ended, nil // a cut connection is taken up again
}

// wholeLines is bufio.ScanLines without a last line that has no end: its connection was
// cut amid an item, which comes again.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	advance, token, err = bufio.ScanLines(data, atEOF)
	if atEOF && bytes.IndexByte(data, '\n') < 0 {
		return len(data), nil, err
	}
	return advance, token, err
}

// follow reads a feed to its end, over as many connections as that takes. first is an
// open answer, if there is one already.
func (c *client) follow(ctx context.Context, turn string, first *http.Response, fn func(render.Item) error) error {
	last, tries := "", 0
	note := func(it render.Item) error {
		if it.ID != "" {
			last, tries = it.ID, 0
		}
		return fn(it)
	}
	for res := first; ; res = nil {
		if res == nil {
			var err error
			header := map[string]string{}
			if last != "" {
				header["Last-Event-ID"] = last
			}
			res, err = c.do(ctx, "GET", "/v1/turns/"+url.PathEscape(turn)+"/feed"+c.query, nil, header)
			var cd coded
			if errors.As(err, &cd) && cd.code == exitUnavailable && tries < followTries && last != "" && ctx.Err() == nil {
				tries++
				wait(ctx, followWait)
				continue
			}
			if err != nil {
				return err
			}
		}
		if res.StatusCode == http.StatusNoContent {
			return res.Body.Close()
		}
		if res.StatusCode != http.StatusOK {
			defer res.Body.Close()
			return refused(res)
		}
		ended, err := lines(res.Body, note)
		_ = res.Body.Close() // read to its end or given up
		if ended || err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if tries++; tries > followTries {
			return unavailable(fmt.Errorf("the feed of %s breaks off again and again", turn))
		}
		wait(ctx, followWait)
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
