package clusteraccess

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const token = "eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl"

// pair returns a certificate that has signed itself, and its key, in PEM.
func pair(t testing.TB) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "eu"}, NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, of, of, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text})
}

// kubeconfig returns one with these keys of its cluster and its user.
func kubeconfig(cluster, user string) string {
	return `apiVersion: v1
kind: Config
current-context: eu
contexts: [{name: eu, context: {cluster: eu, user: reader, namespace: demo}}, {name: old, context: {cluster: old, user: old}}]
clusters: [{name: eu, cluster: {` + cluster + `}}, {name: old, cluster: {server: "http://old", insecure-skip-tls-verify: true}}]
users: [{name: old, user: {exec: {command: old}}}, {name: reader, user: {` + user + `}}]
preferences: {}
`
}

const server = "server: https://eu.example.com:6443"

// encoded returns a value of a kubeconfig or of Argo CD's.
func encoded(text []byte) string { return base64.StdEncoding.EncodeToString(text) }

func TestReadTakesTokensAndCertificates(t *testing.T) {
	certificate, key := pair(t)
	both := append(append(append([]byte(nil), certificate...), '\n'), key...)
	ofToken := &Access{Server: "https://eu.example.com:6443", CA: certificate, Token: token}
	ofCertificate := &Access{Server: "https://eu.example.com:6443", ServerName: "kubernetes", CA: certificate, Certificate: both}
	ca := ", certificate-authority-data: " + encoded(certificate)
	for name, c := range map[string]struct {
		data map[string]string
		want *Access
	}{
		"a kubeconfig with a token":          {map[string]string{"kubeconfig": kubeconfig(server+ca, "token: "+token)}, ofToken},
		"under the key of Cluster API":       {map[string]string{"value": kubeconfig(server+ca, `token: "`+token+`\n"`)}, ofToken},
		"a kubeconfig with a certificate":    {map[string]string{"kubeconfig": kubeconfig(server+ca+", tls-server-name: kubernetes", "client-certificate-data: "+encoded(certificate)+", client-key-data: "+encoded(key))}, ofCertificate},
		"Argo CD's with a token":             {map[string]string{"name": "eu", "server": "https://eu.example.com:6443", "config": `{"bearerToken": "` + token + `", "tlsClientConfig": {"insecure": false, "caData": "` + encoded(certificate) + `"}}`}, ofToken},
		"Argo CD's with a certificate":       {map[string]string{"server": "https://eu.example.com:6443\n", "config": `{"execProviderConfig": null, "tlsClientConfig": {"serverName": "kubernetes", "caData": "` + encoded(certificate) + `", "certData": "` + encoded(certificate) + `", "keyData": "` + encoded(key) + `"}}`}, ofCertificate},
		"the system's authorities, a path":   {map[string]string{"kubeconfig": kubeconfig("server: https://rancher.example.com/k8s/clusters/c-1", "token: "+token)}, &Access{Server: "https://rancher.example.com/k8s/clusters/c-1", Token: token}},
		"what Kubernetes adds to the Secret": {map[string]string{"kubeconfig": kubeconfig(server+ca, "token: "+token), "ca.crt": "x", "namespace": "x", "token": "x"}, ofToken},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(bytesOf(c.data))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func bytesOf(data map[string]string) map[string][]byte {
	of := map[string][]byte{}
	for key, text := range data {
		of[key] = []byte(text)
	}
	return of
}

// Each way that is refused is named, with what to write instead, and no value is shown.
func TestReadRefusesByName(t *testing.T) {
	certificate, key := pair(t)
	const commands = "make a token in that cluster (docs/how-to/step-rollouts.md)"
	const inLine = "put its content under "
	of := func(cluster, user string) map[string]string {
		return map[string]string{"kubeconfig": kubeconfig(cluster, user)}
	}
	user := func(text string) map[string]string { return of(server, text) }
	cluster := func(text string) map[string]string { return of(server+", "+text, "token: "+token) }
	argoCD := func(text string) map[string]string {
		return map[string]string{"server": "https://eu.example.com", "config": text}
	}
	for name, c := range map[string]struct {
		data map[string]string
		want []string
	}{
		"exec":                          {user("exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [s3cret], interactiveMode: Never}"), []string{"kubeconfig: user reader: exec: the plugin runs no program", commands}},
		"exec beside a token":           {user("token: s3cret, exec: {command: aws}"), []string{"exec: the plugin runs no program"}},
		"auth-provider":                 {user("auth-provider: {name: gcp, config: {access-token: s3cret}}"), []string{"auth-provider gcp: ", commands}},
		"a file with a token":           {user("tokenFile: /var/run/s3cret"), []string{"tokenFile: the plugin reads no files: ", inLine + "token"}},
		"a file with a certificate":     {user("client-certificate: /s3cret"), []string{"client-certificate: the plugin reads no files: ", inLine + "client-certificate-data"}},
		"a file with a key":             {user("client-key: /s3cret"), []string{"client-key: the plugin reads no files: ", inLine + "client-key-data"}},
		"impersonation":                 {user("token: s3cret, as: s3cret"), []string{"as (impersonation): ", commands}},
		"impersonation of groups":       {user("token: s3cret, as-groups: [s3cret]"), []string{"as (impersonation): "}},
		"impersonation of a UID":        {user("token: s3cret, as-uid: s3cret"), []string{"as (impersonation): "}},
		"impersonation with extra":      {user("token: s3cret, as-user-extra: {a: [s3cret]}"), []string{"as (impersonation): "}},
		"a password":                    {user("username: s3cret, password: s3cret"), []string{"username and password: API servers take none", commands}},
		"no credentials":                {user(""), []string{"it has no credentials: want user reader: token, or user reader: client-certificate-data and user reader: client-key-data", commands}},
		"a certificate without a key":   {user("client-certificate-data: " + encoded(certificate)), []string{"user reader: client-key-data is missing"}},
		"a key without a certificate":   {user("client-key-data: " + encoded(key)), []string{"user reader: client-certificate-data is missing"}},
		"a certificate that is none":    {user("client-certificate-data: czNjcmV0, client-key-data: " + encoded(key)), []string{"client-certificate-data and user reader: client-key-data: want a certificate and its key in PEM"}},
		"a token in two lines":          {user(`token: "s3cret\ns3cret"`), []string{"user reader: token: want a bearer token without spaces and line breaks"}},
		"unverified TLS":                {cluster("insecure-skip-tls-verify: true"), []string{"cluster eu: insecure-skip-tls-verify: anyone could take the token: ", "certificate-authority-data"}},
		"a file with an authority":      {cluster("certificate-authority: /s3cret"), []string{"certificate-authority: the plugin reads no files: ", inLine + "certificate-authority-data"}},
		"an authority that is none":     {cluster("certificate-authority-data: czNjcmV0"), []string{"cluster eu: certificate-authority-data: want a certificate in PEM"}},
		"a proxy":                       {cluster("proxy-url: http://s3cret@proxy"), []string{"proxy-url: ", "--egress-proxy"}},
		"no server":                     {of("", "token: s3cret"), []string{"cluster eu: server: want the URL of the API server"}},
		"http":                          {of("server: http://eu.example.com", "token: s3cret"), []string{"cluster eu: server: http://eu.example.com is not encrypted: want a URL that begins with https://"}},
		"a user in the URL":             {of("server: https://s3cret@eu.example.com", "token: s3cret"), []string{"cluster eu: server: the URL has a user before its host"}},
		"a query":                       {of(`server: "https://eu.example.com?s3cret"`, "token: s3cret"), []string{"want a URL without a query"}},
		"a number for an address":       {of("server: https://2130706433", "token: s3cret"), []string{"cluster eu: server: the URL's host is neither a name"}},
		"a key that is not known":       {user("tokn: s3cret"), []string{`kubeconfig: users[1].user.tokn: the key is not known: did you mean "token"?`}},
		"no YAML":                       {map[string]string{"kubeconfig": "s3cret: ["}, []string{"kubeconfig: no valid YAML"}},
		"another kind":                  {map[string]string{"value": "kind: Secret"}, []string{`value: kind "Secret": want a kubeconfig`}},
		"no current context":            {map[string]string{"kubeconfig": strings.Replace(kubeconfig(server, "token: s3cret"), "current-context: eu", "current-context: us", 1)}, []string{`current-context "us": want the name of one of contexts`}},
		"a context without a cluster":   {map[string]string{"kubeconfig": strings.Replace(kubeconfig(server, "token: s3cret"), "cluster: eu,", "cluster: us,", 1)}, []string{`the context eu names cluster "us": want one of clusters`}},
		"a context without a user":      {map[string]string{"kubeconfig": strings.Replace(kubeconfig(server, "token: s3cret"), "user: reader", "user: other", 1)}, []string{`the context eu names user "other": want one of users`}},
		"a text that is too long":       {map[string]string{"kubeconfig": "# " + strings.Repeat("x", maxText)}, []string{"bytes: want 262144 at most"}},
		"nothing":                       {map[string]string{"password": "s3cret"}, []string{"it has no kubeconfig: want one under the key kubeconfig (or value), or the keys server and config"}},
		"two kubeconfigs":               {map[string]string{"kubeconfig": "s3cret", "value": "s3cret"}, []string{"it has a kubeconfig twice"}},
		"a kubeconfig beside Argo CD's": {map[string]string{"kubeconfig": "s3cret", "server": "https://eu.example.com"}, []string{"beside the keys server and config"}},
		"Argo CD's exec":                {argoCD(`{"execProviderConfig": {"command": "argocd-k8s-auth", "args": ["s3cret"]}}`), []string{"config: execProviderConfig: the plugin runs no program", commands}},
		"Argo CD's AWS":                 {argoCD(`{"awsAuthConfig": {"clusterName": "s3cret"}}`), []string{"config: awsAuthConfig: the plugin asks no cloud", commands}},
		"Argo CD's unverified TLS":      {argoCD(`{"bearerToken": "s3cret", "tlsClientConfig": {"insecure": true}}`), []string{"config: tlsClientConfig.insecure: ", "tlsClientConfig.caData"}},
		"Argo CD's proxy":               {argoCD(`{"bearerToken": "s3cret", "proxyUrl": "http://s3cret"}`), []string{"config: proxyUrl: ", "--egress-proxy"}},
		"Argo CD's password":            {argoCD(`{"username": "s3cret", "password": "s3cret"}`), []string{"config: username and password: ", commands}},
		"Argo CD's own cluster":         {map[string]string{"server": "https://kubernetes.default.svc", "config": `{"tlsClientConfig": {"insecure": false}}`}, []string{"it has no credentials: want config: bearerToken", commands}},
		"Argo CD's without a server":    {map[string]string{"config": `{"bearerToken": "s3cret"}`}, []string{"server: want the URL of the API server"}},
		"Argo CD's with a typo":         {argoCD(`{"bearertoken": "s3cret"}`), []string{`config: bearertoken: the key is not known: did you mean "bearerToken"?`}},
		"Argo CD's without a config":    {map[string]string{"server": "https://eu.example.com"}, []string{"it has no credentials"}},
		"Argo CD's that is too long":    {argoCD(strings.Repeat(" ", maxText+1)), []string{"config: 262145 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(bytesOf(c.data))
			if err == nil {
				t.Fatalf("it is read: %+v", got)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error is\n%v\nand lacks\n%s", err, want)
				}
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows a value: %v", err)
			}
		})
	}
}

// Whatever a Secret holds, Read returns an access that is complete, or an error of one line
// that people can read.
func FuzzRead(f *testing.F) {
	certificate, key := pair(f)
	f.Add("kubeconfig", []byte(kubeconfig(server+", certificate-authority-data: "+encoded(certificate), "token: "+token)), []byte(nil))
	f.Add("value", []byte(kubeconfig(server, "client-certificate-data: "+encoded(certificate)+", client-key-data: "+encoded(key))), []byte(nil))
	f.Add("server", []byte("https://eu.example.com"), []byte(`{"bearerToken": "a", "tlsClientConfig": {"caData": "`+encoded(certificate)+`"}}`))
	f.Add("kubeconfig", []byte(kubeconfig("insecure-skip-tls-verify: true", "exec: {command: a}")), []byte(nil))
	f.Add("kubeconfig", []byte("a: &a [1]\nb: [*a, *a]"), []byte("null"))
	f.Add("kubeconfig", []byte("clusters: [{}]\ncontexts: [{}]\nusers: [{}]\ncurrent-context: \"\""), []byte("[]"))
	f.Add("server", []byte("https://[::1%25eth0]"), []byte(`{"awsAuthConfig": {}}`))
	f.Fuzz(func(t *testing.T, name string, text, config []byte) {
		data := map[string][]byte{name: text}
		if config != nil {
			data["config"] = config
		}
		got, err := Read(data)
		if err != nil {
			if got != nil || err.Error() == "" || len(err.Error()) > 4096 {
				t.Errorf("%+v, and an error of %d bytes: %.200s", got, len(err.Error()), err)
			}
			return
		}
		if !strings.HasPrefix(strings.ToLower(got.Server), "https://") || got.Token == "" && got.Certificate == nil || strings.ContainsAny(got.Token, " \r\n") {
			t.Errorf("it is read as %+v", got)
		}
	})
}
