package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

const (
	ownerLabel = "app.kubernetes.io/managed-by"
	owner      = "pilotlight-discovery"
)

// data is the content of a Secret, by names of files.
type data = map[string][]byte

// filesOf returns the files of a generation, by Istio's names.
func filesOf(d data, generation func(string) string) ca.Files {
	return ca.Files{Cert: d[generation(ca.CertFile)], Key: d[generation(ca.KeyFile)], Chain: d[generation(ca.ChainFile)], Roots: d[generation(ca.RootsFile)]}
}

func present(name string) string { return name }

// secretOf returns the Secret of files.
func secretOf(namespace, name string, f ca.Files) *corev1.Secret {
	return secretWith(namespace, name, data{ca.CertFile: f.Cert, ca.KeyFile: f.Key, ca.RootsFile: f.Roots})
}

func secretWith(namespace, name string, d data) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{ownerLabel: owner}},
		Type:       corev1.SecretTypeOpaque,
		Data:       d,
	}
}

func equal(a, b ca.Files) bool { return sameIssuer(a, b) && bytes.Equal(a.Roots, b.Roots) }

func sameIssuer(a, b ca.Files) bool {
	return bytes.Equal(a.Cert, b.Cert) && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Chain, b.Chain)
}

// stateOf reads the authority of a Secret.
func stateOf(d data, at time.Time) (ca.State, error) {
	r, err := rotationOf(d)
	if err != nil {
		return ca.State{}, err
	}
	return ca.ReadState(filesOf(d, present), filesOf(d, ca.NextName), r, at)
}

func rotationOf(d data) (r ca.Rotation, err error) {
	if text, rotates := d[ca.RotationFile]; rotates {
		if r, err = ca.ReadRotation(text); err != nil {
			return ca.Rotation{}, fmt.Errorf("%s: %w", ca.RotationFile, err)
		}
	}
	return r, nil
}

// known is the authority that this replica uses, of these files; the zero value is none.
type known struct {
	ca.State
	files ca.Files // of the generation that there was first
}

// base is the root that is replaced, or that is not.
func (k known) base() string {
	if k.Rotation.Phase != "" {
		return k.Rotation.Old
	}
	return k.Authority.Root()
}

// decide returns what becomes of the authority: found is the Secret, nil for none, and trusted whether roots are
// published in its namespace. make says that an authority is to be made; an error keeps what was known.
func decide(before known, found *corev1.Secret, trusted bool, now time.Time) (next known, make bool, err error) {
	switch {
	case found == nil && before.Authority != nil:
		return before, false, errors.New("was deleted: this replica uses what it had, and another one would have no authority; bring it back")
	case found == nil && trusted:
		return before, false, fmt.Errorf("is not there, and the ConfigMap %s beside it has roots that workloads trust: a second root is never made; "+
			"bring the Secret back, or delete the ConfigMap if no certificate of its roots is needed", RootsName)
	case found == nil:
		return before, true, nil
	}
	next.files = filesOf(found.Data, present)
	if next.State, err = stateOf(found.Data, now); err == nil && before.Authority != nil {
		err = follows(before, next, formerOf(found.Data))
	}
	if err != nil {
		return before, false, err
	}
	return next, false, nil
}

// follows returns an error unless one authority comes after another by steps of a rotation, seen or missed. What was
// changed by hand does not: its roots would be foreign to all certificates that there are.
func follows(before, next known, former []string) error {
	changed := errors.New("has changed: this replica uses what it had until it starts again, and then the new key signs at once, whether agents trust its root or not")
	was, is := before.Rotation, next.Rotation
	switch {
	case next.base() == before.base() && !sameIssuer(before.files, next.files):
		return changed
	case next.base() == before.base() && is.Phase == "" && was.Phase == "":
		if !equal(before.files, next.files) {
			return changed
		}
	case next.base() == before.base() && was.Phase == ca.Leaves && (is.Phase != ca.Leaves || is.New != was.New):
		return fmt.Errorf("has gone back to the phase %q of a rotation whose new root has signed certificates: this replica uses what it had until it starts again", is.Phase)
	case next.base() != before.base() && !slices.Contains(former, before.base()):
		return changed
	}
	return nil
}

// Names of what is kept beside the files.
const (
	formerFile   = "former-roots" // SHA-256 of roots that were replaced, the newest first: a replica that has slept finds its own
	replicasFile = "replicas.json"
	mostFormer   = 16
)

func formerOf(d data) []string { return strings.Fields(string(d[formerFile])) }

