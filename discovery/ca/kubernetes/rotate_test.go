package kubernetes

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	random "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

// apiServer is an API server with one Secret.
type apiServer struct {
	mu      sync.Mutex
	stored  *corev1.Secret
	version int
	away    bool
	lost    bool   // it stores what it is sent, and its answer does not arrive
	before  func() // is called before an update, by another writer
}

var errAway = errors.New("connection refused")

func (s *apiServer) get(context.Context) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away || s.stored == nil {
		return nil, map[bool]error{true: errAway}[s.away]
	}
	return s.stored.DeepCopy(), nil
}

func (s *apiServer) create(_ context.Context, o *corev1.Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stored != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, o.Name)
	}
	return s.put(o)
}

func (s *apiServer) put(o *corev1.Secret) error {
	if s.away {
		return errAway
	}
	s.version++
	s.stored = o.DeepCopy()
	s.stored.ResourceVersion = fmt.Sprint(s.version)
	if s.lost {
		return errAway
	}
	return nil
}

func (s *apiServer) update(_ context.Context, o *corev1.Secret) (*corev1.Secret, error) {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stored == nil || s.stored.ResourceVersion != o.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, o.Name, errors.New("another version"))
	}
	err := s.put(o)
	return s.stored.DeepCopy(), err
}

const life = time.Hour

// replica is one of several, whose turns a test gives.
type replica struct {
	*Shared
	at   *apiServer
	seen seen
	now  time.Time
	deaf bool // its watch is late for ever
}

func newReplica(name string, at *apiServer, now time.Time) *replica {
	r := &replica{at: at, now: now}
	r.Shared = &Shared{
		In: At{"istio-system", "cacerts"}, Replica: name, Terms: ca.Terms{Default: life, Most: life}, Log: slog.New(slog.DiscardHandler),
		Issued: func([]byte) (live, with int) { return 3, 2 }, Changed: func() {}, Now: func() time.Time { return r.now },
		open: func(*kube.Client) (secrets, error) { return at, nil },
	}
	return r
}

// turn is a second of a replica's life; after a request that failed it begins anew.
func (r *replica) turn(t *testing.T, now time.Time) error {
	r.now = now
	if !r.at.away && r.at.stored != nil && !r.deaf {
		r.seen.secret = r.at.stored.DeepCopy() // as a watch tells
	}
	err := r.Shared.turn(t.Context(), r.at, &r.seen, true)
	if err != nil {
		r.seen = seen{}
	}
	return err
}

