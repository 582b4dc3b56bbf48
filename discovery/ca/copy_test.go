package ca

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// plugged returns the files of an authority that was not made here, whose root has the name.
func plugged(t *testing.T, root *made, name string) Files {
	t.Helper()
	issuer := authorityOf(t, name, root, nil)
	return Files{Cert: issuer.pem, Key: issuer.keyPEM(t), Roots: root.pem}
}

// follower is a copy that follows files as time passes.
type follower struct {
	t    *testing.T
	c    Copy
	last Rotation
	at   time.Time
	err  error
}

func (f *follower) see(after time.Duration, files Files) {
	f.t.Helper()
	f.at = f.at.Add(after)
	f.c, f.err = f.c.Follow(files, f.last, Observed{Most: terms.Most}, f.at)
}

// is compares what signs and what is trusted: the name of the issuer, and those of the roots.
func (f *follower) is(when string, phase Phase, signs string, roots ...string) {
	f.t.Helper()
	s, err := f.c.State(f.at)
	if err != nil {
		f.t.Fatalf("%s: %v", when, err)
	}
	var names []string
	for _, root := range s.Authority.roots {
		names = append(names, root.Subject.CommonName)
	}
	if s.Rotation.Phase != phase || s.Authority.issuer.Subject.CommonName != signs || strings.Join(names, " ") != strings.Join(roots, " ") {
		f.t.Errorf("%s: phase %q, %s signs, %q are trusted; want %q, %s, %q; %v", when, s.Rotation.Phase, s.Authority.Name(), names, phase, signs, roots, f.err)
	}
}

