package file

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func service(name string, hosts ...string) string {
	return "{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: " + name + "}, spec: {resolution: STATIC, " +
		"hosts: [" + strings.Join(hosts, ", ") + "], ports: [{number: 80, name: http, protocol: HTTP}]}}\n"
}

// mesh returns services s0, s1 … in one file each, and rules r0, r1 … in another file.
func mesh(services, rules int) (files []File) {
	for i := range services {
		files = append(files, file(fmt.Sprintf("s%d.yaml", i), service(fmt.Sprint("s", i), fmt.Sprintf("s%d.com", i))))
	}
	for i := range rules {
		files = append(files, file(fmt.Sprintf("r%d.yaml", i), rule(fmt.Sprint("r", i), fmt.Sprintf("s%d.com", i))))
	}
	return files
}

// TestWipe removes files from a mesh of ten services and four rules.
func TestWipe(t *testing.T) {
	for name, test := range map[string]struct {
		left []File
		what string // the text about held objects
	}{
		"nothing":                         {mesh(10, 4), ""},
		"half of the services":            {mesh(5, 4), ""},
		"more":                            {mesh(4, 4), "6 of 10 services"},
		"all but one rule":                {mesh(10, 1), ""},
		"all rules":                       {mesh(10, 0), "all 4 objects of kind DestinationRule"},
		"everything but one":              {[]File{file("other.yaml", service("other", "other.com"))}, "10 of 11 services, all 4 objects of kind DestinationRule"},
		"other objects of the same hosts": {append(mesh(0, 4), file("all.yaml", service("all", "s0.com", "s1.com", "s2.com", "s3.com", "s4.com", "s5.com"))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			const delay = 30 * time.Second
			s := newState(delay)
			s.apply(s.lookAt(mesh(10, 4)), start0)
			full, gone := len(s.objects), 0
			out := s.apply(s.lookAt(test.left), start0)
			for _, g := range out.groups {
				if g.Empty() {
					gone++
				}
			}
			if s.held.what != test.what {
				t.Fatalf("held is %q, want %q", s.held.what, test.what)
			}
			if test.what == "" {
				if full+len(out.groups)-2*gone != len(s.objects) || !out.wakeAt.IsZero() || out.hold != "" {
					t.Errorf("%d objects are served, %v, %q", len(s.objects), out.wakeAt, out.hold)
				}
				return
			}
			if gone > 0 || !out.wakeAt.Equal(start0.Add(delay)) || !strings.Contains(out.hold, "held for 30s") {
				t.Errorf("%d objects are gone, want none; %v, %q", gone, out.wakeAt, out.hold)
			}
			if now := s.status(); now.Held != test.what || now.HeldNow == 0 || !strings.Contains(strings.Join(now.Lines(), "\n"), test.what) {
				t.Errorf("the status is %+v", now)
			}
			if out = s.apply(scan{}, start0.Add(delay-1)); len(out.groups) > 0 || out.hold != "" {
				t.Errorf("before the time is over: %v, %q", out.groups, out.hold)
			}
			out = s.apply(scan{}, start0.Add(delay))
			if len(s.objects) != len(test.left) || !strings.Contains(out.hold, "time is over") || !out.wakeAt.IsZero() {
				t.Errorf("when the time is over %d objects are served, want %d; %q, %v", len(s.objects), len(test.left), out.hold, out.wakeAt)
			}
		})
	}
}

// Files that are restored end a hold, and changes made meanwhile are served.
func TestWipeReverted(t *testing.T) {
	s := newState(30 * time.Second)
	stays := file("stays.yaml", service("stays", "stays.com"))
	s.apply(s.lookAt(append(mesh(10, 4), stays)), start0)
	s.apply(s.lookAt([]File{stays}), start0)
	out := s.apply(s.lookAt([]File{stays, file("new.yaml", service("new", "new.com"))}), start0.Add(10*time.Second))
	if len(out.groups) != 1 || len(s.objects) != 16 {
		t.Errorf("a new service while others are held: %d groups, %d objects", len(out.groups), len(s.objects))
	}
	out = s.apply(s.lookAt(append(mesh(9, 4), stays)), start0.Add(20*time.Second))
	if len(s.objects) != 14 || !strings.Contains(out.hold, "files are back") || !out.wakeAt.IsZero() {
		t.Errorf("%d objects are served, want 14; %q, %v", len(s.objects), out.hold, out.wakeAt)
	}
	s.apply(s.lookAt([]File{stays}), start0.Add(time.Minute))
	if !s.held.until.Equal(start0.Add(90 * time.Second)) {
		t.Errorf("a second wipe is held until %v", s.held.until)
	}
}

