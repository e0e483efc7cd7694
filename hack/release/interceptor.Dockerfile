# The interceptor's released image: the release's own binaries, on the base of
# Dockerfile. GoReleaser lays the binaries out by platform.
FROM gcr.io/distroless/static-debian12:nonroot@sha256:d093aa3e30dbadd3efe1310db061a14da60299baff8450a17fe0ccc514a16639
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/interceptor /interceptor
COPY $TARGETPLATFORM/scaler /scaler
COPY $TARGETPLATFORM/agent /agent
USER 65532:65532
ENTRYPOINT ["/interceptor"]
