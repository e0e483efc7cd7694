package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/internal/interceptor/envoy"
)

const defaultXDSAddress = "keda-add-ons-http-interceptor-xds.keda:5678"

func newBootstrap() *cobra.Command {
	o := envoy.BootstrapOptions{}
	var file string
	c := &cobra.Command{
		Use:   "bootstrap",
		Short: "Print an Envoy bootstrap for kedify-proxy",
		Long: `Prints what "envoy -c" takes for an Envoy that is programmed by an interceptor: a kedify-proxy.

It speaks HTTP/2 in the clear, unless the files for mutual TLS are given; their names are those
on Envoy's side. Envoy reads these when it starts; with --secrets-dir also when they change.`,
		Example: `  interceptor bootstrap --namespaces demo > envoy.yaml && envoy -c envoy.yaml`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// With the default, requests would go to other interceptors than those that
			// the routes come from.
			mutualTLS := o.CAFile != "" && o.CertFile != "" && o.KeyFile != ""
			if mutualTLS && o.XDSAddress != defaultXDSAddress && !cmd.Flags().Changed("fallback-address") {
				return fmt.Errorf("--xds-address is %s, and --fallback-address is left out; expected the fallback Service of the same interceptors, or --fallback-address= for none", o.XDSAddress)
			}
			text, err := bootstrapFile(o, file)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&o.XDSAddress, "xds-address", defaultXDSAddress, "host:port of the interceptor's xDS Service")
	f.StringVar(&o.AdminAddress, "admin-address", "0.0.0.0:9901", "host:port where everybody gets /ready, /stats, /config_dump and the like, and nothing else; [::]:9901 for IPv6 and IPv4")
	f.Uint16Var(&o.AdminPort, "admin-port", 9902, "port of Envoy's whole admin interface, on 127.0.0.1; whoever reaches it can stop Envoy")
	f.Uint16Var(&o.ReadyPort, "ready-port", 9903, "port of /ready for the kubelet, on the host of --admin-address")
	f.StringSliceVar(&o.Namespaces, "namespaces", nil, "namespaces whose HTTPScaledObjects are served, with commas between (default: all)")
	f.BoolVar(&o.SotW, "sotw", false, "ask for the state of the world (GRPC) and not for changes (DELTA_GRPC)")
	f.Int64Var(&o.MaxConnections, "max-connections", 50000, "connections of clients that may be open at a time")
	f.Uint64Var(&o.MaxHeap, "max-heap-bytes", 0, "memory that this Envoy may use; from nine tenths of it new requests are answered 503; 0 for no limit")
	f.StringVar(&o.CAFile, "ca-file", "", "authority of the interceptor's certificate, in PEM, for mutual TLS")
	f.StringVar(&o.CertFile, "cert-file", "", "certificate of this Envoy, in PEM, for mutual TLS")
	f.StringVar(&o.KeyFile, "key-file", "", "key of this Envoy, in PEM, for mutual TLS")
	f.StringVar(&o.ServerName, "server-name", "", "name that the interceptor's certificate must have (default: the host of --xds-address)")
	f.StringVar(&o.SecretsDir, "secrets-dir", "", "directory with "+envoy.CertificateFileName+" and "+envoy.AuthorityFileName+", by which Envoy reads the files for mutual TLS again when they change")
	f.StringVar(&o.FallbackAddress, "fallback-address", "keda-add-ons-http-interceptor-fallback.keda:8081", "with mutual TLS: host:port of the interceptor's fallback Service, to which requests without an endpoint go; required if --xds-address is set. Without mutual TLS, or when empty, the interceptor says where they go")
	f.StringVar(&file, "file", bootstrapFileName, "what to print: "+bootstrapFileName+", or one of the files of --secrets-dir")
	return c
}

const bootstrapFileName = "envoy.yaml"

// bootstrapFile returns one of the files that an Envoy starts with.
func bootstrapFile(o envoy.BootstrapOptions, name string) ([]byte, error) {
	if name == bootstrapFileName {
		return envoy.Bootstrap(o)
	}
	certificate, authority, err := envoy.SecretFiles(o)
	switch {
	case name != envoy.CertificateFileName && name != envoy.AuthorityFileName:
		return nil, fmt.Errorf("--file is %q; expected %s, %s or %s", name, bootstrapFileName, envoy.CertificateFileName, envoy.AuthorityFileName)
	case err != nil:
		return nil, err
	case name == envoy.CertificateFileName:
		return certificate, nil
	default:
		return authority, nil
	}
}
