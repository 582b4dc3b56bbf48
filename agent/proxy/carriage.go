package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/handoff"
	"github.com/pilotlight/pilotlight/agent/lossy"
	"github.com/pilotlight/pilotlight/agent/procnet"
	"github.com/pilotlight/pilotlight/agent/relay"
	"github.com/pilotlight/pilotlight/agent/sds"
	"github.com/pilotlight/pilotlight/agent/status"
)

// Left is the error of Run when another image of the agent is to go on: Envoy lives, and what is Handed has all that is known of it.
type Left struct{ handoff.Next }

func (l *Left) Error() string { return "the agent is replaced by " + l.Image.Name() }

// carried is the state that goes along. Another meaning of a field, or a further one, needs another handoff.Format.
type carried struct {
	Supervisor   agent.Carried     `json:"Supervisor"`
	Envoys       envoy.Carried     `json:"Envoys"`
	Slot         envoy.CarriedSlot `json:"Slot"`
	Sockets      map[string]int    `json:"Sockets"` // by the name of their port
	Secrets      map[string][]byte `json:"Secrets"`
	Certificates []cert.Carried    `json:"Certificates"` // of each set
	Rotated      string            `json:"Rotated"`      // what of the certificates needs a new epoch: see desired.feed
	Relay        []relay.Carried   `json:"Relay"`
	Past         status.Past       `json:"Past"`
	WasReady     bool              `json:"WasReady"`
	Upgrades     status.Upgrades   `json:"Upgrades"`
	Stderr       lossy.Carried     `json:"Stderr"`     // lines of the agent's log
	Stdout       lossy.Carried     `json:"Stdout"`     // lines of Envoy's stdout
	Enrollment   int               `json:"Enrollment"` // the lock of its directory; 0 for none
	Shown        cert.Contents     `json:"Shown"`      // to discovery
	Path         string            `json:"Path"`       // of the binary that was asked for
}

// carriage is what a run takes over from another image, and what it leaves to the next one.
type carriage struct {
	handed    *handoff.Handed // taken over; nil for none
	from      carried         // likewise
	inherited map[string]net.Listener

	leaving *agent.Left // nil until the supervisor has left
	files   handoff.Files
	sockets map[string]int
	lock    int // of the enrolment; 0 for none
	faults  []error

	r       *running
	relayed *relayed
	doors   func() // closes the ports of the agent, which end last; nil if none are open
	alone   func() // ends what attend has begun
}

// newCarriage decodes what is handed over; nil for a start. It is checked as far as that is possible without a use of it.
func newCarriage(handed *handoff.Handed) (*carriage, error) {
	c := &carriage{handed: handed, sockets: map[string]int{}, inherited: map[string]net.Listener{}}
	if handed == nil {
		return c, nil
	}
	if err := handoff.Strict(handed.Body, &c.from); err != nil {
		return nil, fmt.Errorf("the state of the agent before: %w", err)
	}
	if err := c.from.Supervisor.Check(); err != nil {
		return nil, fmt.Errorf("the supervisor's state of the agent before: %w", err)
	}
	for name, number := range c.from.Sockets {
		file, err := handed.Files.Take(number, name)
		if err != nil {
			return nil, err
		}
		if c.inherited[name], err = status.Inherit(file); err != nil {
			return nil, fmt.Errorf("adopt the socket %s: %w", name, err)
		}
	}
	return c, nil
}

// at marks a step of taking over.
func (c *carriage) at(step handoff.Step) {
	if c.handed != nil {
		handoff.At(step)
	}
}

// keep is called before a listener is closed. It keeps its socket for the next image, if one comes.
func (c *carriage) keep(name string, l net.Listener) bool {
	if !c.holds() {
		return false
	}
	socket, err := status.Outlast(l)
	if c.leaving == nil {
		return false // the image before goes on with the socket
	}
	if err == nil {
		c.sockets[name], err = c.files.Give(socket)
	}
	if err != nil {
		c.faults = append(c.faults, fmt.Errorf("keep the socket %s: %w", name, err))
	}
	return true
}

// keepEnrollment is called before the directory of the certificate is let go. It keeps its lock for the next image, if one comes.
func (c *carriage) keepEnrollment(e *enrolled) {
	if c.leaving == nil {
		return
	}
	number, err := c.files.Give(e.Lock())
	if err != nil {
		c.faults = append(c.faults, fmt.Errorf("keep the directory of the certificate: %w", err))
		return
	}
	c.lock = number
}

// enrollmentLock returns the lock of the image before; nil for none.
func (c *carriage) enrollmentLock() (*os.File, error) {
	if c.from.Enrollment == 0 {
		return nil, nil
	}
	return c.handed.Files.Take(c.from.Enrollment, "the lock of the certificate's directory")
}

// slot claims a slot, or goes on to own the one of the image before.
func (c *carriage) slot(config Config) (*envoy.Slot, error) {
	if c.handed == nil {
		return envoy.Claim(config.Dir.Path, config.Log)
	}
	return envoy.AdoptSlot(c.from.Slot, c.from.Envoys, c.handed.Files, config.Log)
}

