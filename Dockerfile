# Builds on the machine's own platform and compiles for the target's.
FROM --platform=$BUILDPLATFORM golang:1.26.8-alpine@sha256:8ac98ca534ac3f51e1f420a1dd2c15e74c75cfa0f23f3ad27eb5d7236c349a0c AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS TARGETARCH
ARG VERSION=dev COMMIT=unknown
# All programs, so that all images come of one build.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    export CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOOS=$TARGETOS GOARCH=$TARGETARCH && \
    go build -gcflags=all=-l -gcflags=std= -trimpath -tags grpcnotrace -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT" \
      -o /rollouts-plugin-kedify ./cmd/rollouts-plugin-kedify && \
    go build -gcflags=all=-l -gcflags=std= -trimpath -tags grpcnotrace -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT" \
      -o /rollouts-plugin-step ./cmd/rollouts-plugin-step && \
    go build -trimpath -tags grpcnotrace -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT" \
      -o /interceptor ./cmd/interceptor && \
    go build -trimpath -tags grpcnotrace -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT" \
      -o /scaler ./cmd/scaler && \
    go build -trimpath -tags grpcnotrace -ldflags "-s -w -X main.version=$VERSION -X main.commit=$COMMIT" \
      -o /agent ./cmd/agent

# docker build --target interceptor. Nothing in it but the programs: the interceptor
# copies itself where kedify-proxy needs it, deploy/scaler runs the scaler, and
# deploy/agent the agent.
FROM gcr.io/distroless/static-debian12:nonroot@sha256:d093aa3e30dbadd3efe1310db061a14da60299baff8450a17fe0ccc514a16639 AS interceptor
COPY --from=build /interceptor /interceptor
COPY --from=build /scaler /scaler
COPY --from=build /agent /agent
USER 65532:65532
ENTRYPOINT ["/interceptor"]

# The images of plugins are there to be copied from by an init container, which needs
# cp. This one: docker build --target step.
FROM busybox:1.37.0-musl@sha256:5cec3fc171c87218698e85a52af7087de727372aae264a787b8112901a5b0092 AS step
COPY --from=build /rollouts-plugin-step /rollouts-plugin-step
# The user of the Argo Rollouts controller's own image.
USER 999:999
ENTRYPOINT ["/rollouts-plugin-step"]

FROM busybox:1.37.0-musl@sha256:5cec3fc171c87218698e85a52af7087de727372aae264a787b8112901a5b0092 AS plugin
COPY --from=build /rollouts-plugin-kedify /rollouts-plugin-kedify
USER 999:999
ENTRYPOINT ["/rollouts-plugin-kedify"]
