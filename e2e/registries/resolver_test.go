//go:build registries

package registries

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// resolver is the DNS server of the machine, for one second at a time: every name has one address.
type resolver struct {
	address netip.Addr
	silent  atomic.Bool
}

// resolver starts one, and makes it that of every process of this mount namespace.
func (w *world) resolver(address string) *resolver {
	w.T.Helper()
	r := &resolver{address: netip.MustParseAddr(address)}
	at := w.Addresses + "53"
	packets, err := net.ListenPacket("udp", net.JoinHostPort(at, "53"))
	w.check(err)
	w.T.Cleanup(func() { packets.Close() })
	go func() {
		buffer := make([]byte, 4096)
		for {
			size, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			if r.silent.Load() {
				continue
			}
			if answer := r.answer(buffer[:size]); answer != nil {
				_, _ = packets.WriteTo(answer, from)
			}
		}
	}()
	conf := filepath.Join(w.Dir, "resolv.conf")
	w.check(os.WriteFile(conf, []byte("nameserver "+at+"\noptions timeout:1 attempts:1\n"), 0o644))
	w.check(unix.Mount(conf, "/etc/resolv.conf", "", unix.MS_BIND, ""))
	return r
}

func (r *resolver) answer(question []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
			Body:   &dnsmessage.AResource{A: r.address.As4()},
		}}
	}
	out, _ := m.Pack() // what was unpacked can be packed
	return out
}
