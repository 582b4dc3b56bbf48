package envoy

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
	"github.com/pilotlight/pilotlight/agent/health"
	"github.com/pilotlight/pilotlight/agent/lossy"
	"github.com/pilotlight/pilotlight/agent/procnet"
)

// Carrier passes open files on to another image of the agent.
type Carrier interface {
	Give(file syscall.Conn) (number int, err error) // the file is passed on under a number
	Take(number int, name string) (*os.File, error) // a file that was given, to be closed by the caller
	Keep(number int, name string) (*os.File, error) // likewise, with the same descriptor
	GiveSame(file *os.File) (number int, err error) // the file is passed on with the descriptor that it has
}

// none is the number of a file that there is not.
const none = -1

// Carried is what another image of the agent needs to know of the Envoys of a Proxy.
type Carried struct {
	Processes []CarriedProcess `json:"Processes"`
	Addresses []netip.AddrPort `json:"Addresses"` // see Proxy.addresses
	Good      int              `json:"Good"`      // the binary that served last
	Print     string           `json:"Print"`     // its fingerprint
}

// CarriedProcess is an Envoy that runs. Numbers of files are those of a Carrier.
type CarriedProcess struct {
	Epoch   int       `json:"Epoch"`
	Pid     int       `json:"Pid"`
	Start   uint64    `json:"Start"` // procnet.Stat.Start
	Started time.Time `json:"Started"`

	Family        hotrestart.BaseID `json:"Family"`
	Dir           string            `json:"Dir"` // of its sockets
	Token         string            `json:"Token"`
	Bootstrap     string            `json:"Bootstrap"` // path
	YAML          bool              `json:"YAML"`
	Admin         string            `json:"Admin"` // path
	Gate          string            `json:"Gate"`  // the secret; empty for none
	GateAddresses []netip.AddrPort  `json:"GateAddresses"`

	Memory     int `json:"Memory"` // files
	Tie        int `json:"Tie"`
	Stderr     int `json:"Stderr"`
	Stdout     int `json:"Stdout"`
	AdminInode int `json:"AdminInode"` // likewise; 0 for none

	Drained   bool                        `json:"Drained"`
	Succeeded bool                        `json:"Succeeded"`
	Health    health.State                `json:"Health"`
	Begun     []byte                      `json:"Begun"`   // of a line of stderr
	Printed   []byte                      `json:"Printed"` // of a line of stdout
	Recent    []Record                    `json:"Recent"`
	Rejected  map[string]CarriedRejection `json:"Rejected"`
}

// CarriedRejection is the last rejection of a type.
type CarriedRejection struct {
	health.Rejection
	Names []string `json:"Names"`
}

// Carry gives the files of every Envoy to a carrier. The orders Leave must have been carried out.
func (p *Proxy) Carry(to Carrier) (Carried, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := Carried{Addresses: p.addresses, Good: none}
	var errs []error
	if p.good != nil {
		number, err := to.Give(p.good.file)
		errs = append(errs, err)
		out.Good, out.Print = number, p.good.print
	}
	for _, c := range p.processes {
		one, err := c.carry(to)
		errs = append(errs, err)
		out.Processes = append(out.Processes, one)
	}
	if err := errors.Join(errs...); err != nil {
		return out, fmt.Errorf("pass on the files of Envoy: %w", err)
	}
	return out, nil
}

func (c *process) carry(to Carrier) (CarriedProcess, error) {
	facts, err := procnet.ReadStat(c.pid)
	one := CarriedProcess{
		Epoch: c.launch.Epoch, Pid: c.pid, Start: facts.Start, Started: c.started,
		Family: c.sockets.BaseID, Dir: c.sockets.Dir, Token: c.sockets.Token, Bootstrap: c.files.bootstrap, YAML: c.files.yaml, Admin: c.files.admin,
		Drained: c.drained.Load(), Succeeded: c.succeeded.Load(), Memory: none, Stdout: none,
	}
	if c.gate != nil {
		one.Gate, one.GateAddresses = c.gate.secret, c.gate.addresses
	}
	c.healthMu.Lock()
	one.Health = c.health
	c.healthMu.Unlock()
	c.output.carry(&one)
	errs := []error{err}
	give := func(file *os.File) int {
		number, err := to.Give(file)
		errs = append(errs, err)
		return number
	}
	if inode := c.admin.inode.Load(); inode != nil {
		one.AdminInode = give(inode)
	}
	one.Tie, one.Stderr = give(c.tie.write), give(c.stderr.read)
	if c.printed != nil {
		one.Stdout, one.Printed = give(c.printed.read), c.stdout.Begun()
	}
	if c.files.memory != nil {
		one.Memory = give(c.files.memory)
	}
	return one, errors.Join(errs...)
}

