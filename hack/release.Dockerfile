# The released image: the release's own binaries, on the base of ../Dockerfile.
# GoReleaser lays them out by platform.
FROM busybox:1.37.0-musl
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/rollouts-plugin-kedify /rollouts-plugin-kedify
USER 999:999
ENTRYPOINT ["/rollouts-plugin-kedify"]
