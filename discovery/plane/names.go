package plane

import (
	"fmt"
	"strconv"
	"strings"
)

// Name is the namespace and the name of an object of the cluster. The zero one is none.
type Name struct{ Namespace, Name string }

// ParseName reads NAMESPACE/NAME; an empty text is none. With an error it returns the text as a name.
func ParseName(text string) (Name, error) {
	namespace, name, _ := strings.Cut(text, "/")
	if text != "" && (namespace == "" || name == "" || strings.Contains(name, "/")) {
		return Name{Name: text}, fmt.Errorf("is %q, want NAMESPACE/NAME", text)
	}
	return Name{namespace, name}, nil
}

// String returns NAMESPACE/NAME; "" for none.
func (n Name) String() string {
	if n == (Name{}) {
		return ""
	}
	return n.Namespace + "/" + n.Name
}

// Names are several of them.
type Names []Name

// ParseNames reads names with commas between them.
func ParseNames(text string) (out Names, err error) {
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		name, err := ParseName(part)
		if err != nil {
			return nil, err
		}
		out = append(out, name)
	}
	return out, nil
}

func (n Names) String() string {
	texts := make([]string, len(n))
	for i, name := range n {
		texts[i] = name.String()
	}
	return strings.Join(texts, ",")
}

// Ports are two ports of a proxy.
type Ports struct{ HTTP, HTTPS uint32 }

// ParsePorts reads HTTP,HTTPS.
func ParsePorts(text string) (Ports, error) {
	first, second, _ := strings.Cut(text, ",")
	a, err := strconv.ParseUint(first, 10, 16)
	b, also := strconv.ParseUint(second, 10, 16)
	if err != nil || also != nil || a == 0 || b == 0 || a == b {
		return Ports{}, fmt.Errorf("is %q, want two ports, such as 80,443", text)
	}
	return Ports{uint32(a), uint32(b)}, nil
}

func (p Ports) String() string { return fmt.Sprintf("%d,%d", p.HTTP, p.HTTPS) }
