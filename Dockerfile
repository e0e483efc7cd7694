# syntax=docker/dockerfile:1

# Builds on the machine's own platform and compiles for the target's.
FROM --platform=$BUILDPLATFORM golang:1.26.8-alpine AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS TARGETARCH
ARG VERSION=dev COMMIT=unknown
# Both programs, so that both images come of one build.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    export CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOOS=$TARGETOS GOARCH=$TARGETARCH && \
    go build -gcflags=all=-l -gcflags=std= -trimpath -tags grpcnotrace -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT" \
      -o /rollouts-plugin-kedify ./cmd/rollouts-plugin-kedify && \
    go build -trimpath -tags grpcnotrace -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT" \
      -o /interceptor ./cmd/interceptor

# docker build --target interceptor. Nothing in it but the program: it copies
# itself where kedify-proxy needs it.
FROM gcr.io/distroless/static-debian12:nonroot AS interceptor
COPY --from=build /interceptor /interceptor
USER 65532:65532
ENTRYPOINT ["/interceptor"]

# The image is there to be copied from by an init container, which needs cp.
FROM busybox:1.37.0-musl AS plugin
COPY --from=build /rollouts-plugin-kedify /rollouts-plugin-kedify
# The user of the Argo Rollouts controller's own image.
USER 999:999
ENTRYPOINT ["/rollouts-plugin-kedify"]
