package content

import (
	"crypto/sha256"
	"encoding/hex"
	"runtime"
	"sync"
	"weak"

	"google.golang.org/protobuf/encoding/protowire"
)

// forms holds resources that were changed for clients that refuse a part of them, as long as a reference to them
// exists.
type forms struct {
	mu   sync.Mutex
	live map[formKey]weak.Pointer[Resource]
	size int
}

type formKey struct {
	of   *Resource
	with digest // of the bodies of its virtual hosts
}

// maxForms bounds the bytes of all forms: otherwise clients that each refuse a different part could fill the memory.
const maxForms = 64 << 20

// of returns r with these virtual hosts; nil if there are too many such forms.
func (f *forms) of(r *Resource, d *divided, bodies [][]byte) *Resource {
	h := sha256.New()
	size := len(d.base[0]) + len(d.base[1])
	for _, body := range bodies {
		sum := sha256.Sum256(body)
		h.Write(sum[:])
		size += len(body) + 8
	}
	key := formKey{r, digest(h.Sum(nil))}
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.live[key].Value(); known != nil {
		return known
	}
	if f.size+size > maxForms {
		return nil
	}
	value := make([]byte, 0, size)
	value = append(value, d.base[0]...)
	for _, body := range bodies {
		value = protowire.AppendBytes(protowire.AppendTag(value, fieldVirtualHosts, protowire.BytesType), body)
	}
	value = append(value, d.base[1]...)
	content := append(make([]byte, 0, len(d.typeURL)+len(value)+8), d.typeURL...)
	content = protowire.AppendBytes(protowire.AppendTag(content, 2, protowire.BytesType), value)
	made := &Resource{Name: r.Name, Content: content, hash: sha256.Sum256(value)}
	made.Version = hex.EncodeToString(made.hash[:8])
	if f.live == nil {
		f.live = map[formKey]weak.Pointer[Resource]{}
	}
	f.live[key] = weak.Make(made)
	f.size += len(content)
	size = len(content)
	runtime.AddCleanup(made, func(key formKey) { f.forget(key, size) }, key)
	return made
}

func (f *forms) forget(key formKey, size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.size -= size
	if f.live[key].Value() == nil {
		delete(f.live, key)
	}
}
