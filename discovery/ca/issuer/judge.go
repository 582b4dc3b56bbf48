package issuer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/ca/server"
)

const (
	longestToken = 16 << 10
	skew         = time.Minute // between the issuer's clock and ours
	comeAgain    = 10 * time.Second
	latest       = 253402300799 // the end of the year 9999
)

// foreign is the error for a token of nobody that is known here, with the reason.
func foreign(format string, args ...any) error {
	return fmt.Errorf("%w: %w", server.ErrForeign, fmt.Errorf(format, args...))
}

// judge returns the identity of a token. keys are those of issuers by name; none for one whose file was never good.
func judge(issuers []Issuer, keys map[string][]key, token, trustDomain, root string, now time.Time) (ca.Identity, error) {
	parser := jwt.NewParser(jwt.WithStrictDecoding())
	if strings.Count(token, ".") != 2 {
		return ca.Identity{}, server.ErrForeign
	}
	if len(token) > longestToken {
		return ca.Identity{}, foreign("it has %d bytes, at most %d are allowed", len(token), longestToken)
	}
	all := jwt.MapClaims{}
	t, parts, err := parser.ParseUnverified(token, all)
	switch {
	case err != nil:
		return ca.Identity{}, foreign("it is no JWT: %.200q", err.Error())
	case !slices.Contains(algorithms, t.Method.Alg()):
		return ca.Identity{}, foreign("its alg is %s, want one of %q", t.Method.Alg(), algorithms)
	}
	named, _ := all["iss"].(string)
	at := slices.IndexFunc(issuers, func(i Issuer) bool { return i.Name == named })
	if at < 0 {
		return ca.Identity{}, foreign("its issuer %.200q is not in --caIssuers", named)
	}
	issuer := issuers[at]
	if len(keys[named]) == 0 {
		return ca.Identity{}, &server.Busy{Cause: "not-ready", After: comeAgain, Err: fmt.Errorf("the keys of issuer %q are not known: %s", named, issuer.File)}
	}
	if err = verify(t, parts[0]+"."+parts[1], keys[named]); err == nil {
		err = issuer.fits(all, now)
	}
	if err != nil {
		return ca.Identity{}, fmt.Errorf("the token of issuer %q: %w", named, err)
	}
	return issuer.identify(all, trustDomain, root)
}

// verify returns why a text is not signed: by the key that the token names, or, where it names none, by each that fits.
// The parser could do it, with a call of Validate that makes the linker keep every method of that name: 5 MB of Envoy's
// types.
func verify(t *jwt.Token, text string, keys []key) error {
	id, named := t.Header["kid"].(string)
	_, given := t.Header["kid"]
	_, critical := t.Header["crit"]
	switch {
	case critical:
		return errors.New("has critical headers (crit), and none is known here")
	case given && !named:
		return errors.New("has a kid that is no text")
	}
	tried := 0
	for _, k := range keys {
		if id != "" && id != k.id || !slices.Contains(k.fits, t.Method.Alg()) {
			continue
		}
		if tried++; t.Method.Verify(text, t.Signature, k.public) == nil {
			return nil
		}
	}
	if tried == 0 {
		return fmt.Errorf("none of the %d keys has the kid %.100q and fits the algorithm %s", len(keys), id, t.Method.Alg())
	}
	return fmt.Errorf("is signed by none of the %d keys that fit (kid %.100q, algorithm %s)", tried, id, t.Method.Alg())
}

// fits returns what of time and audience does not fit. A token without an end is refused.
func (i Issuer) fits(all jwt.MapClaims, now time.Time) error {
	for _, of := range []struct {
		name, fault string
		early       bool // it is a time before now, not after
		must        bool
	}{{"exp", "expired at", false, true}, {"nbf", "is not valid before", true, false}, {"iat", "was issued at", true, false}} {
		value, given := all[of.name]
		seconds, is := value.(float64)
		switch {
		case !given && of.must:
			return fmt.Errorf("has no %s, want an end", of.name)
		case given && (!is || seconds < 0 || seconds > latest):
			return fmt.Errorf("has the %s %.40q, want seconds since 1970 before the year 10000", of.name, fmt.Sprint(value))
		case given && of.early && seconds > float64(now.Add(skew).Unix()), given && !of.early && seconds < float64(now.Add(-skew).Unix()):
			return fmt.Errorf("%s %s, and now it is %s", of.fault, time.Unix(int64(seconds), 0).UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		}
	}
	audiences, err := all.GetAudience()
	if err != nil || !slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(i.Audiences, a) }) {
		return fmt.Errorf("is for the audiences %.200q, want one of %q", fmt.Sprint(all["aud"]), i.Audiences)
	}
	return nil
}

// identify returns the identity of checked claims.
func (i Issuer) identify(all map[string]any, trustDomain, root string) (ca.Identity, error) {
	var misfits []string
	for n, identity := range i.Identities {
		id, misfit, err := identity.of(all, trustDomain, root)
		if err != nil {
			return ca.Identity{}, fmt.Errorf("the token of issuer %q fits identities[%d]: %w", i.Name, n, err)
		}
		if misfit == "" {
			return id, nil
		}
		misfits = append(misfits, fmt.Sprintf("identities[%d]: %s", n, misfit))
	}
	return ca.Identity{}, fmt.Errorf("the token of issuer %q fits none of its identities: %s", i.Name, strings.Join(misfits, "; "))
}
