// claimload makes claims and measures how fast they are bound: by an allocator, or (the floor) by itself, with the writes
// that an allocator needs and nothing else. It is the load of `cargo lab bench claims`; plain HTTP, no client library, so that
// on a machine with few cores most of them are left to what is measured.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var (
	server      = flag.String("server", "", "URL of the API server")
	ca          = flag.String("ca", "", "its CA")
	cert        = flag.String("cert", "", "client certificate")
	key         = flag.String("key", "", "and its key")
	namespace   = flag.String("namespace", "default", "where the claims are made")
	prefix      = flag.String("prefix", "c", "what their names begin with")
	kind        = flag.String("kind", "cluster-api", "cluster-api: IPAddressClaims of an InClusterIPPool; metal3: IPClaims of metal3's IPPool")
	pool        = flag.String("pool", "p", "the pool")
	poolUID     = flag.String("pool-uid", "", "its uid, for the floor's owner references")
	count       = flag.Int("count", 1000, "how many claims")
	concurrency = flag.Int("concurrency", 32, "how many requests at once")
	mode        = flag.String("mode", "claims", "claims: make them and watch; one-by-one: the next one when the last one is bound; floor: bind them itself; list: read all claims and addresses, count of them a page")
	first       = flag.Int("first", 0, "floor: number of the first address in 10.0.0.0/8")
	finalizer   = flag.Bool("finalizer", true, "floor: write the finalizer; without, a policy puts it on")
	limit       = flag.Duration("limit", 20*time.Minute, "when to give up")
)

// A kind of claims: where its objects are, and what they say.
type claimKind struct {
	// The collections of claims and of addresses, without the namespace.
	group, claims, addresses string
	// What an allocator puts on a claim first.
	finalizer string
	claim     func(name string) string
	address   func(name, claimUID, address string) string
	// The status of a claim that has this address.
	status func(name, address string) string
}

var clusterAPI = claimKind{
	group: "/apis/ipam.cluster.x-k8s.io/v1beta2/", claims: "ipaddressclaims", addresses: "ipaddresses",
	finalizer: "ipam.cluster.x-k8s.io/ReleaseAddress",
	claim: func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"ipam.cluster.x-k8s.io/v1beta2","kind":"IPAddressClaim","metadata":{"name":%q},`+
			`"spec":{"poolRef":{"apiGroup":"ipam.cluster.x-k8s.io","kind":"InClusterIPPool","name":%q}}}`, name, *pool)
	},
	address: func(name, claimUID, address string) string {
		return fmt.Sprintf(`{"apiVersion":"ipam.cluster.x-k8s.io/v1beta2","kind":"IPAddress","metadata":{"name":%[1]q,`+
			`"finalizers":["ipam.cluster.x-k8s.io/ProtectAddress"],"ownerReferences":[`+
			`{"apiVersion":"ipam.cluster.x-k8s.io/v1beta2","kind":"IPAddressClaim","name":%[1]q,"uid":%[2]q,"controller":true,"blockOwnerDeletion":true},`+
			`{"apiVersion":"ipam.cluster.x-k8s.io/v1alpha2","kind":"InClusterIPPool","name":%[3]q,"uid":%[4]q,"controller":false,"blockOwnerDeletion":true}]},`+
			`"spec":{"claimRef":{"name":%[1]q},"poolRef":{"apiGroup":"ipam.cluster.x-k8s.io","kind":"InClusterIPPool","name":%[3]q},`+
			`"address":%[5]q,"prefix":8,"gateway":"10.0.0.1"}}`, name, claimUID, *pool, *poolUID, address)
	},
	status: func(name, address string) string {
		return fmt.Sprintf(`{"addressRef":{"name":%q},"conditions":[{"type":"Ready","status":"True","reason":"AddressAllocated",`+
			`"message":%q,"lastTransitionTime":%q}]}`, name, address, time.Now().UTC().Format(time.RFC3339))
	},
}

// metal3's own claims. Their addresses are named by the address.
var metal3 = claimKind{
	group: "/apis/ipam.metal3.io/v1alpha1/", claims: "ipclaims", addresses: "ipaddresses",
	finalizer: "ipclaim.ipam.metal3.io",
	claim: func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"ipam.metal3.io/v1alpha1","kind":"IPClaim","metadata":{"name":%q},`+
			`"spec":{"pool":{"name":%q,"namespace":%q}}}`, name, *pool, *namespace)
	},
	address: func(name, claimUID, address string) string {
		return fmt.Sprintf(`{"apiVersion":"ipam.metal3.io/v1alpha1","kind":"IPAddress","metadata":{"name":%[7]q,`+
			`"finalizers":["ipaddress.ipam.metal3.io"],"ownerReferences":[`+
			`{"apiVersion":"ipam.metal3.io/v1alpha1","kind":"IPClaim","name":%[1]q,"uid":%[2]q,"controller":true,"blockOwnerDeletion":true},`+
			`{"apiVersion":"ipam.metal3.io/v1alpha1","kind":"IPPool","name":%[3]q,"uid":%[4]q,"controller":false,"blockOwnerDeletion":true}]},`+
			`"spec":{"claim":{"name":%[1]q,"namespace":%[6]q},"pool":{"name":%[3]q,"namespace":%[6]q},`+
			`"address":%[5]q,"prefix":8,"gateway":"10.0.0.1"}}`,
			name, claimUID, *pool, *poolUID, address, *namespace, metal3Name(address))
	},
	status: func(_, address string) string {
		return fmt.Sprintf(`{"address":{"name":%q,"namespace":%q}}`, metal3Name(address), *namespace)
	},
}

