package proxy

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/bootstrap"
)

// desired holds the inputs of the configuration that Envoy is to run.
type desired struct {
	binary string
	source Source
	params bootstrap.Params
}

// read computes the configuration from the current inputs. A bootstrap that is the same as before is the same string: it may be long.
func (d desired) read(before agent.Config) (agent.Config, error) {
	binary, err := envoy.Fingerprint(d.binary)
	if err != nil {
		return agent.Config{}, err
	}
	text, format, err := d.source.bootstrap(d.params)
	if err == nil && len(text) > longestInput {
		return agent.Config{}, fmt.Errorf("the bootstrap has %d bytes, want at most %d: have Envoy get the rest by path_config_source, or from discovery",
			len(text), longestInput)
	}
	config := agent.Config{Bootstrap: before.Bootstrap, Format: format, Binary: binary}
	if string(text) != before.Bootstrap {
		config.Bootstrap = string(text)
	}
	return config, err
}

// feed sends the desired configuration to the supervisor, which has first already: at each tick of the watched files,
// and when certificates need a new epoch. An input that cannot be read is logged once, and changes nothing.
func (d desired) feed(
	ctx context.Context, first agent.Config, ticks <-chan struct{}, certificates <-chan string, rotated func(string), configCh chan<- agent.Config,
	log *slog.Logger,
) {
	last, said := first, ""
	for {
		for changed := false; !changed; {
			next := last
			select {
			case <-ctx.Done():
				return
			case next.Certificates = <-certificates:
				rotated(next.Certificates)
			case <-ticks:
				read, err := d.read(last)
				if err != nil {
					if said != err.Error() {
						log.Warn("configuration for Envoy not read: the running Envoy keeps its own", "err", err)
					}
					said = err.Error()
					continue
				}
				said = ""
				read.Certificates = last.Certificates
				next = read
			}
			changed = next != last
			last = next
		}
		select {
		case configCh <- last:
		case <-ctx.Done():
			return
		}
	}
}
