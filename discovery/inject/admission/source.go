package admission

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pilotlight/pilotlight/discovery/inject"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

// Source reads the configuration of injection from a ConfigMap.
type Source struct {
	Connect         func() (*kube.Client, error) // called by each attempt, which closes the client's connections at its end
	Namespace, Name string                       // of the ConfigMap; empty for the defaults
	Domain          string                       // DNS domain of discovery; that of the sidecars too if the configuration has no clusterDomain
	Layers          inject.Layers                // of each Pod, at the moment of its review; an error that is ErrNotReady is no answer
	Log             *slog.Logger

	mu      sync.Mutex
	current *inject.Injector
	fault   error // of the ConfigMap as it is now
}

// ErrNotReady is for Layers that are not known yet.
var ErrNotReady = errors.New("what is set for the proxies of Pods is not known yet")

// nativeSince is the minor version of Kubernetes from which on init containers may have restartPolicy Always.
const nativeSince = 29

// Injector returns the Injector of the last valid configuration; nil before there is one.
func (s *Source) Injector() *inject.Injector {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Run follows the ConfigMap until ctx is done. After an error, which is logged, it tries again.
func (s *Source) Run(ctx context.Context) error {
	kube.Keep(ctx, s.Connect, s.follow, func(err error, again time.Duration) {
		s.Log.Error("the configuration of injection is not followed", "err", err, "again", again)
	})
	return nil
}

func (s *Source) follow(ctx context.Context, session *kube.Session) error {
	minor, err := session.Client.Minor(ctx)
	if err != nil {
		return err
	}
	native := minor >= nativeSince
	if s.Name == "" {
		if err := s.take(nil, native); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	session.FollowConfigMap(ctx, s.Namespace, s.Name, func(found *corev1.ConfigMap) {
		if err := s.event(found, native); err != nil {
			s.Log.Error("the configuration of injection is refused; the last sound one stays", "configMap", s.Namespace+"/"+s.Name,
				"err", err, "has", s.Injector() != nil)
		}
	})
	return nil
}

func (s *Source) event(configMap *corev1.ConfigMap, native bool) (err error) {
	defer func() { s.found(err) }()
	if configMap == nil {
		return errors.New("it is not there")
	}
	return s.take(configMap.Data, native)
}

// take makes an Injector from a ConfigMap's data.
func (s *Source) take(data map[string]string, native bool) error {
	i, err := read(data, native, s.Domain)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.current = i
	s.mu.Unlock()
	if own := strings.TrimSuffix(i.ClusterDomain(), "."); !strings.EqualFold(own, s.Domain) {
		s.Log.Warn("short names of services will not work for the injected sidecars: their domain is not that of discovery",
			"clusterDomain", own, "domain", s.Domain)
	}
	for _, doubt := range i.Doubts() {
		s.Log.Warn("a setting of the configuration of injection has no effect", "reason", doubt)
	}
	s.Log.Info("Pods are injected by a new configuration", "native", native)
	return nil
}

// read reads the keys config and template. native, which the version of the cluster decides, and domain are used where
// the configuration does not set them.
func read(data map[string]string, native bool, domain string) (*inject.Injector, error) {
	config, err := inject.ReadConfig(data["config"])
	if err != nil {
		return nil, err
	}
	if config.NativeSidecar == nil {
		config.NativeSidecar = &native
	}
	config.ClusterDomain = cmp.Or(config.ClusterDomain, domain)
	text, given := data["template"]
	if !given {
		text = inject.DefaultTemplate
	}
	return inject.New(config, text)
}
