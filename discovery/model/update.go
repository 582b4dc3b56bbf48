package model

import (
	"reflect"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// Update is sent by a Source: the new content of some groups. The server applies an update as a whole, so objects that
// belong together change together.
type Update struct {
	Groups map[string]Group // by a key that the source chooses; an empty group deletes
	Synced bool             // the source has now sent all objects that existed when it started

	// Certain says that the source has itself held what it removes, as long as it may have been an accident, or that it need not
	// be: it is not held again.
	Certain bool

	// Emptied says that the source is left without any object, which may be an accident: its policies stay until they are back, or
	// until an operator releases the source, and the rest is held, however little it is.
	Emptied bool

	// Stands are keys of records that exist, of which there is nothing new to send: their last groups stay.
	Stands []string
}

// Group is the smallest unit that a source replaces: one configuration object, one registered service, or
// one workload.
type Group struct {
	Services  []*Service
	Workloads []*Workload
	Objects   []*Object

	// Faults describe the malformed parts of the record. A group with faults only does not delete its key: the last
	// valid group is kept.
	Faults []string

	// Unread marks a group with Faults only as one of a part of the source, such as a file or a kind of object, that cannot
	// be read: nobody knows which records it has. Until an empty group ends the part, the source is not whole: no group
	// is deleted because a new run has not sent it again.
	Unread bool

	// Fetched marks a group whose record is asked for elsewhere, such as a key set: with Faults only it was not to be had, or not
	// usable there, and nobody here has made a mistake.
	Fetched bool

	// Lapsed marks a group with less in it than before, because the registry no longer lists a part of the record and has
	// not said that it was removed. If most endpoints of a source lapse at once, they are held.
	Lapsed bool

	// Stranded marks a group that is kept for the next start as one that its source, which was left without any object, no longer has.
	Stranded bool

	// Waits marks a group as made before its source knew all that the record names, such as a Secret. What is remembered of it from
	// before the start stays until the source sends it without the mark, or is whole.
	Waits bool
}

// Empty reports whether the group deletes its key.
func (g Group) Empty() bool { return g.Len() == 0 && len(g.Faults) == 0 }

// Malformed reports whether no part of the record could be read.
func (g Group) Malformed() bool { return g.Len() == 0 && len(g.Faults) > 0 }

// Closed reports whether the group is a policy with an error, in its closed form: an earlier good form is better.
func (g Group) Closed() bool {
	for _, o := range g.Objects {
		if !o.Closed {
			return false
		}
	}
	return len(g.Objects) > 0
}

// Policies reports whether the group has a policy, which may keep somebody out.
func (g Group) Policies() bool { return slices.ContainsFunc(g.Objects, isPolicy) }

// Len returns the number of services, workloads and objects in the group.
func (g Group) Len() int { return len(g.Services) + len(g.Workloads) + len(g.Objects) }

// Guests returns how many of its services are guests: see RightGuest.
func (g Group) Guests() (n int) {
	for _, s := range g.Services {
		if s.Right == RightGuest {
			n++
		}
	}
	return n
}

// WithoutGuests returns the group without services that are guests.
func (g Group) WithoutGuests() Group {
	if g.Guests() > 0 {
		g.Services = slices.DeleteFunc(slices.Clone(g.Services), func(s *Service) bool { return s.Right == RightGuest })
	}
	return g
}

// Covers reports whether the group has a replacement for each service and object of another group.
func (g Group) Covers(other Group) bool {
	for _, s := range other.Services {
		if !slices.ContainsFunc(g.Services, func(o *Service) bool { return o.key() == s.key() }) {
			return false
		}
	}
	for _, o := range other.Objects {
		if !slices.ContainsFunc(g.Objects, func(p *Object) bool { return p.Key() == o.Key() }) {
			return false
		}
	}
	return true
}

// Same reports whether both groups have equal content in the same order. Faults are not compared: they do not affect
// the mesh.
func (g Group) Same(other Group) bool {
	return slices.EqualFunc(g.Services, other.Services, func(a, b *Service) bool { return a == b || reflect.DeepEqual(a, b) }) &&
		slices.EqualFunc(g.Workloads, other.Workloads, sameWorkload) && slices.EqualFunc(g.Objects, other.Objects, sameObject)
}

func sameObject(a, b *Object) bool {
	if a == b {
		return true
	}
	if !reflect.DeepEqual(a.Meta, b.Meta) || !a.Warnings.Same(b.Warnings) {
		return false
	}
	x, known := a.Spec.(proto.Message)
	y, also := b.Spec.(proto.Message)
	return a.Spec == b.Spec || known && also && proto.Equal(x, y)
}

// Settings reports whether the group holds settings of the mesh and nothing else.
func (g Group) Settings() bool {
	for _, o := range g.Objects {
		switch o.Spec.(type) {
		case *meshconfig.MeshConfig, *meshconfig.MeshNetworks, *security.JWTRule, *networking.HTTPRoute:
		default:
			return false
		}
	}
	return len(g.Services)+len(g.Workloads) == 0 && len(g.Objects) > 0
}

// Hosts yields each host of the group's services and ServiceEntries; a host may occur twice.
func (g Group) Hosts(yield func(string) bool) {
	for _, s := range g.Services {
		if !yield(s.Host) {
			return
		}
	}
	for _, o := range g.Objects {
		if entry, ok := o.Spec.(*networking.ServiceEntry); ok {
			for _, host := range entry.Hosts {
				if !yield(host) {
					return
				}
			}
		}
	}
}

// Addresses yields each address of the group's services and ServiceEntries; an address may occur twice.
func (g Group) Addresses(yield func(string) bool) {
	for _, s := range g.Services {
		for _, address := range s.Addresses {
			if !yield(address) {
				return
			}
		}
	}
	for _, o := range g.Objects {
		if entry, ok := o.Spec.(*networking.ServiceEntry); ok {
			for _, address := range entry.Addresses {
				if !yield(Address(address)) {
					return
				}
			}
		}
	}
}

// Change describes the cause of a new Mesh.
type Change struct {
	Since time.Time // arrival of the first change
	Keys  []string  // keys of the groups that changed, as source/key, sorted; only the first few
	Count int       // number of all of them
}