func (s *apiServer) rotate(t *testing.T, at time.Time) ca.Rotation {
	t.Helper()
	var r ca.Rotation
	if err := change(t.Context(), s, At{"istio-system", "cacerts"}, false, func(d data) (next data, err error) {
		next, r, err = toBegin(d, true, at)
		return next, err
	}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (s *apiServer) abort(t *testing.T, at time.Time) error {
	return change(t.Context(), s, At{"istio-system", "cacerts"}, false, func(d data) (data, error) { return toAbort(d, at) })
}

func requestOf(t *testing.T) ca.Key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ca.ReadRequest(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func count(roots []byte) int { return bytes.Count(roots, []byte("BEGIN")) }

// Two replicas replace the root in steps, each of which a replica that starts finds. Both are asked in turn, and the API server takes one of them.
func TestReplicasRotate(t *testing.T) {
	api, at := &apiServer{}, begin
	one, two := newReplica("one", api, at), newReplica("two", api, at)
	both := func(now time.Time) {
		t.Helper()
		for range 3 {
			for _, r := range []*replica{one, two} {
				if err := r.turn(t, now); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	both(at)
	old := one.State().Authority.Root()
	if two.State().Authority.Root() != old {
		t.Fatal("two roots were made")
	}
	r := api.rotate(t, at)
	if again := api.rotate(t, at); again != r {
		t.Errorf("a second rotation: %+v", again)
	}
	wait := life + ca.Late(life)
	for _, of := range []struct {
		after      time.Duration
		phase      ca.Phase
		signs, own string
		roots      int
	}{
		{time.Minute, ca.Trust, old, old, 2},
		{time.Minute + wait - time.Second, ca.Trust, old, old, 2},
		{time.Minute + wait, ca.Leaves, r.New, old, 2},
		{time.Minute + 2*wait - time.Second, ca.Leaves, r.New, old, 2},
		{time.Minute + 2*wait, "", r.New, r.New, 1},
	} {
		both(at.Add(of.after))
		late := newReplica("late", api, at.Add(of.after))
		if err := late.turn(t, at.Add(of.after)); err != nil {
			t.Fatal(err)
		}
		for name, r := range map[string]*replica{"one": one, "two": two, "late": late} {
			s := r.State()
			if s.Rotation.Phase != of.phase || s.Authority.Root() != of.signs || s.Own.Root() != of.own || count(s.Authority.Roots()) != of.roots {
				t.Errorf("%s after %s: phase %q, signed by %.8s, own by %.8s, %d roots, %q; want %+v", name, of.after, s.Rotation.Phase, s.Authority.Root(), s.Own.Root(),
					count(s.Authority.Roots()), r.Lines(), of)
			}
		}
		if text := strings.Join(one.Lines(), "; "); of.phase == ca.Trust && !strings.Contains(text, "4 of 6 certificates that are known came with both roots") {
			t.Errorf("after %s: %s", of.after, text)
		}
	}
	if names := slices.Sorted(maps.Keys(api.stored.Data)); fmt.Sprint(names) != "[ca-cert.pem ca-key.pem former-roots last-rotation.json root-cert.pem]" {
		t.Errorf("the Secret has %q", names)
	}
	if _, _, err := toBegin(api.stored.Data, false, at.Add(2*wait)); err == nil || !strings.Contains(err.Error(), "--again") {
		t.Errorf("a rotation soon after the last one: %v", err)
	}
	if next := api.rotate(t, at.Add(9*wait)); next.Old != r.New {
		t.Errorf("another rotation: %+v", next)
	}
}

// An abort is followed, and later it is refused.
func TestReplicasAbort(t *testing.T) {
	api, at := &apiServer{}, begin
	one := newReplica("one", api, at)
	turn := func(now time.Time) {
		t.Helper()
		for range 3 {
			if err := one.turn(t, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	turn(at)
	if err := api.abort(t, at); err == nil || !strings.Contains(err.Error(), "no root is being rotated") {
		t.Error(err)
	}
	first := one.State().Authority
	api.rotate(t, at)
	turn(at)
	if err := api.abort(t, at); err != nil {
		t.Fatal(err)
	}
	turn(at.Add(time.Minute))
	if s := one.State(); s.Rotation.Phase != "" || !bytes.Equal(s.Authority.Roots(), first.Roots()) || len(one.Lines()) != 0 {
		t.Errorf("after an abort: %+v, %d roots, %q", s.Rotation, count(s.Authority.Roots()), one.Lines())
	}
	api.rotate(t, at)
	turn(at.Add(2 * time.Minute))
	turn(at.Add(3 * life))
	if err := api.abort(t, at); err == nil || !strings.Contains(err.Error(), "let the rotation end") {
		t.Error(err)
	}
}

// Another writer between a replica's reading and its writing, and an answer that is lost: the step is done once, and the other's change is there.
func TestAStepMeetsAnother(t *testing.T) {
	api, at := &apiServer{}, begin
	one := newReplica("one", api, at)
	if err := errors.Join(one.turn(t, at), one.turn(t, at)); err != nil {
		t.Fatal(err)
	}
	api.rotate(t, at)
	api.before = func() {
		api.mu.Lock()
		defer api.mu.Unlock()
		changed := api.stored.DeepCopy()
		changed.Labels["team"] = "x"
		_ = api.put(changed)
	}
	for n := range 3 {
		if err := one.turn(t, at.Add(time.Duration(n)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if api.stored.Labels["team"] != "x" || one.State().Rotation.Phase != ca.Trust || !one.State().Rotation.Began.Equal(at.Add(time.Minute)) {
		t.Errorf("labels %v, %+v", api.stored.Labels, one.State().Rotation)
	}
	api.lost = true
	if err := one.turn(t, at.Add(2*life)); err == nil {
		t.Fatal("the answer was not lost")
	}
	if one.State().Rotation.Phase != ca.Trust {
		t.Error("a step counts that is not known to be stored")
	}
	api.lost = false
	if err := one.turn(t, at.Add(2*life+time.Second)); err != nil || one.State().Rotation.Phase != ca.Leaves || !one.State().Rotation.Switched.Equal(at.Add(2*life)) {
		t.Errorf("%v, %+v", err, one.State().Rotation)
	}
}

// A replica that missed a whole rotation takes what there is; what was changed by hand it does not take.
func TestAReplicaThatHasSlept(t *testing.T) {
	api, at := &apiServer{}, begin
	one, two := newReplica("one", api, at), newReplica("two", api, at)
	for _, r := range []*replica{one, two} {
		if err := errors.Join(r.turn(t, at), r.turn(t, at)); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 2 { // rotations
		api.rotate(t, at)
		for range 3 {
			at = at.Add(2 * life)
			if err := errors.Join(one.turn(t, at), one.turn(t, at)); err != nil {
				t.Fatal(err)
			}
		}
		if len(formerOf(api.stored.Data)) != n+1 {
			t.Fatalf("%+v, %s", one.State().Rotation, api.stored.Data[formerFile])
		}
	}
	api.rotate(t, at)
	if err := errors.Join(two.turn(t, at), one.turn(t, at)); err != nil || two.State().Authority.Root() != one.State().Authority.Root() {
		t.Errorf("%v: %q", err, two.Lines())
	}
	if err := api.abort(t, at); err != nil {
		t.Fatal(err)
	}
	mine := two.State().Authority.Root()
	foreign := newFiles(t)
	api.stored.Data[ca.CertFile], api.stored.Data[ca.KeyFile], api.stored.Data[ca.RootsFile] = foreign.Cert, foreign.Key, foreign.Roots
	if err := two.turn(t, at.Add(life)); err != nil || two.State().Authority.Root() != mine || !strings.Contains(strings.Join(two.Lines(), ""), "has changed") {
		t.Errorf("%v: %q", err, two.Lines())
	}
}

// A rotation that is broken in the Secret changes nothing for a replica that runs, brings no authority to one that starts, and no root.
func TestASharedRotationThatIsBroken(t *testing.T) {
	for fault, spoil := range map[string]func(d data){
		"parse the rotation":     func(d data) { d[ca.RotationFile] = []byte("{") },
		"ca-key.pem: has no key": func(d data) { delete(d, ca.NextName(ca.KeyFile)) },
		"and rotation.json names": func(d data) {
			f := newFiles(t)
			d[ca.NextName(ca.CertFile)], d[ca.NextName(ca.KeyFile)], d[ca.NextName(ca.RootsFile)] = f.Cert, f.Key, f.Roots
		},
		"the phase \"no\"": func(d data) { d[ca.RotationFile] = bytes.Replace(d[ca.RotationFile], []byte("begun"), []byte("no"), 1) },
	} {
		api := &apiServer{}
		one := newReplica("one", api, begin)
		if err := errors.Join(one.turn(t, begin), one.turn(t, begin)); err != nil {
			t.Fatal(err)
		}
		first := one.State().Authority
		api.rotate(t, begin)
		spoil(api.stored.Data)
		late := newReplica("late", api, begin)
		if err := errors.Join(one.turn(t, begin.Add(time.Minute)), late.turn(t, begin.Add(time.Minute))); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(one.Lines(), ""); one.State().Authority != first || !strings.Contains(text, fault) {
			t.Errorf("%s: it says %q", fault, text)
		}
		if late.Signing() != nil || !strings.Contains(strings.Join(late.Lines(), ""), fault) {
			t.Errorf("%s: one that starts says %q", fault, late.Lines())
		}
	}
}

// Replicas rotate while the API server is away for each of them at times, answers are lost, and replicas stop for long. No agent is left alone: each leaf that
// lives is of a root that is trusted, and its agent trusts what signs.
func TestReplicasThatAreCutOff(t *testing.T) {
	for seed := range uint64(5) {
		dice, at := random.New(random.NewPCG(seed, 1)), begin
		api := &apiServer{}
		all := []*replica{newReplica("one", api, at), newReplica("two", api, at), newReplica("three", api, at)}
		key := requestOf(t)
		type leaf struct{ by, trust string } // the root that signed it, and those that came with it
		leaves := map[leaf]time.Time{}       // until when the last one lives
		roots := map[string]string{}
		cut := map[int]time.Time{}
		phases, refused := map[ca.Phase]bool{}, 0
		for range 600 {
			at = at.Add(time.Duration(dice.IntN(120)) * time.Second)
			if api.stored != nil && api.stored.Data[ca.RotationFile] == nil && dice.IntN(40) == 0 {
				r := api.rotate(t, at)
				roots[r.New] = strings.TrimSpace(string(api.stored.Data[ca.NextName(ca.RootsFile)]))
			}
			for i, r := range all {
				if at.After(cut[i]) && dice.IntN(30) == 0 {
					cut[i] = at.Add(time.Duration(dice.IntN(240)) * time.Minute) // up to four lives
				}
				api.away, api.lost = at.Before(cut[i]), dice.IntN(20) == 0
				r.deaf = dice.IntN(3) == 0
				if frozen := api.away && dice.IntN(2) == 0; !frozen {
					_ = r.turn(t, at)
				}
				api.away, api.lost = false, false
				r.now = at
				authority := r.Signing()
				if authority == nil {
					continue
				}
				if len(roots) == 0 {
					roots[authority.Root()] = strings.TrimSpace(string(authority.Roots()))
				}
				phases[r.State().Rotation.Phase] = true
				signed, err := authority.Sign(key, ca.Identity{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "web"}, 0, r.Terms, at)
				if err != nil {
					refused++
					continue
				}
				mine := leaf{authority.Root(), string(authority.Roots())}
				leaves[mine] = later(leaves[mine], signed.NotAfter)
				for l, ends := range leaves {
					if at.Before(ends) && !(strings.Contains(l.trust, roots[mine.by]) && strings.Contains(mine.trust, roots[l.by])) {
						t.Fatalf("seed %d: leaves live of %.8s and %.8s, and the agent of one does not trust the other", seed, l.by, mine.by)
					}
				}
			}
		}
		if !phases[ca.Trust] || !phases[ca.Leaves] || refused == 0 || len(formerOf(api.stored.Data)) == 0 {
			t.Logf("seed %d: phases %v, %d refused, %d roots replaced", seed, phases, refused, len(formerOf(api.stored.Data)))
		}
	}
}

// While the API server is away, certificates are signed for a life and an eighth: full ones first, then shorter ones, and it says so. Its return mends it.
func TestAnAPIServerThatIsAwayForADay(t *testing.T) {
	const day = 24 * time.Hour
	api := &apiServer{}
	one := newReplica("one", api, begin)
	one.Terms = ca.Terms{Default: day, Most: day}
	if err := errors.Join(one.turn(t, begin), one.turn(t, begin)); err != nil {
		t.Fatal(err)
	}
	key := requestOf(t)
	api.away = true
	for _, of := range []struct{ after, life time.Duration }{
		{time.Hour, day}, {3 * time.Hour, day}, {4 * time.Hour, 23 * time.Hour}, {10 * time.Hour, 17 * time.Hour}, {26 * time.Hour, time.Hour}, {27 * time.Hour, 0}, {90 * time.Hour, 0},
	} {
		at := begin.Add(of.after)
		if err := one.turn(t, at); err == nil {
			t.Fatal("the API server has answered")
		}
		leaf, err := one.Signing().Sign(key, ca.Identity{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "web"}, 0, one.Terms, at)
		if (err == nil) != (of.life > 0) || err == nil && leaf.NotAfter.Sub(at) != of.life {
			t.Errorf("after %s: until %s, %v; want %s", of.after, leaf.NotAfter, err, of.life)
		}
		if said := strings.Contains(strings.Join(one.Lines(), ""), "certificates end at 2026-01-03T06:04:05Z at the latest"); said != (of.after > 3*time.Hour) {
			t.Errorf("after %s it says %q", of.after, one.Lines())
		}
	}
	api.away = false
	back := begin.Add(91 * time.Hour)
	if err := errors.Join(one.turn(t, back), one.turn(t, back)); err != nil || len(one.Lines()) != 0 {
		t.Errorf("%v, %q", err, one.Lines())
	}
	if leaf, err := one.Signing().Sign(key, ca.Identity{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "web"}, 0, one.Terms, back); err != nil || leaf.NotAfter.Sub(back) != day {
		t.Errorf("%v, until %s", err, leaf.NotAfter)
	}
}

// Replicas whose certificates may live for different times are named while a root is replaced, and the longer life counts.
func TestReplicasWithDifferentLives(t *testing.T) {
	api, at := &apiServer{}, begin
	one, two := newReplica("one", api, at), newReplica("two", api, at)
	both := func(now time.Time) string {
		t.Helper()
		for range 3 {
			for _, r := range []*replica{one, two} {
				if err := r.turn(t, now); err != nil {
					t.Fatal(err)
				}
			}
		}
		return strings.Join(two.Lines(), "; ")
	}
	both(at)
	api.rotate(t, at)
	if text := both(at.Add(time.Minute)); strings.Contains(text, "--caMaxTTL") {
		t.Errorf("where the lives are the same it is written: %s", text)
	}
	one.Terms.Most = 3 * life
	want := fmt.Sprintf("--caMaxTTL is %s at two and %s at one: give all replicas the longer one", life, 3*life)
	if text := both(at.Add(2 * time.Minute)); !strings.Contains(text, want) {
		t.Errorf("two says %q, want that it names %q", text, want)
	}
	if phase := two.State().Rotation; phase.Phase != ca.Trust || phase.Most != 3*life {
		t.Errorf("the rotation is %+v, want that it waits for %s", phase, 3*life)
	}
	both(at.Add(time.Minute + life + ca.Late(life)))
	if phase := two.State().Rotation.Phase; phase != ca.Trust {
		t.Errorf("%s after the shorter life", phase)
	}
}
