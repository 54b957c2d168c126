package upkeep

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/built"
	"github.com/turnfold/turnfold/cmd/internal/stage"
)

// binary is the turnfold under test.
var binary string

func TestMain(m *testing.M) { os.Exit(built.Main(m, &binary)) }

// patience bounds every wait of a test; only a failing one reaches it.
const patience = time.Minute

// office is a deployment whose turns write one mail each. Whatever is said in a turn has
// the turn's secret in it: the question, the model's words, the arguments, the result.
type office struct {
	t       *testing.T
	model   *stage.Model
	mail    *stage.Ledger
	p       *stage.Product
	secrets map[string]string // by turn
}

// secretOf finds the secret in what a model is told: it is the word that starts with mark.
func secretOf(text string) string {
	i := strings.Index(text, mark)
	if i < 0 || len(text) < i+markLen {
		return "none"
	}
	return text[i : i+markLen]
}

const (
	mark    = "secret-"
	markLen = len(mark) + 32
)

func newSecret() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	return mark + hex.EncodeToString(b)
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := newWorld(t)
	o.p = o.product(filepath.Join(t.TempDir(), "office"), nil)
	return o
}

// newWorld is an office without a deployment.
func newWorld(t *testing.T) *office {
	t.Helper()
	o := &office{t: t, secrets: map[string]string{}}
	o.model = stage.NewModel(func(n int, r stage.Request, w *stage.Reply) {
		w.Pace = time.Millisecond
		s := secretOf(r.Said())
		if r.Answered() {
			w.Text("It is \"sent\", " + s + "é\n")
			w.Finish()
			return
		}
		w.Text("I write, " + s + ". ")
		w.Call(fmt.Sprintf("c%d", n), "mail", fmt.Sprintf(`{"to":%q,"text":"about \"%s\" %d"}`, s, s, n))
		w.Finish()
	})
	// The answer holds what was asked, as targets do.
	o.mail = stage.NewLedger(`{"sent":true}`, 0)
	o.mail.Answer(func(args string) string { return `{"sent":` + args + `}` })
	t.Cleanup(func() { o.model.Close(); o.mail.Close() })
	return o
}

func (o *office) cleanUp(p *stage.Product) {
	o.t.Cleanup(func() {
		p.Kill()
		if o.t.Failed() {
			log, _ := os.ReadFile(filepath.Join(p.Dir, "turnfold.log"))
			o.t.Logf("turnfold.log ends with:\n%s", log[max(0, len(log)-6000):])
		}
	})
}

// product makes a turnfold with the office's tools in a folder of its own, whose process
// ends with the test.
func (o *office) product(dir string, more map[string]any) *stage.Product {
	o.t.Helper()
	p, err := stage.NewProduct(binary, dir, o.model.API(), more,
		stage.Tool{Name: "mail", URL: o.mail.URL(), Identity: []string{"to"}, Timeout: 10 * time.Second,
			Members: map[string]string{"to": "string", "text": "string"}, More: map[string]any{"scope": "tenant", "window": "8760h"}})
	if err != nil {
		o.t.Fatal(err)
	}
	o.cleanUp(p)
	return p
}

func (o *office) start() {
	o.t.Helper()
	if err := o.p.Start(context.Background()); err != nil {
		o.t.Fatal(err)
	}
}

// turn runs a turn with a secret of its own to its end.
func (o *office) turn(id string) {
	o.t.Helper()
	if o.secrets[id] == "" {
		o.secrets[id] = newSecret()
	}
	text, err := o.p.Turn(context.Background(), id, "Write about "+o.secrets[id])
	if err != nil {
		o.t.Fatal(err)
	}
	if want := "I write, " + o.secrets[id] + ". It is \"sent\", " + o.secrets[id] + "é\n"; text != want {
		o.t.Fatalf("%s shows %q", id, text)
	}
}

// verb runs a command of turnfold in the product's folder.
func (o *office) verb(args ...string) (stdout, stderr string, exit int) {
	o.t.Helper()
	return verbIn(o.t, o.p.Dir, args...)
}

func verbIn(t *testing.T, dir string, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(args, "--config", "turnfold.yaml")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TURNFOLD_STAGE_KEY=stage")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if e, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatalf("turnfold %v: %v", args, err)
	} else if ok {
		exit = e.ExitCode()
	}
	return out.String(), errs.String(), exit
}

// must runs a command that has to succeed.
func (o *office) must(args ...string) string {
	o.t.Helper()
	return mustIn(o.t, o.p.Dir, args...)
}

func mustIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, errs, exit := verbIn(t, dir, args...)
	if exit != 0 {
		t.Fatalf("turnfold %v: exit %d\n%s%s", args, exit, out, errs)
	}
	return out
}

// status asks for a path and gives the answer.
func (o *office) call(method, path, body string) (int, string) {
	o.t.Helper()
	req, err := http.NewRequest(method, o.p.Base+path, strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	defer res.Body.Close()
	var out bytes.Buffer
	_, _ = out.ReadFrom(res.Body)
	return res.StatusCode, out.String()
}

// holding lists the files under a folder that have the text in them.
func holding(t *testing.T, dir, text string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			out = append(out, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return holding(t, dir, text) // a running server has replaced a file, perhaps by one that was not looked at
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// clean checks that no file of the store has a byte of the turn's secret.
func (o *office) clean(turn, when string) {
	o.t.Helper()
	if found := holding(o.t, filepath.Join(o.p.Dir, "store"), o.secrets[turn][len(mark):]); len(found) > 0 {
		o.t.Errorf("%s: bytes of %s are left in %v", when, turn, found)
	}
}

func decoded[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}
