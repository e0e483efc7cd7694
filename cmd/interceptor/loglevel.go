package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
)

const logLevelPath = "/debug/log-level"

// logLevelHandler answers with the level of the log, and changes it by PUT until the
// process ends. Only connections to a loopback address may change it: `kubectl exec` and
// `kubectl port-forward` make these, and no other pod can. The address of the peer would
// not tell, since the sidecar of a service mesh connects from loopback for others.
func logLevelHandler(level *slog.LevelVar, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+logLevelPath, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, strings.ToLower(level.Level().String()))
	})
	mux.HandleFunc("PUT "+logLevelPath, func(w http.ResponseWriter, r *http.Request) {
		if local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); local == nil || !local.IP.IsLoopback() {
			http.Error(w, "the level of the log can be changed only at a loopback address: by kubectl exec or kubectl port-forward", http.StatusForbidden)
			return
		}
		text, err := io.ReadAll(io.LimitReader(r.Body, 100))
		var to slog.Level
		if err == nil {
			err = to.UnmarshalText([]byte(strings.TrimSpace(string(text))))
		}
		if err != nil {
			http.Error(w, fmt.Sprintf("level of the log: %v; expected debug, info, warn or error", err), http.StatusBadRequest)
			return
		}
		from := level.Level()
		level.Set(to)
		log.Log(r.Context(), max(to, slog.LevelWarn), "the level of the log was changed", "from", from, "to", to)
		fmt.Fprintln(w, strings.ToLower(to.String()))
	})
	return mux
}

func newLogLevel() *cobra.Command {
	var admin string
	cmd := &cobra.Command{
		Use:     "log-level [debug|info|warn|error]",
		Short:   "Print or change the level of the log of a running interceptor",
		Long:    "Prints the level of the log of a running interceptor, or changes it until that interceptor ends.",
		Example: "  kubectl -n keda exec POD -- /interceptor log-level debug",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			method := http.MethodGet
			if len(args) > 0 {
				method = http.MethodPut
			}
			response, err := askAdmin(cmd.Context(), method, admin, logLevelPath, strings.Join(args, ""))
			if err != nil {
				return err
			}
			defer response.Body.Close()
			_, err = io.Copy(cmd.OutOrStdout(), response.Body)
			return err
		},
	}
	addAdminFlag(cmd, &admin)
	return cmd
}
