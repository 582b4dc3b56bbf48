package webhook

import (
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	names = Service{"mesh", "discovery", "corp.example"}.names()
)

const day = 24 * time.Hour

// step does the work of a replica with a Secret, and returns its new content, the served pair, and the reason of the
// write.
func step(t *testing.T, data map[string][]byte, names []string, now time.Time) (map[string][]byte, *pair, string) {
	t.Helper()
	found, err := readPairs(data)
	if err != nil {
		t.Fatal(err)
	}
	next, why, err := plan(found, names, now)
	if err != nil {
		t.Fatal(err)
	}
	if next == nil {
		return data, found.served(names, now), ""
	}
	data = next.data()
	if again, err := readPairs(data); err != nil || !maps.EqualFunc(again.data(), data, slices.Equal) {
		t.Fatalf("what was written is read as something else: %v", err)
	}
	if again, why, _ := plan(next, names, now); again != nil {
		t.Fatalf("what was just made is to be replaced: %s", why)
	}
	return data, next.served(names, now), why
}

// trusts verifies as an API server with these roots does.
func trusts(p *pair, roots []byte, now time.Time) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(roots)
	_, err := p.leaf().Verify(x509.VerifyOptions{DNSName: names[0], Roots: pool, CurrentTime: now})
	return err
}

// Over two years an API server trusts each certificate that is served, even if it gets new roots four minutes late;
// after five minutes the new one is served.
func TestRotation(t *testing.T) {
	var data map[string][]byte
	made := 0
	for now := start; now.Before(start.Add(2 * 365 * day)); now = now.Add(day) {
		next, served, why := step(t, data, names, now)
		if err := trusts(served, next[rootsKey], now); err != nil {
			t.Fatalf("at %s: %v", now, err)
		}
		if why != "" {
			made++
		}
		if why != "" && data != nil {
			for _, later := range []time.Time{now, now.Add(4 * time.Minute)} {
				_, served, _ := step(t, next, names, later)
				if err := trusts(served, data[rootsKey], later); err != nil {
					t.Fatalf("at %s, with the roots of before: %v", later, err)
				}
			}
			later := now.Add(6 * time.Minute)
			_, served, _ := step(t, next, names, later)
			if err := trusts(served, next[rootsKey], later); err != nil || string(served.certificate) != string(next[certificateKey]) {
				t.Fatalf("at %s the new one is not served: %v", later, err)
			}
		}
		data = next
	}
	if made != 13 { // the first, and one each sixty days
		t.Errorf("%d certificates were made in two years, want 13", made)
	}
}

func TestPlan(t *testing.T) {
	made := func(names []string, at time.Time) map[string][]byte {
		p, err := newPair(names, at)
		if err != nil {
			t.Fatal(err)
		}
		return (&pairs{newest: p}).data()
	}
	// A replica whose clock is a year ahead has replaced a valid pair.
	ahead, _, why := step(t, made(names, start), names, start.Add(365*day))
	if why == "" {
		t.Fatal("a year later nothing is made")
	}
	for _, tt := range []struct {
		name  string
		data  map[string][]byte
		names []string
		now   time.Time
		why   string // "" for nothing to do
		first bool   // the first pair of the Secret is served
	}{
		{"nothing", nil, names, start, "there was none", false},
		{"a good one", made(names, start), names, start.Add(59 * day), "", true},
		{"from a clock that is half an hour ahead", made(names, start.Add(30*time.Minute)), names, start, "", true},
		{"old", made(names, start), names, start.Add(60 * day), "the last one ends", true},
		{"ended", made(names, start), names, start.Add(100 * day), "the last one ends", false},
		{"for another service", made([]string{"other.mesh.svc"}, start), names, start, "it is not for discovery.mesh.svc", false},
		{"one name more", made(names, start), append([]string{"10.0.0.1"}, names...), start, "it is not for 10.0.0.1", false},
		{"one name less", made(append([]string{"10.0.0.1"}, names...), start), names, start, "", true},
		{"from a clock that is a year ahead", ahead, names, start.Add(30 * day), "", true},
		{"from such a clock, when the good one has ended", ahead, names, start.Add(91 * day), "is wrong", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, served, why := step(t, tt.data, tt.names, tt.now)
			if (tt.why == "") != (why == "") || !strings.Contains(why, tt.why) {
				t.Errorf("it is written because %q, want %q", why, tt.why)
			}
			if !served.serves(tt.names, tt.now) {
				t.Errorf("what is served is for %v from %s to %s", served.names(), served.leaf().NotBefore, served.leaf().NotAfter)
			}
			held := func(key string) bool { return tt.data != nil && string(served.certificate) == string(tt.data[key]) }
			if first := held(certificateKey) || held(previousCertificate); first != tt.first {
				t.Errorf("the one that was there is served: %v, want %v", first, tt.first)
			}
		})
	}
}

// Two replicas with different names, as in an update of the Deployment, agree on a certificate for both.
func TestNamesGrow(t *testing.T) {
	a, b := []string{"a.mesh.svc"}, []string{"b.mesh.svc"}
	data, _, _ := step(t, nil, a, start)
	data, _, why := step(t, data, b, start)
	if why == "" {
		t.Fatal("the second replica has no certificate")
	}
	for _, names := range [][]string{a, b, a} {
		if _, _, why := step(t, data, names, start); why != "" {
			t.Errorf("a replica for %v writes again: %s", names, why)
		}
	}
}

// A Secret with other content than was written is refused; the error does not contain its key.
func TestBrokenSecrets(t *testing.T) {
	one, err := newPair(names, start)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newPair(names, start)
	if err != nil {
		t.Fatal(err)
	}
	good := (&pairs{one, other}).data()
	for name, spoil := range map[string]func(map[string][]byte){
		"another key":          func(d map[string][]byte) { d[keyKey] = other.key },
		"no key":               func(d map[string][]byte) { delete(d, keyKey) },
		"half a key":           func(d map[string][]byte) { d[keyKey] = one.key[:len(one.key)/2] },
		"another root":         func(d map[string][]byte) { d[rootsKey] = other.root },
		"no root":              func(d map[string][]byte) { delete(d, rootsKey) },
		"garbage":              func(d map[string][]byte) { d[certificateKey] = []byte("x") },
		"the leaf as its root": func(d map[string][]byte) { d[rootsKey] = one.certificate },
		"another previous key": func(d map[string][]byte) { d[previousKey] = one.key },
		"somebody's data":      func(d map[string][]byte) { clear(d); d["password"] = []byte("secret") },
	} {
		data := maps.Clone(good)
		spoil(data)
		_, err := readPairs(data)
		if err == nil {
			t.Errorf("%s: it is taken", name)
			continue
		}
		for line := range strings.Lines(string(one.key) + string(other.key)) {
			if line := strings.TrimSpace(line); len(line) > 30 && strings.Contains(err.Error(), line[:20]) {
				t.Errorf("%s: the error holds a key: %v", name, err)
			}
		}
	}
	if _, err := readPairs(good); err != nil {
		t.Error(err)
	}
}
