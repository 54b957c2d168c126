package adaptertest

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/turnfold/turnfold/streamer/provider"
	"github.com/turnfold/turnfold/streamer/provider/providertest"
	"github.com/turnfold/turnfold/subjects/event"
)

// Any in Want.Text stands for whatever was out before a reset, which may overtake
// everything: then text and calls are not compared, and usage and id may be missing.
// In the id of an only call it stands for one whose arguments are longer than these.
const Any = "*"

// Want is the expected end of one response.
type Want struct {
	Text   string
	Calls  []Call
	Finish string      // of a finished attempt
	Class  event.Class // of a failed one
	Retry  bool
	Length bool
	Usage  event.Usage
	ID     string // of the request
}

// NoUsage is the usage of a response that gave no count.
var NoUsage = event.Usage{Partial: true}

// Cases plays files of testdata/cases, which have the bytes as on the wire, whole and
// byte by byte, and compares each response in them with what is wanted.
func Cases(t *testing.T, api provider.API, cases map[string][]Want) {
	for _, file := range slices.Sorted(maps.Keys(cases)) {
		want := cases[file]
		t.Run(strings.TrimSuffix(strings.TrimSuffix(file, ".sse"), ".ndjson"), func(t *testing.T) {
			answers := load(t, file)
			if len(answers) != len(want) {
				t.Fatalf("%d responses, %d expected", len(answers), len(want))
			}
			for i, a := range answers {
				play(t, api, a, want[i])
				var body []byte
				for _, w := range a.Writes {
					body = append(body, w...)
				}
				bytewise := providertest.Bytewise(string(body), a.End)
				bytewise.Header = a.Header
				play(t, api, bytewise, want[i])
			}
		})
	}
}

func play(t *testing.T, api provider.API, a providertest.Answer, w Want) {
	t.Helper()
	s := providertest.Start(t, a)
	compare(t, Ask(t, api, s, provider.Endpoint{}, provider.Request{}), w)
	if n := len(s.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func compare(t *testing.T, r *Reply, w Want) {
	t.Helper()
	overtaken := w.Text == Any
	if !overtaken && (r.Text != w.Text || !sameCalls(r.Calls, w.Calls)) {
		t.Errorf("text %q and calls %.300q, want %q and %.300q", r.Text, r.Calls, w.Text, w.Calls)
	}
	if w.Finish != "" {
		f := r.Finished(t)
		if f.Finish != w.Finish || f.Usage != w.Usage || f.RequestID != w.ID {
			t.Errorf("finished %+v, want %+v", f, w)
		}
		return
	}
	f := r.Failed(t)
	usage := f.Usage == w.Usage || overtaken && f.Usage == NoUsage
	id := f.RequestID == w.ID || overtaken && f.RequestID == ""
	if f.Class != w.Class || f.Retryable != w.Retry || f.Length != w.Length || !usage || !id || f.Detail == "" || f.Status != 200 {
		t.Errorf("failed %+v, want %+v", f, w)
	}
	for _, c := range r.Calls {
		if c.Args() != "" && strings.Contains(f.Detail, c.Args()) {
			t.Errorf("the detail tells the arguments: %s", f.Detail)
		}
	}
}

func sameCalls(got, want []Call) bool {
	if len(got) == 1 && len(want) == 1 && want[0].ID() == Any {
		return len(got[0].Args()) > len(want[0].Args()) && json.Valid([]byte(got[0].Args()))
	}
	return len(got) == len(want) && (len(want) == 0 || reflect.DeepEqual(got, want))
}

// load reads a case: a raw body, or a script whose serve lines count here.
func load(t *testing.T, file string) []providertest.Answer {
	t.Helper()
	data := read(t, file)
	if strings.HasSuffix(file, ".sse") {
		return []providertest.Answer{providertest.Body(data, providertest.Clean)}
	}
	var out []providertest.Answer
	for sc := bufio.NewScanner(strings.NewReader(data)); sc.Scan(); {
		var line struct {
			Serve *struct {
				Body     string
				WriteHex []string `json:"write_hex"`
				End      string
				Headers  map[string]string
			}
		}
		if err := json.Unmarshal(sc.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if line.Serve == nil {
			continue
		}
		a := providertest.Answer{End: map[string]providertest.End{"eof": providertest.Clean, "reset": providertest.Reset}[line.Serve.End], Header: line.Serve.Headers}
		if line.Serve.Body != "" {
			a.Writes = append(a.Writes, []byte(line.Serve.Body))
		}
		for _, h := range line.Serve.WriteHex {
			w, err := hex.DecodeString(h)
			if err != nil {
				t.Fatal(err)
			}
			a.Writes = append(a.Writes, w)
		}
		out = append(out, a)
	}
	return out
}

func read(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "cases", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// EventLimit plays a case with a long line under a limit of 50,000 bytes: the attempt
// fails, and names the limit.
func EventLimit(t *testing.T, api provider.API, file string) {
	t.Helper()
	a := load(t, file)[0]
	f := Ask(t, api, providertest.Start(t, a), provider.Endpoint{EventBytesMax: 50_000}, provider.Request{}).Failed(t)
	if f.Class != event.ServerError || f.Retryable || !strings.Contains(f.Detail, "50000 bytes") {
		t.Errorf("%+v", f)
	}
}