func metal3Name(address string) string { return *pool + "-" + strings.ReplaceAll(address, ".", "-") }

// The kind in use.
var ours claimKind

func collection(plural string) string { return ours.group + "namespaces/" + *namespace + "/" + plural }

type meta struct {
	Name            string   `json:"name"`
	UID             string   `json:"uid"`
	ResourceVersion string   `json:"resourceVersion"`
	Finalizers      []string `json:"finalizers"`
}

type object struct {
	Metadata meta `json:"metadata"`
	Status   struct {
		AddressRef struct {
			Name string `json:"name"`
		} `json:"addressRef"`
		Address struct {
			Name string `json:"name"`
		} `json:"address"`
	} `json:"status"`
}

// What is printed.
type result struct {
	Claims    int     `json:"claims"`
	Seconds   float64 `json:"seconds"`
	Rate      float64 `json:"rate"`
	CreateSec float64 `json:"createSeconds"`
	P50       float64 `json:"p50"`
	P90       float64 `json:"p90"`
	P99       float64 `json:"p99"`
	Max       float64 `json:"max"`
}

var client *http.Client

func main() {
	flag.Parse()
	log.SetFlags(0)
	log.SetPrefix("claimload: ")
	time.AfterFunc(*limit, func() { log.Fatalf("not done within %v: %d of %d bound", *limit, done.Load(), *count) })
	ours = map[string]claimKind{"cluster-api": clusterAPI, "metal3": metal3}[*kind]
	if ours.claims == "" {
		log.Fatalf("unknown kind %q", *kind)
	}
	connect()
	switch *mode {
	case "claims":
		claims(*concurrency, false)
	case "one-by-one":
		claims(1, true)
	case "floor":
		floor()
	case "list":
		list()
	default:
		log.Fatalf("unknown mode %q", *mode)
	}
}

func connect() {
	pem, err := os.ReadFile(*ca)
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	pair, err := tls.LoadX509KeyPair(*cert, *key)
	check(err)
	client = &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}},
		MaxIdleConnsPerHost: 1024,
		// One connection for each request under way, as most clients of many have it.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Sends a request; answers what the API server made of the object.
func send(method, path, kind string, body []byte) object {
	for attempt := 0; ; attempt++ {
		request, err := http.NewRequest(method, *server+path, bytes.NewReader(body))
		check(err)
		request.Header.Set("Content-Type", kind)
		answer, err := client.Do(request)
		if err != nil {
			log.Fatalf("%s %s: %v", method, path, err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		check(err)
		// The server asks for patience.
		if answer.StatusCode == http.StatusTooManyRequests && attempt < 20 {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if answer.StatusCode/100 != 2 {
			log.Fatalf("%s %s: %s %s", method, path, answer.Status, text)
		}
		var made object
		check(json.Unmarshal(text, &made))
		return made
	}
}

func name(n int) string { return fmt.Sprintf("%s-%06d", *prefix, n) }

func create(n int) object {
	return send("POST", collection(ours.claims), "application/json", []byte(ours.claim(name(n))))
}

var done atomic.Int64

// Makes the claims and watches until all of them are bound.
func claims(workers int, wait bool) {
	var list struct {
		Metadata meta `json:"metadata"`
	}
	answer, err := client.Get(*server + collection(ours.claims) + "?limit=1")
	check(err)
	check(json.NewDecoder(answer.Body).Decode(&list))
	answer.Body.Close()

	sent := make([]time.Time, *count)
	took := make([]time.Duration, *count)
	bound := make([]chan struct{}, *count)
	place := make(map[string]int, *count)
	for n := range *count {
		place[name(n)] = n
		bound[n] = make(chan struct{})
	}
	var lock sync.Mutex
	all := make(chan struct{})
	go watch(list.Metadata.ResourceVersion, func(seen object, at time.Time) {
		n, known := place[seen.Metadata.Name]
		if !known || seen.Status.AddressRef.Name == "" && seen.Status.Address.Name == "" {
			return
		}
		lock.Lock()
		defer lock.Unlock()
		if took[n] == 0 {
			took[n] = at.Sub(sent[n])
			close(bound[n])
			if int(done.Add(1)) == *count {
				close(all)
			}
		}
	})
	begin := time.Now()
	var next atomic.Int64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for n := int(next.Add(1)) - 1; n < *count; n = int(next.Add(1)) - 1 {
				lock.Lock()
				sent[n] = time.Now()
				lock.Unlock()
				create(n)
				if wait {
					<-bound[n]
				}
			}
		})
	}
	group.Wait()
	created := time.Since(begin)
	<-all
	report(time.Since(begin), created, took)
}