// Adopt takes the Envoys over that an earlier image of the agent has left. It returns the epochs whose process is no child of the
// agent any more, or another one than it was. Nothing is read from Envoy before Run. After an error nothing has changed.
func (p *Proxy) Adopt(carried Carried, launches []agent.Launch, from Carrier) (gone []int, err error) {
	p.processes, p.families, p.adopted = map[int]*process{}, map[int]hotrestart.Sockets{}, map[int]*process{}
	p.addresses = carried.Addresses
	if carried.Good != none {
		file, err := from.Take(carried.Good, "envoy")
		if err != nil {
			return nil, fmt.Errorf("adopt Envoy's binary: %w", err)
		}
		p.good = &executable{file, carried.Print}
	}
	for _, launch := range launches {
		i := slices.IndexFunc(carried.Processes, func(one CarriedProcess) bool { return one.Epoch == launch.Epoch })
		if i < 0 {
			gone = append(gone, launch.Epoch)
			continue
		}
		one := carried.Processes[i]
		facts, err := procnet.ReadStat(one.Pid)
		if err != nil || facts.Parent != os.Getpid() || facts.Start != one.Start {
			p.Log.Warn("Envoy not adopted: the process is no child of the agent, or another one than it was", "epoch", one.Epoch, "pid", one.Pid)
			gone = append(gone, launch.Epoch)
			continue
		}
		c, err := p.adopt(one, launch, from)
		if err != nil {
			return nil, fmt.Errorf("adopt Envoy %d: %w", one.Pid, err)
		}
		p.processes[launch.Epoch], p.adopted[launch.Epoch], p.families[launch.Family] = c, c, c.sockets
	}
	return gone, nil
}

func (p *Proxy) adopt(one CarriedProcess, launch agent.Launch, from Carrier) (*process, error) {
	c := &process{
		Proxy: p, launch: launch, pid: one.Pid, started: one.Started, health: one.Health, looked: true,
		files:   files{bootstrap: one.Bootstrap, yaml: one.YAML, admin: one.Admin},
		sockets: hotrestart.Sockets{Dir: one.Dir, Token: one.Token, BaseID: one.Family, Began: one.Started},
		output:  newOutput(p.Output, one.Epoch), admin: NewAdmin(one.Admin), stirred: make(chan struct{}, 1),
	}
	c.admin.Spare = p.Spare
	c.live.Store(true)
	c.drained.Store(one.Drained)
	c.succeeded.Store(one.Succeeded)
	c.output.takeOver(one)
	if one.Gate != "" {
		c.gate = &gate{secret: one.Gate, addresses: one.GateAddresses, reported: true}
		c.gate.opened.Store(true)
	}
	var errs []error
	take := func(number int, name string) *os.File {
		file, err := from.Take(number, name)
		errs = append(errs, err)
		return file
	}
	c.tie = &tie{write: take(one.Tie, "tie")}
	read := []*os.File{take(one.Stderr, "stderr")}
	if one.Stdout != none {
		read = append(read, take(one.Stdout, "stdout"))
		c.stdout = lossy.Resume(p.Stdout, one.Printed)
	}
	if one.AdminInode != 0 {
		c.admin.inode.Store(take(one.AdminInode, "admin"))
	}
	if one.Memory != none {
		c.files.memory = take(one.Memory, "envoy-bootstrap")
	}
	child, err := os.FindProcess(one.Pid)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	c.child, c.pipes = child, read
	return c, nil
}

// ChangedArguments names the arguments that Envoys get from now on and that the running one has otherwise.
func (p *Proxy) ChangedArguments() []string {
	c := p.serving()
	if c == nil {
		return nil
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.pid))
	if err != nil {
		return nil // it has ended: the next one has them
	}
	return p.Options.changedArguments(strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"))
}

// takeAdopted returns the adopted process of an epoch, once; nil for none.
func (p *Proxy) takeAdopted(epoch int) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.adopted[epoch]
	delete(p.adopted, epoch)
	return c
}

// carry adds the last lines.
func (o *output) carry(to *CarriedProcess) {
	o.mu.Lock()
	defer o.mu.Unlock()
	to.Begun, to.Recent = slices.Clone(o.begun), slices.Concat(o.recent[o.oldest:], o.recent[:o.oldest])
	to.Rejected = map[string]CarriedRejection{}
	for typeURL, r := range o.rejected {
		to.Rejected[typeURL] = CarriedRejection{r.Rejection, r.names}
	}
}

func (o *output) takeOver(from CarriedProcess) {
	o.begun, o.recent, o.rejected = from.Begun, from.Recent[max(0, len(from.Recent)-keptLines):], map[string]rejection{}
	for typeURL, r := range from.Rejected {
		o.rejected[typeURL] = rejection{r.Rejection, r.Names}
	}
}