// Files of another root are trusted for a life before they sign, whatever happens to them meanwhile.
func TestCopyFollowsFiles(t *testing.T) {
	wait := terms.Most + slack(terms.Most)
	long := func(c *x509.Certificate) { c.NotAfter = now.Add(10000 * time.Hour) }
	roots := map[string]*made{}
	for _, name := range []string{"A", "B", "C"} {
		roots[name] = authorityOf(t, name, nil, long)
	}
	a, b, c := plugged(t, roots["A"], "a"), plugged(t, roots["B"], "b"), plugged(t, roots["C"], "c")
	other := plugged(t, roots["A"], "a2")
	both := a
	both.Roots = join(a.Roots, b.Roots)
	misfit := b
	misfit.Key = c.Key
	for name, steps := range map[string]func(f *follower){
		"once": func(f *follower) {
			f.see(0, b)
			f.is("seen", Trust, "a", "A", "B")
			f.see(wait-1, b)
			f.is("before a life", Trust, "a", "A", "B")
			f.see(1, b)
			f.is("after a life", Leaves, "b", "A", "B")
			if s, _ := f.c.State(f.at); s.Own.issuer.Subject.CommonName != "a" {
				t.Errorf("%s signs discovery's own certificate, want the old one while it is trusted", s.Own.Name())
			}
			f.see(wait-1, b)
			f.is("before another one", Leaves, "b", "A", "B")
			f.see(1, b)
			f.is("after another one", "", "b", "B")
			if bytes.Contains(f.c.Files.Key, a.Key) || len(f.c.Next.Key) > 0 {
				t.Error("the old key is still kept")
			}
		},
		"another issuer below the same root": func(f *follower) {
			f.see(0, other)
			f.is("seen", "", "a2", "A")
		},
		"another certificate of the same root": func(f *follower) {
			again := authorityWith(t, "A", nil, roots["A"].key, long)
			f.see(0, Files{Cert: a.Cert, Key: a.Key, Roots: again.pem})
			f.is("seen", "", "a", "A")
		},
		"a further root, and then the files": func(f *follower) {
			f.see(0, both)
			f.is("both", "", "a", "A", "B")
			f.see(time.Hour, Files{Cert: b.Cert, Key: b.Key, Roots: both.Roots})
			f.is("the files", Trust, "a", "A", "B")
		},
		"twice in trust": func(f *follower) {
			f.see(0, b)
			f.see(wait-1, c)
			f.is("again", Trust, "a", "A", "C")
			f.see(wait-1, c)
			f.is("before a life", Trust, "a", "A", "C")
			f.see(1, c)
			f.is("after a life", Leaves, "c", "A", "C")
		},
		"twice in leaves": func(f *follower) {
			f.see(0, b)
			f.see(wait, b)
			f.see(time.Hour, c)
			f.is("again", Leaves, "b", "A", "B")
			f.see(wait-time.Hour, c)
			f.is("the first has ended", "", "b", "B")
			f.see(time.Second, c)
			f.is("the second", Trust, "b", "B", "C")
		},
		"back in trust": func(f *follower) {
			f.see(0, b)
			f.see(time.Hour, a)
			f.is("back", "", "a", "A")
			f.see(time.Hour, b)
			f.see(wait-1, b)
			f.is("and again, which counts from then", Trust, "a", "A", "B")
		},
		"back in leaves": func(f *follower) {
			f.see(0, b)
			f.see(wait, b)
			f.see(0, a)
			f.is("back", Leaves, "b", "A", "B")
			f.see(wait, a)
			f.see(0, a)
			f.is("the first has ended", Trust, "b", "B", "A")
		},
		"another issuer in trust": func(f *follower) {
			f.see(0, b)
			f.see(time.Hour, plugged(t, roots["B"], "b2"))
			f.is("seen", Trust, "a", "A", "B")
			f.see(wait-time.Hour, plugged(t, roots["B"], "b3"))
			f.is("after a life", Leaves, "b3", "A", "B")
		},
		"a key that does not fit": func(f *follower) {
			f.see(0, misfit)
			f.is("seen", "", "a", "A")
			if f.err == nil || !strings.Contains(f.err.Error(), "ca-key.pem: is not the key of") {
				t.Errorf("%v, want that the key does not fit", f.err)
			}
			f.see(terms.Most, b)
			f.is("whole, a life later", Trust, "a", "A", "B")
		},
		"files that break during a rotation": func(f *follower) {
			f.see(0, b)
			f.see(wait, misfit)
			f.is("after a life", Leaves, "b", "A", "B")
			if f.err == nil {
				t.Error("files that break are not reported")
			}
			f.see(wait, Files{})
			f.is("after another one", "", "b", "B")
		},
		"now": func(f *follower) {
			f.last = Rotation{}.EndNow(rootOf(t, b), f.at.Add(time.Second))
			f.see(2*time.Second, b)
			f.is("seen", "", "b", "B")
			f.see(time.Second, a)
			f.see(time.Second, b)
			f.see(time.Second, a)
			f.is("it counts once", Trust, "b", "B", "A")
		},
		"now, of other files": func(f *follower) {
			f.last = Rotation{}.EndNow(rootOf(t, c), f.at.Add(time.Second))
			f.see(2*time.Second, b)
			f.is("seen", Trust, "a", "A", "B")
		},
		"now, during a rotation": func(f *follower) {
			f.see(0, b)
			f.last = Rotation{}.EndNow(rootOf(t, b), f.at.Add(time.Second))
			f.see(2*time.Second, b)
			f.is("trust", "", "b", "B")
		},
		"now, to a third one while the second one signs": func(f *follower) {
			f.see(0, b)
			f.see(wait, b)
			f.last = Rotation{}.EndNow(rootOf(t, c), f.at.Add(time.Second))
			f.see(2*time.Second, c)
			f.is("leaves", "", "c", "C")
		},
		"a rotation of the files themselves": func(f *follower) {
			f.last = Rotation{Phase: Forget, Old: rootOf(t, a), New: rootOf(t, b), Began: f.at, Switched: f.at.Add(wait), Until: f.at.Add(2 * wait)}
			f.at = f.at.Add(2 * wait)
			f.c.Seen = f.at
			f.see(time.Second, b)
			f.is("after it", "", "b", "B")
		},
		"discovery away for longer than a leaf lives": func(f *follower) {
			f.see(0, a)
			f.see(terms.Most+Late(terms.Most)+1, b)
			f.is("back", "", "b", "B")
		},
		"discovery away for as long as a leaf lives": func(f *follower) {
			f.see(0, a)
			f.see(terms.Most, b)
			f.is("back", Trust, "a", "A", "B")
		},
		"away during trust": func(f *follower) {
			f.see(0, b)
			f.see(10*wait, b)
			f.is("back", Leaves, "b", "A", "B")
		},
		"a clock that is put back": func(f *follower) {
			f.see(0, a)
			f.see(-time.Minute, b)
			f.is("seen", Trust, "a", "A", "B")
			f.see(-time.Minute, b)
			f.is("again", Trust, "a", "A", "B")
		},
		"a shorter life since": func(f *follower) {
			f.c.Most = 2 * terms.Most
			f.see(0, b)
			f.see(wait, b)
			f.is("leaves of before live", Trust, "a", "A", "B")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &follower{t: t, at: now}
			f.see(0, a)
			f.is("first", "", "a", "A")
			steps(f)
		})
	}
}

func rootOf(t *testing.T, f Files) string {
	t.Helper()
	a, err := Read(f, now)
	check(t, err)
	return a.Root()
}

// An authority that has expired has no leaf that lives; one whose root cannot be told from the new one is not replaced.
func TestCopyThatCannotRotate(t *testing.T) {
	name := func(c *x509.Certificate) { c.SubjectKeyId = []byte{1} }
	a := plugged(t, authorityOf(t, "A", nil, name), "a") // for 1,000 hours
	f := &follower{t: t, at: now}
	f.see(0, a)
	long := func(c *x509.Certificate) { c.NotAfter = now.Add(10000 * time.Hour) }
	twin := plugged(t, authorityOf(t, "A", nil, name), "twin")
	f.see(time.Hour, twin)
	f.is("a twin", "", "a", "A")
	if f.err == nil || !strings.Contains(f.err.Error(), "two roots with different keys have the subject") {
		t.Errorf("a twin: %v", f.err)
	}
	root := authorityOf(t, "B", nil, long)
	issuer := authorityOf(t, "b", root, long)
	b := Files{Cert: issuer.pem, Key: issuer.keyPEM(t), Roots: root.pem}
	f.c.Seen = now.Add(1000 * time.Hour)
	f.see(1000*time.Hour, b)
	f.is("expired", "", "b", "B")
}

