package cert

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// disk is files in memory; an error stands for one that cannot be read.
type disk map[string]any

func (d disk) read(path string) ([]byte, error) {
	switch content := d[path].(type) {
	case string:
		return []byte(content), nil
	case error:
		return nil, &fs.PathError{Op: "open", Path: path, Err: content}
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

// observe runs a loop in virtual time. Its body gets the channel of ticks, and a function that returns what was sent
// since it was last called.
func observe(t *testing.T, read func(string) ([]byte, error), body func(ticks chan struct{}, sent func() []Observation)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ticks, out, done := make(chan struct{}), make(chan Observation, 100), make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		l := &Loop{Sets: []Files{{"chain", "key", "roots"}}, Recheck: time.Minute, Log: slog.New(slog.DiscardHandler), read: read}
		go func() { done <- l.Run(ctx, ticks, out) }()
		body(ticks, func() (sent []Observation) {
			synctest.Wait()
			for len(out) > 0 {
				sent = append(sent, <-out)
			}
			return sent
		})
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v, want the end of its context", err)
		}
	})
}

// pair is a disk with a valid set.
func pair(t *testing.T) disk {
	leaf := issue(t, "leaf", nil, ecKey(t), nil)
	return disk{"chain": leaf.pem(), "key": pkcs8(t, leaf.key), "roots": leaf.pem()}
}

func TestLoopSendsWhatDiffers(t *testing.T) {
	first, second := pair(t), pair(t)
	files := disk{}
	observe(t, files.read, func(ticks chan struct{}, sent func() []Observation) {
		step := func(what string, change func(), hashes int, missing []string, fault string) {
			t.Helper()
			change()
			ticks <- struct{}{}
			got := sent()
			if len(got) != hashes {
				t.Fatalf("%s: sent %d observations %+v, want %d", what, len(got), got, hashes)
			}
			if hashes == 0 {
				return
			}
			o := got[len(got)-1]
			if !slices.Equal(o.Missing, missing) || !strings.Contains(text(o.Err), fault) || (fault == "") != (o.Err == nil) {
				t.Errorf("%s: sent %+v, want missing %q, fault %q", what, o, missing, fault)
			}
		}
		put := func(path string, content any) func() { return func() { files[path] = content } }
		if got := sent(); len(got) != 1 || len(got[0].Missing) != 3 || got[0].Err != nil {
			t.Fatalf("at first: sent %+v, want one observation with three files missing", got)
		}
		step("nothing new", func() {}, 0, nil, "")
		step("one comes", put("chain", first["chain"]), 1, []string{"key", "roots"}, "")
		step("and another", put("key", first["key"]), 1, []string{"roots"}, "")
		step("all are there", put("roots", first["roots"]), 1, nil, "")
		step("nothing new again", put("chain", first["chain"]), 0, nil, "")
		step("half a pair", put("chain", second["chain"]), 1, nil, "check key: private key: is not the key of")
		step("the other half", func() { files["key"], files["roots"] = second["key"], second["roots"] }, 1, nil, "")
		step("unreadable", put("key", fs.ErrPermission), 1, nil, "read certificates: open key: permission denied")
		step("still", put("key", fs.ErrPermission), 0, nil, "")
		step("readable", put("key", second["key"]), 1, nil, "")
		step("gone", func() { delete(files, "key") }, 1, []string{"key"}, "")
		step("empty", put("key", ""), 1, nil, "check key: private key: is empty")
	})
}

// A workload without certificates is no reason to warn, as in a Pod whose Secret does not exist. That some are missing is
// one, and that they have gone.
func TestMissingCertificatesAreLoggedAsTheyMatter(t *testing.T) {
	none, some, all := &Observation{Missing: []string{"chain", "key", "roots"}}, &Observation{Missing: []string{"key"}}, &Observation{}
	for _, test := range []struct {
		optional    bool
		before, now *Observation
		want        string
	}{
		{true, nil, none, `level=INFO msg="the workload has no certificates yet"`},
		{true, none, none, `level=INFO msg="the workload has no certificates yet"`},
		{true, all, none, `level=WARN msg="certificates are missing`},
		{true, nil, some, `level=WARN msg="certificates are missing`},
		{false, nil, none, `level=WARN msg="certificates are missing`},
		{true, nil, &Observation{Missing: none.Missing, Err: fs.ErrPermission}, `level=WARN msg="certificates cannot be used"`},
		{true, none, all, `level=INFO msg="certificates are valid"`},
	} {
		var log strings.Builder
		l := &Loop{Sets: []Files{{"chain", "key", "roots"}}, Optional: test.optional, Log: slog.New(slog.NewTextHandler(&log, nil))}
		l.report(*test.now, test.before)
		if !strings.Contains(log.String(), test.want) {
			t.Errorf("%+v: logged %swant %s", test, log.String(), test.want)
		}
	}
}

