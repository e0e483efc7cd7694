package smugglingtest

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A proxy without faults passes.
func TestStrictProxyPasses(t *testing.T) {
	_, target := startNaive(t, faults{}, 20*time.Second)
	for name, found := range Run(target, slices.Concat(Benign, Attacks)) {
		t.Errorf("%s:\n\t%s", name, strings.Join(found, "\n\t"))
	}
}

// naiveProxies have one fault each, which attacks exploit, and a case that has to
// reveal it.
var naiveProxies = map[string]struct {
	faults
	caughtBy string
}{
	"takes bare LF":                       {faults{bareLF: true}, "bare LF"},
	"sends folded lines":                  {faults{foldedLines: true}, "folded"},
	"takes a space before the colon":      {faults{spaceBeforeColon: true}, "a space before the colon"},
	"sends any name":                      {faults{anyName: true}, "a name with a space"},
	"sends control characters":            {faults{anyValue: true}, "a NUL"},
	"sends any request line":              {faults{anyRequestLine: true}, "two spaces"},
	"makes dashes of underscores":         {faults{underscores: true}, "a name with an underscore"},
	"goes by the first Host":              {faults{anyHost: true}, "two hosts"},
	"takes headers of any size":           {faults{unlimited: true}, "one header"},
	"goes by the first length":            {faults{firstLength: true}, "two lengths"},
	"goes by the last length":             {faults{lastLength: true}, "two lengths, long first"},
	"reads what there is of a length":     {faults{anyLength: true}, "a list of lengths"},
	"prefers the length to chunks":        {faults{prefersLength: true}, "chunks, and a length short of"},
	"sends chunks and a length":           {faults{prefersChunks: true}, "chunks first, then a length"},
	"takes anything with chunked in it":   {faults{anyEncoding: true}, "chunked twice"},
	"ignores other encodings":             {faults{otherEncoding: true}, "an unknown encoding"},
	"ignores encodings behind controls":   {faults{otherEncoding: true, anyValue: true}, "chunked after a vertical tab"},
	"unfolds chunked beside a length":     {faults{foldedLines: true, prefersChunks: true}, "chunked on a folded line"},
	"reads the size of a chunk as C does": {faults{anyChunkSize: true}, "a chunk size in base 16 said so"},
	"needs no CRLF behind a chunk":        {faults{anyChunkEnd: true}, "a chunk longer than it says"},
	"sends extensions with LF":            {faults{anyExtension: true}, "a chunk extension with LF"},
	"adds the trailer to the header":      {faults{trailers: true}, "a length in the trailer"},
	"takes off what Connection names":     {faults{hopByHop: true}, "a length that is hop-by-hop"},
	"expects no body of a GET":            {faults{getHasNoBody: true}, "a body of a GET"},
	"expects no body after Expect":        {faults{expectNoBody: true}, "a body after Expect"},
	"expects no body after any Expect":    {faults{expectNoBody: true, anyExpect: true}, "an expectation that is none"},
	"relays after CONNECT or Upgrade":     {faults{tunnels: true}, "an upgrade that is not taken"},
	"sends all to one application":        {faults{ignoresHost: true}, "a request to another host"},
	"writes HTTP/2 as it is":              {faults{verbatim: true}, "h2: a value with a request"},
}

// uncaught are the attacks that reveal no fault of any naive proxy here, with the
// reason.
var uncaught = map[string]string{}

func TestEveryAttackCatchesANaiveProxy(t *testing.T) {
	var running sync.WaitGroup
	var mu sync.Mutex
	catches := map[string][]string{} // proxies, by case
	for proxy, naive := range naiveProxies {
		_, target := startNaive(t, naive.faults, 4*time.Second)
		running.Go(func() {
			found := Run(target, slices.Concat(Benign, Attacks))
			mu.Lock()
			defer mu.Unlock()
			for name, faults := range found {
				catches[name] = append(catches[name], proxy)
				t.Logf("a proxy that %s: %s: %.300s", proxy, name, strings.Join(faults, "; "))
			}
			if found[naive.caughtBy] == nil {
				t.Errorf("a proxy that %s passes %q", proxy, naive.caughtBy)
			}
		})
	}
	running.Wait()
	for _, c := range Attacks {
		why, known := uncaught[c.Name]
		switch caught := catches[c.Name]; {
		case len(caught) == 0 && !known:
			t.Errorf("%q catches no naive proxy: write one that it does, or say in uncaught why there is none", c.Name)
		case len(caught) > 0 && known:
			t.Errorf("%q is said to catch no naive proxy (%s), and catches %q", c.Name, why, caught)
		}
	}
	for name := range uncaught {
		if !slices.ContainsFunc(Attacks, func(c Case) bool { return c.Name == name }) {
			t.Errorf("%q, said to catch no naive proxy, is no attack", name)
		}
	}
}

// A proxy that accepts no connection is faulty: that is no refusal of an attack, be
// it in HTTP/1.1 or in HTTP/2.
func TestProxyThatTakesNoConnectionIsFaulty(t *testing.T) {
	_, target := startNaive(t, faults{}, time.Second)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target.Address = nobody.Addr().String()
	_ = nobody.Close() // no client has connected to it
	found := Run(target, Attacks)
	for _, c := range Attacks {
		if !slices.ContainsFunc(found[c.Name], func(fault string) bool { return strings.Contains(fault, "takes no connection") }) {
			t.Errorf("%s: %q", c.Name, found[c.Name])
		}
	}
}
