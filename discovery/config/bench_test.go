package config

import (
	"bytes"
	"fmt"
	"testing"
)

// services returns n ServiceEntry objects of ten endpoints each.
func services(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata:\n  name: service-%04d\n  namespace: default\n"+
			"spec:\n  hosts:\n  - service-%04d.default.svc.cluster.local\n  location: MESH_INTERNAL\n  resolution: STATIC\n"+
			"  ports:\n  - number: 80\n    name: http\n    protocol: HTTP\n    targetPort: 8080\n  endpoints:\n", i, i)
		for j := range 10 {
			fmt.Fprintf(&b, "  - address: 10.%d.%d.%d\n    labels:\n      version: v%d\n    ports:\n      http: 8080\n", j+1, i/250, i%250+1, j%2+1)
		}
	}
	return b.Bytes()
}

// BenchmarkDecode reads a thousand services of ten endpoints.
func BenchmarkDecode(b *testing.B) {
	data := services(1000)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if objects, problems := Decode("f", data); len(objects) != 1000 {
			b.Fatal(problems)
		}
	}
}
