package consul

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A pipe or a device in the place of a file is reported, and never read.
func TestFilesAreRegular(t *testing.T) {
	dir := t.TempDir()
	pipe, zero := filepath.Join(dir, "pipe"), filepath.Join(dir, "zero")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink("/dev/zero", zero)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: pipe + ": is a pipe, want a file", zero: zero + ": is a device, want a file"} {
		_, err := Config{CACert: path}.tls()
		wants(t, "the roots", err, want)
		settings, err := Config{ClientCert: path, ClientKey: path}.tls()
		if err != nil {
			t.Fatal(err)
		}
		_, err = settings.GetClientCertificate(nil)
		wants(t, "the client's certificate", err, want)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		_, err = door{Config{TokenFile: path}, nil}.RoundTrip(request)
		wants(t, "the token", err, want)
	}
}

func wants(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

// endless repeats a text after a beginning.
type endless struct {
	begin, again string
	rest         string
	left         int // repetitions
}

func (e *endless) Read(p []byte) (int, error) {
	if e.rest == "" {
		switch {
		case e.begin != "":
			e.rest, e.begin = e.begin, ""
		case e.left > 0:
			e.rest, e.left = e.again, e.left-1
		default:
			return 0, io.EOF
		}
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// An answer of which little is kept costs little, however long it is.
func TestALongAnswerCostsWhatIsKept(t *testing.T) {
	check := `{"Node": "n", "CheckID": "c", "Status": "passing", "Output": "` + strings.Repeat("x", 4<<20) + `"},`
	const checks = 24 // 100 MB
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	list, err := readList[*healthCheck](io.MultiReader(&endless{begin: "[", again: check, left: checks}, strings.NewReader("{}]")))
	runtime.GC()
	runtime.ReadMemStats(&after)
	if err != nil || len(list) != checks+1 || list[0].Status != statusPassing {
		t.Fatalf("%d checks, %v", len(list), err)
	}
	if grown := int64(after.Sys) - int64(before.Sys); grown > 64<<20 {
		t.Errorf("%d MB were needed", grown>>20)
	}
}

func TestBoundsOfAnAnswer(t *testing.T) {
	if _, err := readList[*healthCheck](&endless{begin: `[{"Output": "`, again: strings.Repeat("x", 1<<20), left: 1 << 20}); !errors.Is(err, errLongElement) {
		t.Errorf("one endless element: %v", err)
	}
	for text, want := range map[string]string{
		`{}`: `found "{", want [`, `"\u001b[31m"`: `found "\x1b[31m", want [`, `[{"Node": "a"}`: "unexpected EOF", ``: "unexpected EOF", `[1`: "cannot unmarshal",
	} {
		if _, err := readList[*healthCheck](strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// The user and the password of the URL are used, and are part of no error.
func TestBasicAuthentication(t *testing.T) {
	f := newFake(t)
	f.put(entry("web", "1", "10.0.0.1", 80))
	f.breakWith(func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user == "me" && password == "p@ss" {
			return false
		}
		http.Error(w, "who\x1b[2J\nforged line", http.StatusUnauthorized)
		return true
	})
	s := f.source()
	follower(t, s).fails("unexpected response code: 401")
	at, err := url.Parse(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword("me", "p@ss")
	s.URL = at.String()
	follower(t, s).until(func(groups map[string]model.Group) bool { return len(groups) == 1 })
	s.URL = "http://me:secret@127.0.0.1:1"
	client, idle, err := s.client()
	if err != nil {
		t.Fatal(err)
	}
	defer idle()
	if _, _, err := (asker{client: client, Config: s.Config}).services(t.Context(), question{}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error is %v", err)
	}
}

// A service whose name is no host name, and would lead to another path, is named and not read.
func TestNamesThatArePaths(t *testing.T) {
	f := newFake(t)
	for i, name := range []string{"..", "a/../b", "a?index=1"} {
		f.put(entry(name, fmt.Sprint(i), "10.0.0.1", 80))
	}
	f.put(entry("web", "1", "10.0.0.1", 80))
	follower(t, f.source()).until(func(groups map[string]model.Group) bool {
		return len(groups) == 4 && groups[".."].Malformed() && groups["a/../b"].Malformed() && len(groups["web"].Services) == 1
	})
}