// What is stored is read again, under these names, and nothing that is broken.
func TestReadCopy(t *testing.T) {
	a, b := plugged(t, authorityOf(t, "A", nil, nil), "a"), plugged(t, authorityOf(t, "B", nil, nil), "b")
	f := &follower{t: t, at: now}
	f.see(0, a)
	f.see(time.Hour, b)
	text, err := f.c.Bytes()
	check(t, err)
	if read, err := ReadCopy(text, f.at); err != nil || !read.Same(f.c) || read.Rotation != f.c.Rotation || read.Since != f.c.Since || read.Seen != f.c.Seen || read.Most != f.c.Most {
		t.Errorf("%+v, %v", read, err)
	}
	for _, name := range []string{"files", "since", "seen", "most", "next", "rotation", "cert", "key", "roots", "phase", "old", "new", "began", "until"} {
		if !bytes.Contains(text, []byte(`"`+name+`":`)) {
			t.Errorf("%q has another name, by which an earlier version has written it", name)
		}
	}
	for fault, change := range map[string]func(m map[string]any){
		"ca-key.pem: is not the key of": func(m map[string]any) { m["files"].(map[string]any)["key"] = b.Key },
		"ca-cert.pem: has no cert":      func(m map[string]any) { delete(m, "files") },
		"its successor":                 func(m map[string]any) { delete(m, "next") },
		`the phase "x"`:                 func(m map[string]any) { m["rotation"].(map[string]any)["phase"] = "x" },
		"leads to the root":             func(m map[string]any) { m["rotation"].(map[string]any)["old"] = strings.Repeat("a", 64) },
		"has the root":                  func(m map[string]any) { m["rotation"].(map[string]any)["new"] = strings.Repeat("a", 64) },
		"half-written or broken":        func(m map[string]any) { m["files"] = "secret" },
	} {
		var m map[string]any
		check(t, json.Unmarshal(text, &m))
		change(m)
		broken, err := json.Marshal(m)
		check(t, err)
		if _, err := ReadCopy(broken, f.at); err == nil || !strings.Contains(err.Error(), fault) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v, want %q", err, fault)
		}
	}
	for n := 0; n < len(text)-2; n += 97 {
		if _, err := ReadCopy(text[:n], f.at); err == nil {
			t.Fatalf("%d of %d bytes were read", n, len(text))
		}
	}
	if _, err := ReadCopy(text, now.Add(2000*time.Hour)); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("%v, want that it has expired", err)
	}
}

// FuzzCopy replaces files while time passes: no agent whose leaf lives is left without trust in what signs now, and no leaf that lives is of a root that is
// no longer trusted.
func FuzzCopy(f *testing.F) {
	f.Add([]byte{0, 1, 200, 201, 202, 2, 203, 3, 204, 200, 200, 200, 200, 200, 1, 200, 200, 200, 0, 200, 200, 200})
	f.Add([]byte{1, 255, 255, 255, 255, 255, 255, 2, 255, 255, 255, 255, 255, 255, 3, 1, 255, 255})
	f.Fuzz(func(t *testing.T, events []byte) {
		const life = 4 * time.Hour
		long := func(c *x509.Certificate) { c.NotAfter = now.Add(100000 * time.Hour) }
		var all []Files
		for _, name := range []string{"A", "B", "C"} {
			issuer := authorityOf(t, name, nil, long)
			all = append(all, Files{Cert: issuer.pem, Key: issuer.keyPEM(t), Roots: issuer.pem})
		}
		all = append(all, Files{Cert: all[0].Cert, Key: all[1].Key, Roots: all[0].Roots}) // which do not fit
		type sight struct {
			at    time.Time
			signs string
			roots []byte
		}
		var seen []sight
		pems := map[string][]byte{}
		for _, files := range all[:3] {
			pems[rootOf(t, files)] = files.Roots
		}
		c, at, files := Copy{}, now, all[0]
		for _, e := range events[:min(len(events), 60)] {
			if int(e) < len(all) {
				files = all[e]
			} else {
				at = at.Add(time.Duration(e) * time.Minute / 2)
			}
			next, err := c.Follow(files, Rotation{}, Observed{Most: life}, at)
			if len(c.Files.Cert) == 0 && err != nil {
				continue // a start that fails
			}
			c = next
			s, err := c.State(at)
			check(t, err)
			is := sight{at, s.Authority.Root(), s.Authority.Roots()}
			for _, before := range seen {
				switch age := at.Sub(before.at); {
				case age > life:
				case !bytes.Contains(before.roots, bytes.TrimSpace(pems[is.signs])):
					t.Fatalf("%.8s signs, and agents that have asked %s before do not trust it", is.signs, age)
				case !bytes.Contains(is.roots, bytes.TrimSpace(pems[before.signs])):
					t.Fatalf("%.8s is not trusted, and has signed %s before", before.signs, age)
				}
			}
			seen = append(seen, is)
		}
	})
}
