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
	"sync"
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
	// tokenKept is how long a token without a known expiry is kept.
	tokenKept = time.Hour
)

// tokenKey is a hash of all that a token depends on.
type tokenKey [sha256.Size]byte

// tokens is a cache of tokens. Its methods are safe for concurrent use.
type tokens struct {
	mu  sync.Mutex
	all map[tokenKey]keptToken
}

type keptToken struct {
	*oauth2.Token
	until time.Time
}

func (t *tokens) get(key tokenKey, now time.Time) *oauth2.Token {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept, ok := t.all[key]
	if !ok || !now.Before(kept.until) {
		return nil
	}
	return kept.Token
}

// last returns the last token for a key, even if it has expired.
func (t *tokens) last(key tokenKey) *oauth2.Token {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[key].Token
}

func (t *tokens) put(key tokenKey, token *oauth2.Token, now time.Time) {
	until := now.Add(tokenKept)
	if !token.Expiry.IsZero() {
		until = token.Expiry.Add(-time.Minute)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for other, kept := range t.all {
		if !now.Before(kept.until) || len(t.all) >= maxTokens {
			delete(t.all, other)
		}
	}
	if t.all == nil {
		t.all = map[tokenKey]keptToken{}
	}
	t.all[key] = keptToken{token, until}
}

func (t *tokens) drop(key tokenKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, key)
}

// oauthClient is a client of OAuth2 with what it needs for a token.
type oauthClient struct {
	clientcredentials.Config
	// key is the key of its token in tokens.
	key tokenKey
}

func (s *session) oauthClient(ctx context.Context, c *call) (client oauthClient, err error) {
	client.Scopes = c.auth.scopes
	if client.TokenURL, err = c.auth.tokenURL.Within(s.pool).RenderLine(s.scope); err != nil {
		return client, &outbound.RefusedError{Cause: fmt.Errorf("tokenURL: %w", err)}
	}
	if client.ClientID, client.ClientSecret, err = s.pair(ctx, c.auth.id, c.auth.secret); err != nil {
		return client, err
	}
	text, err := json.Marshal([]any{client.TokenURL, client.ClientID, client.ClientSecret, client.Scopes})
	client.key = sha256.Sum256(text)
	return client, err
}

// token returns the header Authorization for a client of OAuth2. kept is true for a token
// from the cache. An error means that the step's request has not been made.
func (s *session) token(ctx context.Context, c *call, ca []byte) (authorization string, key tokenKey, kept bool, err error) {
	config, err := s.oauthClient(ctx, c)
	if err != nil {
		return "", key, false, err
	}
	key = config.key
	token := s.kind.tokens.get(key, s.kind.now())
	kept = token != nil
	if !kept {
		client := &http.Client{
			Transport:     tokenTransport{s, c, ca},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
		if token, err = config.Token(context.WithValue(ctx, oauth2.HTTPClient, client)); err != nil {
			return "", key, false, s.tokenError(outbound.Describe(http.MethodPost, config.TokenURL), err)
		}
		if n := len(token.AccessToken); n > secret.MaxValue {
			return "", key, false, &outbound.RefusedError{Cause: fmt.Errorf("the token has %d bytes: want %d at most", n, secret.MaxValue)}
		}
		s.kind.tokens.put(key, token, s.kind.now())
	}
	s.reader.Redactor.Add(token.AccessToken)
	return token.Type() + " " + token.AccessToken, key, kept, nil
}

// tokenError says why there is no token. The step's request has not been sent then.
func (s *session) tokenError(what string, err error) error {
	var answered *oauth2.RetrieveError
	if errors.As(err, &answered) && answered.Response.StatusCode != http.StatusOK {
		a := &answer{what: what, Response: &outbound.Response{Status: answered.Response.StatusCode, Header: answered.Response.Header, Body: answered.Body}}
		judged := s.judge(a)
		var again *againError
		if errors.As(judged, &again) {
			again.unsure = false
			return again
		}
		return &outbound.RefusedError{Cause: judged}
	}
	var refused *outbound.RefusedError
	if errors.As(err, &refused) {
		return &outbound.RefusedError{Cause: refused.Cause}
	}
	var lost *steps.UnansweredError
	if errors.As(err, &lost) {
		return errors.New(lost.Cause.Error())
	}
	// The text of a url.Error repeats the URL.
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("%s: %s", what, oneLine(s.reader.Redactor.Text(err.Error()), maxQuoted))
}

// tokenTransport makes the requests of package oauth2 by package outbound.
type tokenTransport struct {
	*session
	call *call
	ca   []byte
}

func (t tokenTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	response, err := t.kind.client.Do(request.Context(), outbound.Request{
		Method: request.Method, URL: request.URL.String(), Header: request.Header, Body: body,
		Hosts: t.hosts, HostsOnly: t.call.confined(), CA: t.ca, NoRedirects: true,
	})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: strings.TrimSpace(fmt.Sprintf("%d %s", response.Status, http.StatusText(response.Status))), StatusCode: response.Status,
		Header: response.Header, Body: io.NopCloser(bytes.NewReader(response.Body)), ContentLength: int64(len(response.Body)), Request: request,
	}, nil
}
