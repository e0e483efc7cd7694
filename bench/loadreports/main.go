// Command loadreports reports requests as an interceptor does. `make bench-scaling` feeds
// the scaler with it: each second each of many objects has one request more.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/loadreport"
)

func main() {
	listen := flag.String("listen", "", "address to listen on")
	namespace := flag.String("namespace", "", "the objects' namespace")
	name := flag.String("name", "", "the objects' names, with a verb for their numbers from 0")
	objects := flag.Int("objects", 0, "how many objects there are")
	flag.Parse()
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+loadreport.Path, func(w http.ResponseWriter, r *http.Request) {
		source := loadreport.Source{ID: fmt.Sprint(time.Now().UnixNano())}
		for i := range *objects {
			source.Objects = append(source.Objects, loadreport.Object{Namespace: *namespace, Name: fmt.Sprintf(*name, i)})
		}
		next := time.NewTicker(loadreport.Interval)
		defer next.Stop()
		for {
			message := loadreport.Message{Sources: []loadreport.Source{source}}
			if json.NewEncoder(w).Encode(message) != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-next.C:
			case <-r.Context().Done():
				return
			}
			for i := range source.Objects {
				source.Objects[i].Requests++
			}
		}
	})
	fmt.Fprintln(os.Stderr, "loadreports:", http.ListenAndServe(*listen, mux))
	os.Exit(1)
}