// Follows the claims; a watch that ends goes on where it ended.
func watch(version string, seen func(object, time.Time)) {
	for {
		answer, err := client.Get(fmt.Sprintf("%s%s?watch=true&resourceVersion=%s", *server, collection(ours.claims), version))
		check(err)
		lines := bufio.NewReaderSize(answer.Body, 1<<20)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break
			}
			at := time.Now()
			var event struct {
				Type   string `json:"type"`
				Object object `json:"object"`
			}
			check(json.Unmarshal(line, &event))
			if event.Type == "ERROR" {
				log.Fatalf("the watch says %s", line)
			}
			version = event.Object.Metadata.ResourceVersion
			seen(event.Object, at)
		}
		answer.Body.Close()
	}
}

// Makes each claim and does an allocator's writes for it.
func floor() {
	took := make([]time.Duration, *count)
	var next atomic.Int64
	var group sync.WaitGroup
	begin := time.Now()
	for range *concurrency {
		group.Go(func() {
			for n := int(next.Add(1)) - 1; n < *count; n = int(next.Add(1)) - 1 {
				sent := time.Now()
				bind(n, create(n))
				took[n] = time.Since(sent)
				done.Add(1)
			}
		})
	}
	group.Wait()
	report(time.Since(begin), 0, took)
}

func bind(n int, claim object) {
	path := collection(ours.claims) + "/" + claim.Metadata.Name
	const merge = "application/merge-patch+json"
	if *finalizer {
		claim = send("PATCH", path, merge, fmt.Appendf(nil,
			`{"metadata":{"uid":%q,"resourceVersion":%q,"finalizers":[%q]}}`,
			claim.Metadata.UID, claim.Metadata.ResourceVersion, ours.finalizer))
	}
	number := *first + n
	address := fmt.Sprintf("10.%d.%d.%d", number>>16&255, number>>8&255, number&255)
	send("POST", collection(ours.addresses), "application/json",
		[]byte(ours.address(claim.Metadata.Name, claim.Metadata.UID, address)))
	send("PATCH", path+"/status", merge, fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q},"status":%s}`,
		claim.Metadata.UID, claim.Metadata.ResourceVersion, ours.status(claim.Metadata.Name, address)))
}

// Reads all claims and all addresses, both at once, and throws them away.
func list() {
	var group sync.WaitGroup
	begin := time.Now()
	for _, plural := range []string{ours.claims, ours.addresses} {
		group.Go(func() { pages(ours.group + plural) })
	}
	group.Wait()
	all := time.Since(begin)
	report(all, 0, []time.Duration{all})
}

func pages(path string) {
	const field = `"continue":"`
	next := ""
	for {
		answer, err := client.Get(fmt.Sprintf("%s%s?limit=%d&continue=%s", *server, path, *count, url.QueryEscape(next)))
		check(err)
		text, err := io.ReadAll(answer.Body)
		check(err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			log.Fatalf("%s: %s %s", path, answer.Status, text)
		}
		at := bytes.Index(text, []byte(field))
		if at < 0 {
			return
		}
		rest := text[at+len(field):]
		next = string(rest[:bytes.IndexByte(rest, '"')])
		// The last page has the field too, and it is empty.
		if next == "" {
			return
		}
	}
}

func report(all, created time.Duration, took []time.Duration) {
	sort.Slice(took, func(a, b int) bool { return took[a] < took[b] })
	// Nearest rank.
	at := func(percent int) float64 {
		rank := max((len(took)*percent+99)/100, 1)
		return float64(took[rank-1].Microseconds()) / 1000
	}
	check(json.NewEncoder(os.Stdout).Encode(result{
		Claims: len(took), Seconds: all.Seconds(), Rate: float64(len(took)) / all.Seconds(), CreateSec: created.Seconds(),
		P50: at(50), P90: at(90), P99: at(99), Max: at(100),
	}))
}