// Without a delay everything is removed at once.
func TestWipeWithoutDelay(t *testing.T) {
	s := newState(0)
	s.apply(s.lookAt(mesh(10, 4)), start0)
	if out := s.apply(s.lookAt(nil), start0); len(out.groups) != 14 || len(s.objects) > 0 {
		t.Errorf("%d groups, %d objects", len(out.groups), len(s.objects))
	}
	checkCounts(t, s)
}

// An operator ends a hold: what was held is removed, and not judged again.
func TestWipeReleased(t *testing.T) {
	s := newState(time.Hour)
	s.apply(s.lookAt(mesh(10, 4)), start0)
	s.apply(s.lookAt(mesh(2, 4)), start0)
	if now := s.status(); now.HeldNow != 8 || !now.Since.Equal(start0) || !now.Until.Equal(start0.Add(time.Hour)) {
		t.Errorf("held are %+v", now)
	}
	s.held.asked = true
	out := s.apply(scan{}, start0.Add(time.Minute))
	if len(out.groups) != 8 || !out.certain || len(s.objects) != 6 || !strings.Contains(out.hold, "as an operator has asked: 8 of 10 services") {
		t.Errorf("released, %d groups change, %d objects are served: %q, %t", len(out.groups), len(s.objects), out.hold, out.certain)
	}
	if out = s.apply(s.lookAt(mesh(1, 4)), start0.Add(time.Minute)); len(out.groups) != 1 || out.certain || out.hold != "" {
		t.Errorf("a single removal later: %+v", out)
	}
	s.held.asked = true // without a hold it asks for nothing
	if out = s.apply(s.lookAt(mesh(1, 0)), start0.Add(2*time.Minute)); !strings.Contains(out.hold, "held for") {
		t.Errorf("the next wipe: %q", out.hold)
	}
}

// A directory that is left without any object is a wipe at any size, which the server holds: the update that removes the objects says so,
// and ends what the store has held itself.
func TestAnEmptiedDirectory(t *testing.T) {
	policy := file("p.yaml", "{apiVersion: security.istio.io/v1, kind: PeerAuthentication, metadata: {name: a}, spec: {mtls: {mode: STRICT}}}\n")
	one := append(mesh(1, 0), policy)
	for name, test := range map[string]struct {
		before, left []File
		gone         int // objects
		emptied      bool
	}{
		"of one policy":     {[]File{policy}, nil, 1, true},
		"of a service more": {one, nil, 2, true},
		"but for a comment": {one, []File{file("p.yaml", "# nothing\n")}, 2, true},
		"but for an object": {one, mesh(1, 0), 1, false},
		"but for a fault":   {one, []File{file("p.yaml", "a: [\n")}, 1, false}, // which may hold the policy
		"of many":           {append(mesh(10, 4), policy), nil, 15, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(30 * time.Second)
			s.apply(s.lookAt(test.before), start0)
			s.held.asked = true // by an operator, of what the server holds: not of what goes later
			gone := map[string]bool{}
			for _, now := range []time.Time{start0, start0.Add(lossWait)} {
				out := s.apply(s.lookAt(test.left), now)
				for key, g := range out.groups {
					gone[key] = g.Empty()
				}
				if out.certain || out.hold != "" {
					t.Errorf("it is %+v", out)
				}
			}
			if s.held.what != "" || s.emptied() != test.emptied || len(gone) != test.gone {
				t.Errorf("held is %q, emptied %t, %v gone", s.held.what, s.emptied(), gone)
			}
		})
	}
	s := newState(30 * time.Second)
	s.apply(s.lookAt(append(mesh(10, 4), policy)), start0)
	if s.apply(s.lookAt([]File{policy}), start0); s.held.what == "" {
		t.Error("most objects are gone, and not held")
	}
	if out := s.apply(s.lookAt(nil), start0.Add(time.Second)); len(out.groups) != 15 || out.certain || s.held.what != "" || !out.wakeAt.IsZero() {
		t.Errorf("then the last one: held is %q, %+v", s.held.what, out)
	}
	checkCounts(t, s)
}
