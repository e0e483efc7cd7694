package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kedify/argo-rollouts-plugin/internal/agent"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/uninstall"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

func newUninstall() *cobra.Command {
	var s agent.Settings
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Take back what the agent has done, once no agent runs",
		Long: `Gives Ingresses their own backends back, makes triggers kedify-http again, takes the finalizers from HTTPScaledObjects,
and deletes the kedify-proxies that the agent has made. The HTTPScaledObjects stay, and go with their ScaledObjects.
Scale the agent's Deployment to 0 before. It can be run again, and goes on where it has stopped.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.Namespace == "" {
				return errors.New("--namespace is missing: set it to the namespace of the agent")
			}
			config, err := kube.RESTConfig(fmt.Sprintf("kedify-%s/%s", name, version))
			if err != nil {
				return err
			}
			scheme, err := agent.Scheme()
			if err != nil {
				return err
			}
			c, err := client.New(config, client.Options{Scheme: scheme})
			if err != nil {
				return err
			}
			return uninstall.WithLease(cmd.Context(), config, s.Namespace, func(ctx context.Context) error {
				return uninstall.Run(ctx, c, &s, cmd.OutOrStdout())
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Namespace, "namespace", os.Getenv("POD_NAMESPACE"), "the namespace of the agent; POD_NAMESPACE if it is not given")
	f.StringVar(&s.WebhookConfiguration, "webhook-configuration", "kedify-agent", "the MutatingWebhookConfiguration of the agent")
	return cmd
}
