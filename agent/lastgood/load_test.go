package lastgood

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// written returns the path of a file that fits.
func written(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName("n"))
	text := header.encode(time.Now())
	for number, one := range []struct{ typeURL, name string }{{TypeCluster, "a@1"}, {TypeListener, "l@1"}} {
		message, _, _ := answerOf(one.typeURL, "n", one.name)
		head, sum := encodeHead(kindResponse, uint64(number), len(message))
		text = append(append(text, head...), message...)
		text = append(text, encodeSum(sum, message)...)
		text = append(text, encodeAccepted(uint64(number), nil)...)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A file that does not fit is refused with the reason.
func TestLoadRefuses(t *testing.T) {
	edit := func(f func(text []byte) []byte) func(path string) error {
		return func(path string) error {
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, f(text), 0o600)
			}
			return err
		}
	}
	linked := func(link func(old, new string) error) func(path string) error {
		return func(path string) error {
			return errors.Join(os.Rename(path, path+"-2"), link(path+"-2", path))
		}
	}
	for name, test := range map[string]struct {
		change func(path string) error
		want   Header
		most   time.Duration
		err    string
	}{
		"as it is":         {nil, header, time.Hour, "a@1 [];l@1 [];[a z];"},
		"node":             {nil, Header{"m", "d:1", "b", []byte{1}, false}, 0, `it is of another node: "n", want "m"`},
		"discovery":        {nil, Header{"n", "e:1", "b", []byte{1}, false}, 0, `of another discovery`},
		"bootstrap":        {nil, Header{"n", "d:1", "c", []byte{1}, false}, 0, `of another bootstrap`},
		"Envoy":            {nil, Header{"n", "d:1", "b", []byte{2}, false}, 0, `of another version of Envoy: "01", want "02"`},
		"age":              {nil, header, time.Nanosecond, "it was the newest at 20"},
		"mode":             {func(path string) error { return os.Chmod(path, 0o640) }, header, 0, "others may open it: mode -rw-r-----"},
		"symbolic link":    {linked(os.Symlink), header, 0, "too many levels of symbolic links"},
		"hard link":        {linked(os.Link), header, 0, "2 names"},
		"pipe":             {func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) }, header, 0, "no regular file"},
		"directory":        {func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, header, 0, "no regular file"},
		"endless":          {func(path string) error { return os.Truncate(path, mostFile+1) }, header, 0, "want at most"},
		"empty":            {edit(func([]byte) []byte { return nil }), header, 0, "or of another format"},
		"another format":   {edit(func(text []byte) []byte { return append([]byte("x"), text...) }), header, 0, "or of another format"},
		"half a header":    {edit(func(text []byte) []byte { return text[:headerAt+10] }), header, 0, "half-written"},
		"a broken header":  {edit(func(text []byte) []byte { text[headerAt+6] ^= 1; return text }), header, 0, "the checksum of its header is wrong"},
		"a broken cluster": {edit(func(text []byte) []byte { text[len(header.encode(time.Now()))+20] ^= 1; return text }), header, 0, "no clusters or no listeners"},
		"without listeners": {edit(func(text []byte) []byte {
			return text[:strings.LastIndex(string(text), "R\x00\x00")]
		}), header, 0, "no clusters or no listeners"},
	} {
		t.Run(name, func(t *testing.T) {
			path := written(t)
			if test.change != nil {
				if err := test.change(path); err != nil {
					t.Fatal(err)
				}
			}
			if got := held(path, test.want, test.most); !strings.Contains(got, test.err) {
				t.Errorf("got %s, want %s", got, test.err)
			}
		})
	}
	if _, err := NewStore(t.TempDir(), "", nil, func(uint64) bool { return true }, slog.New(slog.DiscardHandler)).Load(header, 0); !errors.Is(err, ErrNone) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}

// Load reads nothing outside of a file, whatever is in it.
func FuzzLoad(f *testing.F) {
	text, err := os.ReadFile(written(f))
	if err != nil {
		f.Fatal(err)
	}
	size := len(header.encode(time.Now()))
	f.Add(text[size:])
	f.Add(encodeAccepted(0, []string{"a", ""}))
	f.Add([]byte("R\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, records []byte) {
		path := filepath.Join(t.TempDir(), FileName("n"))
		if err := os.WriteFile(path, append(text[:size:size], records...), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := load(path, header, 0, time.Now())
		if err != nil {
			return
		}
		defer l.Close()
		for typeURL, held := range l.Memory.types {
			for name, p := range held {
				if p.from < int64(size) || p.from+int64(p.size) > int64(size+len(records)) {
					t.Errorf("%s %s lies at %d, %d bytes, in a file of %d", typeURL, name, p.from, p.size, size+len(records))
				}
			}
		}
	})
}