// adopt takes over the Envoys and what is known of them. From then on there is no way back to the image before.
func (c *carriage) adopt(r *running, first *agent.Config) error {
	if c.handed == nil {
		return nil
	}
	gone, err := r.child.Adopt(c.from.Envoys, c.from.Supervisor.Living(), c.handed.Files)
	if err != nil {
		return err
	}
	for _, epoch := range gone {
		c.from.Supervisor.Exits = append(c.from.Supervisor.Exits, agent.CarriedExit{
			Epoch: epoch, Exit: agent.Exit{Code: -1, Unseen: true, Reason: "while the agent was replaced"},
		})
	}
	first.Certificates = c.from.Rotated
	for i, set := range r.config.Certificates {
		if i < len(c.from.Certificates) {
			set.Resume(c.from.Certificates[i])
		}
	}
	r.report.journal.Resume(c.from.Past)
	r.report.wasReady = c.from.WasReady
	r.rotated.Store(&c.from.Rotated)
	r.upgrader.path = cmp.Or(c.from.Path, r.upgrader.path)
	r.upgrader.resume(c.from.Upgrades, c.handed.Failure)
	if changed := changedArguments(r.child); changed != "" {
		r.config.Log.Warn("a setting is not in force", "setting", changed)
	}
	r.process.Stderr.Resume(c.from.Stderr)
	r.process.Printed.Resume(c.from.Stdout)
	c.handed.Accept()
	if err := r.slot.Renew(); err != nil {
		r.config.Log.Warn("record of Envoy processes not written: if this agent is killed, they are not cleaned up", "dir", r.slot.Name(), "err", err)
	}
	return nil
}

// changedArguments names those that the running Envoy does not have, for people; empty for none.
func changedArguments(of *envoy.Proxy) string {
	changed := of.ChangedArguments()
	if len(changed) == 0 {
		return ""
	}
	return "arguments of Envoy (" + strings.Join(changed, ", ") + "): with its next start or handover"
}

// pack puts together what the next image takes over, once everything of this run has ended.
func (c *carriage) pack(image *os.File, unable error) (*Left, error) {
	r := c.r
	state := carried{
		Supervisor: c.leaving.Carried, Sockets: c.sockets, Secrets: r.secrets.server.Newest().Carried(),
		Past: r.report.journal.Past(), WasReady: r.report.wasReady, Upgrades: r.upgrader.upgrades(),
		Path: image.Name(), Enrollment: c.lock, Stderr: r.process.Stderr.Carry(), Stdout: r.process.Printed.Carry(),
	}
	if rotated := r.rotated.Load(); rotated != nil {
		state.Rotated = *rotated
	}
	for _, set := range r.config.Certificates {
		state.Certificates = append(state.Certificates, set.Carry())
	}
	if c.relayed != nil {
		state.Relay = c.relayed.relay.Carry()
		if m := c.relayed.material; m != nil {
			state.Shown = m.carry()
		}
	}
	state.Upgrades.NotInForce = nil // the next image finds it out
	var err1, err2 error
	state.Envoys, err1 = r.child.Carry(&c.files)
	state.Slot, err2 = r.slot.Carry(&c.files, state.Envoys)
	if err := errors.Join(append(c.faults, err1, err2)...); err != nil {
		return nil, err
	}
	self, err := Self()
	if err != nil {
		return nil, err
	}
	handed, err := handoff.Pack(self, &c.files, state)
	if err != nil {
		return nil, err
	}
	return &Left{handoff.Next{Handed: handed, Image: image, Unable: unable}}, nil
}

// Self identifies this process for the state that is handed over.
func Self() (handoff.Process, error) {
	facts, err := procnet.ReadStat(os.Getpid())
	return handoff.Process{Pid: os.Getpid(), Start: facts.Start}, err
}

// listenOwner opens a socket of the slot for its own Envoys, or goes on with an inherited one.
func (c *carriage) listenOwner(name string, slot *envoy.Slot, log *slog.Logger) (net.Listener, error) {
	at := status.Place{Path: slot.Socket(name), Refuse: slot.OnlyOwn, Remake: slot.Restore, Log: log}
	if l := c.inherited[name]; l != nil {
		delete(c.inherited, name)
		return status.InheritOwner(l, at), nil
	}
	return status.ListenOwner(at)
}

// carriedSecrets returns the secrets of the image before: the workload's own, and those of files.
func (c *carriage) carriedSecrets() (own, files sds.Secrets) {
	own, files = sds.Secrets{}, sds.Secrets{}
	for name, secret := range sds.Resume(c.from.Secrets) {
		if name == sds.Certificate || name == sds.Roots {
			own[name] = secret
		} else {
			files[name] = secret
		}
	}
	return own, files
}

// supervisor returns the state that the supervisor goes on with; nil for a start.
func (c *carriage) supervisor() *agent.Carried {
	if c.handed == nil {
		return nil
	}
	return &c.from.Supervisor
}

// holds reports whether the slot goes on to be owned: by the next image, or by the one before while this one has not taken over.
func (c *carriage) holds() bool { return c.leaving != nil || c.handed != nil && !c.handed.Accepted() }

// first returns the configuration to begin with. If it cannot be read while Envoy runs, Envoy keeps its own.
func (c *carriage) first(want desired, log *slog.Logger) (agent.Config, error) {
	first, err := want.read(c.from.Supervisor.Desired)
	if err != nil && c.handed != nil {
		log.Warn("configuration for Envoy not read: the running Envoy keeps its own", "err", err)
		return c.from.Supervisor.Desired, nil
	}
	return first, err
}
