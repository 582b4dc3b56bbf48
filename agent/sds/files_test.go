package sds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

func TestFilesOf(t *testing.T) {
	for name, want := range map[string]cert.Files{
		"file-cert:/a/tls.crt~/a/tls.key": {Chain: "/a/tls.crt", Key: "/a/tls.key"},
		"file-root:/a/ca.crt":             {Roots: "/a/ca.crt"},
		"file-root:a":                     {Roots: "a"},
		"default":                         {},
		"ROOTCA":                          {},
		"file-cert:/a":                    {},
		"file-cert:~/a":                   {},
		"file-cert:/a~":                   {},
		"file-cert:/a~/b~/c":              {},
		"file-cert:/a~/b\x00":             {},
		"file-root:":                      {},
		"file-root:/a\x00":                {},
		"":                                {},
	} {
		got, ok := FilesOf(name)
		if ok != (want != cert.Files{}) || ok && got != want {
			t.Errorf("%q: got %v, %v, want %v", name, got, ok, want)
		}
	}
}

func FuzzFilesOf(f *testing.F) {
	f.Add("file-cert:/a/tls.crt~/a/tls.key")
	f.Add("file-root:/a\xff\x00")
	f.Fuzz(func(t *testing.T, name string) {
		files, ok := FilesOf(name)
		if !ok {
			return
		}
		for _, path := range files.Paths() {
			if path == "" || strings.ContainsRune(path, 0) || !strings.Contains(name, path) {
				t.Errorf("%q: %+v", name, files)
			}
		}
		OfFiles([]string{name}, nil, func(string) ([]byte, error) { return []byte(name), nil }, time.Unix(0, 0))
	})
}

// Of several secrets each is what its own files are: a fault keeps the last good one, and concerns no other.
func TestOfFiles(t *testing.T) {
	authority, err := lab.NewAuthority("root")
	if err != nil {
		t.Fatal(err)
	}
	disk := map[string][]byte{}
	read := func(path string) ([]byte, error) {
		data, there := disk[path]
		switch {
		case !there:
			return nil, fs.ErrNotExist
		case string(data) == "unreadable":
			return nil, errors.New("read " + path + ": permission denied")
		}
		return data, nil
	}
	issue := func(name string, serial int64) {
		t.Helper()
		id, err := authority.Issue(name, serial)
		if err != nil {
			t.Fatal(err)
		}
		disk["/"+name+".crt"], disk["/"+name+".key"], disk["/"+name+".ca"] = id.Chain, id.Key, id.Roots
	}
	issue("a", 1)
	issue("b", 2)
	names := []string{"default", "file-cert:/a.crt~/a.key", "file-cert:/b.crt~/b.key", "file-root:/a.ca"}
	now, last := time.Now(), Secrets(nil)
	look := func(want string) {
		t.Helper()
		var seen []Seen
		last, seen = OfFiles(names, last, read, now)
		got := fmt.Sprint(len(slices.Collect(maps.Keys(last))))
		for _, s := range seen {
			got += "; " + s.Info.Serial + " " + s.Fault
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
	look("3; 01 ; 02 ;  ")
	good := maps.Clone(last)
	delete(disk, "/b.key")
	look("3; 01 ;  missing: /b.key;  ")
	disk["/b.key"] = disk["/a.key"]
	look("3; 01 ; 02 private key: is not the key of the leaf")
	disk["/b.key"] = []byte("unreadable")
	look("3; 01 ;  read /b.key: permission denied")
	disk["/a.ca"] = nil
	look("3; 01 ;  read /b.key: permission denied;  root certificates: ")
	if !last.equal(good) {
		t.Error("faults change secrets that were good")
	}
	last = nil
	look("1; 01 ;  read /b.key: permission denied;  root certificates: ")
	issue("b", 3)
	disk["/a.ca"] = disk["/b.ca"]
	look("3; 01 ; 03 ;  ")
	now = now.Add(100 * 365 * 24 * time.Hour)
	last = nil
	look(`3; 01 certificate chain: "CN=a" expired at`) // a client that verifies it says so better than a closed connection
}

// Asked has the files of a stream's subscriptions until the stream ends. A later subscription is answered once its file
// is read.
func TestAsked(t *testing.T) {
	s := newServer(new(strings.Builder))
	c := client(t, s)
	open := func(names ...string) (secretv3.SecretDiscoveryService_StreamSecretsClient, func()) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		stream, err := c.StreamSecrets(ctx)
		if err == nil {
			err = stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: names})
		}
		if err != nil {
			t.Fatal(err)
		}
		return stream, cancel
	}
	asks := func(want ...string) {
		t.Helper()
		if err := lab.Eventually(10*time.Second, func() error {
			if got := s.Asked(); !slices.Equal(got, want) {
				return fmt.Errorf("got %v, want %v", got, want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	first, endFirst := open("file-root:/a")
	defer endFirst()
	<-s.AskedCh()
	asks("file-root:/a")
	_, endSecond := open("file-root:/a", "file-root:/b", Certificate)
	<-s.AskedCh()
	asks("file-root:/a", "file-root:/b")
	endSecond()
	asks("file-root:/a")

	secrets := Secrets{}
	secrets.add("file-root:/a", [3][]byte{2: []byte("roots")})
	s.Set(secrets)
	if r, err := first.Recv(); err != nil || len(r.Resources) != 1 {
		t.Errorf("got %v, %v", r, err)
	}
	endFirst()
	asks()
}

func TestAskedIsBounded(t *testing.T) {
	var a asked
	names := func(n int) map[string]bool {
		out := map[string]bool{}
		for i := range n {
			out[fmt.Sprintf("file-root:/%d", i)] = true
		}
		return out
	}
	first, refused := a.replace(nil, names(maxAsked))
	if len(first) != maxAsked || len(refused) != 0 {
		t.Fatalf("got %d, refused %v", len(first), refused)
	}
	second, refused := a.replace(nil, names(maxAsked+1))
	if len(second) != maxAsked || len(refused) != 1 {
		t.Fatalf("got %d, refused %v", len(second), refused)
	}
	a.replace(first, nil)
	if now, refused := a.replace(second, names(1)); len(now) != 1 || len(refused) != 0 || len(a.streams) != 1 {
		t.Fatalf("got %v, refused %v, %d left", now, refused, len(a.streams))
	}
}

// Setting equal secrets again wakes no stream.
func TestEqualSecretsAreNoNews(t *testing.T) {
	s := newServer(new(strings.Builder))
	s.Set(NewSecrets([]byte("chain"), []byte("key"), nil))
	_, changed := s.newest()
	s.Set(NewSecrets([]byte("chain"), []byte("key"), nil))
	select {
	case <-changed:
		t.Error("equal secrets count as changed")
	default:
	}
	s.Set(NewSecrets([]byte("chain"), []byte("key2"), nil))
	select {
	case <-changed:
	default:
		t.Error("another key is not told")
	}
}
