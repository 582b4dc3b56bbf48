package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

const (
	ownerLabel = "app.kubernetes.io/managed-by"
	owner      = "pilotlight-discovery"
)

// filesOf returns the files of a Secret, by Istio's names.
func filesOf(data map[string][]byte) ca.Files {
	return ca.Files{Cert: data[ca.CertFile], Key: data[ca.KeyFile], Chain: data[ca.ChainFile], Roots: data[ca.RootsFile]}
}

// secretOf returns the Secret of files.
func secretOf(namespace, name string, f ca.Files) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{ownerLabel: owner}},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{ca.CertFile: f.Cert, ca.KeyFile: f.Key, ca.RootsFile: f.Roots},
	}
}

func equal(a, b ca.Files) bool {
	return bytes.Equal(a.Cert, b.Cert) && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Chain, b.Chain) && bytes.Equal(a.Roots, b.Roots)
}

// known is the authority that this replica uses, of these files; the zero value is none.
type known struct {
	authority *ca.Authority
	files     ca.Files
}

// decide returns what becomes of the authority: found is the Secret, nil for none, and trusted whether roots are published in its
// namespace. make says that an authority is to be made; an error keeps what was known.
func decide(before known, found *corev1.Secret, trusted bool, now time.Time) (next known, make bool, err error) {
	switch {
	case found == nil && before.authority != nil:
		return before, false, errors.New("was deleted: this replica uses what it had, and another one would have no authority; bring it back")
	case found == nil && trusted:
		return before, false, fmt.Errorf("is not there, and the ConfigMap %s beside it has roots that workloads trust: a second root is never made; "+
			"bring the Secret back, or delete the ConfigMap if no certificate of its roots is needed", RootsName)
	case found == nil:
		return before, true, nil
	}
	files := filesOf(found.Data)
	if before.authority != nil {
		if !equal(before.files, files) {
			return before, false, errors.New("has changed: this replica uses what it had until it starts again")
		}
		return before, false, nil
	}
	authority, err := ca.Read(files, now)
	if err != nil {
		return before, false, err
	}
	return known{authority, files}, false, nil
}
