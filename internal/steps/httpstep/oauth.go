package httpstep

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/kedify/argo-rollouts-plugin/internal/steps"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/outbound"
	"github.com/kedify/argo-rollouts-plugin/internal/steps/secret"
)

const (
	// maxTokens is how many tokens are kept.
	maxTokens = 256
	// tokenKept is how long a token without a known expiry is used.
	tokenKept = time.Hour
)

// tokenKey is a hash of all that a token depends on.
type tokenKey [sha256.Size]byte

// keptToken returns the last token for a key, and whether it is still valid.
func (k *Kind) keptToken(key tokenKey) (token *oauth2.Token, isValid bool) {
	value, _ := k.tokens.Get(key)
	token, _ = value.(*oauth2.Token)
	return token, token != nil && k.now().Before(token.Expiry.Add(-time.Minute))
}

// keepToken keeps a token for longer than it is valid: what it was is kept out of messages.
func (k *Kind) keepToken(key tokenKey, token *oauth2.Token) {
	if token.Expiry.IsZero() {
		token.Expiry = k.now().Add(tokenKept)
	}
	k.tokens.Add(key, token, max(token.Expiry.Sub(k.now()), 0)+tokenKept)
}

// oauthClient returns a client of OAuth2, and the key of its token in tokens.
func (s *session) oauthClient(ctx context.Context, a *auth) (client clientcredentials.Config, key tokenKey, err error) {
	client.Scopes = a.scopes
	if client.TokenURL, err = s.value(ctx, a.tokenURL); err != nil {
		return client, key, err
	}
	if client.ClientID, client.ClientSecret, err = s.pair(ctx, a); err != nil {
		return client, key, err
	}
	text, err := json.Marshal([]any{client.TokenURL, client.ClientID, client.ClientSecret, client.Scopes})
	return client, sha256.Sum256(text), err
}

// token returns the header Authorization for a client of OAuth2. kept is true for a token
// from the cache. An error means that the step's request has not been made.
func (s *session) token(ctx context.Context, a *auth, r outbound.Request) (authorization string, key tokenKey, kept bool, err error) {
	config, key, err := s.oauthClient(ctx, a)
	if err != nil {
		return "", key, false, err
	}
	token, kept := s.kind.keptToken(key)
	if !kept {
		client := &http.Client{
			Transport:     tokenTransport{s.kind.client, r},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
		if token, err = config.Token(context.WithValue(ctx, oauth2.HTTPClient, client)); err != nil {
			return "", key, false, s.tokenError(outbound.Describe(http.MethodPost, config.TokenURL), err)
		}
		if n := len(token.AccessToken); n > secret.MaxValue {
			return "", key, false, &steps.Error{Final: true, Cause: fmt.Errorf("the token has %d bytes: want %d at most", n, secret.MaxValue)}
		}
		s.kind.keepToken(key, token)
	}
	s.reader.Redactor.Add(token.AccessToken)
	return token.Type() + " " + token.AccessToken, key, kept, nil
}

// tokenError says why there is no token. The step's request has not been sent then.
func (s *session) tokenError(what string, err error) error {
	var answered *oauth2.RetrieveError
	if errors.As(err, &answered) && answered.Response.StatusCode/100 != 2 {
		err = s.judge(&answer{what: what, Response: &outbound.Response{Status: answered.Response.StatusCode, Header: answered.Response.Header, Body: answered.Body}})
	}
	var known *steps.Error
	if errors.As(err, &known) {
		return &steps.Error{Final: known.Final, RetryAfter: known.RetryAfter, Cause: known.Cause}
	}
	// The text of a url.Error repeats the URL.
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("%s: %s", what, s.reader.Redactor.Quote(err.Error(), maxQuoted))
}

// tokenTransport makes the requests of package oauth2 by package outbound, with the hosts and
// certificates of another request.
type tokenTransport struct {
	client *outbound.Client
	like   outbound.Request
}

func (t tokenTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	r := t.like
	r.Method, r.URL, r.Header, r.Body, r.NoRedirects = request.Method, request.URL.String(), request.Header, body, true
	response, err := t.client.Do(request.Context(), r)
	defer response.Release() // package oauth2 reads 1 MiB at most
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: strings.TrimSpace(fmt.Sprintf("%d %s", response.Status, http.StatusText(response.Status))), StatusCode: response.Status,
		Header: response.Header, Body: io.NopCloser(bytes.NewReader(response.Body)), ContentLength: int64(len(response.Body)), Request: request,
	}, nil
}
