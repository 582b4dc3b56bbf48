package file

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/pilotlight/pilotlight/discovery/secret"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func identity(t testing.TB) lab.Identity {
	t.Helper()
	authority, err := lab.NewAuthority("root")
	must(t, err)
	identity, err := authority.Issue("app.test", 1)
	must(t, err)
	return identity
}

// put writes the files of a directory.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	for file, text := range files {
		must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
}

// named returns the secrets of groups, and the kind of each.
func named(groups map[string]secret.Group) string {
	var out []string
	for _, group := range groups {
		for name, s := range group.Secrets {
			what := "roots"
			if len(s.Certificate) > 0 && len(s.Key) > 0 && len(s.Roots) == 0 {
				what = "pair"
			}
			out = append(out, fmt.Sprintf("%s=%s", name, what))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func faults(groups map[string]secret.Group) (out string) {
	for key, group := range groups {
		for _, fault := range group.Faults {
			out += key + ": " + fault + "\n"
		}
	}
	return out
}

// Files are read as they are; a secret that cannot be read is reported, and does not affect others.
func TestRead(t *testing.T) {
	dir, id := t.TempDir(), identity(t)
	cert, key, roots := string(id.Chain), string(id.Key), string(id.Roots)
	in := func(path string) string { return filepath.Join(dir, path) }
	put(t, in("default/pair"), map[string]string{"tls.crt": cert, "tls.key": key})
	put(t, in("default/mutual"), map[string]string{"tls.crt": cert, "tls.key": key, "ca.crt": roots})
	put(t, in("default/roots"), map[string]string{"ca.crt": roots})
	put(t, in("other/.data"), nil)
	got, looked := read(dir, nil)
	const all = "default/mutual-cacert=roots default/mutual=pair default/pair=pair default/roots-cacert=roots default/roots=roots"
	if named(got) != all || faults(got) != "" {
		t.Errorf("read %q, %s", named(got), faults(got))
	}
	if want := []string{dir, in("default"), in("default/mutual"), in("default/pair"), in("default/roots"), in("other")}; !slices.Equal(looked, want) {
		t.Errorf("looked at %q", looked)
	}

	put(t, in("default"), map[string]string{"service-accounts": "gateway\nother"})
	put(t, in("default/mutual"), map[string]string{"service-accounts": "mutual"})
	put(t, in("default/none"), map[string]string{"tls.crt": cert, "tls.key": key, "service-accounts": ""})
	listed, _ := read(dir, got)
	for name, want := range map[string]string{"pair": "[gateway other]", "mutual": "[mutual]", "none": "[]"} {
		if got := fmt.Sprint(listed["default/"+name].Secrets[secret.Name{Namespace: "default", Name: name}].Accounts); got != want {
			t.Errorf("the key of %s is for %s, want %s", name, got, want)
		}
	}
	put(t, in("default"), map[string]string{"destination-rule-namespaces": "shop bank"})
	put(t, in("default/mutual"), map[string]string{"destination-rule-namespaces": "bank\n"})
	put(t, in("default/none"), map[string]string{"destination-rule-namespaces": ""})
	listed, _ = read(dir, got)
	for name, want := range map[string]string{"pair": "[shop bank] [gateway other]", "mutual": "[bank] [mutual]", "none": "[] []"} {
		s := listed["default/"+name].Secrets[secret.Name{Namespace: "default", Name: name}]
		if got := fmt.Sprint(s.Namespaces, s.Accounts); got != want {
			t.Errorf("the key of %s is for %s, want %s", name, got, want)
		}
	}

	put(t, in("default/\xff"), map[string]string{"tls.crt": cert, "tls.key": key})
	put(t, in("\xfe/a"), map[string]string{"tls.crt": cert, "tls.key": key})
	put(t, in("default/pair"), map[string]string{"tls.key": "half a k"})
	put(t, in("default/empty"), nil)
	put(t, in("default/wrong"), map[string]string{"ca.crt": "no PEM"})
	put(t, in("default/huge"), nil)
	must(t, os.Truncate(mustFile(t, in("default/huge/tls.crt")), 1<<40))
	put(t, in("default/pipe"), nil)
	must(t, syscall.Mkfifo(in("default/pipe/tls.key"), 0o600))
	put(t, in("default/device"), nil)
	must(t, os.Symlink("/dev/zero", in("default/device/ca.crt")))
	again, _ := read(dir, got)
	for _, want := range []string{
		`\xff" is ignored: its name is not UTF-8`, `\xfe" is ignored: its name is not UTF-8`, "default/pair: " + in("default/pair") + ", of tls.crt and tls.key",
		in("default/empty") + ": it has neither tls.crt nor ca.crt", in("default/wrong") + ": no certificate in ca.crt",
		in("default/huge/tls.crt") + ": is too long: it has 1048576 MiB, want at most 1 MiB", in("default/pipe/tls.key") + ": is a pipe, want a file",
		in("default/device/ca.crt") + ": is a device, want a file",
	} {
		if !strings.Contains(faults(again), want) {
			t.Errorf("the faults lack %q:\n%s", want, faults(again))
		}
	}
	if !again["default/pair"].Malformed() || again["default/mutual"].Malformed() {
		t.Errorf("a fault costs another secret: %q", named(again))
	}

	must(t, os.Remove(in("default/service-accounts")))
	put(t, in("default/service-accounts"), nil) // cannot be read as a file
	kept, _ := read(dir, got)
	if named(kept) != all || !strings.Contains(faults(kept), "default: read "+in("default/service-accounts")+": is a directory, want a file") {
		t.Errorf("a fault of a namespace: %q, want its last good secrets\n%s", named(kept), faults(kept))
	}
	if kept, _ := read(in("gone"), got); named(kept) != all || !strings.Contains(faults(kept), "no such file") {
		t.Errorf("without the directory: %q, want what was read before\n%s", named(kept), faults(kept))
	}
}

func mustFile(t *testing.T, path string) string {
	t.Helper()
	must(t, os.WriteFile(path, nil, 0o600))
	return path
}

// Changes are sent, equal files are not, and new directories are watched.
func TestSource(t *testing.T) {
	dir, id := filepath.Join(t.TempDir(), "later"), identity(t)
	pair := map[string]string{"tls.crt": string(id.Chain), "tls.key": string(id.Key)}
	source := New(dir, slog.New(slog.NewTextHandler(t.Output(), nil)))
	updates, done := make(chan secret.Update), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
	go func() { done <- source.Run(ctx, updates) }()
	next := func() secret.Update {
		t.Helper()
		select {
		case u := <-updates:
			return u
		case <-time.After(20 * time.Second):
			t.Fatal("nothing is sent")
			return secret.Update{}
		}
	}
	until := func(what string, want func(secret.Update) bool) {
		t.Helper()
		for range 20 {
			if want(next()) {
				return
			}
		}
		t.Fatalf("never: %s", what)
	}
	if u := next(); !u.Synced || !u.Groups[dir].Malformed() {
		t.Errorf("a missing directory: %+v", u)
	}
	put(t, filepath.Join(dir, "shop", "door"), pair)
	until("the pair", func(u secret.Update) bool { return named(u.Groups) == "shop/door=pair" })
	put(t, filepath.Join(dir, "bank", "gate"), pair)
	until("another", func(u secret.Update) bool { return named(u.Groups) == "bank/gate=pair" })
	put(t, filepath.Join(dir, "shop", "door"), map[string]string{"tls.key": "half"})
	until("a fault", func(u secret.Update) bool { return u.Groups["shop/door"].Malformed() })
	must(t, os.RemoveAll(filepath.Join(dir, "shop")))
	until("its end", func(u secret.Update) bool {
		group, told := u.Groups["shop/door"]
		return told && !group.Malformed() && len(group.Secrets) == 0
	})
}

// For any names and content of the directories of secrets: no panic, secrets have names that Envoy can request, and a
// second look at the same files changes nothing.
func FuzzRead(f *testing.F) {
	id := identity(f)
	f.Add("default", "app", []byte{}, []byte{}, []byte{}, []byte("app *"))
	f.Add("\xff", "app", []byte{}, []byte{}, id.Roots, []byte("app"))
	f.Add("default", "\xc3\x28", []byte{}, []byte{}, id.Roots, []byte("\xff\n\x00"))
	f.Add("default", "app-cacert", id.Chain, id.Key, []byte("-----BEGIN CERTIFICATE-----"), []byte(nil))
	f.Add("*", "outbound|80||a.test", []byte("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"), id.Key, id.Roots, []byte(nil))
	f.Add("..data", "%s%n", []byte("\xff"), []byte("\x00"), []byte("\xff"), []byte("\r\n"))
	f.Fuzz(func(t *testing.T, namespace, name string, chain, key, roots, accounts []byte) {
		for _, part := range []string{namespace, name} {
			if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "/\x00") {
				return // no directory has such a name
			}
		}
		if len(chain)+len(key) == 0 { // so that the roots are read too
			chain, key = id.Chain, id.Key
		}
		dir := t.TempDir()
		folder := filepath.Join(dir, namespace, name)
		if os.MkdirAll(folder, 0o700) != nil {
			return // a name that is too long
		}
		for file, data := range map[string][]byte{certificateFile: chain, keyFile: key, rootsFile: roots, accountsFile: accounts} {
			must(t, os.WriteFile(filepath.Join(folder, file), data, 0o600))
		}
		found, _ := read(dir, nil)
		for _, group := range found {
			for name := range group.Secrets {
				if !utf8.ValidString(name.Namespace) || !utf8.ValidString(name.Name) {
					t.Errorf("%q is served", name)
				}
			}
		}
		again, _ := read(dir, good(found, nil))
		for key, group := range found {
			if !group.Same(again[key]) || !slices.Equal(group.Faults, again[key].Faults) {
				t.Errorf("the same files of %s are said to have changed", key)
			}
		}
	})
}
