package plane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/validation"
)

// validate judges files that a caller sends, beside what all sources have sent, for the proxies that are connected.
func (p *Plane) validate(ctx context.Context, text []byte) (any, error) {
	sent, err := validation.Received(text)
	if err != nil {
		return nil, err
	}
	files := make([]file.File, len(sent))
	for i, f := range sent {
		if files[i] = (file.File{Name: f.Name, Data: f.Data}); f.Error != "" {
			files[i].Err = errors.New(f.Error)
		}
	}
	groups, err := p.server.Groups(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for what is served: %w", err)
	}
	objects, problems := file.Check(files)
	live := validation.Live{
		Settings: p.server.Mesh, Groups: groups, Connected: p.proxies.Proxies(), Also: p.issuerNotes, Class: p.config.Ingress.Class, Now: time.Now(),
	}
	for _, s := range p.server.Statuses() {
		if s.Lacking || !whole([]discovery.SourceStatus{s}) {
			live.Late = append(live.Late, s.Name)
		}
	}
	return live.Judge(objects, file.WithConfigMaps(problems, files)), nil
}