// toBegin returns what begins a rotation, or nil and the one that is under way.
func toBegin(d data, again bool, at time.Time) (data, ca.Rotation, error) {
	state, err := stateOf(d, at)
	if err != nil || state.Rotation.Phase != "" {
		return nil, state.Rotation, err
	}
	files, r, err := ca.BeginRotation(state.Authority, d[ca.LastFile], again, at)
	if err != nil {
		return nil, ca.Rotation{}, err
	}
	text, err := r.Bytes()
	out := maps.Clone(d)
	out[ca.NextName(ca.CertFile)], out[ca.NextName(ca.KeyFile)], out[ca.NextName(ca.RootsFile)] = files.Cert, files.Key, files.Roots
	out[ca.RootsFile], out[ca.RotationFile] = ca.BothRoots(state.Authority.Roots(), files.Roots), text
	return out, r, err
}

// toAbort returns what ends a rotation whose new root has signed nothing.
func toAbort(d data, at time.Time) (data, error) {
	state, err := stateOf(d, at)
	if err == nil {
		err = state.Rotation.Abort()
	}
	if err != nil {
		return nil, err
	}
	out := withoutRotation(d)
	out[ca.RootsFile] = bytes.Replace(state.Authority.Roots(), d[ca.NextName(ca.RootsFile)], nil, 1)
	return out, nil
}

func withoutRotation(d data) data {
	out := maps.Clone(d)
	for _, name := range []string{ca.NextName(ca.CertFile), ca.NextName(ca.KeyFile), ca.NextName(ca.RootsFile), ca.RotationFile, replicasFile} {
		delete(out, name)
	}
	return out
}

const (
	reportAgain = 10 * time.Second // how often a replica writes how far the certificates are that it knows
	reportLives = 5 * time.Minute  // that long after its last report a replica is not counted
)

// report is what a replica knows of certificates while a root is rotated. It is for people: no step depends on it.
type report struct {
	Live int       `json:"live"`
	Both int       `json:"both"` // of these, that came with both roots
	At   time.Time `json:"at"`

	Most time.Duration `json:"most"` // its --caMaxTTL; 0 of one that is older, and does not say so
}

// differing names replicas whose --caMaxTTL differs. The longest of those that say so counts. One that is cut off says
// nothing, so they must have the same.
func differing(reports map[string]report) string {
	var least, most string
	for _, name := range slices.Sorted(maps.Keys(reports)) {
		switch of := reports[name].Most; {
		case of == 0:
		case least == "":
			least, most = name, name
		case of < reports[least].Most:
			least = name
		case of > reports[most].Most:
			most = name
		}
	}
	if least == most {
		return ""
	}
	return fmt.Sprintf("; --caMaxTTL is %s at %s and %s at %s: give all replicas the longer one", reports[least].Most, least, reports[most].Most, most)
}

// advance returns the Secret after what is due of a rotation, with this replica's report; nil for nothing. Each replica
// does it: the API server takes one of them by the resourceVersion.
func advance(d data, replica string, o ca.Observed, at time.Time) (data, error) {
	r, err := rotationOf(d)
	if err != nil || r.Phase == "" {
		return nil, err
	}
	var reports map[string]report
	if json.Unmarshal(d[replicasFile], &reports) != nil || reports == nil { // none, or nothing that can be read: each writes again
		reports = map[string]report{}
	}
	maps.DeleteFunc(reports, func(_ string, of report) bool { return at.Sub(of.At) > reportLives })
	last := reports[replica]
	reports[replica] = report{o.Live, o.Both, at.UTC().Truncate(time.Second), o.Most}
	o.Live, o.Both = 0, 0
	for _, of := range reports {
		o.Live, o.Both = o.Live+of.Live, o.Both+of.Both
	}
	o.Shared = true
	next := r.Step(o, at)
	if next.Phase == ca.Trust || next.Phase == ca.Leaves {
		next.Waits = fmt.Sprintf("%s; replicas that say so: %d%s", next.Waits, len(reports), differing(reports))
	}
	due := at.Sub(last.At) >= reportAgain || at.Before(last.At)
	if next.Phase == r.Phase && next.Phase != ca.Forget && next.Most == r.Most && (!due || next.Waits == r.Waits && at.Sub(last.At) < reportLives/2) {
		return nil, nil
	}
	if next.Phase == ca.Forget {
		out := withoutRotation(d)
		delete(out, ca.ChainFile)
		for _, name := range []string{ca.CertFile, ca.KeyFile, ca.RootsFile} {
			out[name] = d[ca.NextName(name)]
		}
		if out[ca.LastFile], err = next.Bytes(); err != nil {
			return nil, err
		}
		former := append([]string{r.Old}, formerOf(d)...)
		out[formerFile] = []byte(strings.Join(former[:min(len(former), mostFormer)], "\n") + "\n")
		return out, nil
	}
	out := maps.Clone(d)
	if out[ca.RotationFile], err = next.Bytes(); err == nil {
		out[replicasFile], err = json.Marshal(reports)
	}
	return out, err
}
