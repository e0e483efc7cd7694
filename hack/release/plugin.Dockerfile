# The released image: the release's own binaries, on the base of Dockerfile.
# GoReleaser lays them out by platform.
FROM busybox:1.37.0-musl@sha256:5cec3fc171c87218698e85a52af7087de727372aae264a787b8112901a5b0092
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/rollouts-plugin-kedify /rollouts-plugin-kedify
USER 999:999
ENTRYPOINT ["/rollouts-plugin-kedify"]
