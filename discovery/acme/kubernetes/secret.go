package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/acme"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

// Names of what is in the Secrets, and how much fits.
const (
	ofLabel     = "acme.pilotlight.io/of" // its value is the name of the accounts' Secret
	ownerLabel  = "app.kubernetes.io/managed-by"
	manager     = "pilotlight-discovery"
	setFile     = "set.json"
	reportsFile = "replicas.json"
	reportsEnd  = "-replicas"
	most        = 900 << 10 // bytes; a Secret has a mebibyte
)

// At is where the accounts' Secret is; the others are beside it.
type At struct{ Namespace, Name string }

// nameOf returns the name of the Secret of a set.
func (a At) nameOf(s acme.Set) string { return a.Name + "-" + s.ID() }

// idOf returns the ID of the set of a Secret, "" where it is not one of a set.
func (a At) idOf(name string) string {
	id, is := strings.CutPrefix(name, a.Name+"-")
	if !is || len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
		return ""
	}
	return id
}

func (a At) reports() string { return a.Name + reportsEnd }

func (a At) selector() string { return ofLabel + "=" + a.Name }

// told is how a Secret is named to people.
func (a At) told(name string) string { return "Secret " + a.Namespace + "/" + name }

// secretOf returns a Secret with one more file beside those of before, nil for none.
func (a At) secretOf(before *corev1.Secret, name, file string, content any) (*corev1.Secret, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	if len(text) > most {
		return nil, fmt.Errorf("write %s: it would have %d bytes, and at most %d fit", a.told(name), len(text), most)
	}
	out := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: name}, Type: corev1.SecretTypeOpaque}
	if before != nil {
		out = before.DeepCopy()
	}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	if out.Data == nil {
		out.Data = map[string][]byte{}
	}
	out.APIVersion, out.Kind, out.ManagedFields = "v1", "Secret", nil
	out.Labels[ofLabel], out.Labels[ownerLabel] = a.Name, manager
	out.Data[file] = text
	return out, nil
}

// read reads a file of a Secret.
func (a At) read(o *corev1.Secret, file string, to any) error {
	text, is := o.Data[file]
	if !is {
		return fmt.Errorf("%s: has no %s", a.told(o.Name), file)
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("%s: read %s: %w", a.told(o.Name), file, err)
	}
	return nil
}

// recordOf reads the record of a set.
func (a At) recordOf(o *corev1.Secret) (r acme.Record, err error) {
	if err = a.read(o, setFile, &r); err == nil && a.nameOf(r.Set()) != o.Name {
		err = fmt.Errorf("%s: is of another set", a.told(o.Name))
	}
	return r, err
}

// reportsOf reads the reports of replicas; what cannot be read is none, and each replica writes its own again.
func (a At) reportsOf(o *corev1.Secret) (all map[string]acme.Report) {
	if o == nil || a.read(o, reportsFile, &all) != nil {
		return nil
	}
	return all
}

// account is what is kept of an account.
type account struct {
	URL string `json:"URL"`
	Key string `json:"Key"`
}

// accountFile returns the name of the key of an account at an issuer.
func accountFile(issuer, url string) string {
	sum := sha256.Sum256([]byte(url))
	return "account-" + issuer + "-" + hex.EncodeToString(sum[:4]) + ".json"
}

// older reports whether a followed object is older than one that was read or written: a watch may be late.
func older(followed, had *corev1.Secret) bool {
	if had == nil {
		return false
	}
	a, err := strconv.ParseUint(followed.ResourceVersion, 10, 64)
	b, also := strconv.ParseUint(had.ResourceVersion, 10, 64)
	return err == nil && also == nil && a < b
}

const requestTime = 10 * time.Second

// secrets are requests about the Secrets of a namespace. Their errors are those of apimachinery's errors.
type secrets interface {
	all(ctx context.Context) ([]corev1.Secret, error)             // with the label
	get(ctx context.Context, name string) (*corev1.Secret, error) // nil for none
	put(ctx context.Context, o *corev1.Secret) (*corev1.Secret, error)
	remove(ctx context.Context, name string) error
}

// remote are secrets of an API server.
type remote struct {
	At
	resource *kube.Resource
}

func open(client *kube.Client, at At) (secrets, error) {
	resource, err := client.Resource(corev1.SchemeGroupVersion.WithResource("secrets"), at.Namespace)
	return remote{at, resource}, err
}

func (r remote) all(ctx context.Context) ([]corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var out corev1.SecretList
	err := r.resource.Labelled(ctx, r.selector(), &out)
	return out.Items, err
}

// get asks by a list, which needs no further right than to follow the Secrets.
func (r remote) get(ctx context.Context, name string) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var all corev1.SecretList
	if err := r.resource.List(ctx, "metadata.name="+name, 1, &all); err != nil || len(all.Items) == 0 {
		return nil, err
	}
	return &all.Items[0], nil
}

// put creates an object without a resourceVersion, and replaces one that has that version.
func (r remote) put(ctx context.Context, o *corev1.Secret) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var out corev1.Secret
	if o.ResourceVersion == "" {
		return &out, r.resource.Create(ctx, manager, o, &out)
	}
	return &out, r.resource.Update(ctx, o.Name, manager, o, &out)
}

func (r remote) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return r.resource.Delete(ctx, name)
}
