package catalog

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// TestOrderDoesNotMatter puts and deletes objects of few names at random, and looks at the changes from time to time.
// The sum of all changes equals the groups of a catalog that sees only the objects of the end: no endpoint is lost, and
// no stale one is kept.
func TestOrderDoesNotMatter(t *testing.T) {
	parsed := map[string]any{}
	read := func(text string) any {
		if parsed[text] == nil {
			parsed[text] = parse(t, text)
		}
		return parsed[text]
	}
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 1))
		pick := func(all ...string) string { return all[random.IntN(len(all))] }
		random1 := func() string { return fmt.Sprintf("10.0.0.%d", 1+random.IntN(3)) }
		make1 := func() string {
			switch pick("service", "slice", "slice", "pod", "pod", "node", "namespace") {
			case "service":
				exported := pick("uid: s1", "uid: s1, annotations: {networking.istio.io/exportTo: .}")
				address := pick("10.0.0.1", "10.96.0.1")
				ip := pick("clusterIP: "+address+", clusterIPs: ["+address+"]", "clusterIP: None", "clusterIP: None")
				return strings.NewReplacer("name: web", "name: "+pick("web", "other"), "uid: s1", exported,
					"clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1]", ip).Replace(web)
			case "slice":
				var endpoints []string
				for range random.IntN(3) {
					endpoints = append(endpoints, pick(at(random1()), of(pick("a", "b"), pick("u1", "u2"), random1())))
				}
				return slicing(pick("one", "two"), pick("web", "other"), endpoints...)
			case "pod":
				pod := running(pick("a", "b"), pick("u1", "u2"), random1(), pick("v1", "v2"))
				return strings.NewReplacer("Running", pick("Running", "Running", "Failed"), "namespace: shop", "namespace: "+pick("shop", "shop", "foreign", "strange")).Replace(pod)
			case "node":
				return strings.Replace(n1, "zone: z1", "zone: "+pick("z1", "z2"), 1)
			default:
				return "kind: Namespace\nmetadata: {name: istio-system, labels: {topology.istio.io/network: " + pick("east", "west") + "}}"
			}
		}
		w, objects := newWorld(), map[Key]string{}
		for range 40 {
			text := make1()
			key, _ := KeyOf(read(text))
			if pick("put", "put", "delete") == "put" {
				w.Put(read(text), model.Origin{})
				objects[key] = text
			} else {
				w.Delete(key)
				delete(objects, key)
			}
			if pick("look", "wait") == "look" {
				w.take()
			}
		}
		w.take()
		fresh := newWorld()
		for _, text := range objects {
			fresh.Put(read(text), model.Origin{})
		}
		fresh.take()
		if diff := cmp.Diff(fresh.groups, w.groups, cmp.Comparer(model.Group.Same)); diff != "" {
			t.Fatalf("seed %d (-fresh +told):\n%s", seed, diff)
		}
	}
}