func TestLoopNeedsNoTick(t *testing.T) {
	files := pair(t)
	observe(t, files.read, func(ticks chan struct{}, sent func() []Observation) {
		close(ticks)
		good := sent()
		if len(good) != 1 || good[0].Err != nil || good[0].Infos[0].Serial != "03e9" {
			t.Fatalf("at first: sent %+v, want a valid set", good)
		}
		<-time.After(59 * time.Minute)
		if got := sent(); len(got) != 0 {
			t.Errorf("while all is the same: sent %+v", got)
		}
		<-time.After(time.Minute + time.Second)
		got := sent()
		if len(got) != 1 || !strings.Contains(text(got[0].Err), "check chain: certificate chain: \"CN=leaf\" expired at") {
			t.Fatalf("once it has expired: sent %+v, want that once", got)
		}
		if got[0].Hash != good[0].Hash {
			t.Error("the hash has changed with the time")
		}
	})
}

func TestWhenTheJudgementChanges(t *testing.T) {
	at := func(d time.Duration) time.Time { return now.Add(d) }
	for name, c := range map[string]struct {
		infos []Info
		want  time.Duration
	}{
		"nothing is known":       {[]Info{{}}, time.Minute},
		"far away":               {[]Info{{NotBefore: at(-time.Hour), Ends: at(time.Hour)}}, time.Minute},
		"its end":                {[]Info{{NotBefore: at(-time.Hour), Ends: at(10 * time.Second)}}, 10*time.Second + time.Millisecond},
		"its last moment is now": {[]Info{{NotBefore: at(-time.Hour), Ends: at(0)}}, time.Millisecond},
		"it has ended":           {[]Info{{NotBefore: at(-time.Hour), Ends: at(-time.Second)}}, time.Minute},
		"its beginning":          {[]Info{{NotBefore: at(5 * time.Second), Ends: at(10 * time.Second)}}, 5*time.Second + time.Millisecond},
		"of two":                 {[]Info{{}, {NotBefore: at(-time.Hour), Ends: at(time.Second)}}, time.Second + time.Millisecond},
	} {
		if got := Changes(c.infos, now, time.Minute); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestLoopIsNotFooledByASwap(t *testing.T) {
	files, next, reads := pair(t), pair(t), 0
	read := func(path string) ([]byte, error) {
		if reads++; reads == 2 { // the chain is read, its key is not
			files = next
		}
		return files.read(path)
	}
	observe(t, read, func(_ chan struct{}, sent func() []Observation) {
		if got := sent(); len(got) != 1 || got[0].Err != nil {
			t.Errorf("sent %+v, want one valid set", got)
		}
	})
}

func TestLoopEndsThoughNobodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l := &Loop{Recheck: time.Minute, Log: slog.New(slog.DiscardHandler)}
		if err := l.Run(ctx, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run: %v, want the end of its context", err)
		}
	})
}

func TestHashTellsContentsApart(t *testing.T) {
	contents := []map[string][]byte{
		{},
		{"a": nil},
		{"a": []byte("x")},
		{"ax": nil},
		{"a": []byte("x"), "b": []byte("y")},
		{"a": []byte("y"), "b": []byte("x")},
		{"a": []byte("xy"), "b": nil},
		{"a": nil, "b": []byte("xy")},
		{"a": []byte("xby")},
	}
	seen := map[string]int{}
	for i, c := range contents {
		h := Hash(c)
		if h != Hash(c) {
			t.Errorf("Hash(%q) is not always the same", c)
		}
		if j, known := seen[h]; known {
			t.Errorf("Hash(%q) = Hash(%q)", c, contents[j])
		}
		seen[h] = i
	}
}
