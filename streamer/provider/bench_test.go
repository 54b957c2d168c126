package provider

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/subjects/event"
)

// BenchmarkSSE is the event parser alone.
func BenchmarkSSE(b *testing.B) {
	body := strings.Repeat("data: "+strings.Repeat("x", 200)+"\n\n", 10_000)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		readEvents(strings.NewReader(body), 1<<20, func(string, []byte) (bool, error) { return false, nil })
	}
}

// BenchmarkConnection is what a fresh connection per attempt costs beside a reused one.
func BenchmarkConnection(b *testing.B) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: END\n\n")
	})
	plainServer, tlsServer := httptest.NewServer(h), httptest.NewTLSServer(h)
	defer plainServer.Close()
	defer tlsServer.Close()
	roots := x509.NewCertPool()
	roots.AddCert(tlsServer.Certificate())
	r := NewRequester(Config{TLS: &tls.Config{RootCAs: roots}})
	for name, url := range map[string]string{"plain": plainServer.URL, "tls": tlsServer.URL} {
		b.Run("fresh/"+name, func(b *testing.B) {
			for b.Loop() {
				end := r.Attempt(b.Context(), plain{}, Endpoint{BaseURL: url}, Request{}, nil, nil)
				if _, ok := end.(*event.AttemptFinished); !ok {
					b.Fatalf("%#v", end)
				}
			}
		})
		b.Run("reused/"+name, func(b *testing.B) {
			tr := r.transport(b.Context(), time.Second)
			tr.DisableKeepAlives = false
			defer tr.CloseIdleConnections()
			for b.Loop() {
				req, _ := http.NewRequest("POST", url, strings.NewReader("question"))
				resp, err := tr.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
}
