package plane

import (
	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/inject"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Layers returns the places of a mesh that set the ProxyConfig of a workload, for injection.
func Layers(mesh *model.Mesh, namespace string, labels map[string]string) (out []inject.Layer, err error) {
	for _, l := range mesh.ProxyConfigLayers(namespace, labels) {
		fields, err := config.ProxyConfigFields(l)
		if err != nil {
			return nil, err
		}
		out = append(out, inject.Layer{From: l.From, Over: l.Selected, Config: fields})
	}
	return out, nil
}
