package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/kube/catalog"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// kubeconfig returns the kubeconfig of a server at a port.
func kubeconfig(port int, more string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://192.0.2.1:%d"}}], users: [{name: u, user: {token: a%s}}]}`, port, more)
}

// joining is a run of Clusters, with a log of its actions.
type joining struct {
	t       *testing.T
	watch   *kube.Watch
	events  chan kube.Event
	updates chan model.Update
	log     []string
	faults  map[string]string
}

func startJoining(t *testing.T, c *Clusters) *joining {
	r := &joining{t, &kube.Watch{}, make(chan kube.Event), make(chan model.Update), nil, map[string]string{}}
	c.Own, c.Namespace = "home", "system"
	c.Add = func(cluster string, s Source) {
		if s.Options.Cluster != cluster || s.Options.SystemNamespace != "system" || s.Options.Domain != "corp.example" || s.Connect == nil {
			t.Errorf("the source of %s is %+v", cluster, s)
		}
		r.log = append(r.log, "+"+cluster)
	}
	c.Remove = func(cluster string) { r.log = append(r.log, "-"+cluster) }
	c.Source.Options = catalog.Options{SystemNamespace: "system", Domain: "corp.example"}
	r.run(c)
	return r
}

// run starts c, or starts it again.
func (r *joining) run(c *Clusters) (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	session := kube.NewSession(r.events, func(*kube.Watch) func() { return func() {} })
	session.Start(r.watch)
	go func() {
		defer close(done)
		c.follow(ctx, session, r.updates)
	}()
	stop = func() {
		cancel()
		<-done
	}
	r.t.Cleanup(stop)
	return stop
}

// does sends an event, and checks which clusters it adds and removes, and which faults there are then.
func (r *joining) does(e kube.Event, log string, faults ...string) {
	r.t.Helper()
	r.log, e.Of = nil, r.watch
	r.events <- e
	u := <-r.updates
	if !u.Synced {
		r.t.Error("an update is not synced")
	}
	for key, group := range u.Groups {
		if delete(r.faults, key); len(group.Faults) > 0 {
			r.faults[key] = key + ": " + strings.Join(group.Faults, ", ")
		}
		if group.Len() > 0 {
			r.t.Errorf("%s has content", key)
		}
	}
	if got := strings.Join(r.log, " "); got != log {
		r.t.Errorf("it does %q, want %q", got, log)
	}
	got := slices.Sorted(maps.Values(r.faults))
	if !slices.EqualFunc(got, faults, strings.HasPrefix) {
		r.t.Errorf("it says %q, want %q", got, faults)
	}
}

func secretOf(name string, age int, data ...string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "system", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(int64(1000-age), 0)),
	}, Data: map[string][]byte{}}
	for i := 0; i+1 < len(data); i += 2 {
		s.Data[data[i]] = []byte(data[i+1])
	}
	return s
}

// Clusters are added, changed and removed with their Secrets.
func TestClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Clusters{}
		r := startJoining(t, c)
		east, west := kubeconfig(1, ""), kubeconfig(2, "")
		r.does(kube.Event{List: true, All: []any{secretOf("a", 2, "east", east)}}, "+east")
		r.does(kube.Event{Put: secretOf("b", 1, "west", west)}, "+west")
		r.does(kube.Event{Put: secretOf("b", 1, "west", west)}, "") // nothing is new

		// A Secret is partly valid; a kubeconfig that is refused keeps its last form.
		r.does(kube.Event{Put: secretOf("a", 2, "east", kubeconfig(1, ", exec: {command: sh, apiVersion: client.authentication.k8s.io/v1}"), "north", kubeconfig(3, ""))},
			"+north", "Secret/system/a/east: users[u].exec would run a program here, want a token, or client-certificate-data with client-key-data; the one before stays in use")
		r.does(kube.Event{Put: secretOf("a", 2, "east", kubeconfig(9, ""))}, "+east -north")

		// If two Secrets name one cluster the older one wins; the other takes over when that is removed.
		r.does(kube.Event{Put: secretOf("c", 0, "east", kubeconfig(4, ""), "home", west)}, "",
			"Secret/system/c/east: is a cluster that Secret system/a has", "Secret/system/c/home: is the name of this server's own cluster")
		r.does(kube.Event{Gone: secretOf("a", 2)}, "+east", "Secret/system/c/home: ")
		r.does(kube.Event{Gone: secretOf("c", 0)}, "-east")

		// Another list has them all.
		r.does(kube.Event{List: true, All: []any{secretOf("d", 0, "south", kubeconfig(5, ""))}}, "+south -west")
	})
}

// Running clusters continue while the API server of the Secrets cannot be reached, and are not started again when it
// returns.
func TestClustersStayBetweenRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Clusters{}
		r := startJoining(t, c)
		r.does(kube.Event{List: true, All: []any{secretOf("a", 0, "east", kubeconfig(1, ""), "west", kubeconfig(2, ""))}}, "+east +west")
		other := &joining{t, &kube.Watch{}, make(chan kube.Event), make(chan model.Update), nil, map[string]string{}}
		c.Add, c.Remove = func(cluster string, _ Source) { other.log = append(other.log, "+"+cluster) }, func(cluster string) { other.log = append(other.log, "-"+cluster) }
		other.run(c)
		other.does(kube.Event{Refused: errors.New("secrets is forbidden")}, "", "Secrets: no further clusters are known: secrets is forbidden")
		other.does(kube.Event{List: true, All: []any{secretOf("a", 0, "east", kubeconfig(1, ""))}}, "-west")
	})
}

func TestTooManyClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startJoining(t, &Clusters{})
		s := secretOf("a", 0)
		for i := range MaxClusters + 1 {
			s.Data[fmt.Sprintf("c%03d", i)] = []byte(kubeconfig(i+1, ""))
		}
		r.events <- kube.Event{Of: r.watch, List: true, All: []any{s}}
		u := <-r.updates
		if got := slices.Collect(maps.Keys(u.Groups)); len(r.log) != MaxClusters || !slices.Equal(got, []string{"Secret/system/a/c100"}) {
			t.Errorf("%d clusters are added, and %q are named", len(r.log), got)
		}
	})
}
